"""Everything a training run depends on except its data."""

from dataclasses import dataclass, field
from typing import Literal

from mambamatcher.datasets.transforms import Augmentation
from mambamatcher.errors import ConfigError
from mambamatcher.model.mambamatcher import ModelConfig


@dataclass(frozen=True, kw_only=True, slots=True)
class PseudoLabels:
    """SCorrSAN's pseudo-labels: around the annotated points, a teacher's matches are labels too.

    What differs from the publication (Huang et al., ECCV 2022): there two networks of different initialisation teach
    each other; here the teacher is a moving average of the model, which needs no second optimiser.

    Attributes:
        weight: Weight of the loss; 0 for none. Distances are in the unit frame, in which the image is 2 wide; a cell
            of the published 64x64 grid is 1/32, and its weight is 10 per cell.
        start: Step from which the labels are used. The publication waits for four epochs.
        ramp: Steps in which the share of labels that are used rises to its last value. The publication's are ten
            epochs.
        first_share: Share of the labels used at first: those that the model agrees with most.
        last_share: Share of the labels used after the ramp.
        reach: Largest distance of a labelled source position from an annotated point along either axis, in the unit
            frame. The default is the publication's, 3 of 64 cells.
        decay: Decay of the teacher's moving average.
    """

    weight: float = 0.0
    start: int = 0
    ramp: int = 1000
    first_share: float = 0.2
    last_share: float = 0.9
    reach: float = 3 * 2 / 64
    decay: float = 0.99

    def __post_init__(self) -> None:
        for name in ("weight", "start", "ramp"):
            if getattr(self, name) < 0:
                raise ConfigError(f"pseudo.{name} must not be negative, got {getattr(self, name)}")
        if not 0 < self.first_share <= self.last_share <= 1:
            raise ConfigError(
                f"pseudo.first_share and last_share must be above 0, at most 1 and in this order, got "
                f"{self.first_share} and {self.last_share}"
            )
        if not self.reach > 0:
            raise ConfigError(f"pseudo.reach must be positive, got {self.reach}")
        if not 0 < self.decay < 1:
            raise ConfigError(f"pseudo.decay must be between 0 and 1, got {self.decay}")

    def share(self, step: int) -> float:
        """Return the share of labels to use at a step."""
        done = min(1.0, (step - self.start) / self.ramp) if self.ramp else 1.0
        return self.first_share + (self.last_share - self.first_share) * done


@dataclass(frozen=True, kw_only=True, slots=True)
class Recipe:
    """The paper's recipe by default: Adam at a constant 1e-3, frozen backbone, 80 pairs per step, augmentation.

    The paper does not say how long it trains, so the default of `steps` is a choice of this package.

    A step is one update of the weights, from `effective_batch` pairs over all processes; `batch_size` of them are
    computed at a time. An epoch is `round_steps` steps; after each the model is validated and a checkpoint saved.

    With `group_images` above 2, other images of its category join each pair up to that number, and the loss is taken
    over all ordered pairs among them: many more pairs for the same passes through the backbone.

    `start` is a saved model's folder, or another run's checkpoint, to initialise from. Its configuration may differ in
    the correlation aggregation: what that model does not have keeps its own initialisation. To decay the learning rate
    at the end of a run with a constant one, start a short run with the cosine schedule from its checkpoint.

    `freeze_features` trains nothing but the correlation aggregation, on features that `start` gives.

    `layer_decay` is the ratio of a backbone block's learning rate to that of the block after it. `sides` are the input
    sides of training, an epoch each in turn; without any, it is the model's own, which validation always uses.
    """

    model: ModelConfig = field(default_factory=ModelConfig)
    start: str | None = None
    seed: int = 0
    steps: int = 20_000
    round_steps: int = 200
    effective_batch: int = 80
    batch_size: int = 10
    group_images: int = 2
    learning_rate: float = 1e-3
    correlation_learning_rate: float | None = None  # of the correlation aggregation, if not `learning_rate`
    backbone_learning_rate: float = 1e-5  # of the backbone's tuned blocks, if any
    freeze_features: bool = False
    layer_decay: float = 1.0
    weight_decay: float = 0.0
    sides: tuple[int, ...] = ()
    schedule: Literal["constant", "cosine"] = "constant"
    warmup_steps: int = 0
    averaging: float | None = None  # decay of an exponential moving average of the weights
    clip_norm: float | None = None
    keypoint_weight: float = 1.0
    cross_entropy_weight: float = 0.0
    absence_weight: float = 0.0  # of a binary cross-entropy: does the target show a keypoint at all?
    pseudo: PseudoLabels = field(default_factory=PseudoLabels)
    augment: bool = True
    augmentation: Augmentation = field(default_factory=Augmentation)
    workers: int = 2
    cache_gigabytes: float = 0.0  # of disk for a frozen backbone's features; needs augment=false

    def __post_init__(self) -> None:
        for name in ("steps", "round_steps", "effective_batch", "batch_size"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.group_images < 2:
            raise ConfigError(f"group_images must be at least 2, got {self.group_images}")
        if self.steps % self.round_steps:
            raise ConfigError(f"steps must be a multiple of round_steps {self.round_steps}, got {self.steps}")
        for name in ("learning_rate", "backbone_learning_rate", "correlation_learning_rate"):
            if getattr(self, name) is not None and not getattr(self, name) > 0:
                raise ConfigError(f"{name} must be positive, got {getattr(self, name)}")
        if self.freeze_features and (self.start is None or self.model.backbone.trainable_blocks):
            raise ConfigError("freeze_features needs a start whose features are trained, and trainable_blocks=0")
        if not 0 < self.layer_decay <= 1:
            raise ConfigError(f"layer_decay must be above 0 and at most 1, got {self.layer_decay}")
        if self.weight_decay < 0:
            raise ConfigError(f"weight_decay must not be negative, got {self.weight_decay}")
        if any(side < 1 for side in self.sides):
            raise ConfigError(f"sides must be positive, got {min(self.sides)}")
        if self.averaging is not None and not 0 < self.averaging < 1:
            raise ConfigError(f"averaging is a decay between 0 and 1, got {self.averaging}")
        if self.keypoint_weight <= 0 and self.cross_entropy_weight <= 0:
            raise ConfigError("both losses are weighted zero; set keypoint_weight or cross_entropy_weight")
        if self.absence_weight > 0 and self.cross_entropy_weight <= 0:
            raise ConfigError("absence_weight needs the cross-entropy of the other points; set cross_entropy_weight")
        if self.pseudo.weight > 0 and self.model.transfer.readout == "argmax":
            raise ConfigError(
                "an argmax passes no gradient to pseudo-labels; set model.transfer.readout or pseudo.weight=0"
            )
        if self.cache_gigabytes > 0 and self.augment:
            raise ConfigError("cached features are those of unaugmented images; set augment=false or cache_gigabytes=0")
        if self.cache_gigabytes > 0 and self.model.backbone.trainable_blocks:
            raise ConfigError("a tuned backbone's features change with every step; set cache_gigabytes=0")

    def accumulation(self, processes: int) -> int:
        """Return how many batches each process accumulates per step."""
        together = self.batch_size * processes
        if self.effective_batch % together:
            raise ConfigError(
                f"effective_batch {self.effective_batch} does not divide into {processes} process(es) of batch_size "
                f"{self.batch_size}; choose a multiple of {together}"
            )
        return self.effective_batch // together
