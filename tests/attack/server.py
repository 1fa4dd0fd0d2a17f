"""The server under attack: the real one, with a small model and short timeouts. Prints its port.

Arguments: its settings as JSON and, if it is to be a backend of Label Studio, the address of that and the seconds that
it may take for an image.
"""

import json
import sys

from mambamatcher.cli.serve import listen
from mambamatcher.io.points import make_points
from mambamatcher.tools.references import Reference
from mambamatcher.web.connections import limited_server
from mambamatcher.web.fetching import LabelStudioImages
from mambamatcher.web.label_studio import LabelStudio
from mambamatcher.web.predictor import Predictor
from mambamatcher.web.server import create_app
from mambamatcher.web.state import Settings
from tests.helpers import noise_file
from tests.web.conftest import small_matcher

if __name__ == "__main__":
    settings, tools, load = Settings(**json.loads(sys.argv[1])), [], small_matcher
    if sys.argv[2:]:
        matcher = small_matcher()
        load = lambda: matcher  # noqa: E731
        predictor = Predictor(matcher, [Reference(matcher.read(noise_file()), make_points([(9, 9)], ["nose"]))])
        images = LabelStudioImages(sys.argv[2], None, settings.picture_bytes, float(sys.argv[3]))
        tools = [LabelStudio(predictor, images)]
    app = create_app(settings, {"small": load}, tools=tools)
    listening = listen("127.0.0.1", 0)
    app.state.server.warm_up()
    print(f"http://127.0.0.1:{listening.getsockname()[1]}", flush=True)
    limited_server(app).run([listening])
