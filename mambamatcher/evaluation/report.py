"""The report of an evaluation: one dictionary with scores, configuration and data, written as JSON and Markdown."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from math import inf
from pathlib import Path
from statistics import median
from typing import Any

from mambamatcher.datasets.faults import check_kind, check_number, naming
from mambamatcher.datasets.reading import read_json
from mambamatcher.errors import InputError
from mambamatcher.evaluation.markdown import markdown
from mambamatcher.evaluation.pck import ALPHAS
from mambamatcher.evaluation.predictions import Predictions
from mambamatcher.evaluation.score import AVERAGES, Scores, score
from mambamatcher.evaluation.slices import left_right, slices
from mambamatcher.evaluation.table import Protocol, Table, make_table
from mambamatcher.io.atomic import make_folder, write_text_atomically

FORMAT = "mambamatcher-evaluation"
VERSION = 1
REPORTS = ("report.json", "report.md")

Report = dict[str, Any]


def make_report(predictions: Predictions, alphas: Sequence[float] = ALPHAS) -> Report:
    """Score predictions under every protocol.

    Args:
        predictions: Predictions and the header that describes how they were made.
        alphas: PCK thresholds as fractions of the reference size.

    Returns:
        The report. Its headline is the protocol of the benchmark, averaged per image.

    Raises:
        InputError: There are no predictions.
    """
    table = make_table(predictions.records)
    # fall back to the first protocol, by image size, if the dataset lacks the boxes that its own protocol needs
    protocols = table.protocols()
    headline = next((each for each in protocols if each.reference == predictions.header.reference), protocols[0])
    scores = sorted(score(table, alphas=alphas), key=lambda each: each.protocol != headline)
    sides = left_right(table)
    header = asdict(predictions.header)
    return {
        "format": FORMAT,
        "version": VERSION,
        **{key: header[key] for key in ("model", "configuration", "dataset", "split", "fingerprint", "direction")},
        "pairs": len(table.names),
        "points": int(table.counts.sum()),
        "skipped": header["skipped"],
        "alphas": list(alphas),
        "headline": {"reference": headline.reference, "scale": headline.scale, "average": "image"},
        "scores": [_score(each, average) for each in scores for average in AVERAGES],
        "categories": _categories(scores[0], table),
        "slices": [asdict(each) for each in slices(table, predictions.records, headline, alphas)],
        "left_right": sides and {**asdict(sides), "rate": sides.rate},
        "seconds_per_pair": _seconds(predictions.records),
        "errors": _errors(table, headline),
    }


def write_report(report: Report, folder: Path) -> tuple[Path, Path]:
    """Write `report.json` and `report.md` atomically into a folder and return their paths."""
    make_folder(folder)
    paths = tuple(folder / name for name in REPORTS)
    for path, text in zip(paths, (json.dumps(report), markdown(report)), strict=True):
        write_text_atomically(path, text, overwrite=True)
    return paths[0], paths[1]


def read_report(path: Path) -> Report:
    """Read and check a `report.json` written by `write_report`.

    Raises:
        InputError: The file cannot be read, is not such a report, or is damaged.
    """
    report = read_json(path)
    if not isinstance(report, dict) or report.get("format") != FORMAT or report.get("version") != VERSION:
        raise InputError(f"{path} is not a report.json written by `mambamatcher evaluate`")
    with naming(path):
        _check(report)
    return report


def _check(report: Report) -> None:
    """Check every entry that a comparison reads."""
    for key in ("model", "dataset", "split", "fingerprint"):
        check_kind(report[key], str, key)
    check_kind(report["headline"], dict, "headline")
    for alpha in check_kind(report["alphas"], list, "alphas"):
        check_number(alpha)
    for name, entry in check_kind(report["errors"], dict, "errors").items():
        check_kind(entry["category"], str, "category")
        errors = check_kind(entry["errors"], list, "errors")
        if not errors:
            raise InputError(f"the pair {name!r} has no errors")
        for error in errors:
            if error is not None:
                check_number(error)


def _score(scores: Scores, average: str) -> dict[str, Any]:
    protocol = scores.protocol
    values = [asdict(estimate) for estimate in scores.estimates[average]]
    return {"reference": protocol.reference, "scale": protocol.scale, "average": average, "values": values}


def _categories(scores: Scores, table: Table) -> dict[str, Any]:
    found = {}
    for number, name in enumerate(table.categories):
        mine = table.classes == number
        values = [asdict(estimate) for estimate in scores.estimates[f"image/{name}"]]
        found[name] = {"pairs": int(mine.sum()), "points": int(table.counts[mine].sum()), "values": values}
    return found


def _errors(table: Table, protocol: Protocol) -> dict[str, dict[str, Any]]:
    """Return the relative error of each keypoint, to compare reports later; null means no prediction."""
    found = {}
    rows = zip(table.names, table.classes.tolist(), table.counts.tolist(), table.errors(protocol).tolist(), strict=True)
    for name, number, count, errors in rows:
        kept = [round(value, 7) if value < inf else None for value in errors[:count]]
        found[name] = {"category": table.categories[number], "errors": kept}
    return found


def _seconds(records: Sequence[Mapping[str, Any]]) -> float | None:
    known = [record["seconds"] for record in records if record["seconds"] is not None]
    return median(known) if known else None
