"""Every table of the paper by name: the quoted numbers, the requirements, and how our rows are measured."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mambamatcher.errors import ConfigError, InputError
from mambamatcher.matching.matcher import Matcher
from mambamatcher.model.presets import paper
from mambamatcher.model.saved import SHIPPED
from mambamatcher.paper import costs, evaluated_rows, flops, requirements, trained_rows
from mambamatcher.paper.ablations import ALPHAS, Ablation, Outcome, finished, train_rows
from mambamatcher.paper.comparison import difference_line, outcome_rows
from mambamatcher.paper.evaluated_rows import Evaluation
from mambamatcher.paper.output import Cell, Row, TableResult
from mambamatcher.paper.quoted import QUOTED_TABLES, QuotedTable
from mambamatcher.paper.requirements import Requirement
from mambamatcher.paper.trained_rows import BASES, Base, TrainedRow, base_of
from mambamatcher.registry import Registry, unknown

VIT_BASES = ("vit-s", "paper")  # those with the layers and facets of a ViT
COST_COLUMNS = ("parameters", "ms", "GB", "GB, training")
STATE_COLUMN = "state, logits"
STATE = (
    "State, logits: what the state of the scan adds to the scores of a source position after training, as the standard "
    "deviation over target positions, on eight selection pairs; mean over seeds."
)
COSTS = (
    "Cost of a pair from the levels of the backbone to the refined map, and the memory of a step that trains on it: {}."
)
GRIDS = {420: 30, 560: 40, 700: 50}  # by image side, as in the paper's cost table


@dataclass(frozen=True, kw_only=True)
class ReproduceOptions:
    """Options of `mambamatcher reproduce`.

    Attributes:
        model: Saved model that evaluated tables are about. The shipped default if not given.
        pf_pascal_model: Saved model that was trained on PF-PASCAL, for the cells and tables about such a model.
        split: Split of the benchmarks to evaluate on.
        root: Folder with the benchmarks.
        budget: Training steps of each trained row.
        base: What trained rows start from, see `trained_rows.BASES`. By default the first that a table allows.
        limit: Evaluate only this many pairs.
        finished: Train nothing and show the rows that are finished.
        out: Folder for the tables and the results of trained rows.
        runs: Folder for checkpoints, logs and predictions.
    """

    model: str | None = None
    pf_pascal_model: str | None = None
    split: str = "test"
    root: Path | None = None
    budget: int | None = None
    base: str | None = None
    limit: int | None = None
    finished: bool = False
    out: Path = Path("benchmarks/results/paper")
    runs: Path = Path("runs/reproduce")

    def evaluation(self, model: str | None = None) -> Evaluation:
        """Load a model to evaluate; without one, that which evaluated tables are about."""
        chosen = model or self.model or "default"
        name = SHIPPED.get(chosen, Path(chosen)).name
        return self.evaluation_of(name, Matcher.from_pretrained(chosen, runtime="torch"), self.split)

    def ablation(self, base: Base) -> Ablation:
        """Return the settings that rows are trained with. Rows of another base are other rows of the same names."""
        assert self.budget is not None  # a requirement of every trained table
        own = "" if base.name == "embedded" else base.name
        return Ablation(
            base=base,
            steps=self.budget,
            results=self.out / "rows" / own,
            runs=self.runs / own,
            root=self.root,
            limit=self.limit,
        )

    def evaluation_of(self, name: str, matcher: Matcher, split: str) -> Evaluation:
        """Return the settings of a model's evaluation."""
        return Evaluation(name=name, matcher=matcher, split=split, output=self.runs, root=self.root, limit=self.limit)


@dataclass(frozen=True, kw_only=True)
class PaperTable:
    """A table that can be reproduced.

    Attributes:
        quoted: The paper's own numbers.
        requirements: What must be present before anything is computed.
        measure: Returns our rows and remarks on them.
        bases: What rows can start from; none for tables about a given model.
    """

    quoted: QuotedTable
    requirements: Callable[[ReproduceOptions], Sequence[Requirement]]
    measure: Callable[[ReproduceOptions], tuple[list[Row], Sequence[str]]]
    bases: Sequence[str] = ()

    def checked_base(self, name: str, base: str | None) -> str | None:
        """Return the base that the options choose, by default the first that the table allows."""
        if not self.bases:
            return None
        if base is not None and base not in BASES:
            raise unknown("base", base, BASES)
        if base is not None and base not in self.bases:
            raise ConfigError(f"the table {name} needs --base {' or '.join(self.bases)}, got {base}")
        return base or self.bases[0]


TABLES: Registry[PaperTable] = Registry("table")


def reproduce(name: str, options: ReproduceOptions) -> TableResult:
    """Check the requirements of a table, then measure its rows.

    Raises:
        ConfigError: If there is no table of this name, or the options do not fit it.
        InputError: If something that the table requires is missing, before anything is computed, or no row is finished.
    """
    table = TABLES[name]
    options = replace(options, base=table.checked_base(name, options.base))
    requirements.check(f"the table {name}", table.requirements(options))
    rows, remarks = table.measure(options)
    quoted = table.quoted
    if not quoted.rows and not rows:
        raise InputError(
            f"no row of the table {name} is finished in {options.out}; run the same command without --finished"
        )
    return TableResult(
        name=name if not table.bases or options.base == table.bases[0] else f"{name}-{options.base}",
        title=quoted.title,
        label=quoted.label,
        columns=quoted.columns,
        headline=quoted.headline,
        rows=[*quoted.rows, *rows],
        remarks=(*quoted.remarks, *remarks),
    )


def _register(
    name: str,
    requires: Callable[[ReproduceOptions], Sequence[Requirement]],
    measure: Callable[[ReproduceOptions], tuple[list[Row], Sequence[str]]],
    title: str | None = None,
    columns: Sequence[str] = (),
    bases: Sequence[str] = (),
) -> None:
    """Register a table of the paper or, with a title and further columns, one that the paper does not have."""
    quoted = QUOTED_TABLES[name] if title is None else _unquoted(title, columns)
    TABLES.register(name)(PaperTable(quoted=quoted, requirements=requires, measure=measure, bases=bases))


def _unquoted(title: str, columns: Sequence[str]) -> QuotedTable:
    alphas = tuple(f"PCK@{alpha:.2f}" for alpha in ALPHAS)
    return QuotedTable(label="", title=title, protocol="", columns=(*alphas, *columns), headline=1, rows=())


def _scored(dataset: str, options: ReproduceOptions) -> Requirement:
    return requirements.data(dataset, options.split, options.root, to_score=True)


def _register_evaluated(name: str, dataset: str, measure: Callable[[Evaluation], list[Row]]) -> None:
    """Register a table about a trained model on one benchmark."""
    _register(
        name,
        lambda options: [_scored(dataset, options)],
        lambda options: (measure(options.evaluation()), ()),
    )


def _register_per_benchmark(name: str, measure: Callable[[Evaluation, Evaluation], list[Row]]) -> None:
    """Register a table about two models: one trained for PF-PASCAL and one for SPair-71k, each measured there."""

    def compute(options: ReproduceOptions) -> tuple[list[Row], list[str]]:
        spair = options.evaluation()
        if options.pf_pascal_model is not None:
            return measure(options.evaluation(options.pf_pascal_model), spair), []
        remark = (
            f"PF-PASCAL was measured with {spair.name} too. The paper trains a model on each benchmark: give the one "
            f"trained on PF-PASCAL with --pf-pascal-model."
        )
        return measure(spair, spair), [remark]

    datasets = "pf-pascal", "spair"
    _register(name, lambda options: [_scored(each, options) for each in datasets], compute)


def _register_from_pf_pascal(name: str, dataset: str, measure: Callable[[Evaluation], list[Row]]) -> None:
    """Register a table that measures a model trained on PF-PASCAL elsewhere."""
    trained = (
        "a model trained on PF-PASCAL (--pf-pascal-model FOLDER; to train one: mambamatcher train --recipe pf-pascal)"
    )
    _register(
        name,
        lambda options: [
            requirements.given(options.pf_pascal_model, trained),
            _scored(dataset, options),
        ],
        lambda options: (measure(options.evaluation(options.pf_pascal_model)), ()),
    )


def _register_trained(
    name: str,
    rows: Sequence[TrainedRow],
    *,
    bases: Sequence[str] = BASES,
    full_set: bool = False,
    title: str | None = None,
    with_costs: bool = False,
    with_state: bool = False,
    comparisons: Sequence[tuple[str, str]] | None = None,
) -> None:
    """Register a table whose rows are trained.

    Args:
        name: Name on the command line.
        rows: The rows.
        bases: Bases that they can be trained from.
        full_set: As for `base_of`.
        title: As for `_register`.
        with_costs: Whether the table also says what each head costs.
        with_state: Whether the table also says what the state of each scan adds.
        comparisons: Keys of the rows to compare, the second with the first. By default, the similarity-aware scan with
            each of the others.
    """
    compared = trained_rows.against_descending(rows) if comparisons is None else comparisons

    def requires(options: ReproduceOptions) -> list[Requirement]:
        base = _base(options, full_set)
        steps = requirements.given(options.budget, "the number of training steps per row (--budget)")
        if options.finished:
            return [steps]
        splits = [base.training, *base.evaluations]
        return [
            steps,
            *([] if base.shipped else [requirements.gpu]),
            *(requirements.data(dataset, split, options.root) for dataset, split in splits),
            requirements.weights(base.configured(rows[0], 0, 1).model),
        ]

    def measure(options: ReproduceOptions) -> tuple[list[Row], list[str]]:
        ablation = options.ablation(_base(options, full_set))
        if not options.finished:
            train_rows(rows, ablation)
        outcomes = {row: found for row in rows if (found := finished(row, ablation))}
        remarks = [*([COSTS.format(costs.how_measured())] if with_costs else []), *([STATE] if with_state else [])]
        extra = {
            row: (
                *(_head_cost(row, ablation.base) if with_costs else ()),
                *([_state_cell(found)] if with_state else []),
            )
            for row, found in outcomes.items()
        }
        lines_of = [
            [replace(line, cells=(*line.cells, *extra[row])) for line in outcome_rows(row, found)]
            for row, found in outcomes.items()
        ]
        by_evaluation = zip(*lines_of, strict=True)
        named = {row.key: (row.paper, found) for row, found in outcomes.items()}
        pairs = [(named[one], named[other]) for one, other in compared if one in named and other in named]
        evaluations = next(iter(outcomes.values()))[0]["evaluations"] if outcomes else ()
        remarks += [difference_line(*pair, where) for where in evaluations for pair in pairs]
        return [line for lines in by_evaluation for line in lines], remarks

    columns = (*(COST_COLUMNS if with_costs else ()), *([STATE_COLUMN] if with_state else []))
    _register(name, requires, measure, title, columns, bases)


def _base(options: ReproduceOptions, full_set: bool) -> Base:
    assert options.base is not None  # chosen by `reproduce` for every table with bases
    return base_of(options.base, full_set=full_set)


def _state_cell(found: Sequence[Outcome]) -> Cell:
    added = [outcome["state_logits"] for outcome in found if outcome["state_logits"] is not None]
    return Cell(value=sum(added) / len(added) if added else None)


def _head_cost(row: TrainedRow, base: Base) -> tuple[Cell, ...]:
    model = base.configured(row, 0, 1).model
    return costs.head_cost(model, with_features=row.new_features)


def _register_computed(name: str, compute: Callable[[], tuple[list[Row], Sequence[str]]]) -> None:
    """Register a table that needs neither data nor weights."""
    _register(name, lambda _: (), lambda _: compute())


def _register_untrained(name: str, layers_and_facets: dict[str, tuple[int, str]], reference: str) -> None:
    """Register a table of nearest neighbours on single layers and facets of a ViT."""

    def small(options: ReproduceOptions) -> str:
        return "test-small" if options.split == "test" else options.split

    def requires(options: ReproduceOptions) -> list[Requirement]:
        first = evaluated_rows.untrained_config(str(options.base), *next(iter(layers_and_facets.values())))
        return [requirements.data("spair", small(options), options.root), requirements.weights(first)]

    def measure(options: ReproduceOptions) -> tuple[list[Row], Sequence[str]]:
        base, rows = str(options.base), []
        for row, choice in layers_and_facets.items():
            matcher = Matcher(evaluated_rows.untrained_model(base, evaluated_rows.untrained_config(base, *choice)))
            evaluation = options.evaluation_of(f"{base}-{name}-{row.lower()}", matcher, small(options))
            rows.append(evaluated_rows.untrained_row(row, base, evaluation, reference))
        return rows, ()

    _register(name, requires, measure, bases=VIT_BASES)


_register_per_benchmark("main", evaluated_rows.main_rows)
_register_per_benchmark("per-point", evaluated_rows.per_point_rows)
_register_evaluated(
    "categories",
    "spair",
    lambda evaluation: evaluated_rows.category_rows(evaluation, QUOTED_TABLES["categories"].columns[:-1]),
)
_register_computed("baselines", lambda: ([], ("Only quoted: there is nothing to measure.",)))
_register_from_pf_pascal("pf-willow", "pf-willow", evaluated_rows.willow_rows)
_register_from_pf_pascal("cross-dataset", "spair", evaluated_rows.cross_dataset_rows)
_register_untrained("facets", {facet.title(): (11, facet) for facet in ("token", "query", "key", "value")}, "bbox")
_register_trained("facets-combined", trained_rows.FACETS_COMBINED, bases=VIT_BASES)
_register_untrained("layers", {str(layer): (layer, "token") for layer in range(12)}, "img")
_register_trained("layers-combined", trained_rows.LAYERS_COMBINED, bases=VIT_BASES)
_register_trained("features", trained_rows.FEATURES)
_register_trained("correlation", trained_rows.CORRELATION)
_register_trained("sort-key", trained_rows.SORT_KEY, full_set=True)
_register_trained("positional", trained_rows.POSITIONAL, full_set=True)
_register_trained("backbones", trained_rows.BACKBONES, bases=("paper",), full_set=True)
_register_trained("significance", trained_rows.SIGNIFICANCE)
_register_trained(
    "scan",
    trained_rows.SCAN,
    bases=("vit-s",),
    title="Does the similarity-aware scan help?",
    with_state=True,
    comparisons=trained_rows.SCAN_COMPARISONS,
)
_register_trained(
    "league",
    trained_rows.LEAGUE,
    bases=("vit-s",),
    title="Correlation heads of published systems on one backbone",
    with_costs=True,
)
_register_evaluated("resolution", "spair", evaluated_rows.resolution_rows)
_register_computed("resolution-cost", lambda: (costs.resolution_cost_rows(16, GRIDS), ()))
_register_computed("modules", lambda: (costs.module_rows(paper()), ()))
_register_computed("flops", lambda: (costs.flop_rows(paper()), ()))
_register_computed(
    "flops-theory", lambda: (flops.theory_rows(), [count.remark for count in flops.counts() if count.remark])
)
