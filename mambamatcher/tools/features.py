"""The features of many images, as a folder of Parquet files."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from mambamatcher.errors import InputError
from mambamatcher.jobs.engines import LOCAL, Engine
from mambamatcher.jobs.job import run
from mambamatcher.jobs.shards import shard_job
from mambamatcher.jobs.source import Item, Source, content_of, images, read_each, require_parquet
from mambamatcher.matching.matcher import Matcher
from mambamatcher.matching.portable import PortableMatcher


@dataclass(frozen=True, kw_only=True)
class FeatureSummary:
    """How an extraction of features ended."""

    images: int
    unreadable: int


def extract_features(
    matcher: Matcher, source: Source, out: Path, engine: Engine = LOCAL, overwrite: bool = False
) -> FeatureSummary:
    """Write the features of every image to Parquet in OUT/parts; the same call resumes after a stop.

    Args:
        matcher: Computes the features.
        source: The images, from `mambamatcher.jobs.source.read_source`.
        out: The folder for the results.
        engine: Where the work is done.
        overwrite: Begin again instead of resuming.

    Returns:
        How many images there were, and how many of them could not be read.
    """
    require_parquet()
    header = {
        "model": {**matcher.config, "weights": matcher.runtime.weights_hash()},
        "source": str(source.origin),
    }
    write = partial(write_features, PortableMatcher(matcher, engine.device))
    job = shard_job(out, source.items, header, write, suffix=".parquet", finish=_summarise, digest=content_of)
    return run(job, engine, overwrite)


def write_features(portable: PortableMatcher, items: Sequence[Item], path: Path) -> Counter[str]:
    """Write one row for each image: its features, or why it has none.

    Returns:
        The numbers of images and of unreadable ones.
    """
    parquet = require_parquet()
    import pyarrow

    schema = pyarrow.schema(
        {
            "image": pyarrow.string(),
            "width": pyarrow.int32(),
            "height": pyarrow.int32(),
            "shape": pyarrow.list_(pyarrow.int32()),
            "features": pyarrow.list_(pyarrow.float32()),
            "error": pyarrow.string(),
        }
    )
    counts = Counter[str]()
    # features hardly repeat, so looking for a dictionary of them would only take time
    with (
        path.open("wb") as file,  # pyarrow takes no file names but UTF-8
        parquet.ParquetWriter(file, schema, compression="zstd", use_dictionary=False) as writer,
    ):
        for row in _rows(portable.matcher, items):  # a row group each, so that an image can be read without others
            writer.write_table(pyarrow.Table.from_pylist([row], schema))
            counts.update(images=1, unreadable=int("error" in row))
    return counts


def _rows(matcher: Matcher, items: Sequence[Item]) -> Iterator[dict[str, Any]]:
    for name, loaded in read_each(matcher.read, images(items)):
        if isinstance(loaded, InputError):
            yield {"image": _utf8(name), "error": _utf8(str(loaded))}
            continue
        features = matcher.encode(loaded)
        matcher.evict(loaded)
        width, height = loaded.image.size
        yield {
            "image": _utf8(name),
            "width": width,
            "height": height,
            "shape": features.shape,
            "features": features.ravel(),
        }


def _utf8(text: str) -> str:
    """Return what Parquet can hold: a file name need not be UTF-8."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _summarise(counts: Counter[str]) -> FeatureSummary:
    return FeatureSummary(images=counts["images"], unreadable=counts["unreadable"])
