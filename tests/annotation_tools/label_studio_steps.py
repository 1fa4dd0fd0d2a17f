"""What a user does in Label Studio, with its own SDK. Runs in the tool's environment and prints JSON.

Arguments: Label Studio's address, a legacy token, the address of the backend, the backend's password, and images.
"""

import json
import sys
from pathlib import Path

import requests
from label_studio_sdk import LabelStudio
from label_studio_sdk.core.api_error import ApiError
from label_studio_sdk.label_interface import LabelInterface

NAMES = ["left eye", "right eye", "nose", "mouth", "left ear", "right ear"]
LABELS = "".join(f'<Label value="{name}"/>' for name in NAMES)
CONFIG = f"""<View>
  <Image name="photo" value="$image" zoom="true"/>
  <KeyPointLabels name="parts" toName="photo">{LABELS}</KeyPointLabels>
</View>"""


def main(url: str, token: str, backend: str, password: str, *images: str) -> None:
    studio = LabelStudio(base_url=url, api_key=token)
    project = studio.projects.create(title="Cats and others", label_config=CONFIG)
    for image in images:
        uploaded = requests.post(
            f"{url}/api/projects/{project.id}/import",
            headers={"Authorization": f"Token {token}"},
            files={"file": (Path(image).name, Path(image).read_bytes())},
            timeout=60,
        )
        uploaded.raise_for_status()
    access = {"auth_method": "BASIC_AUTH", "basic_auth_user": "user", "basic_auth_pass": password} if password else {}
    connected = studio.ml.create(url=backend, project=project.id, title="mambamatcher", **access)
    studio.actions.create(
        id="retrieve_tasks_predictions", project=project.id, selected_items={"all": True, "excluded": []}
    )
    other = studio.projects.create(title="No ears", label_config=CONFIG.replace('"left ear"', '"tail"'))
    try:
        studio.ml.create(url=backend, project=other.id, title="mambamatcher", **access)
        refused = ""
    except ApiError as error:
        refused = str(error.body)
    predictions = []
    for task in studio.tasks.list(project=project.id, fields="all"):
        found = studio.predictions.list(task=task.id)
        assert len(found) == 1, found
        interface = LabelInterface(CONFIG)
        predictions.append(
            {
                "task": task.id,
                "image": task.data["image"],
                "version": found[0].model_version,
                "score": found[0].score,
                "result": found[0].result,
                "valid": interface.validate_prediction({"result": found[0].result, "score": found[0].score}),
            }
        )
    state = studio.ml.get(id=connected.id)
    print(json.dumps({"project": project.id, "state": state.state, "refused": refused, "predictions": predictions}))


if __name__ == "__main__":
    main(*sys.argv[1:])
