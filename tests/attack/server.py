"""The server under attack: the real one, with a small model and short timeouts. Prints its port."""

import json
import sys

from mambamatcher.cli.serve import listen
from mambamatcher.web.connections import limited_server
from mambamatcher.web.server import create_app
from mambamatcher.web.state import Settings
from tests.web.conftest import small_matcher

if __name__ == "__main__":
    app = create_app(Settings(**json.loads(sys.argv[1])), {"small": small_matcher})
    listening = listen("127.0.0.1", 0)
    app.state.server.warm_up()
    print(f"http://127.0.0.1:{listening.getsockname()[1]}", flush=True)
    limited_server(app).run([listening])
