"""The similarity-aware selective scan: a Mamba block over all scores, highest first (Sec. 4.2)."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from math import prod
from typing import Literal, TypeVar

import torch
from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor, nn

from mambamatcher.errors import ConfigError
from mambamatcher.model.config import check_bounds, check_length
from mambamatcher.model.correlation.base import (
    CORRELATION_AGGREGATIONS,
    FLOAT_BYTES,
    CorrelationAggregator,
    CorrelationConfig,
    CorrelationMap,
    Refined,
    mean_of_levels,
)
from mambamatcher.model.layers.execution import may_use_cpu_kernels
from mambamatcher.model.layers.grid_scans import OrderedScan
from mambamatcher.model.layers.mamba import MambaSettings, SelectiveBlock
from mambamatcher.model.layers.positional import POSITIONAL_ENCODINGS, match_coordinates
from mambamatcher.model.layers.scan_orders import MAX_ORDERS, SCAN_ORDERS
from mambamatcher.registry import Registry

Sequence = Float[Tensor, "batch position level"]
Similarity = Float[Tensor, "batch position"]

PAPER_BLOCK = MambaSettings(state=16, conv=4, expand=3)
DEVIATION = 1e-6  # least standard deviation of a level, for a map of equal scores
Module = TypeVar("Module", bound=nn.Module)

# What one scan runs over: all scores of a pair, those of one source position, or those of one target position
SCOPES = {
    "pair": "b (hs ws ht wt) level",
    "source": "(b hs ws) (ht wt) level",
    "target": "(b ht wt) (hs ws) level",
}

# The similarity by which the correlation sequence is sorted (App. "layers used for sorting")
SORT_KEYS: Registry[Callable[[Sequence], Similarity]] = Registry("sort key")


@SORT_KEYS.register("last")
def last(sequence: Sequence) -> Similarity:
    """Use the last level: the token facet of the deepest layer."""
    return sequence[..., -1]


@SORT_KEYS.register("penultimate")
def penultimate(sequence: Sequence) -> Similarity:
    """Use the level before the last, or the only level."""
    return sequence[..., max(sequence.shape[-1] - 2, 0)]


@SORT_KEYS.register("mean")
def mean(sequence: Sequence) -> Similarity:
    """Use the mean over all levels."""
    return sequence.mean(dim=-1)


class SimilarityScan(CorrelationAggregator):
    """Sort the correlation sequence, scan it, undo the sorting, and project each position to one score."""

    def __init__(self, levels: int, config: "SimilarityScanAggregation") -> None:
        super().__init__()
        self.sort_key = SORT_KEYS[config.sort_key]
        self.orders = [SCAN_ORDERS[name] for name in config.orders]
        self.scope = config.scope
        self.standardize = config.standardize
        self.steered = config.steered
        self.residual = config.residual
        self.discretization = config.mamba.discretization
        self.has_state = config.mamba.state > 0
        self.positional = POSITIONAL_ENCODINGS[config.positional](levels)
        self.norms = nn.ModuleList(nn.LayerNorm(levels) if config.norm else nn.Identity() for _ in range(config.depth))
        self.scans = nn.ModuleList(
            OrderedScan(levels, len(self.orders), config.mamba, steered=config.steered) for _ in range(config.depth)
        )
        self.scales = nn.ParameterList(
            nn.Parameter(torch.full((levels,), config.layer_scale)) for _ in range(config.depth) if config.layer_scale
        )
        self.project = mean_of_levels(levels)
        if config.identity_start:
            for scan in self.scans.children():
                for block in scan.get_submodule("blocks").children():
                    nn.init.zeros_(block.get_submodule("out_proj").get_parameter("weight"))

    @property
    def can_be_fused(self) -> bool:
        """Whether the whole refinement fits the fused CPU kernel, which supports a single scan over the pair."""
        single = len(self.scans) == len(self.orders) == 1
        return single and self.has_state and not self.steered and self.scope == "pair"

    def bytes_per_score(self, levels: int) -> int:
        """Estimate memory per score. The fused kernel needs the order, scratch space for sorting, and the score."""
        return 8 + 16 + FLOAT_BYTES if self.can_be_fused else super().bytes_per_score(levels)

    def forward(self, correlation: CorrelationMap) -> Refined:
        """Refine a correlation map."""
        shape = tuple(correlation.shape[2:])
        pattern, sizes = SCOPES[self.scope], dict(zip(("hs", "ws", "ht", "wt"), shape, strict=True))
        sequence = rearrange(correlation, f"b level hs ws ht wt -> {pattern}")
        similarity = self.sort_key(sequence).detach()
        scanned_shape = {"pair": shape, "source": shape[2:], "target": shape[:2]}[self.scope]
        orders = [order(similarity, scanned_shape) for order in self.orders]
        if self.can_be_fused and may_use_cpu_kernels(sequence):
            return self._fused(sequence, self._seen(sequence, shape), orders[0]).unflatten(1, shape)
        coordinates = match_coordinates(shape, correlation) if self.steered else None
        if coordinates is not None:
            every = coordinates.expand(len(correlation), *coordinates.shape)
            coordinates = rearrange(every, f"b hs ws ht wt level -> {pattern}")
        for index, (norm, scan) in enumerate(zip(self.norms, self.scans, strict=True)):
            # The block sees positions, the residual does not: the projection would turn them into a bias of the scores.
            scanned = scan(norm(self._seen(sequence, shape)), orders, coordinates)
            if len(self.scales):
                scanned = scanned * self.scales[index]
            sequence = sequence + scanned if self.residual else scanned
        return rearrange(self.project(sequence), f"{pattern} -> b hs ws ht wt level", **sizes).squeeze(-1)

    def _seen(self, sequence: Sequence, shape: tuple[int, ...]) -> Sequence:
        """Return what the block sees of a sequence."""
        if self.standardize:
            # of the whole pair in every scope: a row of scores without a match must not look like one that has one
            pairs = sequence.reshape(-1, prod(shape), sequence.shape[-1])
            mean, deviation = pairs.mean(dim=1, keepdim=True), pairs.std(dim=1, keepdim=True)
            sequence = ((pairs - mean) / deviation.clamp(min=DEVIATION)).reshape(sequence.shape)
        return self.positional(sequence, shape)

    def _fused(
        self, sequence: Sequence, seen: Sequence, order: Int[Tensor, "batch position"]
    ) -> Float[Tensor, "batch position"]:
        """Run the single scan in the fused CPU kernel, which stores no intermediate results.

        The kernel takes one sequence. Where the block sees another one than the residual, the residual is added here.
        """
        from mambamatcher.ops.refinement import Head, as_array, block_weights, refine  # importing Numba takes 0.3 s

        norm = self.norms[0]
        affine = (as_array(norm.weight), as_array(norm.bias)) if isinstance(norm, nn.LayerNorm) else (None, None)
        residual_in_kernel = self.residual and seen is sequence
        head = Head(
            as_array(self.project.weight), as_array(self.project.bias), affine[0], affine[1], residual_in_kernel
        )
        block = self.scans[0].get_submodule("blocks.0").state_dict()
        if len(self.scales):
            block["out_proj.weight"] = self.scales[0].detach()[:, None] * block["out_proj.weight"]
        weights = block_weights(block)
        refined = refine(seen, order, weights, head, self.discretization)
        if self.residual and not residual_in_kernel:
            refined = refined + (sequence @ self.project.weight.T).squeeze(-1)
        return refined


@CORRELATION_AGGREGATIONS.register("similarity_scan")
@dataclass(frozen=True, kw_only=True, slots=True)
class SimilarityScanAggregation(CorrelationConfig):
    """All rows "Mamba4D" of the paper's correlation table; the defaults are the paper's model.

    Attributes:
        orders: Scan orders. Each has its own block and their outputs are summed; ("raster", "reverse_raster") is the
            bidirectional row.
        sort_key: Similarity that the similarity-aware orders sort by.
        positional: Positional encoding that the blocks see besides the scores. It is not part of the residual.
        depth: Number of scan layers.
        norm: Whether each layer starts with a LayerNorm.
        residual: Whether each layer adds its input to its output.
        identity_start: Initialise the scan to add zero, so that it can be added to a model trained without it.
        layer_scale: Start of a learnt factor per level of what each layer adds. A small one lets the scan start as
            almost nothing and still learn at once, which `identity_start` does not.
        standardize: Whether the blocks see each level with mean 0 and deviation 1 over the pair.
        steered: Whether a learnt function of source position, target position and their displacement is added to Δ, B
            and C. The state is then a learnt vote of earlier matches on later ones. Not in the paper.
        scope: What one scan runs over: all scores of a pair as in the paper, or those of one source or target position.
        mamba: Sizes of the Mamba block.
    """

    orders: tuple[str, ...] = ("descending",)
    sort_key: str = "last"
    positional: str = "none"
    depth: int = 1
    norm: bool = False
    residual: bool = True
    identity_start: bool = False
    layer_scale: float | None = None
    standardize: bool = False
    steered: bool = False
    scope: Literal["pair", "source", "target"] = "pair"
    mamba: MambaSettings = PAPER_BLOCK

    def __post_init__(self) -> None:
        if not self.orders:
            raise ConfigError("correlation.orders is empty; name at least one order")
        check_length("correlation", self, orders=MAX_ORDERS)
        check_bounds("correlation", self, depth=(1, 64))
        if self.identity_start and not self.residual:
            raise ConfigError("correlation.identity_start needs a residual; set identity_start=false or residual=true")
        if self.layer_scale is not None and not 0 < self.layer_scale <= 10:
            raise ConfigError(f"correlation.layer_scale must be above 0 and at most 10, got {self.layer_scale}")
        if self.scope != "pair" and self.positional != "none":
            raise ConfigError(
                f"correlation.positional={self.positional} is for scans over the pair; set scope=pair, or steered=true "
                f"with positional=none"
            )
        if self.steered and not self.mamba.state:
            raise ConfigError("correlation.steered=true needs a state; set mamba.state above 0 or steered=false")
        for registry, names in (
            (SCAN_ORDERS, self.orders),
            (SORT_KEYS, [self.sort_key]),
            (POSITIONAL_ENCODINGS, [self.positional]),
        ):
            for name in names:
                registry[name]

    def build(self, levels: int) -> SimilarityScan:
        """Build the aggregator."""
        return SimilarityScan(levels, self)


@torch.no_grad()
def without_state(module: Module) -> Module:
    """Return a copy whose scans read nothing from their state: C = 0, so that y = D u.

    What the copy's scores lack is what the state, and so the order of the scan, contributes.
    """
    copy = deepcopy(module)
    for scan in copy.modules():
        if isinstance(scan, OrderedScan):
            for index, block in enumerate(scan.blocks):
                assert isinstance(block, SelectiveBlock)
                for projection in (block.x_proj, *scan.steering[index : index + 1]):
                    projection.get_parameter("weight")[block.rank + block.state :] = 0.0
    return copy
