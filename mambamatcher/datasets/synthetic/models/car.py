"""Cars: a boxy body, a cabin with glass, four wheels and lamps."""

from mambamatcher.datasets.synthetic.parts import CATEGORIES, FORWARD, Category, Keypoint, Material, Parameters, Part

_ENDS = (("F", 1.0), ("B", -1.0))
_SIDES = (("L", 1.0), ("R", -1.0))


def car(p: Parameters) -> list[Part]:
    """Build a car; one unit is about half its length."""
    length, width, waist = p["length"], p["width"], p["clearance"] + p["depth"]
    middle = p["clearance"] + 0.5 * p["depth"]
    half = 0.5 * p["depth"]
    body = [
        (-length, 0.0, middle + 0.02, 0.88 * width, 0.80 * half),
        (-0.90 * length, 0.0, middle + 0.01, 0.98 * width, 0.98 * half),
        (-0.30 * length, 0.0, middle, width, half),
        (0.40 * length, 0.0, middle, width, half),
        (0.85 * length, 0.0, middle - 0.04, 0.96 * width, half - 0.05),
        (length, 0.0, middle - 0.07, 0.84 * width, half - 0.11),
    ]
    parts = [Part("body", body, squareness=0.75, ends=(0.25, 0.35)), *_cabin(p, waist)]
    for end, ahead in _ENDS:
        parts.append(_bumper(p, end, ahead))
        for side, left in _SIDES:
            parts += _wheel(p, f"{side}_{end}", left, ahead)
            parts.append(_lamp(p, f"{side}_{end}", left, ahead))
    return [*parts, *(_mirror(p, side, left, waist) for side, left in _SIDES)]


def _cabin(p: Parameters, waist: float) -> list[Part]:
    """Put a dark glass house on the waist, and a roof in body colour on that."""
    length, width, tall = p["length"], p["width"], p["cabin"]
    front, rear = p["bonnet"] * length, -p["boot"] * length
    top_front, top_rear = front - p["rake"] * tall, rear + 0.45 * p["rake"] * tall
    levels = ((waist - 0.06, front, rear, 0.93), (waist + 0.88 * tall, top_front, top_rear, 0.76))
    glass = [((f + r) / 2, 0.0, z, share * width, (f - r) / 2) for z, f, r, share in levels]
    roof = [
        ((top_front + top_rear) / 2, 0.0, waist + 0.84 * tall, 0.80 * width, (top_front - top_rear) / 2 + 0.02),
        ((top_front + top_rear) / 2, 0.0, waist + tall, 0.70 * width, (top_front - top_rear) / 2 - 0.04),
    ]
    parts = [
        Part("glass", glass, hint=FORWARD, material=Material.DARK, squareness=0.8, ends=(0.0, 0.0), straight=True),
        Part("roof", roof, hint=FORWARD, squareness=0.8, ends=(0.0, 0.12)),
    ]
    height = (waist - 0.05, waist + 0.88 * tall)
    for side, left in _SIDES:
        parts += [
            _pillar(f"{side}_F_pillar", left * 0.90 * width, (front, top_front), height),
            _pillar(f"{side}_M_pillar", left * 0.955 * width, (0.0, 0.0), height),
            _pillar(f"{side}_B_pillar", left * 0.90 * width, (rear, top_rear), height),
        ]
    return parts


def _pillar(name: str, side: float, forward: tuple[float, float], height: tuple[float, float]) -> Part:
    sections = [
        (forward[0], side, height[0], 0.035, 0.045),
        (forward[1], 0.815 * side, height[1], 0.035, 0.045),
    ]
    return Part(name, sections, hint=(1.0, 0.0, 0.2), squareness=0.4, straight=True)


def _wheel(p: Parameters, name: str, left: float, ahead: float) -> list[Part]:
    """Set a tyre and a hub; their axis points outwards."""
    radius, x, y = p["wheel"], ahead * p["wheelbase"] * p["length"], left * p["width"]
    tyre = [
        (x, 0.72 * y, radius, 0.96 * radius, 0.96 * radius),
        (x, 0.80 * y, radius, radius, radius),
        (x, 0.98 * y, radius, radius, radius),
        (x, 1.03 * y, radius, 0.90 * radius, 0.90 * radius),
    ]
    hub = [
        (x, 0.95 * y, radius, 0.60 * radius, 0.60 * radius),
        (x, 1.05 * y, radius, 0.56 * radius, 0.56 * radius),
    ]
    return [
        Part(f"{name}_tyre", tyre, material=Material.DARK, ends=(0.0, 0.02), straight=True),
        Part(f"{name}_hub", hub, material=Material.LIGHT, ends=(0.0, 0.12), straight=True),
    ]


def _lamp(p: Parameters, name: str, left: float, ahead: float) -> Part:
    x, y = ahead * p["length"], left * 0.66 * p["width"]
    z = p["clearance"] + (0.52 if ahead > 0 else 0.66) * p["depth"]
    sections = [(0.92 * x, y, z, 0.15 * p["width"], 0.07), (1.02 * x, y, z, 0.13 * p["width"], 0.06)]
    material = Material.LIGHT if ahead > 0 else Material.ACCENT
    return Part(f"{name}_lamp", sections, material=material, squareness=0.3, ends=(0.0, 0.4), straight=True)


def _bumper(p: Parameters, end: str, ahead: float) -> Part:
    x, width, z = ahead * p["length"], p["width"], p["clearance"] + 0.10
    sections = [
        (0.90 * x, -0.92 * width, z, 0.07, 0.07),
        (1.04 * x, -0.60 * width, z, 0.07, 0.07),
        (1.04 * x, 0.60 * width, z, 0.07, 0.07),
        (0.90 * x, 0.92 * width, z, 0.07, 0.07),
    ]
    return Part(f"{end}_bumper", sections, material=Material.TRIM, squareness=0.3)


def _mirror(p: Parameters, side: str, left: float, waist: float) -> Part:
    x, y = p["bonnet"] * p["length"] - 0.12, left * p["width"]
    sections = [(x, 0.92 * y, waist + 0.05, 0.04, 0.05), (x - 0.02, 1.16 * y, waist + 0.07, 0.05, 0.07)]
    return Part(f"{side}_mirror", sections)


def _keypoints() -> list[Keypoint]:
    points = []
    for side, left in _SIDES:
        points += [
            Keypoint(f"{side}_F_WheelCenter", f"{side}_F_hub", 1.0),
            Keypoint(f"{side}_B_WheelCenter", f"{side}_B_hub", 1.0),
            Keypoint(f"{side}_HeadLight", f"{side}_F_lamp", 1.0),
            Keypoint(f"{side}_TailLight", f"{side}_B_lamp", 1.0),
            Keypoint(f"{side}_F_RoofTop", "roof", 0.5, (1.0, left, 0.0)),
            Keypoint(f"{side}_B_RoofTop", "roof", 0.5, (-1.0, left, 0.0)),
            Keypoint(f"{side}_SideviewMirror", f"{side}_mirror", 0.75, (0.0, 0.5 * left, 1.0)),
            Keypoint(f"{side}_F_Bumper", "F_bumper", 0.67 if left > 0 else 0.33, (1.0, 0.0, 0.0)),
            Keypoint(f"{side}_B_Bumper", "B_bumper", 0.67 if left > 0 else 0.33, (-1.0, 0.0, 0.0)),
        ]
    return points


_RANGES = {
    "length": (0.95, 1.2), "width": (0.40, 0.50), "depth": (0.32, 0.44), "clearance": (0.14, 0.24),
    "cabin": (0.26, 0.40), "bonnet": (0.30, 0.58), "boot": (0.45, 0.92), "rake": (0.4, 1.1),
    "wheel": (0.18, 0.24), "wheelbase": (0.58, 0.66),
}  # fmt: skip
CATEGORIES.register("car")(Category(car, _RANGES, _keypoints(), coat="paint", pitch=(0.0, 25.0)))
