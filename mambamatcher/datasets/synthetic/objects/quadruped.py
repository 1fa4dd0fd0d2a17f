"""Dogs and cats: one four-legged body with different ranges."""

from math import cos, radians, sin

from mambamatcher.datasets.synthetic.body import FORWARD, LEFT, Joint, Keypoint, Part, Vector, both_sides
from mambamatcher.datasets.synthetic.category import CATEGORIES, Category, Parameters
from mambamatcher.datasets.synthetic.coat import Material

_LEG_HINT = (1.0, 0.0, 0.15)


def quadruped(p: Parameters) -> list[Part]:
    """Build a standing or walking animal; angles are in degrees, lengths relative to a trunk of about one."""
    length, girth = p["trunk"], p["girth"]
    height, rear, front = p["leg"] + 0.8 * girth, -0.5 * length, 0.5 * length
    trunk = [
        (rear - 0.04, 0.0, height + 0.05, 0.55 * girth, 0.55 * girth),
        (rear + 0.12 * length, 0.0, height + 0.03, 0.85 * girth, 0.88 * girth),
        (-0.10 * length, 0.0, height + p["tuck"], 0.82 * girth, 0.85 * girth),
        (0.18 * length, 0.0, height - 0.01, 0.95 * girth, 1.05 * girth),
        (front - 0.08 * length, 0.0, height + 0.02, 0.85 * girth, 1.02 * girth),
        (front + 0.04 * length, 0.0, height + 0.05, 0.55 * girth, 0.68 * girth),
    ]
    parts = [Part("trunk", trunk), _tail(p, (rear - 0.02, 0.0, height + 0.30 * girth))]
    parts += _neck_and_head(p, (front - 0.08 * length, 0.0, height + 0.25 * girth))
    for side, y in (("L", 0.42 * girth), ("R", -0.42 * girth)):
        parts += _front_leg(p, side, (front - 0.10 * length, y, height - 0.02))
        parts += _hind_leg(p, side, (rear + 0.12 * length, y, height + 0.02))
    return parts


def _tail(p: Parameters, base: Vector) -> Part:
    step, thick = p["tail"] / 3, p["tail_thick"]
    x, y, z = base
    sections = [(x, y, z, 1.1 * thick, 1.1 * thick)]
    for index, width in enumerate((1.0, 1.0, 0.45)):
        lift = radians(p["tail_angle"] + p["tail_curl"] * index)
        x, y, z = x - step * cos(lift), y + step * p["tail_sway"], z + step * sin(lift)
        sections.append((x, y, z, width * thick, width * thick))
    return Part("tail", sections, hint=LEFT)


def _neck_and_head(p: Parameters, base: Vector) -> list[Part]:
    girth, length = p["girth"], p["neck"]
    reach = Joint(base, yaw=0.4 * p["head_turn"], pitch=p["neck_angle"])
    middle, throat = 0.5 * girth * p["neck_girth"], max(0.36 * girth * p["neck_girth"], 0.55 * p["head"])
    neck = [
        (*reach.point(-0.10, 0.0, 0.0), 0.62 * girth, 0.80 * girth),
        (*reach.point(0.35 * length, 0.0, 0.0), middle, 1.32 * middle),
        (*reach.point(length, 0.0, 0.0), throat, 1.05 * throat),
    ]
    head = Joint(reach.point(length, 0.0, 0.0), yaw=p["head_turn"], pitch=p["head_tilt"])
    return [Part("neck", neck, hint=(-0.7, 0.0, 0.7)), *(head.place(part) for part in _head(p))]


def _head(p: Parameters) -> list[Part]:
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
    eye = [
        (0.52 * size, 0.46 * size, 0.30 * size, 0.135 * size, 0.135 * size),
        (0.56 * size, 0.54 * size, 0.31 * size, 0.135 * size, 0.135 * size),
    ]
    return both_sides(
        Part("skull", skull),
        Part("snout", snout, material=Material.TRIM),
        Part("nose", nose, material=Material.DARK),
        Part("*_eye", eye, material=Material.DARK),
        _ear(p),
    )


def _ear(p: Parameters) -> Part:
    """Fan an ear out of the skull; `droop` 0 pricks it up, 1 lets it hang."""
    size, length, droop = p["head"], p["ear"] * p["head"], radians(20.0 + 150.0 * p["droop"])
    x, y, z = -0.12 * size, 0.48 * size, 0.62 * size
    out, rise = length * sin(droop), length * cos(droop)
    sections = [
        (x, y, z, 0.12 * size, 0.24 * size),
        (x + 0.03 * size, y + 0.16 * size + 0.45 * out, z + 0.45 * rise, 0.08 * size, p["ear_width"] * size),
        (x + 0.06 * size, y + out, z + rise, 0.03 * size, 0.05 * size),
    ]
    return Part("*_ear", sections, hint=FORWARD, material=Material.ACCENT)


def _swing(start: Vector, degrees: float, length: float) -> Vector:
    """Go down from a joint; positive angles swing forward."""
    angle = radians(degrees)
    return start[0] + length * sin(angle), start[1], start[2] - length * cos(angle)


def _front_leg(p: Parameters, side: str, shoulder: Vector) -> list[Part]:
    girth, leg, thick = p["girth"], p["leg"], p["limb"]
    swing, bend = p[f"{side}_front_swing"], p[f"{side}_front_bend"]
    elbow = _swing(shoulder, swing - 8.0, 0.75 * girth + 0.12 * leg)
    wrist = _swing(elbow, swing + 4.0, 0.45 * leg)
    ankle = _swing(wrist, swing - bend, 0.36 * leg)
    sections = [
        (*shoulder, 0.42 * girth, 0.55 * girth),
        (*elbow, 1.15 * thick, 1.5 * thick),
        (*wrist, 0.85 * thick, 0.90 * thick),
        (*ankle, 0.75 * thick, 0.75 * thick),
    ]
    paw = _paw(p, f"{side}_front_paw", ankle, swing - bend)
    return [Part(f"{side}_front_leg", sections, hint=_LEG_HINT), paw]


def _hind_leg(p: Parameters, side: str, hip: Vector) -> list[Part]:
    girth, leg, thick = p["girth"], p["leg"], p["limb"]
    swing, bend = p[f"{side}_hind_swing"], p["stifle"]
    knee = _swing(hip, swing + bend, 0.55 * girth + 0.24 * leg)
    hock = _swing(knee, swing - 1.2 * bend, 0.42 * leg)
    ankle = _swing(hock, swing + 0.15 * bend, 0.38 * leg)
    sections = [
        (*hip, 0.44 * girth, 0.70 * girth),
        (*knee, 1.25 * thick, 1.75 * thick),
        (*hock, 0.75 * thick, 0.95 * thick),
        (*ankle, 0.75 * thick, 0.78 * thick),
    ]
    return [Part(f"{side}_hind_leg", sections, hint=_LEG_HINT), _paw(p, f"{side}_hind_paw", ankle, swing)]


def _paw(p: Parameters, name: str, ankle: Vector, swing: float) -> Part:
    thick = p["limb"]
    sections = [
        (-0.5 * thick, 0.0, -0.5 * thick, 0.85 * thick, 0.75 * thick),
        (0.3 * thick, 0.0, -0.7 * thick, 1.05 * thick, 0.75 * thick),
        ((0.3 + p["paw"]) * thick, 0.0, -0.85 * thick, 0.95 * thick, 0.6 * thick),
    ]
    return Joint(ankle, pitch=0.5 * swing).place(Part(name, sections, material=Material.TRIM))


_KEYPOINTS = both_sides(
    Keypoint("Nose", "nose", 0.75, (0.6, 0.0, 0.8)),
    Keypoint("Withers", "trunk", 0.62),
    Keypoint("Throat", "neck", 0.65, (0.7, 0.0, -0.7)),
    Keypoint("TailBase", "tail", 0.35),
    Keypoint("TailTip", "tail", 1.0),
    Keypoint("*_Eye", "*_eye", 1.0),
    Keypoint("*_EarBase", "*_ear", 0.3, (0.0, 1.0, 0.4)),
    Keypoint("*_EarTip", "*_ear", 1.0),
    Keypoint("*_F_Elbow", "*_front_leg", 0.4, (-0.3, 1.0, 0.0)),
    Keypoint("*_F_Paw", "*_front_paw", 0.75, (0.3, 0.3, 1.0)),
    Keypoint("*_B_Knee", "*_hind_leg", 0.4, (0.6, 1.0, 0.0)),
    Keypoint("*_B_Hock", "*_hind_leg", 0.6, (-1.0, 0.4, 0.0)),
    Keypoint("*_B_Paw", "*_hind_paw", 0.75, (0.3, 0.3, 1.0)),
)
_POSE = {
    "L_front_swing": (-22.0, 24.0), "R_front_swing": (-22.0, 24.0), "L_front_bend": (0.0, 30.0),
    "R_front_bend": (0.0, 30.0), "L_hind_swing": (-24.0, 18.0), "R_hind_swing": (-24.0, 18.0), "stifle": (18.0, 30.0),
    "head_turn": (-40.0, 40.0), "head_tilt": (-30.0, 15.0), "tail_sway": (-0.5, 0.5),
}  # fmt: skip
_DOG = {
    "trunk": (0.85, 1.15), "girth": (0.19, 0.25), "tuck": (0.0, 0.04), "leg": (0.36, 0.55), "limb": (0.05, 0.07),
    "neck": (0.28, 0.38), "neck_angle": (35.0, 65.0), "neck_girth": (0.75, 1.0), "head": (0.17, 0.21),
    "muzzle": (0.6, 1.1), "muzzle_depth": (0.30, 0.40), "ear": (0.6, 1.1), "ear_width": (0.26, 0.42),
    "droop": (0.0, 1.0), "paw": (0.9, 1.3), "tail": (0.35, 0.6), "tail_angle": (-30.0, 50.0),
    "tail_curl": (0.0, 30.0), "tail_thick": (0.035, 0.06),
}  # fmt: skip
_CAT = {
    "trunk": (0.85, 1.05), "girth": (0.16, 0.21), "tuck": (-0.02, 0.02), "leg": (0.30, 0.40), "limb": (0.045, 0.06),
    "neck": (0.20, 0.27), "neck_angle": (25.0, 50.0), "neck_girth": (0.75, 0.9), "head": (0.17, 0.20),
    "muzzle": (0.05, 0.2), "muzzle_depth": (0.30, 0.36), "ear": (0.75, 1.0), "ear_width": (0.26, 0.34),
    "droop": (0.0, 0.12), "paw": (0.7, 1.0), "tail": (0.7, 0.95), "tail_angle": (-40.0, 60.0),
    "tail_curl": (-20.0, 45.0), "tail_thick": (0.035, 0.05),
}  # fmt: skip
CATEGORIES.register("dog")(Category(quadruped, {**_DOG, **_POSE}, _KEYPOINTS, look="fur"))
CATEGORIES.register("cat")(Category(quadruped, {**_CAT, **_POSE}, _KEYPOINTS, look="fur"))
