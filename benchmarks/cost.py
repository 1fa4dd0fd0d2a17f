"""What a million and a billion pictures take, in time and money, from what one picture costs.

    python benchmarks/cost.py benchmarks/costs.json

The file gives, for each kind of machine, its price and what each stage costs a picture there: `decode` and `write` in
core-seconds, `model` in core-seconds or, on a machine with a GPU, in GPU-seconds; bytes read and written. Stages
overlap, so a machine is as fast as the slowest of them, which is named.
"""

import argparse
import json
import sys
from dataclasses import dataclass
from pathlib import Path

COUNTS = {"a million": 10**6, "a billion": 10**9}
HOURS = 24  # the machines are counted that do it in a day
HOUR, MONTH = 3600.0, 30 * 24 * 3600.0


@dataclass(frozen=True, kw_only=True)
class Machine:
    """A machine for hire and what a picture costs on it."""

    name: str
    dollars_per_hour: float
    cores: int
    gpus: int = 0
    network_bytes_per_second: float
    decode_seconds: float
    model_seconds: float
    write_seconds: float

    def stages(self, read_bytes: float, written_bytes: float) -> dict[str, float]:
        """Return each stage's seconds a picture, with the whole machine at it."""
        on_cores = self.decode_seconds + self.write_seconds + (0 if self.gpus else self.model_seconds)
        stages = {
            "cores": on_cores / self.cores,
            "network": (read_bytes + written_bytes) / self.network_bytes_per_second,
        }
        return stages | ({"gpu": self.model_seconds / self.gpus} if self.gpus else {})


@dataclass(frozen=True, kw_only=True)
class Job:
    """What is read and written for a picture, and what keeping it costs."""

    name: str
    read_bytes: float
    written_bytes: float


@dataclass(frozen=True)
class Cost:
    """One job on one kind of machine."""

    machine_seconds: float  # a picture
    bottleneck: str
    machines: int
    hours: float
    dollars: float
    storage_dollars_per_month: float


def cost(machine: Machine, job: Job, pictures: int, storage_dollars_per_gigabyte_month: float) -> Cost:
    """Work out as many machines as do the job in a day, and at least one."""
    stages = machine.stages(job.read_bytes, job.written_bytes)
    bottleneck = max(stages, key=lambda stage: stages[stage])
    hours = pictures * stages[bottleneck] / HOUR
    machines = max(1, -(-int(hours) // HOURS))
    return Cost(
        machine_seconds=stages[bottleneck],
        bottleneck=bottleneck,
        machines=machines,
        hours=hours / machines,
        dollars=hours * machine.dollars_per_hour,
        storage_dollars_per_month=pictures * job.written_bytes / 1e9 * storage_dollars_per_gigabyte_month,
    )


def table(costs: dict) -> str:
    """Return Markdown: a row for each count, job and machine."""
    rows = [
        "| pictures | job | machine | pictures/s | bound by | machines | hours | dollars | storage, dollars a month |"
    ]
    rows.append("|---|---|---|---:|---|---:|---:|---:|---:|")
    for label, pictures in COUNTS.items():
        for job in (Job(**each) for each in costs["jobs"]):
            for machine in (Machine(**each) for each in costs["machines"]):
                found = cost(machine, job, pictures, costs["storage_dollars_per_gigabyte_month"])
                cells = (
                    label,
                    job.name,
                    machine.name,
                    f"{1 / found.machine_seconds:,.1f}",
                    found.bottleneck,
                    f"{found.machines:,}",
                    f"{found.hours:,.1f}",
                    f"{found.dollars:,.0f}",
                    f"{found.storage_dollars_per_month:,.0f}",
                )
                rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def turning_point(machine: Machine, job: Job) -> str:
    """Say how much faster the model would have to be for something else to hold the machine up."""
    stages = machine.stages(job.read_bytes, job.written_bytes)
    others = {name: seconds for name, seconds in stages.items() if name != "gpu"}
    if not machine.gpus:
        rest = (machine.decode_seconds + machine.write_seconds) / machine.cores
        share = 1 - rest / stages["cores"]
        return f"{machine.name}, {job.name}: the model is {share:.0%} of the cores' work; decoding and writing the rest"
    slowest = max(others, key=lambda name: others[name])
    factor = stages["gpu"] / others[slowest]
    held = "the GPU holds it up" if factor > 1 else f"the {slowest} already hold it up"
    return f"{machine.name}, {job.name}: {held}; GPU to {slowest} is {factor:.1f} to 1"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("costs", type=Path)
    costs = json.loads(parser.parse_args().costs.read_text())
    print(table(costs))
    print()
    for job in (Job(**each) for each in costs["jobs"]):
        for machine in (Machine(**each) for each in costs["machines"]):
            print(f"- {turning_point(machine, job)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
