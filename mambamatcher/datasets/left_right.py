"""Left and right in keypoint names: `L_Eye`, `Right_Wing_Base`, `Leg_Left_Back`, `left_front_paw`."""

_MIRRORED = {"L": "R", "R": "L", "Left": "Right", "Right": "Left", "left": "right", "right": "left"}


def mirror_name(name: str) -> str:
    """Return the name the keypoint has in a mirrored picture; names without a side stay as they are."""
    return "_".join(_MIRRORED.get(word, word) for word in name.split("_"))


def has_side(name: str) -> bool:
    """Tell whether the name says left or right."""
    return mirror_name(name) != name


def tells_sides(names: tuple[str, ...]) -> bool:
    """Tell whether these are real names; bare numbers may hide a left and a right."""
    return not any(name.isdigit() for name in names)
