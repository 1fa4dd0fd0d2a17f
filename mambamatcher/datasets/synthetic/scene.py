"""What a scene consists of: objects on common ground, a viewpoint, a lamp, scenery and things in the way."""

from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float

from mambamatcher.datasets.synthetic.backdrop import SHAPE_COLUMNS, Backdrop
from mambamatcher.datasets.synthetic.camera import Placement, Viewpoint
from mambamatcher.datasets.synthetic.coats import Coat
from mambamatcher.datasets.synthetic.develop import Exposure
from mambamatcher.datasets.synthetic.parts import Parameters


@dataclass(frozen=True, slots=True)
class Instance:
    """One object: its category, its shape and pose, and its look."""

    category: str
    parameters: Parameters
    coat: Coat


@dataclass(frozen=True, slots=True)
class Companion:
    """Another object on the same ground, turned by `yaw` degrees and set off to the viewer's right and backwards.

    Offsets and `scale` are in radii of the main object.
    """

    instance: Instance
    yaw: float
    right: float
    back: float
    scale: float = 1.0


@dataclass(frozen=True, slots=True)
class Lamp:
    """Where the light comes from (camera frame, towards the lamp) and how strong lamp and sky are."""

    direction: tuple[float, float, float] = (-0.45, -0.75, -0.5)
    strength: float = 1.0
    ambient: float = 0.45


@dataclass(frozen=True, slots=True)
class Scene:
    """All that decides what a picture looks like, except its size.

    `occluders` are shapes in front of everything, with the columns of `backdrop.SHAPE_COLUMNS`.
    """

    main: Instance
    viewpoint: Viewpoint
    backdrop: Backdrop
    placement: Placement = field(default_factory=Placement)
    lamp: Lamp = field(default_factory=Lamp)
    exposure: Exposure = field(default_factory=Exposure)
    companions: tuple[Companion, ...] = ()
    occluders: Float[np.ndarray, "shape column"] = field(default_factory=lambda: np.empty((0, SHAPE_COLUMNS)))

    @property
    def instances(self) -> tuple[Instance, ...]:
        """Return all objects, the main one first."""
        return (self.main, *(companion.instance for companion in self.companions))
