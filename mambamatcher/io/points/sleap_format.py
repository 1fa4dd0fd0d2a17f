"""Points as labels of SLEAP, through sleap-io.

Points with confidences are written as predicted instances, others as labels. A hidden point has a place and is not
visible; an absent one has no place. Images of one size are one video of SLEAP, since all its frames have one size.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mambamatcher.errors import InputError
from mambamatcher.io.checks import first_line, naming
from mambamatcher.io.points.annotations import DEFAULT_CATEGORY, Annotations, Settings, Skeleton
from mambamatcher.io.points.formats import FORMATS, Format
from mambamatcher.io.points.images import name_frame, split_frame
from mambamatcher.io.points.point_set import ABSENT, HIDDEN, VISIBLE, PointSet, Size, make_points


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
    scores = np.nan_to_num(table["score"]) if "score" in (table.dtype.names or ()) else None
    name = instance.skeleton.name
    return make_points(places, instance.skeleton.node_names, seen, scores, size, None if name is None else str(name))


def write_sleap(path: Path, annotations: Annotations, settings: Settings) -> None:
    """Write a `.slp` file that refers to the images or the video."""
    import sleap_io

    skeletons = {
        category: sleap_io.Skeleton(nodes=names, edges=_known_edges(annotations, category, names), name=category)
        for category, names in annotations.categories.items()
    }
    videos, places = _videos(annotations)
    frames = []
    for image, objects in annotations.images.items():
        video, index = places[image or ""]
        instances = [_to_instance(each, skeletons[each.category or DEFAULT_CATEGORY]) for each in objects]
        frames.append(sleap_io.LabeledFrame(video=video, frame_idx=index, instances=instances))
    labels = sleap_io.Labels(
        frames, videos=videos, skeletons=list(skeletons.values()), provenance={"scorer": settings.scorer}
    )
    sleap_io.save_slp(labels, str(path), embed=False, verbose=False)


def _known_edges(annotations: Annotations, category: str, names: Sequence[str]) -> list[tuple[str, str]]:
    return [edge for edge in annotations.skeletons.get(category, ()) if set(edge) <= set(names)]


def _videos(annotations: Annotations) -> tuple[list[Any], dict[str, tuple[Any, int]]]:
    """Return videos, and the video and number of each image: images of one size are one, and each video is one."""
    import sleap_io

    grouped: dict[tuple[str | None, Size | None], list[tuple[str, int]]] = {}
    for image, objects in annotations.images.items():
        frame = split_frame(image or "")
        size = next((each.size for each in objects if each.size is not None), None)
        group = grouped.setdefault((None if frame is None else frame[0], size), [])
        group.append((image or "", len(group) if frame is None else frame[1]))
    videos, places = [], {}
    for (name, size), images in grouped.items():
        files = [image for image, _ in images] if name is None else name
        video = sleap_io.Video(filename=files, backend_metadata=_description(files, size), open_backend=False)
        videos.append(video)
        places.update({image: (video, index) for image, index in images})
    return videos, places


def _description(files: list[str] | str, size: Size | None) -> dict[str, Any]:
    is_list = isinstance(files, list)
    shape = None if size is None else [len(files) if is_list else 1, size[1], size[0], 3]
    named = {"filename": files[0], "filenames": files} if is_list else {"filename": files}
    return {"type": "ImageVideo" if is_list else "MediaVideo", "shape": shape, "grayscale": False, **named}


def _to_instance(points: PointSet, skeleton: Any) -> Any:
    import sleap_io

    names = skeleton.node_names
    rows = {name: row for row, name in enumerate(points.names)}
    order = [rows.get(name, -1) for name in names]
    missing = np.array([row < 0 or points.visibility[row] == ABSENT for row in order])
    places = np.where(missing[:, None], np.nan, points.points[order])
    if points.confidence is None:
        made = sleap_io.Instance.from_numpy(places, skeleton=skeleton)
    else:
        scores = np.where(missing, 0.0, points.confidence[order])
        made = sleap_io.PredictedInstance.from_numpy(
            places, skeleton=skeleton, point_scores=scores, score=float(scores[~missing].mean()) if any(~missing) else 0
        )
    made.points["visible"] = ~missing & (points.visibility[order] == VISIBLE)
    return made


FORMATS.register("sleap")(
    Format(
        title="SLEAP",
        file="points.slp",
        starts=lambda path, opening: opening.startswith(b"\x89HDF") and path.suffix.lower() == ".slp",
        read=read_sleap,
        write=write_sleap,
        needs=("sleap_io",),
    )
)
