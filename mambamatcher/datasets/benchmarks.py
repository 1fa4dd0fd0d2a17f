"""The benchmarks by name: parser, splits, metric and download of each. A file of annotated images is one too."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mambamatcher.datasets.ap10k import read_ap10k
from mambamatcher.datasets.faults import Faults
from mambamatcher.datasets.image_cache import without_bad_images
from mambamatcher.datasets.own_data import PAIRS as OWN_PAIRS
from mambamatcher.datasets.own_data import OwnData
from mambamatcher.datasets.pf_pascal import read_pf_pascal
from mambamatcher.datasets.pf_willow import read_pf_willow
from mambamatcher.datasets.reading import data_root
from mambamatcher.datasets.records import Pair
from mambamatcher.datasets.rendered import PAIRS as RENDERED
from mambamatcher.datasets.rendered import read_synthetic
from mambamatcher.datasets.spair import read_spair
from mambamatcher.datasets.spair_u import read_spair_u
from mambamatcher.datasets.voc_keypoints import PAIRS, read_voc, read_voc_instances, read_voc_keypoints
from mambamatcher.errors import InputError
from mambamatcher.registry import Registry, unknown

HELD_OUT_SPLITS = ("selection", "val", "test")  # the first of these that a dataset has is held out from training


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """One benchmark.

    Attributes:
        parse: Reads a split from a folder.
        splits: Published number of pairs of each split, if known.
        reference: What thresholds are relative to in its papers.
        rendered: Whether pairs are rendered, so that there are no files.
        folders: Names of its folder under the data folder.
        get: Where to download it.
    """

    parse: Callable[[Path, str, Faults], Sequence[Pair]]
    splits: Mapping[str, int | None]
    reference: str = "bbox"
    rendered: bool = False
    folders: tuple[str, ...]
    get: str

    @property
    def held_out_split(self) -> str:
        """The split to validate on while a model is trained on `trn`."""
        return next(name for name in HELD_OUT_SPLITS if name in self.splits)

    @property
    def evaluation_split(self) -> str:
        """The split to evaluate on unless another is named."""
        return "test" if "test" in self.splits else self.held_out_split


@dataclass(frozen=True)
class Reading:
    """The pairs of one split, and the items that were skipped, each with the reason."""

    pairs: Sequence[Pair]
    skipped: list[str]


DATASETS: Registry[Benchmark] = Registry("dataset")

_SPAIR_GET = "https://cvlab.postech.ac.kr/research/SPair-71k/data/SPair-71k.tar.gz (unpack it under the data folder)"
_VOC_GET = "PASCAL VOC 2011 photos with the Berkeley keypoints, prepared as annotations.json and images/<class>/*.jpg"

DATASETS.register("spair")(
    Benchmark(
        parse=read_spair,
        splits={"trn": 53_340, "val": 5_384, "test": 12_234, "trn-small": None, "val-small": None, "test-small": None},
        folders=("SPair-71k",),
        get=_SPAIR_GET,
    )
)
DATASETS.register("spair-u")(
    Benchmark(
        parse=read_spair_u,
        splits={"test": None},
        folders=("SPair-U",),
        get="https://groups.inf.ed.ac.uk/hbilen-data/data/JamaisVuData/SPair-U.zip, unpacked beside SPair-71k",
    )
)
DATASETS.register("pf-pascal")(
    Benchmark(
        parse=read_pf_pascal,
        splits={"trn": 2_940, "val": 308, "test": 299, "trn-noleak": None},
        reference="img",
        folders=("PF-PASCAL", "PF-dataset-PASCAL"),
        get=(
            "images and .mat files: https://www.di.ens.fr/willow/research/proposalflow/dataset/PF-dataset-PASCAL.zip; "
            "the pair lists are not in it: take trn_pairs.csv, val_pairs.csv and test_pairs.csv from NCNet's repository"
        ),
    )
)
DATASETS.register("pf-willow")(
    Benchmark(
        parse=read_pf_willow,
        splits={"test": 900},
        reference="bbox-kp",
        folders=("PF-WILLOW", "PF-dataset"),
        get="https://www.di.ens.fr/willow/research/proposalflow/, with test_pairs.csv from NCNet's repository",
    )
)
DATASETS.register("voc-keypoints")(
    Benchmark(
        parse=read_voc_keypoints,
        splits={**PAIRS, "selection": None, "selection-unseen": None, "trn-small": None},
        folders=("VOC2011-keypoints",),
        get=_VOC_GET,
    )
)
DATASETS.register("voc-instances")(
    Benchmark(
        parse=read_voc_instances,
        splits=PAIRS,
        folders=("VOC2011-instances",),
        get=_VOC_GET,
    )
)
DATASETS.register("voc")(
    Benchmark(
        parse=read_voc,
        splits=PAIRS,
        folders=("VOC2011-keypoints", "VOC2011-instances"),
        get=_VOC_GET,
    )
)
DATASETS.register("ap10k")(
    Benchmark(
        parse=read_ap10k,
        splits=dict.fromkeys(
            ("trn", "val", "test", "val-cross-species", "val-cross-family", "test-cross-species", "test-cross-family")
        ),
        folders=("ap-10k", "AP-10K"),
        get="https://github.com/AlexTheBad/AP-10K, then GeoAware-SC's preparation script for the published pairs",
    )
)
DATASETS.register("synthetic")(
    Benchmark(
        parse=read_synthetic,
        splits=RENDERED,
        rendered=True,
        folders=(),
        get="it is rendered, there is nothing to download",
    )
)


def is_own(dataset: str) -> bool:
    """Return whether a dataset is a file of annotated images rather than the name of a benchmark."""
    return dataset not in DATASETS and (os.path.exists(dataset) or Path(dataset).name != dataset or "." in dataset)


def find_dataset(dataset: str, split_seed: int = 0) -> Benchmark:
    """Return a benchmark by name, or a file of annotated images as one.

    Args:
        dataset: Name of the benchmark, or a file of annotated images.
        split_seed: Which images of such a file are held out.

    Raises:
        ConfigError: If it is neither.
    """
    if not is_own(dataset):
        return DATASETS[dataset]
    own = OwnData(Path(dataset).expanduser(), split_seed)
    return Benchmark(parse=own.read, splits=dict.fromkeys(OWN_PAIRS), folders=(), get="it is a file of your own")


def read_pairs(
    dataset: str,
    split: str,
    root: Path | None = None,
    *,
    skip_bad: bool = False,
    check_images: bool = True,
    split_seed: int = 0,
) -> Reading:
    """Read one split of a benchmark, or of a file of annotated images.

    Args:
        dataset: Name of the benchmark, or the file.
        split: Name of the split.
        root: Folder with the benchmarks, `MAMBAMATCHER_DATA` if not given; or the folder of the file's images, that of
            the file if not given.
        skip_bad: Skip bad items and list them in the result, instead of raising an error.
        check_images: Decode every image once, so that none fails later.
        split_seed: Which images of a file are held out.

    Raises:
        ConfigError: If there is no such dataset or split.
        InputError: If the data is missing, an item is bad, or no usable pair is left.
    """
    benchmark = find_dataset(dataset, split_seed)
    if split not in benchmark.splits:
        raise unknown(f"split of {dataset}", split, benchmark.splits)
    faults = Faults()
    if is_own(dataset) and root is None:
        root = Path(dataset).expanduser().parent
    folder = Path() if benchmark.rendered else data_root(root)
    pairs = benchmark.parse(folder, split, faults)
    if check_images and not benchmark.rendered:
        pairs = without_bad_images(pairs, faults)
    faults.settle(skip_bad)
    if not pairs:
        raise InputError(f"{dataset} {split} has no usable pair under {folder}")
    return Reading(pairs, faults.messages)
