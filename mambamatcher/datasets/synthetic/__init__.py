"""Pairs rendered by the package: articulated objects with exact keypoints, masks and dense correspondence.

Every object is a set of lofted parts whose vertices mean the same on all instances of its category, so a surface point
of one image is projected into the other, not searched for. Points are (x, y) in continuous pixels: 0 is the left or top
edge, pixel i has its centre at i + 0.5.

Read `body` (what objects are built of), an object such as `objects/chair`, `scene`, `render`, `pairs`.
"""

from mambamatcher.datasets.synthetic import objects
from mambamatcher.datasets.synthetic.category import CATEGORIES
from mambamatcher.datasets.synthetic.pairs import DenseCorrespondence, SyntheticPair, SyntheticPairs
from mambamatcher.datasets.synthetic.render import SyntheticView
from mambamatcher.datasets.synthetic.sample import sample_pair

__all__ = [
    "CATEGORIES",
    "DenseCorrespondence",
    "SyntheticPair",
    "SyntheticPairs",
    "SyntheticView",
    "objects",
    "sample_pair",
]
