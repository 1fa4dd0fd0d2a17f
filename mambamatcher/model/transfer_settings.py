"""How target points are read from refined scores: the settings, for the readout in PyTorch and the one in NumPy."""

from dataclasses import dataclass
from typing import Literal

from mambamatcher.errors import ConfigError


@dataclass(frozen=True, kw_only=True, slots=True)
class Transfer:
    """How target points are read from the refined map. The defaults are the paper's equation; see also `SHARP`.

    Attributes:
        sigma: Standard deviation of the Gaussian around the best position, in the unit frame. The image is 2 wide
            there. The paper prints no value; 2/3 is TransforMatcher's, 10 cells of a grid of 30. A mean shift needs a
            much smaller one.
        temperature: Factor of the scores before the softmax. The paper's equation has none.
        scores: What the Gaussian of the kernel soft-argmax multiplies. "printed": the raw scores as in the paper's
            equation, which raises distant negative scores towards zero and so above nearby ones. "shifted": scores
            minus the minimum of their row, so that distant scores are only ever attenuated.
        readout: "kernel_soft_argmax" as in the paper; "mean_shift" for the mean of the softmax of the scores near the
            position around which it has most of its mass, so that many good positions outweigh a single best one; or
            "argmax" for the centre of the best position (nearest-neighbour baseline).
        blend: What the soft sampler averages over the grid positions around a source point. "points": their target
            points, as in the paper. "scores": their scores, from which a single target point is then read; if two
            positions disagree, the mean of their target points would match neither. An argmax always blends scores.
        radius: Radius of the soft sampler at inference, in the unit frame.
        training_radius: Radius of the soft sampler in training, in the unit frame.
        training_temperature: Factor of the scores in the cross-entropies, where it is not `temperature`: what reads the
            best matches need not be what a model learns with.
    """

    sigma: float = 2 / 3
    temperature: float = 1.0
    scores: Literal["shifted", "printed"] = "printed"
    readout: Literal["kernel_soft_argmax", "mean_shift", "argmax"] = "kernel_soft_argmax"
    blend: Literal["points", "scores"] = "points"
    radius: float = 0.05
    training_radius: float = 0.1
    training_temperature: float | None = None

    def __post_init__(self) -> None:
        for name in ("sigma", "temperature", "radius", "training_radius", "training_temperature"):
            if getattr(self, name) is not None and not getattr(self, name) > 0:
                raise ConfigError(f"transfer.{name} must be positive, got {getattr(self, name)}")

    @property
    def loss_temperature(self) -> float:
        """Factor of the scores in the cross-entropies."""
        return self.training_temperature or self.temperature

    @property
    def blends_scores(self) -> bool:
        """Whether target points are read from blended scores."""
        return self.blend == "scores" or self.readout == "argmax"


# This package's readout: it needs no learnt scale of the scores, so it also reads untrained models. The shipped models
# use it at their own temperature.
SHARP = Transfer(sigma=0.5, temperature=50.0, scores="shifted")

# The readout of SFNet, CATs, CATs++ and SCorrSAN: the mean over all positions, without a Gaussian. One so wide is none.
SOFT_ARGMAX = Transfer(sigma=1e4, temperature=50.0)
