"""Points on images, and the files they come from and go to: one module per format."""

# ruff: noqa: F401  the modules of the formats register them
import mambamatcher.io.points.cvat_format
import mambamatcher.io.points.deeplabcut_format
import mambamatcher.io.points.deeplabcut_h5_format
import mambamatcher.io.points.json_format
import mambamatcher.io.points.label_studio_format
import mambamatcher.io.points.sleap_format
import mambamatcher.io.points.x_anylabeling_format
from mambamatcher.io.points.annotations import (
    Annotations,
    Settings,
    Skeleton,
    as_annotations,
    one_per_image,
    with_category,
    with_skeleton,
)
from mambamatcher.io.points.coco_format import to_coco
from mambamatcher.io.points.csv_format import to_csv
from mambamatcher.io.points.files import (
    COCO_SUFFIX,
    check_format,
    read_annotations,
    read_objects,
    read_points,
    write_points,
)
from mambamatcher.io.points.formats import FORMATS, Format
from mambamatcher.io.points.images import ImageNames, find_in_folder, name_frame, split_frame
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
    "FORMATS",
    "HIDDEN",
    "VISIBLE",
    "Annotations",
    "Format",
    "ImageNames",
    "Pixels",
    "PointSet",
    "Settings",
    "Size",
    "Skeleton",
    "as_annotations",
    "as_points",
    "check_format",
    "check_points",
    "find_in_folder",
    "make_points",
    "name_frame",
    "one_per_image",
    "read_annotations",
    "read_objects",
    "read_points",
    "split_frame",
    "to_coco",
    "to_csv",
    "with_category",
    "with_skeleton",
    "write_points",
]
