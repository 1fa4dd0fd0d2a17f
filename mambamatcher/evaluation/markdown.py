"""An evaluation report as Markdown."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from mambamatcher.evaluation.score import AVERAGES


def markdown(report: Mapping[str, Any]) -> str:
    """Return a report as Markdown: scores of all protocols, details of the headline protocol, configuration."""
    alphas = [f"PCK@{alpha:g}" for alpha in report["alphas"]]
    headline = f"{report['headline']['reference']}, {report['headline']['scale']}, per image"
    blocks = [
        f"# {_text(report['model'])} on {_text(report['dataset'])} {_text(report['split'])}",
        f"{report['pairs']} pairs, {report['points']} keypoints, {_text(report['direction'])}. "
        f"Data {_text(report['fingerprint'])}. "
        "Values in percent with 95 % bootstrap intervals over pairs; correct means distance <= alpha x reference.",
        _table(["reference", "scale", "average", *alphas], map(_score, report["scores"])),
        "Averages: " + "; ".join(f"{name}, {meaning}" for name, meaning in AVERAGES.items()) + ".",
        f"## By category ({headline})",
        _table(
            ["category", "pairs", "points", *alphas], map(_category, *zip(*report["categories"].items(), strict=True))
        ),
    ]
    if report["seconds_per_pair"] is not None:
        blocks += [f"Median time per pair: {1000 * report['seconds_per_pair']:.0f} ms."]
    if report["slices"]:
        blocks += [f"## By difficulty ({headline})"]
        blocks += [_table(["grade", "level", "pairs", *alphas], map(_slice, report["slices"]))]
    if report["left_right"]:
        blocks += [left_right_line(report["left_right"])]
    if report["skipped"]:
        blocks += [
            f"## Skipped ({len(report['skipped'])})",
            "\n".join(f"- {_text(reason)}" for reason in report["skipped"]),
        ]
    blocks += ["## Configuration", f"```json\n{json.dumps(report['configuration'], indent=2)}\n```"]
    return "\n\n".join(blocks) + "\n"


def percent(estimate: Mapping[str, float]) -> str:
    """Format an estimate and its interval in percent."""
    return f"{100 * estimate['value']:.1f} ({100 * estimate['low']:.1f}-{100 * estimate['high']:.1f})"


def left_right_line(sides: Mapping[str, Any]) -> str:
    """Format the rate of left-right confusion as one sentence."""
    rate = f"{100 * sides['rate']:.1f} %"
    return f"Left taken for right: {rate} of {sides['keypoints']} keypoints whose counterpart is visible."


def _text(foreign: object) -> str:
    """Return text of a predictions file, which may come from anyone, as one line without Markdown or HTML in it."""
    line = " ".join(str(foreign).encode("utf-8", "replace").decode().split())
    return re.sub(r"([\\`*\[\]|~])", r"\\\1", escape(line, quote=False))


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (headings, ["---"] * len(headings), *rows))


def _score(row: Mapping[str, Any]) -> list[str]:
    return [row["reference"], row["scale"], row["average"], *map(percent, row["values"])]


def _category(name: str, row: Mapping[str, Any]) -> list[str]:
    return [_text(name), str(row["pairs"]), str(row["points"]), *map(percent, row["values"])]


def _slice(row: Mapping[str, Any]) -> list[str]:
    return [
        _text(row["grade"]),
        _text(row["level"]),
        str(row["pairs"]),
        *(f"{100 * value:.1f}" for value in row["image"]),
    ]
