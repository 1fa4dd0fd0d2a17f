"""What an object is built of: parts, joints that place them, and keypoints on them.

Object frame: x forward, y to the object's own left, z up; right-handed, in arbitrary units. A part or keypoint with `*`
in its name, like `*_eye`, is given for the left side and stands for one on each side.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import cos, radians, sin
from typing import TypeVar

from mambamatcher.datasets.synthetic.coat import Material

Vector = tuple[float, float, float]
Section = tuple[float, float, float, float, float]

FORWARD: Vector = (1.0, 0.0, 0.0)
LEFT: Vector = (0.0, 1.0, 0.0)
UP: Vector = (0.0, 0.0, 1.0)


@dataclass(frozen=True, slots=True)
class Part:
    """A closed surface lofted through sections `(x, y, z, across, along)`.

    A section is a superellipse perpendicular to the centre line: `along` is its half size in the direction of `hint`,
    `across` the one perpendicular to both. `ends` says how far the caps bulge: 0 is flat, 1 a hemisphere.
    """

    name: str
    sections: Sequence[Section]
    hint: Vector = UP
    material: Material = Material.COAT
    squareness: float = 0.0
    ends: tuple[float, float] = (1.0, 1.0)

    def on_side(self, side: str) -> "Part":
        """Return a part given for the left side as it is on `side`, `L` or `R`."""
        sections = [(*_mirror((x, y, z), side), across, along) for x, y, z, across, along in self.sections]
        return replace(self, name=self.name.replace("*", side), sections=sections, hint=_mirror(self.hint, side))


@dataclass(frozen=True, slots=True)
class Keypoint:
    """A named surface point: `at` runs from one end of a part (0) to the other (1), `direction` picks the side."""

    name: str
    part: str
    at: float
    direction: Vector = UP

    def on_side(self, side: str) -> "Keypoint":
        """Return a keypoint given for the left side as it is on `side`, `L` or `R`."""
        name, part = self.name.replace("*", side), self.part.replace("*", side)
        return Keypoint(name, part, self.at, _mirror(self.direction, side))


Sided = TypeVar("Sided", Part, Keypoint)


def both_sides(*items: Sided) -> list[Sided]:
    """Return those with `*` in their names once for each side, and the others as they are."""
    return [item.on_side(side) for item in items for side in ("LR" if "*" in item.name else "L")]


def _mirror(vector: Vector, side: str) -> Vector:
    x, y, z = vector
    return (x, y, z) if side == "L" else (x, -y, z)


@dataclass(frozen=True, slots=True)
class Joint:
    """Where a group of parts sits, turned to the left by `yaw` and upwards by `pitch`, in degrees."""

    origin: Vector
    yaw: float = 0.0
    pitch: float = 0.0

    def direction(self, vector: Vector) -> Vector:
        """Return the object-frame direction of a local one."""
        cy, sy = cos(radians(self.yaw)), sin(radians(self.yaw))
        cp, sp = cos(radians(self.pitch)), sin(radians(self.pitch))
        x, y, z = vector
        forward, up = cp * x - sp * z, sp * x + cp * z
        return cy * forward - sy * y, sy * forward + cy * y, up

    def point(self, x: float, y: float, z: float) -> Vector:
        """Return the object-frame position of a local point."""
        dx, dy, dz = self.direction((x, y, z))
        return self.origin[0] + dx, self.origin[1] + dy, self.origin[2] + dz

    def place(self, part: Part) -> Part:
        """Move a part from local coordinates to the object frame."""
        sections = [(*self.point(x, y, z), across, along) for x, y, z, across, along in part.sections]
        return replace(part, sections=sections, hint=self.direction(part.hint))
