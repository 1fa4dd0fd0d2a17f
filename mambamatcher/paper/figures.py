"""Every figure of the paper that shows results, by name; its two diagrams of the method are not results."""

from collections.abc import Callable

from mambamatcher.paper import map_figures, match_figures
from mambamatcher.paper.figure_inputs import Subject
from mambamatcher.paper.results import FigureResult
from mambamatcher.registry import Registry

FIGURES: Registry[Callable[[Subject], FigureResult]] = Registry("figure")

FIGURES.register("heatmaps")(map_figures.heatmaps)
FIGURES.register("levels")(map_figures.levels)
FIGURES.register("aggregators")(match_figures.aggregators)
FIGURES.register("scan-orders")(match_figures.scan_orders)
FIGURES.register("failures")(match_figures.failures)
FIGURES.register("removal")(map_figures.removal)
FIGURES.register("attribution")(map_figures.attribution)
