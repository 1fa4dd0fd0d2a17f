"""`mambamatcher calibrate`: fit the confidence of a model to annotated pairs."""

import json
from pathlib import Path
from typing import Annotated

import typer

from mambamatcher.cli.dataset_options import Dataset, Root, SplitSeed
from mambamatcher.cli.engine_options import Device
from mambamatcher.extras import require


def calibrate(
    model: Annotated[str, typer.Argument(help="Name of a preset or folder of a saved model.")],
    dataset: Dataset,
    split: Annotated[
        str | None,
        typer.Option(
            help="Split that the model was not trained on.", show_default="selection, val or test, the first there is"
        ),
    ] = None,
    root: Root = None,
    split_seed: SplitSeed = 0,
    out: Annotated[
        Path, typer.Option(help="Folder for the results. In the model's own folder, the model uses them.")
    ] = Path("calibration"),
    limit: Annotated[int, typer.Option(min=2, help="Number of pairs, taken at equal distances from the split.")] = 500,
    device: Device = None,
    skip_bad: Annotated[bool, typer.Option(help="Skip unreadable items instead of stopping.")] = False,
    overwrite: Annotated[bool, typer.Option(help="Replace existing results.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """Fit the confidence of a model on annotated pairs. Writes calibration.json, a report and two plots.

    Source keypoints that are not visible in the target are examples of points without a match.

    Example: mambamatcher calibrate runs/lite/model --dataset voc --split selection --out runs/lite/model
    """
    from mambamatcher.cli.match import load_matcher
    from mambamatcher.datasets.benchmarks import find_dataset, read_pairs
    from mambamatcher.tools.calibrate import calibrate as run

    require("scipy.optimize", "matplotlib.figure")
    benchmark = find_dataset(dataset, split_seed)
    split = split or benchmark.held_out_split
    pairs = read_pairs(dataset, split, root, skip_bad=skip_bad, split_seed=split_seed).pairs
    step = max(1, len(pairs) // limit)
    chosen = [pairs[index] for index in range(0, len(pairs), step)][:limit]
    report = run(load_matcher(model, device), chosen, benchmark.reference, out, overwrite)
    if as_json:
        typer.echo(json.dumps(report))
        return
    shown = ", ".join(f"{100 * share:.0f} % of those {name}" for name, share in report["share_called_matched"].items())
    areas = report["roc_area_of_present_against_absent"].items()
    told = ", ".join(f"{area:.2f} by {name}" for name, area in areas if area is not None)
    told = told and f"area under the ROC curve of present against absent points: {told}\n"
    typer.echo(
        f"{report['points']} points of {report['pairs']} pairs, {report['points_absent_in_target']} of them not "
        f"visible in the target; {100 * report['share_correct']:.1f} % correct\n"
        f"expected calibration error {report['expected_calibration_error']:.3f} on held-out pairs\n"
        f"{told}called matched: {shown}\nwrote {out}"
    )
