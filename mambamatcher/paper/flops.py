"""Theoretical FLOPs of the correlation aggregations: the paper's terms and total, and the correct ones.

A multiply-add counts as two operations, as in the paper's appendix.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import log2

from mambamatcher.paper.output import COMPUTED, Cell, Row


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Sizes of the paper's correlation sequence and Mamba block."""

    tokens: int = 30**4
    width: int = 16
    inner: int = 48
    state: int = 16
    rank: int = 1
    conv: int = 4
    kernel: int = 3


@dataclass(frozen=True, kw_only=True)
class Count:
    """FLOPs of one aggregation.

    Attributes:
        name: Name of the aggregation.
        paper_total: Total that the paper prints.
        paper_terms: Terms of the paper's formula.
        right_terms: Correct terms.
        remark: What is wrong with the paper's count.
    """

    name: str
    paper_total: float
    paper_terms: Mapping[str, int]
    right_terms: Mapping[str, int]
    remark: str = ""

    @property
    def paper_sum(self) -> int:
        """Sum of the paper's own terms."""
        return sum(self.paper_terms.values())

    @property
    def right(self) -> int:
        """Correct total."""
        return sum(self.right_terms.values())


def mamba(sizes: Sizes) -> Count:
    """Count the Mamba block. Two of the paper's terms and its total are wrong."""
    n, c, d, s, r = sizes.tokens, sizes.width, sizes.inner, sizes.state, sizes.rank
    paper = {
        "input projection": 2 * 2 * n * c * d,
        "1D convolution": 2 * d * sizes.conv * d,
        "projection to B, C and Δ": 2 * n * d * (2 * c + 1),
        "selective scan": 9 * n * c * s,
        "element-wise multiplication": n * d,
        "output projection": 2 * n * d * c,
    }
    right = {
        **paper,
        "1D convolution": 2 * n * d * sizes.conv,  # depthwise, at every position
        "projection to B, C and Δ": 2 * n * d * (2 * s + r),
        "expansion of Δ": 2 * n * r * d,
        "selective scan": 9 * n * d * s,
    }
    remark = (
        f"The printed terms add up to {_giga(sum(paper.values()))}, not 23.1 GFLOP: the scan term takes the {c} input "
        f"channels in place of the {d} inner ones, and the convolution term lacks the length of the sequence. "
        f"With both put right the block takes {_giga(sum(right.values()))}."
    )
    return Count(name="Mamba", paper_total=23.1e9, paper_terms=paper, right_terms=right, remark=remark)


def similarity_scan(sizes: Sizes) -> Count:
    """Add sorting to the Mamba block, with four operations per comparison as the paper assumes."""
    block, sorting = mamba(sizes), {"sorting": round(4 * sizes.tokens * log2(sizes.tokens))}
    return Count(
        name="Mamba + similarity-aware scan",
        paper_total=23.2e9,
        paper_terms=dict(block.paper_terms) | sorting,
        right_terms=dict(block.right_terms) | sorting,
    )


def conv4d(sizes: Sizes) -> Count:
    """Count a 4D convolution. The paper's formula has as many outputs as inputs, its model has one."""
    taps = 2 * sizes.tokens * sizes.width * sizes.kernel**4
    return Count(
        name=f"4D Conv k={sizes.kernel}",
        paper_total=33.6e9,
        paper_terms={"convolution": taps * sizes.width},
        right_terms={"convolution": taps},
        remark=(
            f"The formula for the 4D convolution has {sizes.width} outputs; the module of the paper's parameter table "
            f"(1.3K) has one, and takes {_giga(taps)}, which is what its libraries count."
        ),
    )


def vanilla_attention(sizes: Sizes) -> Count:
    """Count dot-product attention. The paper's sum is correct."""
    n, c = sizes.tokens, sizes.width
    terms = {
        "query, key and value": 3 * 2 * n * c * c,
        "dot products": 2 * n * n * c,
        "softmax": 3 * n * n,
        "weighted sum": 2 * n * n * c,
    }
    return Count(name="Vanilla attention", paper_total=44.0e12, paper_terms=terms, right_terms=terms)


def fastformer(sizes: Sizes) -> Count:
    """Count one layer of additive attention with a single head. The paper's sum is correct for that."""
    n, c = sizes.tokens, sizes.width
    terms = {
        "query, key and value": 3 * 2 * n * c * c,
        "softmax and weighted sum": 2 * (3 * n + 2 * n * c),
        "global vectors": 2 * n * c,
        "projection": 2 * n * c * c,
    }
    remark = "FastFormer's 1.74 GFLOP are of a single attention layer; the model of the other tables has six with MLPs."
    return Count(name="FastFormer", paper_total=1.74e9, paper_terms=terms, right_terms=terms, remark=remark)


def counts(sizes: Sizes | None = None) -> list[Count]:
    """Count every aggregation of the paper's appendix."""
    sizes = sizes or Sizes()
    return [count(sizes) for count in (conv4d, vanilla_attention, fastformer, mamba, similarity_scan)]


def theory_rows() -> list[Row]:
    """Return the sum of the paper's terms and the correct total of each aggregation."""
    rows = []
    for count in counts():
        for kind, value in (("the paper's terms added up", count.paper_sum), ("right", count.right)):
            cell = Cell(value=value / 1e9)
            rows.append(Row(name=f"{count.name}, {kind}", origin=COMPUTED, protocol="by hand", cells=(cell,)))
    return rows


def _giga(flops: int) -> str:
    return f"{flops / 1e9:.1f} GFLOP"
