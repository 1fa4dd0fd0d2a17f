"""The tools' own libraries read files of ours and write files of theirs. Runs in an environment of one tool.

Arguments: the name of a function below, and a folder. What the library read is printed as JSON.
"""

import contextlib
import json
import sys
from pathlib import Path

IMAGES = ["labeled-data/mouse/img01.png", "labeled-data/mouse/img02.png"]
PLACES = [[10.5, 20.25, 30.0, 40.0], [None, None, 50.125, 60.0]]  # nose and tail of each image


def pandas_reads(folder: Path) -> object:
    """Read CSV as DeepLabCut and Lightning Pose do, and HDF5."""
    import pandas

    found = {}
    for path in sorted(folder.iterdir()):
        if path.suffix == ".h5":
            frame = pandas.read_hdf(path)
        else:
            levels = 4 if path.read_text().splitlines()[1].startswith("individuals") else 3
            frame = pandas.read_csv(path, header=list(range(levels)), index_col=0)
        found[path.name] = {
            "levels": list(frame.columns.names),
            "columns": [list(map(str, column)) for column in frame.columns],
            "index": ["/".join(each) if isinstance(each, tuple) else str(each) for each in frame.index],
            "values": json.loads(frame.reset_index(drop=True).to_json(orient="values", double_precision=10)),
        }
    return found


def pandas_writes(folder: Path) -> object:
    """Write what DeepLabCut writes: labels, predictions of a video, and several individuals."""
    import numpy
    import pandas

    def columns(*levels, names):
        return pandas.MultiIndex.from_product([["me"], *levels], names=["scorer", *names])

    places = numpy.array(PLACES, dtype=float)
    index = pandas.MultiIndex.from_tuples([tuple(image.split("/")) for image in IMAGES])
    one = columns(["nose", "tail"], ["x", "y"], names=["bodyparts", "coords"])
    labels = pandas.DataFrame(places, index=index, columns=one)
    sure = columns(["nose", "tail"], ["x", "y", "likelihood"], names=["bodyparts", "coords"])
    frames = numpy.column_stack([places[:, :2], [0.9, 0.1], places[:, 2:], [0.8, 0.7]])
    video = pandas.DataFrame(frames, columns=sure)
    both = columns(["one", "two"], ["nose", "tail"], ["x", "y"], names=["individuals", "bodyparts", "coords"])
    several = pandas.DataFrame(numpy.column_stack([places, places + 100]), index=index, columns=both)
    labels.to_csv(folder / "deeplabcut-labels.csv")
    video.to_csv(folder / "clipDLC_resnet50.csv")
    several.to_csv(folder / "deeplabcut-individuals.csv")
    labels.to_hdf(folder / "CollectedData_me.h5", key="df_with_missing", mode="w")
    video.to_hdf(folder / "clipDLC_resnet50.h5", key="df_with_missing", mode="w", format="table")
    return None


def ours_writes_h5(folder: Path) -> object:
    """Write HDF5 with this package, which needs pandas for it."""
    return _ours_writes(folder, "deeplabcut-h5", "CollectedData_me.h5")


def ours_reads(folder: Path) -> object:
    """Read files with this package, and return their points."""
    from mambamatcher.io.points import read_objects

    return {
        path.name: {
            image: [
                {
                    "names": each.names,
                    "points": each.points.tolist(),
                    "visibility": each.visibility.tolist(),
                    "confidence": None if each.confidence is None else each.confidence.tolist(),
                    "category": each.category,
                }
                for each in objects
            ]
            for image, objects in read_objects(path).images.items()
        }
        for path in sorted(folder.iterdir())
        if path.suffix in (".h5", ".slp")
    }


def _ours_writes(folder: Path, format: str, name: str) -> None:
    from mambamatcher.io.points import Settings, read_objects, write_points

    write_points(folder / name, read_objects(folder / "given.json"), format=format, settings=Settings(scorer="me"))


def h5_with_code(folder: Path) -> object:
    """Write HDF5 whose attribute runs code when it is unpickled, and read it with this package."""
    import os

    import numpy
    import pandas
    import tables

    from mambamatcher.errors import InputError
    from mambamatcher.io.points import read_objects

    class Code:
        def __reduce__(self):
            return os.mkdir, (str(folder / "canary"),)

    columns = pandas.MultiIndex.from_product([["me"], ["nose"], ["x", "y"]], names=["scorer", "bodyparts", "coords"])
    frame = pandas.DataFrame(numpy.ones((1, 2)), index=["a.png"], columns=columns)
    frame.to_hdf(folder / "a.h5", key="df_with_missing", mode="w")
    with tables.open_file(folder / "a.h5", "a") as file:
        file.root.df_with_missing._v_attrs.info = Code()
        file.create_vlarray("/df_with_missing", "more", tables.ObjectAtom()).append(Code())
    if (folder / "canary").exists():
        (folder / "canary").rmdir()
    with contextlib.suppress(InputError):
        read_objects(folder / "a.h5")
    ours = (folder / "canary").exists()
    pandas.read_hdf(folder / "a.h5")
    return {"ours ran code": ours, "pandas alone ran code": (folder / "canary").exists()}


def sleap_reads(folder: Path) -> object:
    """Write `.slp` with this package, and read it with sleap-io."""
    import sleap_io

    _ours_writes(folder, "sleap", "ours.slp")
    labels = sleap_io.load_slp(str(folder / "ours.slp"), open_videos=False)
    return {
        "skeletons": {
            each.name: [each.node_names, [list(edge) for edge in each.edge_inds]] for each in labels.skeletons
        },
        "frames": [
            {
                "image": frame.video.filename[frame.frame_idx],
                "instances": [
                    {
                        "kind": type(each).__name__,
                        "skeleton": each.skeleton.name,
                        "points": [[None if x != x else x for x in point] for point in each.points["xy"].tolist()],
                        "visible": each.points["visible"].tolist(),
                        "scores": each.points["score"].tolist() if "score" in each.points.dtype.names else None,
                    }
                    for each in frame.instances
                ],
            }
            for frame in labels.labeled_frames
        ],
    }


def sleap_writes(folder: Path) -> object:
    """Write labels with sleap-io: as `.slp`, and as COCO and Label Studio."""
    import numpy
    import sleap_io

    skeleton = sleap_io.Skeleton(nodes=["nose", "tail"], edges=[("nose", "tail")], name="mouse")
    shape = {"type": "ImageVideo", "shape": [2, 480, 640, 3], "filename": IMAGES[0], "filenames": IMAGES}
    video = sleap_io.Video(filename=IMAGES, backend_metadata=shape, open_backend=False)
    frames = []
    for number, places in enumerate(PLACES):
        points = numpy.array(places, dtype=float).reshape(2, 2)
        instance = sleap_io.Instance.from_numpy(points, skeleton=skeleton)
        frames.append(sleap_io.LabeledFrame(video=video, frame_idx=number, instances=[instance]))
    labels = sleap_io.Labels(frames, videos=[video], skeletons=[skeleton])
    sleap_io.save_slp(labels, str(folder / "theirs.slp"), verbose=False)
    sleap_io.save_coco(labels, str(folder / "sleap-coco.json"), image_filenames=IMAGES)
    return None


def pycocotools_reads(folder: Path) -> object:
    """Read COCO, and evaluate the keypoints against themselves."""
    import io

    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    with contextlib.redirect_stdout(io.StringIO()):
        truth = COCO(str(folder / "points.coco.json"))
        found = [
            {
                "image_id": each["image_id"],
                "category_id": each["category_id"],
                "keypoints": each["keypoints"],
                "score": 1.0,
            }
            for each in truth.dataset["annotations"]
        ]
        category = truth.loadCats(truth.getCatIds())[0]
        evaluation = COCOeval(truth, truth.loadRes(found), "keypoints")
        evaluation.params.catIds = [category["id"]]
        evaluation.params.kpt_oks_sigmas = __import__("numpy").full(len(category["keypoints"]), 0.05)
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    return {
        "categories": truth.loadCats(truth.getCatIds()),
        "images": [each["file_name"] for each in truth.loadImgs(truth.getImgIds())],
        "annotations": truth.loadAnns(truth.getAnnIds()),
        "average precision": evaluation.stats[0],
    }


def datumaro_reads(folder: Path) -> object:
    """Read CVAT and COCO."""
    from datumaro.components.dataset import Dataset

    cvat = Dataset.import_from(str(folder / "cvat"), "cvat")
    coco = Dataset.import_from(str(folder / "coco"), "coco_person_keypoints")
    labels = cvat.categories()[next(iter(cvat.categories()))]
    return {
        "cvat": {
            item.id: [
                {
                    "label": labels[each.label].name,
                    "points": list(each.points),
                    "attributes": dict(each.attributes),
                }
                for each in item.annotations
            ]
            for item in cvat
        },
        "coco": {
            item.id: [
                {"points": list(each.points), "visibility": [int(one.value) for one in each.visibility]}
                for each in item.annotations
                if type(each).__name__ == "Points"
            ]
            for item in coco
        },
    }


def datumaro_writes(folder: Path) -> object:
    """Write CVAT and COCO."""
    import numpy
    from datumaro.components.annotation import AnnotationType, Bbox, LabelCategories, Points, PointsCategories
    from datumaro.components.dataset import Dataset
    from datumaro.components.dataset_base import DatasetItem
    from datumaro.components.media import Image

    image = Image.from_numpy(data=numpy.zeros((48, 64, 3), dtype=numpy.uint8), ext=".png")
    person = {
        AnnotationType.label: LabelCategories.from_iterable(["mouse"]),
        AnnotationType.points: PointsCategories.from_iterable([(0, ["nose", "tail"], {(1, 2)})]),
    }
    points = Points([10.5, 20.25, 30, 40], [2, 1], label=0, id=1, group=1)
    box = Bbox(10.5, 20.25, 19.5, 19.75, label=0, id=1, group=1)
    item = DatasetItem(id="a", media=image, annotations=[points, box], attributes={"id": 1})
    Dataset.from_iterable([item], categories=person).export(str(folder / "coco"), "coco_person_keypoints")
    loose = {AnnotationType.label: LabelCategories.from_iterable(["nose", "tail"])}
    each = [
        Points([10.5, 20.25], label=0, attributes={"occluded": False}),
        Points([30, 40], label=1, attributes={"occluded": True}),
    ]
    item = DatasetItem(id="a", media=image, annotations=each, attributes={"frame": 0})
    Dataset.from_iterable([item], categories=loose).export(str(folder / "cvat"), "cvat")
    return [str(path.relative_to(folder)) for path in sorted(folder.rglob("*")) if path.is_file()]


def label_studio_reads(folder: Path) -> object:
    """Convert tasks as a project's export does: to JSON-MIN and COCO; the predictions count as annotations."""
    from label_studio_sdk.converter import Converter
    from label_studio_sdk.label_interface import LabelInterface

    configuration = (folder / "config.xml").read_text()
    interface = LabelInterface(configuration)
    tasks = json.loads((folder / "tasks.json").read_text())
    valid = [interface.validate_prediction(each, return_errors=True) for task in tasks for each in task["predictions"]]
    annotated = [
        {"id": number, "data": task["data"], "annotations": [{"id": number, **task["predictions"][0]}]}
        for number, task in enumerate(tasks, start=1)
    ]
    (folder / "annotated.json").write_text(json.dumps(annotated))
    converter = Converter(configuration, str(folder), download_resources=False)
    converter.convert_to_json(str(folder / "annotated.json"), str(folder / "json"), is_dir=False)
    converter.convert_to_json_min(str(folder / "annotated.json"), str(folder / "min"), is_dir=False)
    converter.convert_to_coco(str(folder / "annotated.json"), str(folder / "coco"), is_dir=False)
    return {"errors": valid, "coco": json.loads((folder / "coco" / "result.json").read_text())}


def label_studio_writes(folder: Path) -> object:
    """Convert an annotated task to JSON and JSON-MIN."""
    from label_studio_sdk.converter import Converter

    labels = '<Label value="nose" model_index="0"/><Label value="tail" model_index="1"/>'
    configuration = f"""<View><Image name="image" value="$image"/>
        <KeyPointLabels name="keypoints" toName="image">{labels}</KeyPointLabels></View>"""
    common = {"to_name": "image", "original_width": 64, "original_height": 48, "image_rotation": 0}
    regions = [
        {
            "id": name,
            "type": "keypointlabels",
            "from_name": "keypoints",
            **common,
            "value": {"x": x / 0.64, "y": y / 0.48, "width": 0.5, "keypointlabels": [name]},
        }
        for name, x, y in (("nose", 10.5, 20.25), ("tail", 30, 40))
    ]
    regions[1]["meta"] = {"text": ["hidden"]}
    task = {"id": 1, "data": {"image": "/data/upload/1/0a1b2c3d-a.png"}}
    task["annotations"] = [{"id": 1, "completed_by": 1, "was_cancelled": False, "result": regions}]
    (folder / "annotated.json").write_text(json.dumps([task]))
    converter = Converter(configuration, str(folder), download_resources=False)
    converter.convert_to_json(str(folder / "annotated.json"), str(folder / "json"), is_dir=False)
    converter.convert_to_json_min(str(folder / "annotated.json"), str(folder / "min"), is_dir=False)
    return None


def x_anylabeling_reads(folder: Path) -> object:
    """Open our files as X-AnyLabeling does."""
    import os

    os.environ["QT_QPA_PLATFORM"] = "offscreen"
    from anylabeling.views.labeling.label_file import LabelFile

    return {
        path.name: [each.to_dict() for each in LabelFile(str(path)).shapes] for path in sorted(folder.rglob("*.json"))
    }


def x_anylabeling_writes(folder: Path) -> object:
    """Save a file with X-AnyLabeling's own shapes."""
    import os

    os.environ["QT_QPA_PLATFORM"] = "offscreen"
    from anylabeling.views.labeling.label_file import LabelFile
    from anylabeling.views.labeling.shape import Shape
    from PyQt6.QtCore import QPointF

    shapes = []
    for name, x, y, is_hidden in (("nose", 10.5, 20.25, False), ("tail", 30, 40, True)):
        shape = Shape(label=name, shape_type="point", difficult=is_hidden)
        shape.add_point(QPointF(x, y))
        shapes.append(shape.to_dict())
    path = str(folder / "x-anylabeling.json")
    LabelFile().save(path, shapes, image_path="a.png", image_height=48, image_width=64, other_data={}, flags={})
    return None


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]](Path(sys.argv[2]))))
