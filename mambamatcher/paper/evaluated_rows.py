"""Rows measured by evaluating a model on a benchmark."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mambamatcher.errors import InputError
from mambamatcher.evaluation.evaluate import Request, evaluate
from mambamatcher.evaluation.pck import SCALES, check_protocol
from mambamatcher.evaluation.predictors import MatcherPredictor
from mambamatcher.evaluation.report import Report
from mambamatcher.matching.matcher import Matcher
from mambamatcher.model.backbones import VitConfig
from mambamatcher.model.checkpoint import load_pretrained, read_config, reconfigured
from mambamatcher.model.correlation import MeanAggregation
from mambamatcher.model.features import NoAggregation
from mambamatcher.model.mambamatcher import MambaMatcher, ModelConfig
from mambamatcher.model.presets import paper_sharp
from mambamatcher.model.saved import CONFIG, SHIPPED
from mambamatcher.paper import costs
from mambamatcher.paper.initialisation import copy_backbone
from mambamatcher.paper.output import MEASURED, Cell, Row

ALPHAS = (0.05, 0.10, 0.15)
PAPER_GRIDS = (17, 30, 60)
ORIGINAL = "original pixels (isotropic)"
SQUARE = "images scaled to a square (anisotropic), as CHM, TransforMatcher and SD4Match measure"
UNTRAINED = {
    "paper": "DINOv2, nothing trained",
    "vit-s": "the backbone of the model default, which was fine-tuned; nothing trained on it",
}
FRAMES = dict(zip(SCALES, (ORIGINAL, SQUARE), strict=True))


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
        side = self.matcher.runtime.side
        request = Request(
            dataset=dataset,
            split=self.split,
            output=self.output / f"{self.name}-{side}-{dataset}-{self.split}",
            root=self.root,
            limit=self.limit,
            alphas=ALPHAS,
        )
        return evaluate(MatcherPredictor(self.name, self.matcher), request)


def cells(report: Report, reference: str, scale: str = "isotropic", average: str = "image") -> list[Cell]:
    """Return PCK in percent at each alpha.

    Raises:
        ConfigError: If the reference or the scale is unknown.
        InputError: If the benchmark lacks what the reference needs.
    """
    check_protocol(reference, scale)
    for score in report["scores"]:
        if (score["reference"], score["scale"], score["average"]) == (reference, scale, average):
            return [percent(estimate) for estimate in score["values"]]
    measured = dict.fromkeys(f"{score['reference']}, {score['scale']}" for score in report["scores"])
    raise InputError(
        f"{report['dataset']} {report['split']} cannot be measured by {reference}, {scale}, only by: "
        f"{'; '.join(measured)}"
    )


def percent(estimate: Mapping[str, float]) -> Cell:
    """Convert a fraction and its interval to percent."""
    return Cell(value=100 * estimate["value"], low=100 * estimate["low"], high=100 * estimate["high"])


def protocol(reports: Sequence[Report], how: str) -> str:
    """Describe the data and the metric of a row."""
    return "; ".join(f"{each['dataset']} {each['split']}, {each['pairs']} pairs" for each in reports) + f"; {how}"


def main_rows(pascal: Evaluation, spair: Evaluation) -> list[Row]:
    """Measure PF-PASCAL and SPair-71k, each with its own model, and the cost of a pair with that of SPair-71k."""
    reports = [pascal.report("pf-pascal"), spair.report("spair")]
    cost, how = costs.pair_cost(spair.matcher.model)
    sides = list(dict.fromkeys(each.matcher.runtime.side for each in (pascal, spair)))
    side = Cell(value=sides[0] if len(sides) == 1 else "/".join(map(str, sides)))
    return [
        _row(
            _names(pascal, spair),
            reports,
            f"alpha_img and alpha_bbox, per image, {frame}; time and memory of the model of SPair-71k: {how}",
            (side, *cells(reports[0], "img", scale), *cells(reports[1], "bbox", scale), *cost),
        )
        for scale, frame in FRAMES.items()
    ]


def per_point_rows(pascal: Evaluation, spair: Evaluation) -> list[Row]:
    """Average the same predictions over images and over points."""
    reports = [pascal.report("pf-pascal"), spair.report("spair")]
    return [
        _row(
            f"{_names(pascal, spair)}, per {average}",
            reports,
            f"alpha_img and alpha_bbox, {frame}",
            (*cells(reports[0], "img", scale, average), *cells(reports[1], "bbox", scale, average)),
        )
        for scale, frame in FRAMES.items()
        for average in ("image", "point")
    ]


def category_rows(evaluation: Evaluation, categories: Sequence[str]) -> list[Row]:
    """Measure PCK@0.10 of each category of SPair-71k."""
    report = evaluation.report("spair")
    known = report["categories"]
    found = [percent(known[name]["values"][1]) if name in known else Cell() for name in categories]
    found.append(cells(report, "bbox")[1])
    return [_row(evaluation.name, [report], f"alpha_bbox 0.10, per image, {ORIGINAL}", found)]


def willow_rows(evaluation: Evaluation) -> list[Row]:
    """Measure PF-WILLOW. What papers call alpha_bbox there is `bbox-kp-padded`, which exists only in the square."""
    report = evaluation.report("pf-willow")
    padded = {"isotropic": [Cell()] * 2, "anisotropic": cells(report, "bbox-kp-padded", "anisotropic")[:2]}
    return [
        _row(
            evaluation.name,
            [report],
            f"per image, {frame}; the model given as trained on PF-PASCAL",
            [*padded[scale], *cells(report, "bbox-kp", scale)[:2]],
        )
        for scale, frame in FRAMES.items()
    ]


def cross_dataset_rows(evaluation: Evaluation) -> list[Row]:
    """Measure SPair-71k with a model trained on PF-PASCAL."""
    report = evaluation.report("spair")
    how = "alpha_bbox, per image, {}; the model given as trained on PF-PASCAL"
    return [
        _row(evaluation.name, [report], how.format(frame), cells(report, "bbox", scale))
        for scale, frame in FRAMES.items()
    ]


def resolution_rows(evaluation: Evaluation) -> list[Row]:
    """Measure the same weights at the image sides that give the paper's grids."""
    model, rows = evaluation.matcher.model, []
    for grid in PAPER_GRIDS:
        side = grid * model.backbone.stride
        matcher = Matcher(reconfigured(model, replace(model.config, side=side)))
        report = replace(evaluation, matcher=matcher).report("spair")
        found = [Cell(value=grid), *cells(report, "bbox")]
        rows.append(_row(f"{evaluation.name}, side {side}", [report], f"alpha_bbox, per image, {ORIGINAL}", found))
    return rows


def untrained_config(base: str, layer: int, facet: str) -> ModelConfig:
    """Return the configuration of an untrained readout of one facet of one layer.

    Args:
        base: `paper` for DINOv2-B, `vit-s` for the backbone of the shipped model `default`.
        layer: Number of the block, from 0.
        facet: Facet of the block.
    """
    config = paper_sharp() if base == "paper" else replace(read_config(SHIPPED["default"] / CONFIG), mirror=False)
    assert isinstance(config.backbone, VitConfig)
    backbone = replace(config.backbone, layers=(layer,), facets=(facet,))
    return replace(config, backbone=backbone, features=NoAggregation(), correlation=MeanAggregation())


def untrained_model(base: str, config: ModelConfig) -> MambaMatcher:
    """Build a model of `untrained_config` with the weights of its base's backbone."""
    model = MambaMatcher(config)
    if base != "paper":
        copy_backbone(load_pretrained(SHIPPED["default"]), model)
    return model


def untrained_row(name: str, base: str, evaluation: Evaluation, reference: str) -> Row:
    """Measure a model that needs no training besides that of its backbone."""
    report = evaluation.report("spair")
    how = f"alpha_{reference}, per image, {ORIGINAL}; {UNTRAINED[base]}, side {evaluation.matcher.runtime.side}"
    return _row(name, [report], how, cells(report, reference))


def _names(pascal: Evaluation, spair: Evaluation) -> str:
    return spair.name if pascal.name == spair.name else f"{pascal.name} (PF-PASCAL), {spair.name} (SPair-71k)"


def _row(name: str, reports: Sequence[Report], how: str, found: Sequence[Any]) -> Row:
    return Row(name=name, origin=MEASURED, protocol=protocol(reports, how), cells=tuple(found))
