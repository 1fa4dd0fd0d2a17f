"""The objects, one file per body plan; importing this package registers their categories."""

from mambamatcher.datasets.synthetic.objects import car, chair, quadruped

__all__ = ["car", "chair", "quadruped"]
