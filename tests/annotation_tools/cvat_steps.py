"""CVAT's own driver runs the function on images of a folder. Runs in the tool's environment and prints JSON.

The driver, the loader of functions and their checks are CVAT's; only the task's images and labels are not on a server.
Arguments: a JSON object with `parameters` of the function, `images`, `labels` of the task and `threshold`.
"""

import json
import logging
import sys
from types import SimpleNamespace

import PIL.Image
from cvat_cli._internal.common import FunctionLoader
from cvat_sdk.auto_annotation import BadFunctionError, driver


class Task:
    """What the driver uses of a task's dataset."""

    def __init__(self, images: list[str], labels: list[dict]) -> None:
        self.samples = [
            SimpleNamespace(
                frame_name=image,
                frame_index=number,
                media=SimpleNamespace(load_image=lambda image=image: PIL.Image.open(image)),
            )
            for number, image in enumerate(images)
        ]
        self.labels = [_label(100 + number, label) for number, label in enumerate(labels)]


def _label(number: int, label: dict) -> SimpleNamespace:
    parts = [
        SimpleNamespace(id=10 * number + index, name=name, attributes=[])
        for index, name in enumerate(label.get("sublabels", ()))
    ]
    return SimpleNamespace(id=number, name=label["name"], type=label["type"], attributes=[], sublabels=parts)


def main(given: dict) -> None:
    task = Task(given["images"], given["labels"])
    driver.TaskDataset = lambda *_, **__: task
    sent = []

    def upload(action, task_id, patched_labeled_data_request):
        sent.extend(each.to_dict() for each in patched_labeled_data_request.shapes)

    api = SimpleNamespace(partial_update_annotations=upload)
    client = SimpleNamespace(logger=logging.getLogger(), tasks=SimpleNamespace(api=api))
    function = FunctionLoader("mambamatcher.tools.cvat", None, given["parameters"]).load()
    try:
        driver.annotate_task(client, 1, function, conf_threshold=given.get("threshold"))
    except BadFunctionError as error:
        print(json.dumps({"refused": str(error)}))
    else:
        names = {label.id: label.name for label in task.labels}
        names |= {part.id: part.name for label in task.labels for part in label.sublabels}
        print(json.dumps({"shapes": sent, "names": names}, default=str))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
