"""Points as labels of SLEAP, through sleap-io.

Points with confidences are written as predicted instances, others as labels. A hidden point has a place and is not
visible; an absent one has no place. Images of one size are one video of SLEAP, since all its frames have one size.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mambamatcher.errors import InputError
from mambamatcher.io.checks import first_line, naming
from mambamatcher.io.points.annotations import DEFAULT_CATEGORY, Annotations, Settings, Skeleton
from mambamatcher.io.points.formats import FORMATS, Format
from mambamatcher.io.points.images import name_frame, split_frame
from mambamatcher.io.points.point_set import ABSENT, HIDDEN, VISIBLE, PointSet, Size, make_points

TABLES = ("frames", "instances", "points", "pred_points")
_LABEL, _PREDICTION = 0, 1  # kinds of instances


def read_sleap(path: Path) -> Annotations:
    """Read the instances of each image or frame; of a frame with labels, its predictions are skipped."""
    import sleap_io

    try:
        labels = sleap_io.load_slp(str(path), open_videos=False)
    except Exception as error:  # whatever h5py and sleap-io raise for a damaged file
        raise InputError(f"it is no file of SLEAP, or damaged: {first_line(error)}") from error
    images: dict[str | None, list[PointSet]] = {}
    for frame in labels.labeled_frames:
        name = _image_name(frame.video, int(frame.frame_idx), path)
        with naming(name):
            chosen = frame.user_instances or frame.instances
            objects = [found for each in chosen if (found := _from_instance(each, _size(frame.video))) is not None]
            images.setdefault(name, []).extend(objects)
    skeletons: dict[str, Skeleton] = {
        str(each.name): tuple((edge.source.name, edge.destination.name) for edge in each.edges)
        for each in labels.skeletons
        if each.edges and each.name
    }
    return Annotations(images=images, skeletons=skeletons)


def _image_name(video: Any, index: int, path: Path) -> str:
    if isinstance(video.filename, list):
        if index >= len(video.filename):
            raise InputError(f"frame {index} is not among the {len(video.filename)} images of its video")
        return str(video.filename[index])
    source = video.source_video.filename if video.source_video is not None else video.filename
    is_own = source == str(path)  # images embedded in the file itself, without their source
    return name_frame(path.name if is_own or isinstance(source, list) else str(source), index)


def _size(video: Any) -> Size | None:
    shape = video.shape
    return None if shape is None or not shape[1] or not shape[2] else (int(shape[2]), int(shape[1]))


def _from_instance(instance: Any, size: Size | None) -> PointSet | None:
    table = instance.points
    places = np.array(table["xy"], dtype=np.float64)
    placed = np.isfinite(places).all(axis=1)
    if not placed.any():
        return None
    seen = np.where(placed, np.where(table["visible"], VISIBLE, HIDDEN), ABSENT)
    has_scores = "score" in (table.dtype.names or ())
    scores = np.where(np.isnan(table["score"]), 0.0, table["score"]) if has_scores else None
    name = instance.skeleton.name
    return make_points(places, instance.skeleton.node_names, seen, scores, size, None if name is None else str(name))


def write_sleap(path: Path, annotations: Annotations, settings: Settings) -> None:
    """Write a `.slp` file that refers to the images or the video.

    sleap-io writes all but the tables of points, for which it would need an object per point: 1.1 GB for 100,000
    images with 20 points each.
    """
    import sleap_io

    skeletons = [
        sleap_io.Skeleton(nodes=names, edges=_known_edges(annotations, category, names), name=category)
        for category, names in annotations.categories.items()
    ]
    videos, places = _videos(annotations)
    labels = sleap_io.Labels([], videos=videos, skeletons=skeletons, provenance={"scorer": settings.scorer})
    sleap_io.save_slp(labels, str(path), embed=False, verbose=False)
    _fill_tables(path, annotations, places)


def _fill_tables(path: Path, annotations: Annotations, places: Mapping[str, tuple[int, int]]) -> None:
    """Put the tables of frames, instances and points in place of the empty ones."""
    import h5py

    categories = annotations.categories
    numbers = {category: number for number, category in enumerate(categories)}
    with h5py.File(path, "a") as file:
        kinds = {name: file[name].dtype for name in TABLES}
        rows: dict[str, list[Any]] = {name: [] for name in TABLES}
        placed = {"points": 0, "pred_points": 0}
        for frame, (image, objects) in enumerate(annotations.images.items()):
            first = len(rows["instances"])
            for each in objects:
                category = each.category or DEFAULT_CATEGORY
                table = "points" if each.confidence is None else "pred_points"
                points = _point_table(each, categories[category], kinds[table])
                start, placed[table] = placed[table], placed[table] + len(points)
                score = 0.0 if each.confidence is None else float(each.confidence.mean())
                kind = _LABEL if each.confidence is None else _PREDICTION
                number = len(rows["instances"])
                span = (start, placed[table])
                rows["instances"].append((number, kind, frame, numbers[category], -1, -1, score, *span, 0.0))
                rows[table].append(points)
            rows["frames"].append((frame, *places[image or ""], first, len(rows["instances"])))
        for name, kind in kinds.items():
            del file[name]
            is_points = name in placed
            content = (
                np.concatenate([np.empty(0, kind), *rows[name]]) if is_points else np.array(rows[name], dtype=kind)
            )
            file.create_dataset(name, data=content)


def _point_table(points: PointSet, names: Sequence[str], kind: np.dtype) -> np.ndarray:
    order = {name: row for row, name in enumerate(names)}
    table = np.zeros(len(names), dtype=kind)
    table["x"] = table["y"] = np.nan
    kept = points.visibility != ABSENT
    where = np.array([order[name] for name in points.names])[kept]
    table["x"][where], table["y"][where] = points.points[kept].T
    table["visible"][where] = points.visibility[kept] == VISIBLE
    if points.confidence is not None:
        table["score"][where] = points.confidence[kept]
    return table


def _known_edges(annotations: Annotations, category: str, names: Sequence[str]) -> list[tuple[str, str]]:
    return [edge for edge in annotations.skeletons.get(category, ()) if set(edge) <= set(names)]


def _videos(annotations: Annotations) -> tuple[list[Any], dict[str, tuple[int, int]]]:
    """Return videos, and for each image the numbers of its video and frame; images of one size are one video."""
    import sleap_io

    grouped: dict[tuple[str | None, Size | None], list[tuple[str, int]]] = {}
    for image, objects in annotations.images.items():
        frame = split_frame(image or "")
        size = next((each.size for each in objects if each.size is not None), None)
        group = grouped.setdefault((None if frame is None else frame[0], size), [])
        group.append((image or "", len(group) if frame is None else frame[1]))
    videos: list[Any] = []
    places = {}
    for (name, size), images in grouped.items():
        files = [image for image, _ in images] if name is None else name
        places.update({image: (len(videos), index) for image, index in images})
        videos.append(sleap_io.Video(filename=files, backend_metadata=_description(files, size), open_backend=False))
    return videos, places


def _description(files: list[str] | str, size: Size | None) -> dict[str, Any]:
    is_list = isinstance(files, list)
    shape = None if size is None else [len(files) if is_list else 1, size[1], size[0], 3]
    named = {"filename": files[0], "filenames": files} if is_list else {"filename": files}
    return {"type": "ImageVideo" if is_list else "MediaVideo", "shape": shape, "grayscale": False, **named}


FORMATS.register("sleap")(
    Format(
        title="SLEAP",
        file="points.slp",
        starts=lambda path, opening: opening.startswith(b"\x89HDF") and path.suffix.lower() == ".slp",
        read=read_sleap,
        write=write_sleap,
        needs=("sleap_io", "h5py"),
    )
)
