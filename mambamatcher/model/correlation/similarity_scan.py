"""The similarity-aware selective scan: a Mamba block over all scores, highest first (Sec. 4.2)."""

from collections.abc import Callable
from dataclasses import dataclass

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
from mambamatcher.model.layers.mamba import MambaSettings
from mambamatcher.model.layers.positional import POSITIONAL_ENCODINGS
from mambamatcher.model.layers.scan_orders import MAX_ORDERS, SCAN_ORDERS
from mambamatcher.registry import Registry

Sequence = Float[Tensor, "batch position level"]
Similarity = Float[Tensor, "batch position"]

PAPER_BLOCK = MambaSettings(state=16, conv=4, expand=3)

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
        self.residual = config.residual
        self.discretization = config.mamba.discretization
        self.positional = POSITIONAL_ENCODINGS[config.positional](levels)
        self.norms = nn.ModuleList(nn.LayerNorm(levels) if config.norm else nn.Identity() for _ in range(config.depth))
        self.scans = nn.ModuleList(OrderedScan(levels, len(self.orders), config.mamba) for _ in range(config.depth))
        self.project = mean_of_levels(levels)
        if config.identity_start:
            for scan in self.scans.children():
                for block in scan.get_submodule("blocks").children():
                    nn.init.zeros_(block.get_submodule("out_proj").get_parameter("weight"))

    @property
    def can_be_fused(self) -> bool:
        """Whether the whole refinement fits the fused CPU kernel, which supports a single scan."""
        return len(self.scans) == len(self.orders) == 1

    def bytes_per_score(self, levels: int) -> int:
        """Estimate memory per score. The fused kernel needs the order, scratch space for sorting, and the score."""
        return 8 + 16 + FLOAT_BYTES if self.can_be_fused else super().bytes_per_score(levels)

    def forward(self, correlation: CorrelationMap) -> Refined:
        """Refine a correlation map."""
        shape = tuple(correlation.shape[2:])
        sequence = rearrange(correlation, "b level hs ws ht wt -> b (hs ws ht wt) level")
        similarity = self.sort_key(sequence).detach()
        orders = [order(similarity, shape) for order in self.orders]
        if self.can_be_fused and may_use_cpu_kernels(sequence):
            return self._fused(sequence, self.positional(sequence, shape), orders[0]).unflatten(1, shape)
        for norm, scan in zip(self.norms, self.scans, strict=True):
            # The block sees positions, the residual does not: the projection would turn them into a bias of the scores.
            scanned = scan(norm(self.positional(sequence, shape)), orders)
            sequence = sequence + scanned if self.residual else scanned
        return self.project(sequence).squeeze(-1).unflatten(1, shape)

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
        weights = block_weights(self.scans[0].get_submodule("blocks.0").state_dict())
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
        mamba: Sizes of the Mamba block.
    """

    orders: tuple[str, ...] = ("descending",)
    sort_key: str = "last"
    positional: str = "none"
    depth: int = 1
    norm: bool = False
    residual: bool = True
    identity_start: bool = False
    mamba: MambaSettings = PAPER_BLOCK

    def __post_init__(self) -> None:
        if not self.orders:
            raise ConfigError("correlation.orders is empty; name at least one order")
        check_length("correlation", self, orders=MAX_ORDERS)
        check_bounds("correlation", self, depth=(1, 64))
        if self.identity_start and not self.residual:
            raise ConfigError("correlation.identity_start needs a residual; set identity_start=false or residual=true")
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
