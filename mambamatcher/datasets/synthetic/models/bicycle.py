"""Bicycles: two spoked wheels in a tube frame, with a front that steers."""

from math import cos, pi, radians, sin

from mambamatcher.datasets.synthetic.parts import (
    CATEGORIES,
    LEFT,
    Category,
    Frame,
    Keypoint,
    Material,
    Parameters,
    Part,
    Section,
    Vector,
)

_ROUND = 12
_TUBE = 0.022


def bicycle(p: Parameters) -> list[Part]:
    """Build a bicycle; the wheels are about one apart."""
    radius, base = p["wheel"], p["base"]
    rear = (-0.45 * base, 0.0, radius)
    crank = (-0.02, 0.0, 0.9 * radius)
    saddle = (-0.20, 0.0, radius + p["saddle"])
    head = (0.38 * base, 0.0, radius + p["head"])
    lower = (0.40 * base, 0.0, radius + p["head"] - 0.13)
    parts = [*_wheel("B", Frame(rear), radius), *_front(p, head)]
    joints = {
        "seat_tube": (crank, saddle), "top_tube": ((-0.17, 0.0, radius + 0.8 * p["saddle"]), head),
        "down_tube": (crank, lower), "chain_stay": (rear, crank),
        "seat_stay": (rear, (-0.16, 0.0, radius + 0.75 * p["saddle"])),
    }  # fmt: skip
    parts += [_tube(name, *ends) for name, ends in joints.items()]
    parts.append(_saddle(saddle))
    for side, left in (("L", 1.0), ("R", -1.0)):
        parts += _pedal(side, left, crank, radians(p["crank"] + (180 if left > 0 else 0)))
    return parts


def _tube(name: str, start: Vector, end: Vector, thick: float = _TUBE, material: Material = Material.COAT) -> Part:
    return Part(name, [(*start, thick, thick), (*end, thick, thick)], hint=LEFT, material=material)


def _wheel(label: str, hub: Frame, radius: float) -> list[Part]:
    """Bend a tyre and a rim round the hub, and stretch six spokes."""

    def ring(distance: float, across: float, along: float) -> list[Section]:
        angles = [2 * pi * step / _ROUND for step in range(_ROUND + 1)]
        return [(distance * cos(angle), 0.0, distance * sin(angle), across, along) for angle in angles]

    axle = hub.direction(0.0, 1.0, 0.0)
    tyre, rim = hub.sections(ring(radius, 0.035, 0.028)), hub.sections(ring(radius - 0.045, 0.016, 0.02))
    barrel = hub.sections([(0.0, y, 0.0, 0.03, 0.03) for y in (-0.05, 0.0, 0.05)])
    parts = [
        Part(f"{label}_tyre", tyre, hint=axle, material=Material.DARK, ends=(0.0, 0.0)),
        Part(f"{label}_rim", rim, hint=axle, material=Material.LIGHT, ends=(0.0, 0.0)),
        Part(f"{label}_hub", barrel, material=Material.LIGHT),
    ]
    for spoke in range(3):
        x, z = (radius - 0.04) * cos(pi * spoke / 3 + 0.3), (radius - 0.04) * sin(pi * spoke / 3 + 0.3)
        line = hub.sections([(-x, 0.0, -z, 0.006, 0.006), (x, 0.0, z, 0.006, 0.006)])
        parts.append(Part(f"{label}_spoke_{spoke}", line, hint=axle, material=Material.LIGHT))
    return parts


def _front(p: Parameters, head: Vector) -> list[Part]:
    """Turn fork, wheel and handlebar together about the head."""
    steer = Frame(head).turned(yaw=radians(p["steer"]))
    reach, rise, width = 0.17 * p["base"], p["bar_rise"], p["bar"]
    drop = p["wheel"] - head[2]
    hub = Frame(steer.point(reach, 0.0, drop), steer.axes)
    stem = steer.point(-0.05, 0.0, rise)
    parts = _wheel("F", hub, p["wheel"])
    parts += [
        _tube("fork", steer.point(0.0, 0.0, 0.02), hub.origin),
        _tube("stem", steer.point(0.02, 0.0, -0.10), stem),
    ]
    for side, left in (("L", 1.0), ("R", -1.0)):
        middle = steer.point(0.02, left * 0.6 * width, rise + 0.02)
        end = steer.point(-0.08, left * width, rise)
        sections = [(*stem, 0.018, 0.018), (*middle, 0.018, 0.018), (*end, 0.024, 0.024)]
        parts.append(Part(f"{side}_bar", sections, material=Material.DARK))
    return parts


def _saddle(top: Vector) -> Part:
    x, _, z = top
    sections = [
        (x - 0.14, 0.0, z + 0.03, 0.09, 0.035),
        (x, 0.0, z + 0.03, 0.06, 0.03),
        (x + 0.14, 0.0, z + 0.03, 0.025, 0.025),
    ]
    return Part("saddle", sections, material=Material.DARK)


def _pedal(side: str, left: float, crank: Vector, angle: float) -> list[Part]:
    x, z = crank[0] + 0.16 * cos(angle), crank[2] + 0.16 * sin(angle)
    arm = _tube(f"{side}_crank", (crank[0], left * 0.05, crank[2]), (x, left * 0.06, z), 0.014, Material.LIGHT)
    tread = [(x, left * 0.07, z, 0.02, 0.045), (x, left * 0.16, z, 0.02, 0.045)]
    return [arm, Part(f"{side}_pedal", tread, hint=(1.0, 0.0, 0.0), material=Material.DARK, squareness=0.6)]


def _keypoints() -> list[Keypoint]:
    points = [
        Keypoint("F_HubTop", "F_hub", 0.5),
        Keypoint("B_HubTop", "B_hub", 0.5),
        Keypoint("SaddleRear", "saddle", 0.2),
        Keypoint("SaddleTip", "saddle", 0.9),
        Keypoint("Head", "top_tube", 0.75),
        Keypoint("F_TyreTop", "F_tyre", 0.29, (0.0, 0.0, 1.0)),
        Keypoint("B_TyreTop", "B_tyre", 0.29, (0.0, 0.0, 1.0)),
    ]
    for side, left in (("L", 1.0), ("R", -1.0)):
        points += [
            Keypoint(f"{side}_Handle", f"{side}_bar", 1.0),
            Keypoint(f"{side}_Pedal", f"{side}_pedal", 0.75, (0.0, left, 1.0)),
            Keypoint(f"{side}_F_Axle", "F_hub", 1.0 if left > 0 else 0.0),
            Keypoint(f"{side}_B_Axle", "B_hub", 1.0 if left > 0 else 0.0),
        ]
    return points


_RANGES = {
    "wheel": (0.29, 0.35), "base": (1.0, 1.15), "saddle": (0.36, 0.52), "head": (0.34, 0.46), "steer": (-30, 30),
    "bar": (0.20, 0.32), "bar_rise": (0.08, 0.24), "crank": (0, 360),
}  # fmt: skip
CATEGORIES.register("bicycle")(Category(bicycle, _RANGES, _keypoints(), coat="paint", pitch=(0.0, 20.0)))
