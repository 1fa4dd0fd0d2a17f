"""Chairs: four legs, a seat and a back, with or without much of each."""

from mambamatcher.datasets.synthetic.body import FORWARD, Keypoint, Part, both_sides
from mambamatcher.datasets.synthetic.category import CATEGORIES, Category, Parameters
from mambamatcher.datasets.synthetic.coat import Material

_UPRIGHT = (1.0, 0.0, 0.1)


def chair(p: Parameters) -> list[Part]:
    """Build a chair with its seat at about half a unit."""
    width, depth, seat, thick = p["width"], p["depth"], p["seat"], p["thick"]
    top, lean, rear = seat + p["back"], p["lean"] * p["back"], 0.03 - depth
    board = [(0.0, 0.0, seat - thick, width, depth), (0.0, 0.0, seat + thick, width, depth)]
    back = [
        (rear - lean * p["gap"], 0.0, seat + p["gap"] * p["back"], width, 0.6 * thick),
        (rear - lean, 0.0, top, 0.95 * width, 0.6 * thick),
    ]
    post = [
        (rear, width - 0.03, seat, 0.03, 0.03),
        (rear - lean, 0.95 * (width - 0.03), top, 0.03, 0.03),
    ]
    return both_sides(
        Part("seat", board, hint=FORWARD, squareness=0.85, ends=(0.0, 0.08)),
        Part("back", back, hint=FORWARD, material=Material.TRIM, squareness=0.8, ends=(0.2, 0.3)),
        Part("*_post", post, hint=_UPRIGHT, material=Material.ACCENT, squareness=0.5),
        _leg(p, "*_F_leg", depth - 0.05),
        _leg(p, "*_B_leg", 0.05 - depth),
    )


def _leg(p: Parameters, name: str, x: float) -> Part:
    y, thick, splay = p["width"] - 0.05, p["leg"], 1 + p["splay"]
    sections = [(x, y, p["seat"] - 0.01, thick, thick), (x * splay, y * splay, 0.0, 0.75 * thick, 0.75 * thick)]
    return Part(name, sections, hint=_UPRIGHT, material=Material.ACCENT, squareness=0.5, ends=(0.0, 0.1))


_KEYPOINTS = both_sides(
    Keypoint("*_F_LegEnd", "*_F_leg", 0.66, (1.0, 1.0, 0.0)),
    Keypoint("*_B_LegEnd", "*_B_leg", 0.66, (-1.0, 1.0, 0.0)),
    Keypoint("*_F_SeatCorner", "seat", 0.7, (1.0, 1.0, 0.0)),
    Keypoint("*_B_SeatCorner", "seat", 0.7, (-1.0, 1.0, 0.0)),
    Keypoint("*_BackTop", "*_post", 1.0),
    Keypoint("*_BackBottom", "*_post", 0.35, (0.3, 1.0, 0.0)),
)
_RANGES = {
    "width": (0.24, 0.34), "depth": (0.24, 0.32), "seat": (0.42, 0.58), "thick": (0.02, 0.05), "back": (0.38, 0.70),
    "lean": (0.0, 0.35), "gap": (0.05, 0.55), "splay": (0.0, 0.25), "leg": (0.025, 0.045),
}  # fmt: skip
CATEGORIES.register("chair")(Category(chair, _RANGES, _KEYPOINTS, look="wood", pitch=(5.0, 40.0)))
