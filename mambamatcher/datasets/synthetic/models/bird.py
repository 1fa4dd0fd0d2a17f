"""Birds: standing or with wings spread."""

from math import cos, radians, sin

from mambamatcher.datasets.synthetic.parts import CATEGORIES, Category, Frame, Keypoint, Material, Parameters, Part


def bird(p: Parameters) -> list[Part]:
    """Build a bird whose body is about one long."""
    girth, height = p["girth"], p["leg"] + 0.30
    body = Frame((0.0, 0.0, height)).turned(pitch=radians(p["posture"]))
    trunk = [
        (-0.48, 0.0, 0.02, 0.30 * girth, 0.28 * girth),
        (-0.20, 0.0, 0.0, 0.85 * girth, 0.85 * girth),
        (0.12, 0.0, -0.02, girth, 1.08 * girth),
        (0.34, 0.0, 0.06, 0.72 * girth, 0.80 * girth),
        (0.46, 0.0, 0.14, 0.45 * girth, 0.50 * girth),
    ]
    up = body.direction(0.0, 0.0, 1.0)
    parts = [Part("trunk", body.sections(trunk), hint=up), _tail(p, body)]
    head = Frame(body.point(0.44 + 0.25 * p["neck"], 0.0, 0.20 + 0.75 * p["neck"])).turned(
        yaw=radians(p["head_turn"]), pitch=radians(p["head_tilt"])
    )
    parts += _head(p, body, head)
    for side, left in (("L", 1.0), ("R", -1.0)):
        parts += [_wing(p, body, side, left), *_leg(p, body, side, left)]
    return parts


def _tail(p: Parameters, body: Frame) -> Part:
    length, lift = p["tail"], radians(p["tail_lift"])
    sections = [
        (-0.40, 0.0, 0.02, 0.16, 0.06),
        (-0.45 - 0.5 * length * cos(lift), 0.0, 0.02 + 0.5 * length * sin(lift), 0.13, 0.035),
        (-0.45 - length * cos(lift), 0.0, 0.02 + length * sin(lift), p["tail_fan"], 0.02),
    ]
    return Part("tail", body.sections(sections), hint=body.direction(0.0, 0.0, 1.0), material=Material.ACCENT)


def _head(p: Parameters, body: Frame, head: Frame) -> list[Part]:
    size, beak = p["head"], p["beak"]
    base, middle = body.point(0.30, 0.0, 0.05), body.point(0.42 + 0.08 * p["neck"], 0.0, 0.14 + 0.35 * p["neck"])
    neck = [
        (*base, 0.8 * p["girth"], 0.8 * p["girth"]),
        (*middle, 0.85 * size, 0.85 * size),
        (*head.origin, 0.8 * size, 0.8 * size),
    ]
    up = head.direction(0.0, 0.0, 1.0)
    skull = [
        (-0.35 * size, 0.0, 0.0, 0.80 * size, 0.80 * size),
        (0.20 * size, 0.0, 0.02, 0.95 * size, 0.95 * size),
        (0.70 * size, 0.0, 0.0, 0.55 * size, 0.55 * size),
    ]
    bill = [
        (0.80 * size, 0.0, -0.08 * size, 0.40 * size, 0.40 * size),
        (0.80 * size + 0.5 * beak, 0.0, -0.12 * size, 0.24 * size, 0.22 * size),
        (0.80 * size + beak, 0.0, -0.24 * size, 0.04 * size, 0.04 * size),
    ]
    parts = [
        Part("neck", neck, hint=(-0.7, 0.0, 0.7)),
        Part("skull", head.sections(skull), hint=up),
        Part("beak", head.sections(bill), hint=up, material=Material.LIGHT),
    ]
    for side, left in (("L", 1.0), ("R", -1.0)):
        eye = [
            (0.45 * size, left * 0.62 * size, 0.25 * size, 0.16 * size, 0.16 * size),
            (0.48 * size, left * 0.74 * size, 0.26 * size, 0.15 * size, 0.15 * size),
        ]
        parts.append(Part(f"{side}_eye", head.sections(eye), hint=up, material=Material.DARK))
    return parts


def _wing(p: Parameters, body: Frame, side: str, left: float) -> Part:
    """Fold (`spread` 0) a wing along the body or stretch it out (1)."""
    spread, flap = p["spread"], radians(p["flap"])
    span, chord = p["wing"] * (0.75 + 0.45 * spread), 0.19 + 0.03 * spread
    out, rear = spread, 1 - 0.85 * spread
    rise = sin(flap) * spread
    shoulder = (0.26, left * 0.72 * p["girth"], 0.08)
    wrist = (
        shoulder[0] - 0.40 * span * rear + 0.12 * spread,
        shoulder[1] + left * (0.40 * span * out + 0.09 * (1 - spread)),
        shoulder[2] + 0.45 * span * rise - 0.02 * (1 - spread),
    )
    tip = (
        shoulder[0] - span * rear - 0.10 * spread,
        shoulder[1] + left * (span * out - 0.06 * (1 - spread)),
        shoulder[2] + span * rise - 0.06 * (1 - spread),
    )
    hint = body.direction(0.85 * spread, left * 0.1, 1 - 0.8 * spread)
    sections = [(*shoulder, 0.06, 0.75 * chord), (*wrist, 0.045, chord), (*tip, 0.015, 0.25 * chord)]
    return Part(f"{side}_wing", body.sections(sections), hint=hint, material=Material.TRIM)


def _leg(p: Parameters, body: Frame, side: str, left: float) -> list[Part]:
    hip = body.point(-0.02, left * 0.45 * p["girth"], -0.55 * p["girth"])
    swing = radians(p[f"{side}_swing"])
    foot = (hip[0] + p["leg"] * sin(swing), hip[1], hip[2] - p["leg"] * cos(swing))
    knee = ((hip[0] + foot[0]) / 2 - 0.04, hip[1], (hip[2] + foot[2]) / 2)
    shank = [(*hip, 0.09, 0.11), (*knee, 0.025, 0.028), (*foot, 0.02, 0.02)]
    toes = [
        (foot[0] - 0.08, foot[1], foot[2], 0.025, 0.02),
        (foot[0] + 0.03, foot[1], foot[2], 0.055, 0.022),
        (foot[0] + 0.16, foot[1], foot[2] - 0.005, 0.075, 0.015),
    ]
    return [
        Part(f"{side}_leg", shank, hint=(1.0, 0.0, 0.1), material=Material.LIGHT),
        Part(f"{side}_foot", toes, material=Material.LIGHT),
    ]


def _keypoints() -> list[Keypoint]:
    points = [
        Keypoint("BeakTip", "beak", 1.0),
        Keypoint("BeakBase", "beak", 0.3),
        Keypoint("Crown", "skull", 0.5),
        Keypoint("Breast", "trunk", 0.75, (0.8, 0.0, -0.6)),
        Keypoint("Back", "trunk", 0.45),
        Keypoint("TailTip", "tail", 1.0),
    ]
    for side, left in (("L", 1.0), ("R", -1.0)):
        points += [
            Keypoint(f"{side}_Eye", f"{side}_eye", 1.0),
            Keypoint(f"{side}_WingBase", f"{side}_wing", 0.25, (0.3, left, 0.3)),
            Keypoint(f"{side}_WingTip", f"{side}_wing", 1.0),
            Keypoint(f"{side}_Foot", f"{side}_foot", 0.75),
        ]
    return points


_RANGES = {
    "girth": (0.20, 0.28), "leg": (0.20, 0.42), "posture": (5, 45), "tail": (0.25, 0.55), "tail_lift": (-15, 25),
    "tail_fan": (0.06, 0.20), "neck": (0.05, 0.35), "head": (0.13, 0.17), "beak": (0.10, 0.30), "head_turn": (-35, 35),
    "head_tilt": (-30, 5), "wing": (0.62, 0.85), "spread": (0.0, 1.0), "flap": (-10, 50), "L_swing": (-15, 20),
    "R_swing": (-15, 20),
}  # fmt: skip
CATEGORIES.register("bird")(Category(bird, _RANGES, _keypoints(), coat="plumage"))
