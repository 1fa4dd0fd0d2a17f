"""Cars: a boxy body, a cabin with glass, four wheels and lamps."""

from mambamatcher.datasets.synthetic.body import FORWARD, Keypoint, Part, both_sides
from mambamatcher.datasets.synthetic.category import CATEGORIES, Category, Parameters
from mambamatcher.datasets.synthetic.coat import Material


def car(p: Parameters) -> list[Part]:
    """Build a car; one unit is about half its length."""
    length, width, half = p["length"], p["width"], 0.5 * p["depth"]
    middle = p["clearance"] + half
    body = [
        (-length, 0.0, middle + 0.02, 0.88 * width, 0.80 * half),
        (-0.90 * length, 0.0, middle + 0.01, 0.98 * width, 0.98 * half),
        (-0.30 * length, 0.0, middle, width, half),
        (0.40 * length, 0.0, middle, width, half),
        (0.85 * length, 0.0, middle - 0.04, 0.96 * width, half - 0.05),
        (length, 0.0, middle - 0.07, 0.84 * width, half - 0.11),
    ]
    parts = [Part("body", body, squareness=0.75, ends=(0.25, 0.35)), *_cabin(p, middle + half)]
    for end, ahead in (("F", 1.0), ("B", -1.0)):
        parts += [*_wheel(p, end, ahead), *_lamp_and_bumper(p, end, ahead)]
    return both_sides(*parts)


def _cabin(p: Parameters, waist: float) -> list[Part]:
    """Put a dark glass house on the waist, with pillars, a roof and mirrors in body colour."""
    width, tall = p["width"], p["cabin"]
    front, rear = p["bonnet"] * p["length"], -p["boot"] * p["length"]
    top_front, top_rear, top = front - p["rake"] * tall, rear + 0.45 * p["rake"] * tall, waist + 0.88 * tall
    centre, half = (top_front + top_rear) / 2, (top_front - top_rear) / 2
    base = ((front + rear) / 2, 0.0, waist - 0.06, 0.93 * width, (front - rear) / 2)
    glass = [base, (centre, 0.0, top, 0.76 * width, half)]
    roof = [
        (centre, 0.0, waist + 0.84 * tall, 0.80 * width, half + 0.02),
        (centre, 0.0, waist + tall, 0.70 * width, half - 0.04),
    ]
    x = front - 0.12
    mirror = [(x, 0.92 * width, waist + 0.05, 0.04, 0.05), (x - 0.02, 1.16 * width, waist + 0.07, 0.05, 0.07)]
    parts = [
        Part("glass", glass, hint=FORWARD, material=Material.DARK, squareness=0.8, ends=(0.0, 0.0)),
        Part("roof", roof, hint=FORWARD, squareness=0.8, ends=(0.0, 0.12)),
        Part("*_mirror", mirror),
    ]
    for end, foot, head in (("F", front, top_front), ("M", 0.0, 0.0), ("B", rear, top_rear)):
        pillar = [(foot, 0.92 * width, waist - 0.05, 0.035, 0.045), (head, 0.75 * width, top, 0.035, 0.045)]
        parts.append(Part(f"*_{end}_pillar", pillar, hint=(1.0, 0.0, 0.2), squareness=0.4))
    return parts


def _wheel(p: Parameters, end: str, ahead: float) -> list[Part]:
    """Set a tyre and a hub; their axis points outwards."""
    x, width, radius = ahead * p["wheelbase"] * p["length"], p["width"], p["wheel"]
    outline = ((0.72, 0.96), (0.80, 1.0), (0.98, 1.0), (1.03, 0.90))
    tyre = [(x, y * width, radius, share * radius, share * radius) for y, share in outline]
    hub = [(x, y * width, radius, share * radius, share * radius) for y, share in ((0.95, 0.60), (1.05, 0.56))]
    return [
        Part(f"*_{end}_tyre", tyre, material=Material.DARK, ends=(0.0, 0.02)),
        Part(f"*_{end}_hub", hub, material=Material.LIGHT, ends=(0.0, 0.12)),
    ]


def _lamp_and_bumper(p: Parameters, end: str, ahead: float) -> list[Part]:
    x, width, low = ahead * p["length"], p["width"], p["clearance"]
    z, material = (0.52, Material.LIGHT) if ahead > 0 else (0.66, Material.ACCENT)
    lamp = [(share * x, 0.66 * width, low + z * p["depth"], 0.14 * width, 0.065) for share in (0.92, 1.02)]
    outline = ((1.04, 0.0), (1.04, 0.60), (0.90, 0.92))
    bumper = [(along * x, across * width, low + 0.10, 0.07, 0.07) for along, across in outline]
    return [
        Part(f"*_{end}_lamp", lamp, material=material, squareness=0.3, ends=(0.0, 0.4)),
        Part(f"*_{end}_bumper", bumper, material=Material.TRIM, squareness=0.3, ends=(0.0, 1.0)),
    ]


_KEYPOINTS = both_sides(
    Keypoint("*_F_WheelCenter", "*_F_hub", 1.0),
    Keypoint("*_B_WheelCenter", "*_B_hub", 1.0),
    Keypoint("*_HeadLight", "*_F_lamp", 1.0),
    Keypoint("*_TailLight", "*_B_lamp", 1.0),
    Keypoint("*_F_RoofTop", "roof", 0.5, (1.0, 1.0, 0.0)),
    Keypoint("*_B_RoofTop", "roof", 0.5, (-1.0, 1.0, 0.0)),
    Keypoint("*_SideviewMirror", "*_mirror", 0.75, (0.0, 0.5, 1.0)),
    Keypoint("*_F_Bumper", "*_F_bumper", 0.5, FORWARD),
    Keypoint("*_B_Bumper", "*_B_bumper", 0.5, (-1.0, 0.0, 0.0)),
)
_RANGES = {
    "length": (0.95, 1.2), "width": (0.40, 0.50), "depth": (0.32, 0.44), "clearance": (0.14, 0.24),
    "cabin": (0.26, 0.40), "bonnet": (0.30, 0.58), "boot": (0.45, 0.92), "rake": (0.4, 1.1),
    "wheel": (0.18, 0.24), "wheelbase": (0.58, 0.66),
}  # fmt: skip
CATEGORIES.register("car")(Category(car, _RANGES, _KEYPOINTS, look="paint", pitch=(0.0, 25.0)))
