"""`mambamatcher evaluate`: predict once, score under every protocol, report."""

import json
from pathlib import Path
from typing import Annotated

import typer

from mambamatcher.cli.dataset_options import Dataset, Root, SplitSeed
from mambamatcher.cli.engine_options import Address, Device, Engine, EngineName, Runtime, Threads, Workers, load_for_run


def evaluate(
    model: Annotated[
        str, typer.Argument(help="default, lite, a preset, a saved model's folder, or a .jsonl file of predictions.")
    ],
    dataset: Dataset,
    split: Annotated[
        str | None,
        typer.Option(help="The split, such as val, test or test-small; for a file of your own trn, val or all."),
    ] = None,
    root: Root = None,
    split_seed: SplitSeed = 0,
    out: Annotated[Path, typer.Option(help="The folder for predictions and reports.")] = Path("evaluation"),
    limit: Annotated[
        int | None, typer.Option(min=1, help="Take only this many pairs, spread over the categories by a fixed seed.")
    ] = None,
    first: Annotated[int | None, typer.Option(min=1, help="Take only the first pairs, this many.")] = None,
    alpha: Annotated[list[float] | None, typer.Option(help="A threshold; repeat for more.")] = None,
    skip_bad: Annotated[
        bool, typer.Option(help="Leave out and list what cannot be read, instead of stopping.")
    ] = False,
    device: Device = None,
    runtime: Runtime = None,
    threads: Threads = None,
    engine: Engine = EngineName.local,
    address: Address = None,
    workers: Workers = None,
    overwrite: Annotated[bool, typer.Option(help="Begin again instead of resuming from saved predictions.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Predict every pair of a dataset once, save it, and score it under every protocol.

    Without --split it is test, or for a file of your own val: its held-out images. A run that was stopped resumes where
    it stopped. Saved predictions in place of MODEL are scored again.

    Example: mambamatcher evaluate nearest --dataset spair --split val --root data --out results
    """
    from mambamatcher.datasets.benchmarks import find_dataset
    from mambamatcher.evaluation.evaluate import Request, rescore
    from mambamatcher.evaluation.evaluate import evaluate as run
    from mambamatcher.evaluation.pck import ALPHAS
    from mambamatcher.evaluation.predictors import MatcherPredictor
    from mambamatcher.jobs.engines import make_engine

    chosen = make_engine(engine, address, workers, device)

    request = Request(
        dataset=dataset,
        split=split or find_dataset(dataset).evaluation_split,
        output=out,
        root=root,
        limit=first,
        sample=limit,
        alphas=sorted(alpha) if alpha else ALPHAS,
        skip_bad=skip_bad,
        overwrite=overwrite,
        split_seed=split_seed,
    )
    if model.endswith(".jsonl"):
        report = rescore(Path(model), request)
    else:
        matcher = load_for_run(model, engine, device, runtime, threads)
        report = run(MatcherPredictor(model, matcher, chosen.device), request, chosen)
    if as_json:
        # the single errors are for `compare`, and in the file
        typer.echo(json.dumps({key: value for key, value in report.items() if key != "errors"}))
        return
    from rich.console import Console

    from mambamatcher.evaluation.console import WIDE, print_report

    console = Console(markup=False)
    print_report(report, console if console.is_terminal else Console(width=WIDE, markup=False))
    typer.echo(f"wrote {out}: predictions, report.json, report.md and the worst pairs in worst.html")
