"""Every table of the paper by name: what it quotes, what it needs, and what is measured beside it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from mambamatcher.errors import ConfigError
from mambamatcher.matching.matcher import Matcher
from mambamatcher.model.mambamatcher import MambaMatcher
from mambamatcher.model.presets import paper
from mambamatcher.paper import costs, evaluated_rows, flops, quoted, quoted_ablations, requirements, trained_rows
from mambamatcher.paper.ablations import Ablation, finished, train_rows
from mambamatcher.paper.comparison import difference_line, outcome_rows
from mambamatcher.paper.evaluated_rows import Evaluation
from mambamatcher.paper.quoted import Quoted
from mambamatcher.paper.requirements import Need
from mambamatcher.paper.results import Row, TableResult
from mambamatcher.paper.trained_rows import TrainedRow, base_of
from mambamatcher.registry import Registry

GRIDS = {420: 30, 560: 40, 700: 50}  # by image side, as in the paper's table of costs


@dataclass(frozen=True, kw_only=True)
class Options:
    """A user's choices: `model` and `split` for evaluated tables, `budget` (steps) and `base` for trained ones."""

    model: str | None = None
    split: str = "test"
    root: Path | None = None
    budget: int | None = None
    base: str = "embedded"
    limit: int | None = None
    finished: bool = False  # train nothing, show the trained rows that are there
    out: Path = Path("benchmarks/results/paper")
    runs: Path = Path("runs/reproduce")

    def evaluation(self) -> Evaluation:
        """Load the model that evaluated tables are about."""
        name = "embedded model" if self.model is None else Path(self.model).name
        return self.evaluation_of(name, Matcher.from_pretrained(self.model), self.split)

    def ablation(self) -> Ablation:
        """Describe how rows are trained."""
        assert self.budget is not None  # a need of every table that asks
        return Ablation(
            base=base_of(self.base),
            steps=self.budget,
            results=self.out / "rows",
            runs=self.runs,
            root=self.root,
            limit=self.limit,
        )

    def evaluation_of(self, name: str, matcher: Matcher, split: str) -> Evaluation:
        """Describe the evaluation of a model."""
        return Evaluation(name=name, matcher=matcher, split=split, output=self.runs, root=self.root, limit=self.limit)


@dataclass(frozen=True, kw_only=True)
class PaperTable:
    """One table: the paper's numbers, what must be there, and how ours are made (rows and remarks)."""

    quoted: Quoted
    needs: Callable[[Options], Sequence[Need]]
    measure: Callable[[Options], tuple[list[Row], Sequence[str]]]


TABLES: Registry[PaperTable] = Registry("table")


def reproduce(name: str, options: Options) -> TableResult:
    """Look for all a table needs, then measure what it measures."""
    table = TABLES[name]
    requirements.check(f"the table {name}", table.needs(options))
    rows, remarks = table.measure(options)
    source = table.quoted
    return TableResult(
        name=name,
        title=source.title,
        label=source.label,
        columns=source.columns,
        headline=source.headline,
        rows=[*source.rows(), *rows],
        remarks=(*source.remarks, *remarks),
    )


def _evaluated(name: str, source: Quoted, datasets: Sequence[str], measure: Callable[[Evaluation], list[Row]]) -> None:
    TABLES.register(name)(
        PaperTable(
            quoted=source,
            needs=lambda options: [requirements.data(each, options.split, options.root) for each in datasets],
            measure=lambda options: (measure(options.evaluation()), ()),
        )
    )


def _trained(name: str, source: Quoted, rows: Sequence[TrainedRow], only_base: str | None = None) -> None:
    def wanted(options: Options) -> list[Need]:
        if only_base not in (None, options.base):
            raise ConfigError(f"the table {name} is about DINOv2 and needs --base {only_base}, got {options.base}")
        base = base_of(options.base)
        steps = requirements.given(options.budget, "a number of training steps a row (--budget)")
        if options.finished:
            return [steps]
        places = [base.training, *base.evaluations]
        return [
            steps,
            *([] if base.embedded else [requirements.gpu]),
            *(requirements.data(*place, options.root) for place in places),
            requirements.weights(base.configured(rows[0], 0, 1).model),
        ]

    def measure(options: Options) -> tuple[list[Row], list[str]]:
        ablation = options.ablation()
        if not options.finished:
            train_rows(rows, ablation)
        outcomes = {row: found for row in rows if (found := finished(row, ablation))}
        by_evaluation = zip(*(outcome_rows(row, found) for row, found in outcomes.items()), strict=True)
        ours = next((row for row in outcomes if row.key == trained_rows.DESCENDING.key), None)
        remarks = []
        if ours is not None:
            for where in outcomes[ours][0]["evaluations"]:
                remarks += [
                    difference_line((row.paper, found), (ours.paper, outcomes[ours]), where)
                    for row, found in outcomes.items()
                    if row is not ours
                ]
        return [line for lines in by_evaluation for line in lines], remarks

    TABLES.register(name)(PaperTable(quoted=source, needs=wanted, measure=measure))


def _computed(name: str, source: Quoted, compute: Callable[[], tuple[list[Row], Sequence[str]]]) -> None:
    TABLES.register(name)(PaperTable(quoted=source, needs=lambda _: (), measure=lambda _: compute()))


def _untrained(name: str, source: Quoted, layers_and_facets: dict[str, tuple[int, str]], reference: str) -> None:
    variants = {row: evaluated_rows.untrained_config(*choice) for row, choice in layers_and_facets.items()}

    def small(options: Options) -> str:
        return "test-small" if options.split == "test" else options.split

    def wanted(options: Options) -> list[Need]:
        first = next(iter(variants.values()))
        return [requirements.data("spair", small(options), options.root), requirements.weights(first)]

    def measure(options: Options) -> tuple[list[Row], Sequence[str]]:
        rows = []
        for row, config in variants.items():
            matcher = Matcher(MambaMatcher(config))
            evaluation = options.evaluation_of(f"dinov2-{row.lower()}", matcher, small(options))
            rows.append(evaluated_rows.untrained_row(row, evaluation, reference))
        return rows, ()

    TABLES.register(name)(PaperTable(quoted=source, needs=wanted, measure=measure))


def _cross_dataset_needs(options: Options) -> list[Need]:
    trained = "a model trained on PF-PASCAL (--model FOLDER; train it with: mambamatcher train --dataset pf-pascal)"
    return [requirements.given(options.model, trained), requirements.data("spair", options.split, options.root)]


_evaluated("main", quoted.MAIN, ("pf-pascal", "spair"), evaluated_rows.main_rows)
_evaluated("per-point", quoted.PER_POINT, ("pf-pascal", "spair"), evaluated_rows.per_point_rows)
_evaluated(
    "categories",
    quoted.CATEGORIES,
    ("spair",),
    lambda e: evaluated_rows.category_rows(e, quoted.CATEGORIES.columns[:-1]),
)
_computed("baselines", quoted.BASELINES, lambda: ([], ("Only quoted: there is nothing to measure.",)))
_evaluated("pf-willow", quoted.WILLOW, ("pf-willow",), evaluated_rows.willow_rows)
TABLES.register("cross-dataset")(
    PaperTable(
        quoted=quoted.CROSS_DATASET,
        needs=_cross_dataset_needs,
        measure=lambda options: (evaluated_rows.spair_rows(options.evaluation()), ()),
    )
)
_untrained("facets", quoted_ablations.FACETS, {f.title(): (11, f) for f in ("token", "query", "key", "value")}, "bbox")
_trained("facets-combined", quoted_ablations.FACETS_COMBINED, trained_rows.FACETS_COMBINED, only_base="paper")
_untrained("layers", quoted_ablations.LAYERS, {str(layer): (layer, "token") for layer in range(12)}, "img")
_trained("layers-combined", quoted_ablations.LAYERS_COMBINED, trained_rows.LAYERS_COMBINED, only_base="paper")
_trained("features", quoted_ablations.FEATURES, trained_rows.FEATURES)
_trained("correlation", quoted_ablations.CORRELATION, trained_rows.CORRELATION)
_trained("sort-key", quoted_ablations.SORT_KEY, trained_rows.SORT_KEY)
_trained("positional", quoted_ablations.POSITIONAL, trained_rows.POSITIONAL)
_trained("backbones", quoted_ablations.BACKBONES, trained_rows.BACKBONES, only_base="paper")
_trained("significance", quoted_ablations.SIGNIFICANCE, trained_rows.SIGNIFICANCE)
_evaluated("resolution", quoted_ablations.RESOLUTION, ("spair",), evaluated_rows.resolution_rows)
_computed("resolution-cost", quoted_ablations.RESOLUTION_COST, lambda: (costs.resolution_rows(16, GRIDS), ()))
_computed("modules", quoted_ablations.MODULES, lambda: (costs.module_rows(paper()), ()))
_computed("flops", quoted_ablations.FLOPS, lambda: (costs.flop_rows(paper()), ()))
_computed(
    "flops-theory",
    quoted_ablations.THEORY,
    lambda: (flops.theory_rows(), [count.remark for count in flops.counts() if count.remark]),
)
