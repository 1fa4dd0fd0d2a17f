"""`mambamatcher calibrate`: make a model's confidence mean something."""

import json
from pathlib import Path
from typing import Annotated

import typer

from mambamatcher.cli.engines import Device


def calibrate(
    model: Annotated[str, typer.Argument(help="A preset's name or a saved model's folder.")],
    dataset: Annotated[str, typer.Option(help="The benchmark's name, such as voc or spair.")],
    split: Annotated[str, typer.Option(help="A split the model was not trained on, such as selection or val.")],
    root: Annotated[Path | None, typer.Option(help="Where the benchmarks are; MAMBAMATCHER_DATA if not given.")] = None,
    out: Annotated[Path, typer.Option(help="The folder for the results; the model's own makes it use them.")] = Path(
        "calibration"
    ),
    limit: Annotated[int, typer.Option(min=2, help="Use so many pairs, evenly taken from the split.")] = 500,
    device: Device = None,
    skip_bad: Annotated[bool, typer.Option(help="Leave unreadable items out instead of stopping.")] = False,
    overwrite: Annotated[bool, typer.Option(help="Replace existing results.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of words.")] = False,
) -> None:
    """Fit the confidence of a model on annotated pairs: calibration.json, a report, and two curves.

    Source keypoints that the target does not show teach it what has no counterpart.

    Example: mambamatcher calibrate runs/lite/model --dataset voc --split selection --out runs/lite/model
    """
    from mambamatcher.cli.match import load_matcher
    from mambamatcher.datasets.benchmarks import DATASETS, read_pairs
    from mambamatcher.tools.calibrate import calibrate as run

    pairs = read_pairs(dataset, split, root, skip_bad=skip_bad).pairs
    step = max(1, len(pairs) // limit)
    chosen = [pairs[index] for index in range(0, len(pairs), step)][:limit]
    report = run(load_matcher(model, device), chosen, DATASETS[dataset].reference, out, overwrite)
    if as_json:
        typer.echo(json.dumps(report))
        return
    shown = ", ".join(f"{100 * share:.0f} % of those {name}" for name, share in report["share_called_matched"].items())
    typer.echo(
        f"{report['points']} points of {report['pairs']} pairs, {report['points_absent_in_target']} of them absent in "
        f"the target; {100 * report['share_correct']:.1f} % right\n"
        f"expected calibration error {report['expected_calibration_error']:.3f} on pairs not fitted to\n"
        f"called matched: {shown}\nwrote {out}"
    )
