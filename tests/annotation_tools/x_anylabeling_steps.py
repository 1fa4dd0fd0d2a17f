"""The client of X-AnyLabeling asks a remote server, as its panel does. Runs in the tool's environment and prints JSON.

Arguments: the address of the server, its token, and an image.
"""

import json
import sys
from unittest.mock import patch

from anylabeling.services.auto_labeling.remote_server import RemoteServer
from PyQt6.QtCore import QCoreApplication
from PyQt6.QtGui import QImage


def main(url: str, token: str, image: str) -> None:
    application = QCoreApplication([])
    messages: list[str] = []
    settings = {"remote_server_settings": {"server_url": url, "api_key": token}}
    with patch("anylabeling.services.auto_labeling.model.get_config", return_value=settings):
        config = {"type": "remote_server", "name": "remote", "display_name": "Remote-Server", "timeout": 180}
        client = RemoteServer(config, messages.append)
    models = client.get_available_models()
    shapes = []
    for model, info in models.items():
        client.set_model_id(model)
        widgets = {widget["name"]: widget["value"] for widget in info["widgets"]}
        client.set_auto_labeling_conf(widgets["edit_conf"])  # as the panel does when it shows the control
        result = client.predict_shapes(QImage(image), image)
        shapes = [
            {
                "label": shape.label,
                "type": shape.shape_type,
                "score": shape.score,
                "points": [[point.x(), point.y()] for point in shape.points],
            }
            for shape in result.shapes
        ]
        client.set_auto_labeling_filter_classes(["nose"])
        only = [shape.label for shape in client.predict_shapes(QImage(image), image).shapes]
    print(json.dumps({"models": models, "shapes": shapes, "only": only, "messages": messages}))
    application.quit()


if __name__ == "__main__":
    main(*sys.argv[1:])
