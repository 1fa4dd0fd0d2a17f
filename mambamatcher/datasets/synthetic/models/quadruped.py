"""Dogs, cats, horses and cows: one four-legged body with different ranges."""

from dataclasses import dataclass
from functools import partial
from math import cos, radians, sin

from mambamatcher.datasets.synthetic.parts import (
    CATEGORIES,
    LEFT,
    Category,
    Frame,
    Keypoint,
    Material,
    Parameters,
    Part,
    Vector,
)

_NECK_HINT = (-0.7, 0.0, 0.7)


@dataclass(frozen=True, slots=True)
class Species:
    """What one animal has and another has not."""

    hooved: bool = False
    horned: bool = False
    maned: bool = False


def quadruped(species: Species, p: Parameters) -> list[Part]:
    """Build a standing or walking animal; angles are in degrees, lengths relative to a trunk of about one."""
    length, girth = p["trunk"], p["girth"]
    height = p["leg"] + 0.8 * girth
    rear, front = -0.5 * length, 0.5 * length
    trunk = [
        (rear - 0.04, 0.0, height + 0.05, 0.55 * girth, 0.55 * girth),
        (rear + 0.12 * length, 0.0, height + 0.03, 0.85 * girth, 0.88 * girth),
        (-0.10 * length, 0.0, height + p["tuck"], 0.82 * girth, 0.85 * girth),
        (0.18 * length, 0.0, height - 0.01, 0.95 * girth, 1.05 * girth),
        (front - 0.08 * length, 0.0, height + 0.02, 0.85 * girth, 1.02 * girth),
        (front + 0.04 * length, 0.0, height + 0.05, 0.55 * girth, 0.68 * girth),
    ]
    parts = [Part("trunk", trunk), *_neck_and_head(species, p, (front - 0.08 * length, 0.0, height + 0.25 * girth))]
    for side, label in ((1.0, "L"), (-1.0, "R")):
        shoulder = (front - 0.10 * length, side * 0.42 * girth, height - 0.02)
        hip = (rear + 0.12 * length, side * 0.42 * girth, height + 0.02)
        parts += _front_leg(species, p, label, shoulder)
        parts += _hind_leg(species, p, label, hip)
    return [*parts, _tail(p, (rear - 0.02, 0.0, height + 0.30 * girth))]


def _swing(start: Vector, degrees: float, length: float) -> Vector:
    """Go down from a joint; positive angles swing forward."""
    angle = radians(degrees)
    return start[0] + length * sin(angle), start[1], start[2] - length * cos(angle)


def _neck_and_head(species: Species, p: Parameters, base: Vector) -> list[Part]:
    girth, angle = p["girth"], radians(p["neck_angle"])
    length, size = p["neck"], p["head"]
    reach = Frame(base).turned(yaw=radians(p["head_turn"]) * 0.4, pitch=angle)
    poll = reach.point(length, 0.0, 0.0)
    throat = max(0.36 * girth * p["neck_girth"], 0.55 * size)
    neck = [
        (-0.10, 0.0, 0.0, 0.62 * girth, 0.80 * girth),
        (0.35 * length, 0.0, 0.0, 0.50 * girth * p["neck_girth"], 0.66 * girth * p["neck_girth"]),
        (length, 0.0, 0.0, throat, 1.05 * throat),
    ]
    head = Frame(poll).turned(yaw=radians(p["head_turn"]), pitch=radians(p["head_tilt"]))
    parts = [Part("neck", reach.sections(neck), hint=_NECK_HINT), *_head(species, p, head)]
    return [*parts, _mane(p, reach, throat)] if species.maned else parts


def _mane(p: Parameters, reach: Frame, throat: float) -> Part:
    length, girth = p["neck"], p["girth"]
    sections = [
        (0.10 * length, 0.0, 0.62 * girth, 0.05, 0.10),
        (0.55 * length, 0.0, 0.40 * girth + 0.35 * throat, 0.06, 0.12),
        (1.05 * length, 0.0, 1.05 * throat, 0.06, 0.11),
        (1.20 * length, 0.0, 0.95 * throat, 0.05, 0.07),
    ]
    return Part("mane", reach.sections(sections), hint=_NECK_HINT, material=Material.ACCENT)


def _head(species: Species, p: Parameters, head: Frame) -> list[Part]:
    size = p["head"]
    muzzle, depth = p["muzzle"] * size, p["muzzle_depth"] * size
    skull = [
        (-0.55 * size, 0.0, 0.05 * size, 0.45 * size, 0.45 * size),
        (-0.10 * size, 0.0, 0.10 * size, 0.80 * size, 0.78 * size),
        (0.45 * size, 0.0, 0.02 * size, 0.66 * size, 0.66 * size),
        (0.80 * size, 0.0, -0.14 * size, 0.42 * size, 0.45 * size),
    ]
    snout = [
        (0.35 * size, 0.0, -0.16 * size, 0.52 * size, 0.50 * size),
        (0.70 * size + 0.4 * muzzle, 0.0, -0.24 * size, 0.95 * depth, depth),
        (0.70 * size + 0.9 * muzzle, 0.0, -0.26 * size, 0.82 * depth, 0.85 * depth),
    ]
    tip = 0.70 * size + 0.9 * muzzle + 0.72 * depth
    nose = [
        (tip - 0.10 * size, 0.0, -0.26 * size + 0.45 * depth, 0.40 * depth, 0.28 * depth),
        (tip, 0.0, -0.26 * size + 0.40 * depth, 0.36 * depth, 0.26 * depth),
    ]
    up = head.direction(0.0, 0.0, 1.0)
    parts = [
        Part("skull", head.sections(skull), hint=up),
        Part("snout", head.sections(snout), hint=up, material=Material.TRIM),
        Part("nose", head.sections(nose), hint=up, material=Material.DARK),
    ]
    for side, label in ((1.0, "L"), (-1.0, "R")):
        parts += [_eye(head, size, side, label), _ear(p, head, side, label)]
        if species.horned:
            parts.append(_horn(p, head, side, label))
    return parts


def _eye(head: Frame, size: float, side: float, label: str) -> Part:
    radius = 0.135 * size
    sections = [
        (0.52 * size, side * 0.46 * size, 0.30 * size, radius, radius),
        (0.56 * size, side * 0.54 * size, 0.31 * size, radius, radius),
    ]
    return Part(f"{label}_eye", head.sections(sections), hint=head.direction(0.0, 0.0, 1.0), material=Material.DARK)


def _ear(p: Parameters, head: Frame, side: float, label: str) -> Part:
    """Fan an ear out of the skull; `droop` 0 pricks it up, 1 lets it hang."""
    size, length, droop = p["head"], p["ear"] * p["head"], radians(20.0 + 150.0 * p["droop"])
    out, rise = side * sin(droop), cos(droop)
    base = (-0.12 * size, side * 0.48 * size, 0.62 * size)
    sections = [
        (base[0], base[1], base[2], 0.12 * size, 0.24 * size),
        (
            base[0] + 0.03 * size,
            base[1] + 0.16 * side * size + 0.45 * length * out,
            base[2] + 0.45 * length * rise,
            0.08 * size,
            p["ear_width"] * size,
        ),
        (base[0] + 0.06 * size, base[1] + length * out, base[2] + length * rise, 0.03 * size, 0.05 * size),
    ]
    return Part(f"{label}_ear", head.sections(sections), hint=head.direction(1.0, 0.0, 0.0), material=Material.ACCENT)


def _horn(p: Parameters, head: Frame, side: float, label: str) -> Part:
    size, length = p["head"], p["horn"] * p["head"]
    thick = 0.10 * size
    sections = [
        (-0.05 * size, side * 0.25 * size, 0.55 * size, thick, thick),
        (-0.02 * size, side * (0.30 * size + 0.6 * length), 0.55 * size + 0.5 * length, 0.8 * thick, 0.8 * thick),
        (0.02 * size, side * (0.30 * size + 0.7 * length), 0.55 * size + 1.1 * length, 0.2 * thick, 0.2 * thick),
    ]
    return Part(f"{label}_horn", head.sections(sections), hint=head.direction(1.0, 0.0, 0.0), material=Material.LIGHT)


def _front_leg(species: Species, p: Parameters, label: str, shoulder: Vector) -> list[Part]:
    girth, leg, thick = p["girth"], p["leg"], p["limb"]
    swing, bend = p[f"{label}_front_swing"], p[f"{label}_front_bend"]
    elbow = _swing(shoulder, swing - 8.0, 0.75 * girth + 0.12 * leg)
    wrist = _swing(elbow, swing + 4.0, 0.45 * leg)
    ankle = _swing(wrist, swing - bend, 0.36 * leg)
    sections = [
        (*shoulder, 0.42 * girth, 0.55 * girth),
        (*elbow, 1.15 * thick, 1.5 * thick),
        (*wrist, 0.85 * thick, 0.90 * thick),
        (*ankle, 0.75 * thick, 0.75 * thick),
    ]
    return [
        Part(f"{label}_front_leg", sections, hint=(1.0, 0.0, 0.15)),
        _foot(species, p, f"{label}_front_paw", ankle, swing - bend),
    ]


def _hind_leg(species: Species, p: Parameters, label: str, hip: Vector) -> list[Part]:
    girth, leg, thick = p["girth"], p["leg"], p["limb"]
    swing, bend = p[f"{label}_hind_swing"], p["stifle"]
    knee = _swing(hip, swing + bend, 0.55 * girth + 0.24 * leg)
    hock = _swing(knee, swing - 1.2 * bend, 0.42 * leg)
    ankle = _swing(hock, swing + 0.15 * bend, 0.38 * leg)
    sections = [
        (*hip, 0.44 * girth, 0.70 * girth),
        (*knee, 1.25 * thick, 1.75 * thick),
        (*hock, 0.75 * thick, 0.95 * thick),
        (*ankle, 0.75 * thick, 0.78 * thick),
    ]
    return [
        Part(f"{label}_hind_leg", sections, hint=(1.0, 0.0, 0.15)),
        _foot(species, p, f"{label}_hind_paw", ankle, swing),
    ]


def _foot(species: Species, p: Parameters, name: str, ankle: Vector, swing: float) -> Part:
    thick, spread = p["limb"], p["paw"]
    foot = Frame(ankle).turned(pitch=radians(0.5 * swing))
    sections = [
        (-0.5 * thick, 0.0, -0.5 * thick, 0.85 * thick, 0.75 * thick),
        (0.3 * thick, 0.0, -0.7 * thick, 1.05 * thick, 0.75 * thick),
        (0.3 * thick + spread * thick, 0.0, -0.85 * thick, 0.95 * thick, 0.6 * thick),
    ]
    material = Material.DARK if species.hooved else Material.TRIM
    return Part(name, foot.sections(sections), hint=foot.direction(0.0, 0.0, 1.0), material=material)


def _tail(p: Parameters, base: Vector) -> Part:
    angle, curl, length, thick = p["tail_angle"], p["tail_curl"], p["tail"], p["tail_thick"]
    points, x, z = [base], base[0], base[2]
    for step in range(3):
        lift = radians(angle + curl * step)
        x, z = x - length / 3 * cos(lift), z + length / 3 * sin(lift)
        points.append((x, p["tail_sway"] * (step + 1) * length / 3, z))
    widths = (1.1, 1.0, 1.0, 0.45)
    sections = [(*point, thick * width, thick * width) for point, width in zip(points, widths, strict=True)]
    return Part("tail", sections, hint=LEFT)


def _keypoints() -> list[Keypoint]:
    points = [
        Keypoint("Nose", "nose", 0.75, (0.6, 0.0, 0.8)),
        Keypoint("Withers", "trunk", 0.62, (0.0, 0.0, 1.0)),
        Keypoint("Throat", "neck", 0.65, (0.7, 0.0, -0.7)),
        Keypoint("TailBase", "tail", 0.35, (0.0, 0.0, 1.0)),
        Keypoint("TailTip", "tail", 1.0),
    ]
    for side, label in ((1.0, "L"), (-1.0, "R")):
        points += [
            Keypoint(f"{label}_Eye", f"{label}_eye", 1.0),
            Keypoint(f"{label}_EarBase", f"{label}_ear", 0.3, (0.0, side, 0.4)),
            Keypoint(f"{label}_EarTip", f"{label}_ear", 1.0),
            Keypoint(f"{label}_F_Elbow", f"{label}_front_leg", 0.4, (-0.3, side, 0.0)),
            Keypoint(f"{label}_F_Paw", f"{label}_front_paw", 0.75, (0.3, 0.3 * side, 1.0)),
            Keypoint(f"{label}_B_Knee", f"{label}_hind_leg", 0.4, (0.6, side, 0.0)),
            Keypoint(f"{label}_B_Hock", f"{label}_hind_leg", 0.6, (-1.0, 0.4 * side, 0.0)),
            Keypoint(f"{label}_B_Paw", f"{label}_hind_paw", 0.75, (0.3, 0.3 * side, 1.0)),
        ]
    return points


_GAIT = {
    f"{label}_{joint}": limits
    for label in ("L", "R")
    for joint, limits in {"front_swing": (-22, 24), "front_bend": (0, 30), "hind_swing": (-24, 18)}.items()
}
_POSE = {**_GAIT, "stifle": (18, 30), "head_turn": (-40, 40), "tail_sway": (-0.5, 0.5)}
_RANGES: dict[str, dict[str, tuple[float, float]]] = {
    "dog": {
        "trunk": (0.85, 1.15), "girth": (0.19, 0.25), "tuck": (0.0, 0.04), "leg": (0.36, 0.55), "limb": (0.05, 0.07),
        "neck": (0.28, 0.38), "neck_angle": (35, 65), "neck_girth": (0.75, 1.0), "head": (0.17, 0.21),
        "muzzle": (0.6, 1.1), "muzzle_depth": (0.30, 0.40), "ear": (0.6, 1.1), "ear_width": (0.26, 0.42),
        "droop": (0.0, 1.0), "paw": (0.9, 1.3), "tail": (0.35, 0.6), "tail_angle": (-30, 50),
        "tail_curl": (0, 30), "tail_thick": (0.035, 0.06), "head_tilt": (-30, 15),
    },
    "cat": {
        "trunk": (0.85, 1.05), "girth": (0.16, 0.21), "tuck": (-0.02, 0.02), "leg": (0.30, 0.40), "limb": (0.045, 0.06),
        "neck": (0.20, 0.27), "neck_angle": (25, 50), "neck_girth": (0.75, 0.9), "head": (0.17, 0.20),
        "muzzle": (0.05, 0.2), "muzzle_depth": (0.30, 0.36), "ear": (0.75, 1.0), "ear_width": (0.26, 0.34),
        "droop": (0.0, 0.12), "paw": (0.7, 1.0), "tail": (0.7, 0.95), "tail_angle": (-40, 60),
        "tail_curl": (-20, 45), "tail_thick": (0.035, 0.05), "head_tilt": (-30, 15),
    },
    "horse": {
        "trunk": (1.0, 1.2), "girth": (0.23, 0.28), "tuck": (-0.02, 0.02), "leg": (0.70, 0.85), "limb": (0.05, 0.065),
        "neck": (0.52, 0.66), "neck_angle": (35, 62), "neck_girth": (0.70, 0.85), "head": (0.16, 0.18),
        "muzzle": (1.4, 1.8), "muzzle_depth": (0.46, 0.54), "ear": (0.6, 0.8), "ear_width": (0.14, 0.20),
        "droop": (0.0, 0.1), "paw": (0.3, 0.6), "tail": (0.55, 0.75), "tail_angle": (-75, -55),
        "tail_curl": (-10, 0), "tail_thick": (0.05, 0.08), "head_tilt": (-60, -30),
    },
    "cow": {
        "trunk": (1.15, 1.35), "girth": (0.29, 0.35), "tuck": (-0.05, -0.02), "leg": (0.48, 0.60), "limb": (0.06, 0.07),
        "neck": (0.36, 0.46), "neck_angle": (5, 35), "neck_girth": (0.70, 0.85), "head": (0.19, 0.22),
        "muzzle": (1.0, 1.3), "muzzle_depth": (0.50, 0.58), "ear": (0.8, 1.0), "ear_width": (0.20, 0.28),
        "droop": (0.42, 0.62), "horn": (0.4, 0.9), "paw": (0.3, 0.6), "tail": (0.6, 0.75), "tail_angle": (-85, -70),
        "tail_curl": (-5, 0), "tail_thick": (0.025, 0.04), "head_tilt": (-50, -15),
    },
}  # fmt: skip
_SPECIES = {
    "dog": Species(),
    "cat": Species(),
    "horse": Species(hooved=True, maned=True),
    "cow": Species(hooved=True, horned=True),
}

for _name, _species in _SPECIES.items():
    _category = Category(partial(quadruped, _species), {**_RANGES[_name], **_POSE}, _keypoints())
    CATEGORIES.register(_name)(_category)
