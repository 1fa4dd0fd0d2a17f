"""What the package label-studio-ml answers for a backend of two lines. Runs in its environment and prints JSON."""

import json

from label_studio_ml.api import init_app
from label_studio_ml.model import LabelStudioMLBase

CONFIG = """<View><Image name="photo" value="$image"/>
<KeyPointLabels name="parts" toName="photo"><Label value="nose"/></KeyPointLabels></View>"""


class Backend(LabelStudioMLBase):
    def predict(self, tasks, **_):
        return [{"result": [], "score": 1.0} for _ in tasks]

    def fit(self, *_, **__):
        return {}


if __name__ == "__main__":
    client = init_app(Backend, model_dir=".").test_client()
    project = {"project": "1.1700000000"}
    task = {"id": 1, "data": {"image": "/data/upload/1/a.png"}}
    answers = {
        "setup": client.post("/setup", json={**project, "schema": CONFIG}),
        "predict": client.post("/predict", json={**project, "label_config": CONFIG, "tasks": [task]}),
        "versions": client.post("/versions", json=project),
    }
    print(json.dumps({name: answer.get_json() for name, answer in answers.items()}))
