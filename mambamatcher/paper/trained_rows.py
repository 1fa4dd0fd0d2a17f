"""The trained rows of the paper's tables. Each is a change to the recipe of a base."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from mambamatcher.model.backbones import VitConfig
from mambamatcher.model.checkpoint import read_config
from mambamatcher.model.config import override
from mambamatcher.model.correlation import LinearAggregation
from mambamatcher.model.features import ConvAggregation
from mambamatcher.model.presets import PRESETS
from mambamatcher.model.saved import CONFIG, SHIPPED
from mambamatcher.registry import unknown
from mambamatcher.training.recipe import Recipe

SIDE = 192  # a 12x12 grid, so that a row takes minutes on one core
SCANS = "model.correlation=similarity_scan"
VIT_SIDE = 224  # a 16x16 grid: 65,536 positions of the correlation map


@dataclass(frozen=True, kw_only=True)
class TrainedRow:
    """A row that is trained.

    Attributes:
        key: Name of its result files.
        paper: Name of the row in the paper.
        changes: Overrides of the base's recipe.
        seeds: How often it is trained: more than once for the rows that the paper's claim depends on.
        has_block: Whether it has a Mamba block, whose sizes the base sets.
        new_features: Initialise the feature aggregation randomly. All rows of the feature table do, even where the base
            has the same kind, so that they are comparable.
        after_block: Overrides that come after those of the base's block.
        own_start: Whether the head starts with weights of its own, not as the weighted sum that the base has learnt.
    """

    key: str
    paper: str
    changes: tuple[str, ...]
    seeds: int = 1
    has_block: bool = False
    new_features: bool = False
    after_block: tuple[str, ...] = ()
    own_start: bool = False


@dataclass(frozen=True, kw_only=True)
class Base:
    """What all rows of a table share.

    Attributes:
        name: Name in results.
        recipe: Recipe that rows change.
        training: Dataset and split to train on.
        evaluations: Datasets and splits to evaluate on.
        shipped: Shipped model from which rows are initialised, if any.
        levels: Recipe of a run with a linear head that trains the features of all rows first, if any.
        block: Overrides for rows with a Mamba block: its sizes.
        scan: Overrides for rows with a similarity-aware scan: how it starts.
    """

    name: str
    recipe: Recipe
    training: tuple[str, str]
    evaluations: tuple[tuple[str, str], ...]
    shipped: str | None = None
    levels: Recipe | None = None
    block: tuple[str, ...] = ()
    scan: tuple[str, ...] = ()

    def configured(self, row: TrainedRow, seed: int, steps: int) -> Recipe:
        """Return a row's recipe. It is validated only at the end, so that no weights are selected by validation."""
        block, scan = self.block if row.has_block else (), self.scan if SCANS in row.changes else ()
        changed = override(self.recipe, [*row.changes, *block, *scan, *row.after_block])
        return replace(changed, seed=seed, steps=steps, round_steps=steps)

    def trains_head_only(self, row: TrainedRow) -> bool:
        """Return whether a row keeps the features that `levels` trained."""
        return self.levels is not None and not row.new_features


def _mamba(**sizes: object) -> str:
    return f"model.correlation.mamba={json.dumps(sizes)}"


def base_of(name: str, *, full_set: bool = False) -> Base:
    """Return a base by its name.

    Args:
        name: One of `BASES`.
        full_set: Whether the paper measured the table on all of SPair-71k instead of its small subset.

    Raises:
        ConfigError: If there is none of this name.
    """
    if name not in BASES:
        raise unknown("base", name, BASES)
    return {"embedded": embedded_base, "vit-s": vit_s_base, "paper": lambda: paper_base(full_set=full_set)}[name]()


def embedded_base() -> Base:
    """Return the base for two cores: the model `lite` with a frozen backbone, at a small side, on VOC keypoints."""
    model = read_config(SHIPPED["lite"] / CONFIG)
    frozen = replace(
        model,
        side=SIDE,
        mirror=False,
        backbone=replace(model.backbone, trainable_blocks=0),
        transfer=replace(model.transfer, temperature=PRESETS["efficientnet"]().transfer.temperature),
    )
    recipe = Recipe(
        model=frozen,
        effective_batch=4,
        batch_size=4,
        learning_rate=1e-3,
        schedule="cosine",
        keypoint_weight=0.0,
        cross_entropy_weight=1.0,
        augment=False,
        cache_gigabytes=20.0,
        workers=0,
    )
    return Base(
        name="embedded",
        recipe=recipe,
        training=("voc", "trn"),
        evaluations=(("voc", "selection"), ("spair", "val")),
        shipped="lite",
        block=(_mamba(state=8, expand=2),),  # as in the preset `efficientnet`
    )


def paper_base(*, full_set: bool) -> Base:
    """Return the paper's setting: DINOv2-B at 420 px on SPair-71k or its small subset, with weights and a GPU needed.

    The paper does not give the number of steps, nor the batch of the tables on the small subset ("varying"); the
    recipe has that of the main table.
    """
    subset = "" if full_set else "-small"
    return Base(
        name="paper-full" if full_set else "paper",
        recipe=Recipe(model=PRESETS["paper"]()),
        training=("spair", f"trn{subset}"),
        evaluations=(("spair", f"test{subset}"),),
    )


def vit_s_base() -> Base:
    """Return the paper's 16 levels on the backbone of `default`: value and token of layers 4 to 11, on a 16x16 grid.

    The backbone is frozen. Each level is projected to 64 channels, and the convolutions go from 64 to 128 and back, so
    that a pair is affordable. Both are trained once with a linear head (`levels`); rows of the correlation tables then
    train nothing but their head, at a rate and from a start at which a scan moves.
    """
    shipped = read_config(SHIPPED["default"] / CONFIG)
    assert isinstance(shipped.backbone, VitConfig)
    backbone = replace(
        shipped.backbone, layers=tuple(range(4, 12)), facets=("value", "token"), width=64, trainable_blocks=0
    )
    model = replace(
        shipped,
        side=VIT_SIDE,
        mirror=False,
        backbone=backbone,
        features=ConvAggregation(hidden_ratio=2, final_activation=False, residual=True),
        correlation=LinearAggregation(),
    )
    recipe = Recipe(
        model=model,
        effective_batch=1,
        batch_size=1,
        learning_rate=1e-3,
        correlation_learning_rate=1e-2,
        schedule="cosine",
        warmup_steps=20,
        clip_norm=1.0,
        keypoint_weight=0.0,
        cross_entropy_weight=1.0,
        augment=False,
        cache_gigabytes=10.0,
        workers=0,
    )
    return Base(
        name="vit-s",
        recipe=recipe,
        training=("voc", "trn-small"),
        evaluations=(("voc", "selection"), ("spair", "val")),
        shipped="default",
        levels=replace(recipe, steps=600, round_steps=600, effective_batch=2, group_images=6),
        block=(_mamba(state=16, conv=4, expand=3, delta=[(VIT_SIDE / 14) ** -4, 0.1]),),
        scan=("model.correlation.layer_scale=0.1", "model.correlation.standardize=true"),
    )


BASES = ("embedded", "vit-s", "paper")


def _scan(key: str, paper: str, *changes: str, seeds: int = 1) -> TrainedRow:
    scan = (SCANS, *changes)
    return TrainedRow(key=key, paper=paper, changes=scan, seeds=seeds, has_block=True)


def against_descending(rows: Sequence[TrainedRow]) -> tuple[tuple[str, str], ...]:
    """Return the keys of each row and of the similarity-aware scan, if it is one of them."""
    ours = next((row for row in rows if row.changes == DESCENDING.changes), None)
    return () if ours is None else tuple((row.key, ours.key) for row in rows if row is not ours)


def _conv(size: int) -> TrainedRow:
    changes = ("model.correlation=conv4d", f"model.correlation.kernel_size={size}")
    return TrainedRow(key=f"correlation-conv4d-{size}", paper=f"4D Conv k={size}", changes=changes)


def _orders(*names: str) -> str:
    return f"model.correlation.orders={json.dumps(names)}"


LINEAR = TrainedRow(key="correlation-linear", paper="4D Conv k=1", changes=("model.correlation=linear",), seeds=3)
DESCENDING = _scan("correlation-descending", "+ descending order", seeds=3)
FASTFORMER = TrainedRow(key="correlation-fastformer", paper="FastFormer", changes=("model.correlation=fastformer",))
CORRELATION = (
    LINEAR,
    _conv(3),
    _conv(5),
    FASTFORMER,
    TrainedRow(
        key="correlation-plain-mamba", paper="PlainMamba", changes=("model.correlation=plain_mamba",), has_block=True
    ),
    _scan("correlation-raster", "Mamba4D", _orders("raster"), seeds=3),
    _scan("correlation-bidirectional", "+ bidirectional", _orders("raster", "reverse_raster")),
    _scan("correlation-z-order", "+ Z-order curve", _orders("z_order")),
    _scan("correlation-ascending", "+ ascending order", _orders("ascending"), seeds=3),
    DESCENDING,
)
SORT_KEY = (
    replace(DESCENDING, paper="Last level"),
    _scan("sort-penultimate", "Penultimate level", "model.correlation.sort_key=penultimate"),
    _scan("sort-mean", "Mean across levels", "model.correlation.sort_key=mean"),
)
POSITIONAL = (
    replace(DESCENDING, paper="None"),
    _scan("positional-sinusoidal", "Sinusoidal", "model.correlation.positional=sinusoidal"),
    _scan("positional-learnable", "Learnable", "model.correlation.positional=learnable"),
)
# Does the similarity-aware scan help? What beats both the linear sum and the block without its state is the scan's.
STATELESS = replace(
    _scan("scan-no-state", "block without state", seeds=3), after_block=(_mamba(state=0, conv=1, expand=3),)
)
STEERED = _scan("scan-steered", "descending, positions in B, C and delta", "model.correlation.steered=true", seeds=3)
SCAN = (
    replace(LINEAR, paper="linear sum"),
    STATELESS,
    _scan("scan-random", "random order", _orders("random"), seeds=3),
    replace(DESCENDING, paper="descending order"),
    STEERED,
    _scan("scan-steered-both", "the same in two directions", *STEERED.changes[1:], _orders("descending", "ascending")),
    _scan("scan-rows", "the same, a scan per source position", *STEERED.changes[1:], "model.correlation.scope=source"),
    _scan("scan-columns", "the same, per target position", *STEERED.changes[1:], "model.correlation.scope=target"),
    _scan("correlation-ascending", "ascending order", _orders("ascending")),
    _scan("correlation-raster", "raster order", _orders("raster")),
    _scan("correlation-z-order", "Z-order curve", _orders("z_order")),
    replace(FASTFORMER, paper="FastFormer"),
    replace(_conv(3), paper="4D convolution, k=3"),
    # the positive control: with noise on the levels, averaging over neighbours must help
    TrainedRow(key="control-linear", paper="noise, linear sum", changes=("model.correlation=noised",), seeds=3),
    TrainedRow(
        key="control-conv4d",
        paper="noise, 4D convolution, k=3",
        changes=("model.correlation=noised", "model.correlation.kernel_size=3"),
        seeds=3,
    ),
)
# every head with the sum and with the block whose state is cut, the random order with descending order, and the control
SCAN_COMPARISONS = (
    *((LINEAR.key, row.key) for row in SCAN[1:-2]),
    *((STATELESS.key, row.key) for row in SCAN[2:-2]),
    ("scan-random", DESCENDING.key),
    ("control-linear", "control-conv4d"),
)
SIGNIFICANCE = (replace(FASTFORMER, seeds=3), DESCENDING)


def _system(key: str, name: str, rate: str, *changes: str, seeds: int = 1, new_features: bool = False) -> TrainedRow:
    rates = f"learning_rate={rate}", f"correlation_learning_rate={rate}"
    return TrainedRow(
        key=f"league-{key}",
        paper=name,
        changes=(*changes, *rates),
        seeds=seeds,
        own_start=True,
        new_features=new_features,
    )


# The rate of each head is the best after 120 steps (benchmarks/league_rates.py; docs/peers.md says of which).
# Three seeds for the best head, the linear sum and the scan, between which the differences are small.
# Its rows have files of their own, so that other tables may train for another number of steps.
# CHM and SCorrSAN are published for one level and have a feature part of their own, which is trained with the head
ONE_LEVEL = ("model.backbone.layers=[11]", 'model.backbone.facets=["token"]', "model.backbone.width=none")
LEAGUE = (
    replace(LINEAR, key="league-linear", paper="linear sum"),
    _system(
        "ncnet",
        "NCNet",
        "1e-4",
        "model.correlation=conv4d",
        "model.correlation.kernel_size=5",
        "model.correlation.hidden=[16, 16]",
        "model.correlation.consensus=true",
    ),
    _system(
        "chm", "CHM", "1e-3", *ONE_LEVEL, "model.features=scale_space", "model.correlation=hough", new_features=True
    ),
    _system(
        "transformatcher",
        "TransforMatcher",
        "1e-2",
        "model.correlation=fastformer",
        "model.correlation.upsample=2",
        seeds=3,
    ),
    _system("cats", "CATs", "1e-4", "model.correlation=cats"),
    _system("cats-plus-plus", "CATs++", "1e-2", "model.correlation=cats_plus_plus"),
    _system(
        "scorrsan",
        "SCorrSAN",
        "1e-3",
        *ONE_LEVEL,
        "model.features=spatial_context",
        "model.correlation=high_resolution",
        new_features=True,
    ),
    _system(
        "hccnet",
        "HCCNet",
        "1e-3",
        "model.features=sliced",
        "model.features.slices=4",
        "model.correlation=pointwise",
        new_features=True,
    ),
    replace(DESCENDING, key="league-scan", paper="similarity-aware scan"),
)


def _features(key: str, paper: str, *changes: str) -> TrainedRow:
    linear = ("model.correlation=linear", *changes)
    return TrainedRow(key=f"features-{key}", paper=paper, changes=linear, new_features=True)


FEATURES = (
    _features("none", "None", "model.features=none"),
    *(_features(f"conv-{k}", f"2D Conv k={k}", f"model.features.kernel_size={k}") for k in (1, 3, 5)),
    _features("attention", "Self-attn", "model.features=attention"),
    _features("cross-attention", "+ Cross-attn.", "model.features=attention", "model.features.cross=true"),
    _features("mamba2d", "Mamba2D", "model.features=mamba2d"),
    _features(
        "mamba2d-bidirectional",
        "+ bidirectional",
        "model.features=mamba2d",
        'model.features.orders=["raster", "reverse_raster"]',
    ),
    _features("mamba2d-z-order", "+ Z-order curve", "model.features=mamba2d", 'model.features.orders=["z_order"]'),
    _features("plain-mamba", "PlainMamba", "model.features=plain_mamba"),
)


def _plain(key: str, paper: str, *changes: str) -> TrainedRow:
    none = ("model.features=none", "model.backbone.width=none", "model.correlation=linear")
    return TrainedRow(key=key, paper=paper, changes=(*none, *changes), new_features=True)


FACETS_COMBINED = tuple(
    _plain(f"facets-{count}", paper, f"model.backbone.facets={json.dumps(['token', 'value', 'query', 'key'][:count])}")
    for count, paper in enumerate(("Token", "+ Value", "+ Value, Query", "+ Value, Query, Key"), start=1)
)
LAYERS_COMBINED = tuple(
    _plain(
        f"layers-{first}-11",
        "11" if first == 11 else f"{first}-11",
        'model.backbone.facets=["token"]',
        f"model.backbone.layers={list(range(first, 12))}",
    )
    for first in range(11, -1, -1)
)
BACKBONES = tuple(
    TrainedRow(
        key=f"backbone-{backbone}-{'augmented' if augment == 'true' else 'plain'}",
        paper=f"{name}, {'' if augment == 'true' else 'no '}augmentation",
        changes=(*changes, f"augment={augment}"),
    )
    for backbone, name, changes in (
        ("resnet101", "ResNet101", ("model.backbone=resnet", "model.side=480")),
        ("dinov2", "DINOv2", ()),
    )
    for augment in ("false", "true")
)
