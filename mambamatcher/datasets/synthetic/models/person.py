"""People: a dressed figure with jointed arms and legs."""

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


def person(p: Parameters) -> list[Part]:
    """Build a standing or walking person about one and three quarters tall."""
    waist, chest, build = p["leg"] + 0.06, p["leg"] + p["torso"], p["build"]
    torso = [
        (0.0, 0.0, waist - 0.06, 0.155 * build, 0.105 * build),
        (0.0, 0.0, waist + 0.12, 0.140 * build, 0.095 * build),
        (0.01, 0.0, chest - 0.12, 0.185 * build, 0.120 * build),
        (0.0, 0.0, chest, 0.150 * build, 0.085 * build),
    ]
    parts = [Part("torso", torso, hint=(1.0, 0.0, 0.0)), *_head(p, (0.0, 0.0, chest + 0.06))]
    for side, left in (("L", 1.0), ("R", -1.0)):
        parts += _arm(p, side, (0.0, left * 0.185 * build, chest - 0.05), left)
        parts += _leg(p, side, (0.0, left * 0.085 * build, waist - 0.03))
    return parts


def _swing(start: Vector, degrees: float, length: float, out: float = 0.0) -> Vector:
    angle = radians(degrees)
    return start[0] + length * sin(angle), start[1] + out * length, start[2] - length * cos(angle)


def _head(p: Parameters, neck: Vector) -> list[Part]:
    head = Frame(neck).turned(yaw=radians(p["head_turn"]), pitch=radians(p["head_tilt"]))
    forward = head.direction(1.0, 0.0, 0.0)
    column = [(0.0, 0.0, -0.10, 0.058, 0.058), (0.01, 0.0, 0.06, 0.052, 0.055)]
    face = [
        (0.025, 0.0, 0.03, 0.045, 0.055),
        (0.015, 0.0, 0.10, 0.075, 0.092),
        (0.005, 0.0, 0.18, 0.082, 0.100),
        (0.0, 0.0, 0.24, 0.060, 0.075),
    ]
    hair = [
        (-0.055, 0.0, 0.07, 0.072, 0.055),
        (-0.030, 0.0, 0.16, 0.092, 0.090),
        (-0.012, 0.0, 0.235, 0.080, 0.096),
    ]
    nose = [(0.105, 0.0, 0.155, 0.008, 0.012), (0.118, 0.0, 0.122, 0.017, 0.018)]
    parts = [
        Part("neck", head.sections(column), hint=forward, material=Material.LIGHT),
        Part("face", head.sections(face), hint=forward, material=Material.LIGHT),
        Part("hair", head.sections(hair), hint=forward, material=Material.ACCENT),
        Part("nose", head.sections(nose), hint=forward, material=Material.LIGHT),
    ]
    for side, left in (("L", 1.0), ("R", -1.0)):
        eye = [(0.085, left * 0.036, 0.165, 0.014, 0.011), (0.104, left * 0.038, 0.165, 0.012, 0.010)]
        ear = [(0.0, left * 0.074, 0.145, 0.016, 0.028), (-0.005, left * 0.094, 0.15, 0.013, 0.026)]
        up = head.direction(0.0, 0.0, 1.0)
        parts.append(Part(f"{side}_eye", head.sections(eye), hint=up, material=Material.DARK))
        parts.append(Part(f"{side}_ear", head.sections(ear), hint=up, material=Material.LIGHT))
    return parts


def _arm(p: Parameters, side: str, shoulder: Vector, left: float) -> list[Part]:
    swing, bend, out = p[f"{side}_arm"], p[f"{side}_elbow"], left * p["spread"]
    elbow = _swing(shoulder, swing, 0.29, out)
    wrist = _swing(elbow, swing + bend, 0.26, 0.3 * out)
    tip = _swing(wrist, swing + bend, 0.13)
    middle = _swing(elbow, swing + bend, 0.08, 0.3 * out)
    hint = (cos(radians(swing + bend / 2)), 0.0, sin(radians(swing + bend / 2)))
    sleeve = [(*shoulder, 0.068, 0.072), (*elbow, 0.048, 0.050), (*middle, 0.044, 0.045)]
    forearm = [(*elbow, 0.040, 0.042), (*wrist, 0.030, 0.032)]
    hand = [(*wrist, 0.026, 0.036), (*_swing(wrist, swing + bend, 0.07), 0.024, 0.044), (*tip, 0.014, 0.026)]
    return [
        Part(f"{side}_sleeve", sleeve, hint=hint),
        Part(f"{side}_forearm", forearm, hint=hint, material=Material.LIGHT),
        Part(f"{side}_hand", hand, hint=hint, material=Material.LIGHT),
    ]


def _leg(p: Parameters, side: str, hip: Vector) -> list[Part]:
    swing, bend, half = p[f"{side}_thigh"], p[f"{side}_knee"], 0.5 * p["leg"] - 0.03
    knee = _swing(hip, swing, half)
    ankle = _swing(knee, swing - bend, half)
    hint = (cos(radians(swing - bend / 2)), 0.0, sin(radians(swing - bend / 2)))
    limb = [
        (*hip, 0.092 * p["build"], 0.105 * p["build"]),
        (*knee, 0.064, 0.068),
        (*_swing(knee, swing - bend, 0.4 * half), 0.060, 0.066),
        (*ankle, 0.052, 0.055),
    ]
    foot = Frame(ankle).turned(pitch=radians(0.6 * (swing - bend)))
    shoe = [
        (-0.045, 0.0, -0.03, 0.042, 0.045),
        (0.06, 0.0, -0.045, 0.048, 0.036),
        (0.16, 0.0, -0.055, 0.044, 0.024),
    ]
    return [
        Part(f"{side}_leg", limb, hint=hint, material=Material.TRIM),
        Part(f"{side}_shoe", foot.sections(shoe), hint=foot.direction(0.0, 0.0, 1.0), material=Material.DARK),
    ]


def _keypoints() -> list[Keypoint]:
    points = [
        Keypoint("Nose", "nose", 1.0),
        Keypoint("Crown", "hair", 1.0),
        Keypoint("Chest", "torso", 0.65, (1.0, 0.0, 0.0)),
        Keypoint("Navel", "torso", 0.4, (1.0, 0.0, 0.0)),
    ]
    for side, left in (("L", 1.0), ("R", -1.0)):
        points += [
            Keypoint(f"{side}_Eye", f"{side}_eye", 1.0),
            Keypoint(f"{side}_Ear", f"{side}_ear", 1.0),
            Keypoint(f"{side}_Shoulder", f"{side}_sleeve", 0.25, (0.3, left, 0.2)),
            Keypoint(f"{side}_Elbow", f"{side}_sleeve", 0.5, (-1.0, 0.5 * left, 0.0)),
            Keypoint(f"{side}_Wrist", f"{side}_forearm", 0.7, (0.0, left, 0.0)),
            Keypoint(f"{side}_Fingertips", f"{side}_hand", 1.0),
            Keypoint(f"{side}_Knee", f"{side}_leg", 0.4, (1.0, 0.0, 0.0)),
            Keypoint(f"{side}_Ankle", f"{side}_leg", 0.8, (0.0, left, 0.0)),
            Keypoint(f"{side}_Toe", f"{side}_shoe", 0.9),
        ]
    return points


_RANGES = {
    "leg": (0.78, 0.92), "torso": (0.50, 0.60), "build": (0.85, 1.2), "spread": (0.05, 0.5), "head_turn": (-40, 40),
    "head_tilt": (-15, 12), "L_arm": (-35, 70), "R_arm": (-35, 70), "L_elbow": (5, 90), "R_elbow": (5, 90),
    "L_thigh": (-22, 32), "R_thigh": (-22, 32), "L_knee": (0, 45), "R_knee": (0, 45),
}  # fmt: skip
CATEGORIES.register("person")(Category(person, _RANGES, _keypoints(), coat="cloth"))
