"""The categories, one file a body plan; importing this package registers them all."""

from mambamatcher.datasets.synthetic.models import aeroplane, bicycle, bird, car, chair, fish, person, quadruped
from mambamatcher.datasets.synthetic.parts import CATEGORIES

__all__ = ["CATEGORIES", "aeroplane", "bicycle", "bird", "car", "chair", "fish", "person", "quadruped"]
