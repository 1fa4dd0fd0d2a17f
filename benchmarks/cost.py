"""What a million and a billion pictures take, in time and money, from what one picture costs.

    python benchmarks/cost.py --measure     # on one thread; writes benchmarks/results/costs.json
    python benchmarks/cost.py               # prints the tables from it

Measured are the processor seconds of decoding and of all else, and the bytes. Assumed are the machines for hire below,
and that a GPU does arithmetic at the speed given there; no GPU was measured. What works at the same time overlaps, so a
machine is as fast as the slowest of it, which is named.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from time import process_time

RESULTS = Path("benchmarks/results/costs.json")
PAPER_PAIR = Path("benchmarks/results/pair-paper.json")  # mambamatcher benchmark pair --save benchmarks/results
PAPER_SIDE = 420
PHOTOS = {"0.2 MP": (500, 375), "12 MP": (4000, 3000)}
TARGETS = 6  # measured of each kind
COUNTS = {"a million": 10**6, "a billion": 10**9}
DAY, HOUR = 24.0, 3600.0
DOLLARS_PER_GIGABYTE_MONTH = 0.02  # object storage


@dataclass(frozen=True, kw_only=True)
class Machine:
    """A machine for hire; its price and speeds are assumptions, to be replaced by one's own."""

    name: str
    dollars_per_hour: float
    cores: int
    gpu_operations_per_second: float | None = None  # sustained, not the data sheet's peak
    network_bytes_per_second: float = 1.5e9


MACHINES = (
    Machine(name="32 cores", dollars_per_hour=1.40, cores=32),
    Machine(name="16 cores and a GPU", dollars_per_hour=1.60, cores=16, gpu_operations_per_second=40e12),
)


@dataclass(frozen=True, kw_only=True)
class Job:
    """What one picture costs: core-seconds, the model's operations, and bytes."""

    name: str
    decode_seconds: float
    model_seconds: float  # and all else beside decoding
    model_operations: float
    read_bytes: float
    written_bytes: float

    def stages(self, machine: Machine) -> dict[str, float]:
        """Return the seconds a picture of what works at the same time, with the whole machine at it."""
        moved = {"network": (self.read_bytes + self.written_bytes) / machine.network_bytes_per_second}
        if machine.gpu_operations_per_second is None:
            most = "decoding" if self.decode_seconds > self.model_seconds else "the model"
            return moved | {f"cores, {most}": (self.decode_seconds + self.model_seconds) / machine.cores}
        return moved | {
            "cores, decoding": self.decode_seconds / machine.cores,
            "the GPU": self.model_operations / machine.gpu_operations_per_second,
        }


def table(jobs: list[Job]) -> str:
    """Return Markdown: a row for each job and machine."""
    rows = [
        "| job | machine | images/s | bottleneck | next | a million | a billion in a day | a billion | storage |",
        "|---|---|---:|---|---|---:|---:|---:|---:|",
    ]
    for job in jobs:
        for machine in MACHINES:
            (slowest, seconds), (second, other) = sorted(job.stages(machine).items(), key=lambda each: -each[1])[:2]
            hours = {label: count * seconds / HOUR for label, count in COUNTS.items()}
            dollars = {label: machine.dollars_per_hour * hours[label] for label in COUNTS}
            cells = (
                job.name,
                machine.name,
                f"{1 / seconds:,.1f}",
                slowest,
                f"{second}, when {seconds / other:,.0f}x faster",
                f"{hours['a million']:,.1f} h, ${dollars['a million']:,.2f}",
                f"{-(-hours['a billion'] // DAY):,.0f} machines",
                f"${dollars['a billion']:,.0f}",
                f"${1e9 * job.written_bytes / 1e9 * DOLLARS_PER_GIGABYTE_MONTH:,.0f} a month",
            )
            rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def jobs(found: dict) -> list[Job]:
    """Return the jobs of the table from what was measured."""
    operations = {name: per_target(stages) for name, stages in found["operations"].items()}
    paper = json.loads(PAPER_PAIR.read_text())
    rows = [row for row in paper["rows"] if row["side"] == PAPER_SIDE]
    stages = {row["stage"]: row["seconds"] * paper["circumstances"]["threads"] for row in rows}
    models = {
        "propagate, embedded": (found["propagate_seconds"], operations["embedded"], found["line_bytes"]),
        "features, embedded": (found["features_seconds"], operations["embedded"], found["features_bytes"]),
        "propagate, paper's": (per_target(stages), operations["paper"], found["line_bytes"]),
    }
    return [
        Job(
            name=f"{name}, {photo}",
            decode_seconds=found["decode_seconds"][photo],
            model_seconds=seconds,
            model_operations=count,
            read_bytes=found["read_bytes"][photo],
            written_bytes=written,
        )
        for name, (seconds, count, written) in models.items()
        for photo in PHOTOS
    ]


def per_target(stages: dict[str, float]) -> float:
    """Return a target's share of a pair: the source is described once for all."""
    return sum(
        cost / 2 if stage in ("backbone", "features") else cost
        for stage, cost in stages.items()
        if stage != "whole pair"
    )


def measure() -> dict:
    """Measure the model `lite` on one thread, in processor time, which others on the machine lengthen little."""
    import numpy as np
    import torch
    from PIL import Image

    from mambamatcher import Matcher, presets
    from mambamatcher.benchmark.complexity import stages
    from mambamatcher.benchmark.measurement import circumstances
    from mambamatcher.io.images import load_image
    from mambamatcher.jobs.source import images, read_source
    from mambamatcher.matching.portable import PortableMatcher
    from mambamatcher.model.saved import SHIPPED
    from mambamatcher.tools.features import write_features
    from mambamatcher.tools.propagate import propagate_each, read_references

    torch.set_num_threads(1)
    sample = SHIPPED["lite"].parent / "sample"
    matcher = Matcher.from_pretrained("lite", runtime="torch")
    references = read_references(matcher, [sample / "source.png"], sample / "points.json")
    target, rng = load_image(sample / "target.png"), np.random.default_rng(0)
    found: dict = {"circumstances": asdict(circumstances()), "decode_seconds": {}, "read_bytes": {}}
    with tempfile.TemporaryDirectory() as folder:
        for photo, size in PHOTOS.items():
            paths = [Path(folder) / photo / f"{number}.jpg" for number in range(TARGETS)]
            paths[0].parent.mkdir()
            for path in paths:  # each with a grain of its own, as a camera's: a smooth picture is too small a file
                pixels = np.asarray(target.resize(size, Image.Resampling.BICUBIC)) + rng.normal(0, 6, (*size[::-1], 3))
                Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(path, quality=90)
            found["decode_seconds"][photo] = share(lambda paths=paths: [matcher.read(path) for path in paths])
            found["read_bytes"][photo] = sum(path.stat().st_size for path in paths) / TARGETS
        small = next(iter(PHOTOS))
        items, table_path = read_source(Path(folder) / small).items, Path(folder) / "features.parquet"
        portable, lines = PortableMatcher(matcher), list[dict]()
        matcher.match(references[0].loaded, target, references[0].points.points)  # what only the first ones cost
        write_features(portable, items[:1], table_path)
        propagated = share(lambda: lines.extend(propagate_each(matcher, references, images(items))))
        described = share(lambda: write_features(portable, items, table_path))
        found |= {
            "propagate_seconds": propagated - found["decode_seconds"][small],
            "features_seconds": described - found["decode_seconds"][small],
            "line_bytes": sum(len(json.dumps(line)) + 1 for line in lines) / TARGETS,
            "features_bytes": table_path.stat().st_size / TARGETS,
        }
    found["operations"] = {
        name: {stage.name: stage.flops for stage in stages(config)}
        for name, config in (("embedded", matcher.model.config), ("paper", presets.paper()))
    }
    return found


def share(work: Callable[[], object]) -> float:
    """Return the processor seconds of all threads for one of the targets."""
    begun = process_time()
    work()
    return (process_time() - begun) / TARGETS


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measure", action="store_true", help="measure again instead of reading the last figures")
    if parser.parse_args().measure:
        RESULTS.write_text(json.dumps(measure(), indent=1) + "\n")
    print(table(jobs(json.loads(RESULTS.read_text()))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
