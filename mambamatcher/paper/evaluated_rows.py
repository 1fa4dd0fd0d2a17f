"""Rows measured by evaluating a model on a benchmark."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mambamatcher.evaluation.evaluate import Request, evaluate
from mambamatcher.evaluation.predictors import MatcherPredictor
from mambamatcher.evaluation.report import Report
from mambamatcher.matching.matcher import Matcher
from mambamatcher.model.backbones import VitConfig
from mambamatcher.model.checkpoint import reconfigured
from mambamatcher.model.correlation import MeanAggregation
from mambamatcher.model.features import NoAggregation
from mambamatcher.model.mambamatcher import ModelConfig
from mambamatcher.model.presets import paper_sharp
from mambamatcher.paper.output import MEASURED, Cell, Row

ALPHAS = (0.05, 0.10, 0.15)
PAPER_GRIDS = (17, 30, 60)


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Settings of an evaluation.

    Attributes:
        name: Name of the model in tables.
        matcher: The model.
        split: Split of the benchmarks.
        output: Folder for predictions.
        root: Folder with the benchmarks.
        limit: Evaluate only this many pairs.
    """

    name: str
    matcher: Matcher
    split: str
    output: Path
    root: Path | None = None
    limit: int | None = None

    def report(self, dataset: str) -> Report:
        """Evaluate on a benchmark. Predictions are saved, so an interrupted evaluation resumes."""
        side = self.matcher.config.side
        request = Request(
            dataset=dataset,
            split=self.split,
            output=self.output / f"{self.name}-{side}-{dataset}-{self.split}",
            root=self.root,
            limit=self.limit,
            alphas=ALPHAS,
        )
        return evaluate(MatcherPredictor(self.name, self.matcher), request)


def cells(report: Report, reference: str, average: str = "image") -> list[Cell]:
    """Return PCK in percent at each alpha, in original pixels. Cells are empty if the reference is not available."""
    for score in report["scores"]:
        if (score["reference"], score["scale"], score["average"]) == (reference, "isotropic", average):
            return [percent(estimate) for estimate in score["values"]]
    return [Cell()] * len(ALPHAS)


def percent(estimate: Mapping[str, float]) -> Cell:
    """Convert a fraction and its interval to percent."""
    return Cell(value=100 * estimate["value"], low=100 * estimate["low"], high=100 * estimate["high"])


def protocol(reports: Sequence[Report], how: str) -> str:
    """Describe the data and the metric of a row."""
    return "; ".join(f"{each['dataset']} {each['split']}, {each['pairs']} pairs" for each in reports) + f"; {how}"


def main_rows(evaluation: Evaluation) -> list[Row]:
    """Measure PF-PASCAL and SPair-71k. Time and memory are measured by `mambamatcher benchmark pair`."""
    pascal, spair = (evaluation.report(name) for name in ("pf-pascal", "spair"))
    side = Cell(value=evaluation.matcher.config.side)
    found = (side, *cells(pascal, "img"), *cells(spair, "bbox"), Cell(), Cell())
    return [_row(evaluation.name, [pascal, spair], "alpha_img and alpha_bbox, per image", found)]


def per_point_rows(evaluation: Evaluation) -> list[Row]:
    """Average the same predictions over images and over points."""
    pascal, spair = (evaluation.report(name) for name in ("pf-pascal", "spair"))
    rows = []
    for average in ("image", "point"):
        found = (*cells(pascal, "img", average), *cells(spair, "bbox", average))
        how = f"alpha_img and alpha_bbox, per {average}"
        rows.append(_row(f"{evaluation.name}, per {average}", [pascal, spair], how, found))
    return rows


def category_rows(evaluation: Evaluation, categories: Sequence[str]) -> list[Row]:
    """Measure PCK@0.10 of each category of SPair-71k."""
    report = evaluation.report("spair")
    known = report["categories"]
    found = [percent(known[name]["values"][1]) if name in known else Cell() for name in categories]
    found.append(cells(report, "bbox")[1])
    return [_row(evaluation.name, [report], "alpha_bbox 0.10, per image", found)]


def willow_rows(evaluation: Evaluation) -> list[Row]:
    """Measure PF-WILLOW with both kinds of boxes."""
    report = evaluation.report("pf-willow")
    found = [*cells(report, "bbox")[:2], *cells(report, "bbox-kp")[:2]]
    return [_row(evaluation.name, [report], "per image, original pixels, no padding counted", found)]


def spair_rows(evaluation: Evaluation) -> list[Row]:
    """Measure SPair-71k."""
    report = evaluation.report("spair")
    return [_row(evaluation.name, [report], "alpha_bbox, per image", cells(report, "bbox"))]


def resolution_rows(evaluation: Evaluation) -> list[Row]:
    """Measure the same weights at the image sides that give the paper's grids."""
    model, rows = evaluation.matcher.model, []
    for grid in PAPER_GRIDS:
        side = grid * model.backbone.stride
        matcher = Matcher(reconfigured(model, replace(model.config, side=side)))
        report = replace(evaluation, matcher=matcher).report("spair")
        found = [Cell(value=grid), *cells(report, "bbox")]
        rows.append(_row(f"{evaluation.name}, side {side}", [report], "alpha_bbox, per image", found))
    return rows


def untrained_config(layer: int, facet: str) -> ModelConfig:
    """Return the configuration of an untrained readout of one facet of one layer of DINOv2."""
    backbone = VitConfig(layers=(layer,), facets=(facet,))
    return replace(paper_sharp(), backbone=backbone, features=NoAggregation(), correlation=MeanAggregation())


def untrained_row(name: str, evaluation: Evaluation, reference: str) -> Row:
    """Measure a model that needs no training."""
    report = evaluation.report("spair")
    return _row(name, [report], f"alpha_{reference}, per image; nothing trained", cells(report, reference))


def _row(name: str, reports: Sequence[Report], how: str, found: Sequence[Any]) -> Row:
    return Row(name=name, origin=MEASURED, protocol=protocol(reports, how), cells=tuple(found))
