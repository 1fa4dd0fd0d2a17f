"""Pairs rendered by the package: articulated objects of many categories, with exact keypoints, masks and flow.

Every object is a set of lofted parts whose vertices mean the same on all instances of its category, so a surface point
of one picture is projected into the other, not searched for. Points are (x, y) in continuous pixels: 0 is the left or
top edge, pixel i has its centre at i + 0.5.
"""

from mambamatcher.datasets.synthetic.draw import Variation
from mambamatcher.datasets.synthetic.models import CATEGORIES
from mambamatcher.datasets.synthetic.pairs import DenseCorrespondence, SyntheticPair, SyntheticPairs
from mambamatcher.datasets.synthetic.sample import sample_pair
from mambamatcher.datasets.synthetic.view import SyntheticView

__all__ = [
    "CATEGORIES",
    "DenseCorrespondence",
    "SyntheticPair",
    "SyntheticPairs",
    "SyntheticView",
    "Variation",
    "sample_pair",
]
