"""Points on images, and the files they come from and go to: one module per format."""

from mambamatcher.io.points.coco_format import to_coco
from mambamatcher.io.points.csv_format import to_csv
from mambamatcher.io.points.files import (
    COCO_SUFFIX,
    check_format,
    format_points,
    read_annotations,
    read_points,
    write_points,
)
from mambamatcher.io.points.point_set import (
    ABSENT,
    HIDDEN,
    VISIBLE,
    Pixels,
    PointSet,
    Size,
    as_points,
    check_points,
    make_points,
)

__all__ = [
    "ABSENT",
    "COCO_SUFFIX",
    "HIDDEN",
    "VISIBLE",
    "Pixels",
    "PointSet",
    "Size",
    "as_points",
    "check_format",
    "check_points",
    "format_points",
    "make_points",
    "read_annotations",
    "read_points",
    "to_coco",
    "to_csv",
    "write_points",
]
