"""Fish: a body that bends as it swims, with fins."""

from math import cos, radians, sin

from mambamatcher.datasets.synthetic.parts import (
    CATEGORIES,
    Category,
    Frame,
    Keypoint,
    Material,
    Parameters,
    Part,
    Vector,
)


def fish(p: Parameters) -> list[Part]:
    """Build a fish about two long; `bend` curves it to the left."""
    tall, wide = p["tall"], p["wide"]
    profile = ((0.95, 0.16, 0.25), (0.70, 0.62, 0.80), (0.25, 1.0, 1.0), (-0.25, 0.85, 0.80), (-0.75, 0.28, 0.25))
    body = [(*_spine(p, x), wide * across, tall * along) for x, along, across in profile]
    end, tip = _spine(p, -0.72), _spine(p, -0.95 - p["tail"])
    middle = _spine(p, -0.85)
    tail = [(*end, 0.05, 0.20 * tall), (*middle, 0.035, 0.35 * tall), (*tip, 0.012, p["fan"])]
    parts = [
        Part("body", body),
        Part("tail", tail, material=Material.ACCENT, ends=(0.0, 0.0)),
        _upright(p, "dorsal", 1.0, (0.35, -0.35)),
        _upright(p, "anal", -1.0, (-0.10, -0.45)),
    ]
    for side, left in (("L", 1.0), ("R", -1.0)):
        parts += [_eye(p, side, left), _pectoral(p, side, left)]
    return parts


def _spine(p: Parameters, x: float) -> Vector:
    behind = max(0.3 - x, 0.0)
    return x, p["bend"] * behind * behind, 0.0


def _upright(p: Parameters, name: str, up: float, reach: tuple[float, float]) -> Part:
    """Raise a fin along the back (up 1) or the belly (-1)."""
    front, rear = reach
    base = 0.80 * p["tall"]
    (_, y_front, _), (_, y_rear, _) = _spine(p, front), _spine(p, rear)
    middle = (front + rear) / 2
    length, half = p["fin"] * p["tall"], (front - rear) / 2
    sections = [
        (middle, (y_front + y_rear) / 2, up * 0.6 * base, 0.03, half),
        (middle - 0.08, (y_front + y_rear) / 2, up * (base + 0.5 * length), 0.02, 0.85 * half),
        (middle - 0.22, (y_front + y_rear) / 2, up * (base + length), 0.008, 0.30 * half),
    ]
    return Part(name, sections, hint=(1.0, 0.0, 0.0), material=Material.ACCENT)


def _eye(p: Parameters, side: str, left: float) -> Part:
    size, y = 0.075, 0.60 * p["wide"]
    sections = [(0.74, left * y, 0.18 * p["tall"], size, size), (0.76, left * (y + 0.05), 0.18 * p["tall"], size, size)]
    return Part(f"{side}_eye", sections, material=Material.DARK, ends=(0.3, 0.3))


def _pectoral(p: Parameters, side: str, left: float) -> Part:
    fold, droop = radians(p["fold"]), radians(p["droop"])
    root = Frame((0.38, left * 0.80 * p["wide"], -0.20 * p["tall"]))
    out, rear, down = sin(fold) * cos(droop), cos(fold), sin(fold) * sin(droop)
    length = p["pectoral"]
    sections = [
        (0.0, 0.0, 0.0, 0.02, 0.06),
        (-0.55 * length * rear, left * 0.55 * length * out, -0.55 * length * down, 0.015, 0.12),
        (-length * rear, left * length * out, -length * down, 0.008, 0.06),
    ]
    return Part(f"{side}_pectoral", root.sections(sections), hint=(0.4, 0.0, 1.0), material=Material.TRIM)


def _keypoints() -> list[Keypoint]:
    points = [
        Keypoint("Mouth", "body", 0.0),
        Keypoint("DorsalTip", "dorsal", 1.0),
        Keypoint("DorsalBase", "body", 0.42),
        Keypoint("AnalFinTip", "anal", 1.0),
        Keypoint("TailUpperTip", "tail", 0.75, (0.0, 0.0, 1.0)),
        Keypoint("TailLowerTip", "tail", 0.75, (0.0, 0.0, -1.0)),
        Keypoint("TailBase", "tail", 0.35, (0.0, 0.0, 1.0)),
    ]
    for side, left in (("L", 1.0), ("R", -1.0)):
        points += [
            Keypoint(f"{side}_Eye", f"{side}_eye", 1.0),
            Keypoint(f"{side}_PectoralTip", f"{side}_pectoral", 1.0),
            Keypoint(f"{side}_Flank", "body", 0.6, (0.0, left, 0.0)),
            Keypoint(f"{side}_Gill", "body", 0.38, (0.0, left, 0.0)),
        ]
    return points


_RANGES = {
    "tall": (0.28, 0.50), "wide": (0.14, 0.22), "bend": (-0.25, 0.25), "tail": (0.12, 0.35), "fan": (0.22, 0.42),
    "fin": (0.30, 0.75), "pectoral": (0.25, 0.42), "fold": (30, 75), "droop": (10, 60),
}  # fmt: skip
CATEGORIES.register("fish")(Category(fish, _RANGES, _keypoints(), coat="plumage", grounded=False, pitch=(-20.0, 25.0)))
