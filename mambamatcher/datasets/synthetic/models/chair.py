"""Chairs: four legs, a seat and a back, with or without much of each."""

from mambamatcher.datasets.synthetic.parts import CATEGORIES, Category, Keypoint, Material, Parameters, Part


def chair(p: Parameters) -> list[Part]:
    """Build a chair with its seat at about half a unit."""
    width, depth, seat, thick = p["width"], p["depth"], p["seat"], p["thick"]
    parts = [_board("seat", (0.0, seat), (width, depth, thick))]
    top, lean = seat + p["back"], p["lean"] * p["back"]
    rest = [
        (-depth + 0.03 - lean * p["gap"], 0.0, seat + p["gap"] * p["back"], width, 0.6 * thick),
        (-depth + 0.03 - lean, 0.0, top, 0.95 * width, 0.6 * thick),
    ]
    parts.append(
        Part("back", rest, hint=(1.0, 0.0, 0.0), material=Material.TRIM, squareness=0.8, ends=(0.2, 0.3), straight=True)
    )
    for side, left in (("L", 1.0), ("R", -1.0)):
        for end, ahead in (("F", 1.0), ("B", -1.0)):
            parts.append(_leg(p, f"{side}_{end}_leg", left, ahead))
        post = [
            (-depth + 0.03, left * (width - 0.03), seat, 0.03, 0.03),
            (-depth + 0.03 - lean, left * 0.95 * (width - 0.03), top, 0.03, 0.03),
        ]
        parts.append(Part(f"{side}_post", post, hint=(1.0, 0.0, 0.1), material=Material.ACCENT, squareness=0.5))
    return parts


def _board(name: str, place: tuple[float, float], half: tuple[float, float, float]) -> Part:
    """Lay a board: its width, depth and thickness are half sizes, its loft runs upwards."""
    (x, z), (width, depth, thick) = place, half
    sections = [(x, 0.0, z - thick, width, depth), (x, 0.0, z + thick, width, depth)]
    return Part(name, sections, hint=(1.0, 0.0, 0.0), squareness=0.85, ends=(0.0, 0.08), straight=True)


def _leg(p: Parameters, name: str, left: float, ahead: float) -> Part:
    splay = 1 + p["splay"]
    x, y = ahead * (p["depth"] - 0.05), left * (p["width"] - 0.05)
    sections = [
        (x, y, p["seat"] - 0.01, p["post"], p["post"]),
        (x * splay, y * splay, 0.0, 0.75 * p["post"], 0.75 * p["post"]),
    ]
    return Part(
        name, sections, hint=(1.0, 0.0, 0.1), material=Material.ACCENT, squareness=0.5, ends=(0.0, 0.1), straight=True
    )


def _keypoints() -> list[Keypoint]:
    points = []
    for side, left in (("L", 1.0), ("R", -1.0)):
        points += [
            Keypoint(f"{side}_F_LegEnd", f"{side}_F_leg", 0.66, (1.0, left, 0.0)),
            Keypoint(f"{side}_B_LegEnd", f"{side}_B_leg", 0.66, (-1.0, left, 0.0)),
            Keypoint(f"{side}_F_SeatCorner", "seat", 0.7, (1.0, left, 0.0)),
            Keypoint(f"{side}_B_SeatCorner", "seat", 0.7, (-1.0, left, 0.0)),
            Keypoint(f"{side}_BackTop", f"{side}_post", 1.0),
            Keypoint(f"{side}_BackBottom", f"{side}_post", 0.35, (0.3, left, 0.0)),
        ]
    return points


_RANGES = {
    "width": (0.24, 0.34), "depth": (0.24, 0.32), "seat": (0.42, 0.58), "thick": (0.02, 0.05), "back": (0.38, 0.70),
    "lean": (0.0, 0.35), "gap": (0.05, 0.55), "splay": (0.0, 0.25), "post": (0.025, 0.045),
}  # fmt: skip
CATEGORIES.register("chair")(Category(chair, _RANGES, _keypoints(), coat="wood", pitch=(5.0, 40.0)))
