"""Aeroplanes: a fuselage, swept wings with engines under them, and a tail."""

from math import radians, tan

from mambamatcher.datasets.synthetic.parts import CATEGORIES, Category, Keypoint, Material, Parameters, Part

_CHORD = (1.0, 0.0, 0.0)


def aeroplane(p: Parameters) -> list[Part]:
    """Build an aeroplane; half its length is about one."""
    length, girth = p["length"], p["girth"]
    fuselage = [
        (-length, 0.0, 0.35 * girth, 0.12 * girth, 0.16 * girth),
        (-0.55 * length, 0.0, 0.12 * girth, 0.75 * girth, 0.80 * girth),
        (0.0, 0.0, 0.0, girth, girth),
        (0.65 * length, 0.0, 0.0, girth, girth),
        (0.88 * length, 0.0, -0.08 * girth, 0.75 * girth, 0.72 * girth),
        (length, 0.0, -0.18 * girth, 0.30 * girth, 0.28 * girth),
    ]
    windscreen = [
        (0.78 * length, 0.0, 0.42 * girth, 0.70 * girth, 0.42 * girth),
        (0.90 * length, 0.0, 0.22 * girth, 0.56 * girth, 0.34 * girth),
    ]
    stripe = [
        (-0.55 * length, 0.0, 0.15 * girth, 0.80 * girth, 0.16 * girth),
        (0.0, 0.0, 0.12 * girth, 1.02 * girth, 0.16 * girth),
        (0.72 * length, 0.0, 0.10 * girth, 0.99 * girth, 0.14 * girth),
    ]
    parts = [
        Part("fuselage", fuselage),
        Part("windscreen", windscreen, material=Material.DARK),
        Part("windows", stripe, material=Material.ACCENT),
        _fin(p),
    ]
    for side, left in (("L", 1.0), ("R", -1.0)):
        parts += [_wing(p, side, left), _tailplane(p, side, left), _engine(p, side, left)]
    return parts


def _wing(p: Parameters, side: str, left: float) -> Part:
    span, chord, root = p["span"], p["chord"], -0.35 * p["girth"]
    sweep, rise = tan(radians(p["sweep"])), tan(radians(p["dihedral"]))
    shares = ((0.0, 1.0), (0.35, 0.72), (1.0, p["taper"]))
    sections = [
        (
            0.15 - sweep * share * span,
            left * share * span,
            root + rise * share * span,
            0.10 * chord * size,
            chord * size,
        )
        for share, size in shares
    ]
    return Part(f"{side}_wing", sections, hint=_CHORD, material=Material.TRIM, ends=(0.0, 0.6), straight=True)


def _tailplane(p: Parameters, side: str, left: float) -> Part:
    span, chord = 0.36 * p["span"], 0.50 * p["chord"]
    x, z = -0.86 * p["length"], 0.35 * p["girth"]
    sweep = 0.8 * tan(radians(p["sweep"]))
    sections = [
        (x, 0.0, z, 0.09 * chord, chord),
        (x - sweep * span, left * span, z + 0.06, 0.05 * chord, 0.55 * chord),
    ]
    return Part(f"{side}_tailplane", sections, hint=_CHORD, material=Material.TRIM, ends=(0.0, 0.6), straight=True)


def _fin(p: Parameters) -> Part:
    tall, chord, x = p["fin"], 0.60 * p["chord"], -0.82 * p["length"]
    sections = [
        (x, 0.0, 0.2 * p["girth"], 0.08 * chord, 1.1 * chord),
        (x - 0.55 * tall, 0.0, 0.5 * p["girth"] + tall, 0.05 * chord, 0.6 * chord),
    ]
    return Part("fin", sections, hint=_CHORD, material=Material.COAT, ends=(0.0, 0.5), straight=True)


def _engine(p: Parameters, side: str, left: float) -> Part:
    along = p["engine_at"] * p["span"]
    x = 0.15 - tan(radians(p["sweep"])) * along + 0.10
    z = -0.35 * p["girth"] + tan(radians(p["dihedral"])) * along - p["engine"] - 0.02
    size = p["engine"]
    sections = [
        (x - 1.6 * size, left * along, z, 0.55 * size, 0.55 * size),
        (x, left * along, z, size, size),
        (x + 1.5 * size, left * along, z, 0.92 * size, 0.92 * size),
    ]
    return Part(f"{side}_engine", sections, material=Material.LIGHT, ends=(0.5, 0.0))


def _keypoints() -> list[Keypoint]:
    points = [
        Keypoint("NoseTip", "fuselage", 1.0),
        Keypoint("TailTip", "fuselage", 0.0),
        Keypoint("FinTip", "fin", 0.9, (-1.0, 0.0, 1.0)),
        Keypoint("FinBase", "fin", 0.45, (1.0, 0.0, 0.0)),
    ]
    for side, left in (("L", 1.0), ("R", -1.0)):
        points += [
            Keypoint(f"{side}_WingTip", f"{side}_wing", 0.9, (0.3, left, 0.0)),
            Keypoint(f"{side}_WingBaseFront", f"{side}_wing", 0.4, (1.0, 0.0, 0.0)),
            Keypoint(f"{side}_WingBaseRear", f"{side}_wing", 0.4, (-1.0, 0.0, 0.0)),
            Keypoint(f"{side}_Engine", f"{side}_engine", 1.0),
            Keypoint(f"{side}_TailplaneTip", f"{side}_tailplane", 0.8, (-1.0, left, 0.0)),
            Keypoint(f"{side}_Window", "windscreen", 0.6, (0.2, 0.8 * left, 0.2)),
        ]
    return points


_RANGES = {
    "length": (0.95, 1.15), "girth": (0.12, 0.17), "span": (0.85, 1.15), "chord": (0.17, 0.24), "sweep": (8, 35),
    "dihedral": (2, 9), "taper": (0.25, 0.5), "fin": (0.24, 0.36), "engine": (0.065, 0.095), "engine_at": (0.32, 0.42),
}  # fmt: skip
CATEGORIES.register("aeroplane")(
    Category(aeroplane, _RANGES, _keypoints(), coat="paint", grounded=False, pitch=(-25.0, 35.0))
)
