import socket
import sys

import pytest

pytest.importorskip("fastapi", reason="the web extra is not installed")

import uvicorn

from mambamatcher import cli
from mambamatcher.cli import serve as verb
from mambamatcher.cli.serve import model_loaders

TOKEN = "a long enough secret"


@pytest.fixture
def serve(monkeypatch, capsys, matcher):
    """Run the command without serving: (exit code, what it printed, the application)."""
    monkeypatch.setattr(verb, "load_matcher", lambda *_: matcher)

    def call(*arguments):
        served = []
        monkeypatch.setattr(sys, "argv", ["mambamatcher", "serve", "--port", "0", *map(str, arguments)])
        monkeypatch.setattr(uvicorn.Server, "run", lambda server, sockets: served.append((server.config.app, sockets)))
        try:
            cli.main()
            code = 0
        except SystemExit as stopped:
            code = int(stopped.code or 0)
        for _, sockets in served:
            for each in sockets:
                each.close()
        printed = capsys.readouterr()
        return code, printed.out + printed.err, served[0][0] if served else None

    return call


def test_only_this_machine_is_let_in_by_default(serve):
    code, printed, app = serve()
    assert code == 0
    assert "open http://127.0.0.1:" in printed
    assert app.state.service.settings.token is None
    assert app.state.service.models.names == ["default", "nearest"]


def test_limits_are_given_on_the_command_line(serve):
    _, _, app = serve("--max-upload-mb", 3, "--max-megapixels", 2, "--max-requests", 5, "--keep-minutes", 1)
    settings = app.state.service.settings
    assert (settings.picture_bytes, settings.picture_pixels) == (3 * 2**20, 2_000_000)
    assert (settings.requests, settings.keep_seconds) == (5, 60)


def test_a_token_comes_from_the_environment_so_that_others_cannot_list_it(serve, monkeypatch):
    monkeypatch.setenv("MAMBAMATCHER_TOKEN", TOKEN)
    _, printed, app = serve("--host", "0.0.0.0")
    assert app.state.service.settings.token == TOKEN
    assert "#token=a%20long%20enough%20secret" in printed


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--host", "0.0.0.0"], "--token"),
        (["--host", "::"], "--token"),
        (["--host", "lab.example"], "--token"),
        (["--token", "short"], "use at least 16"),
        (["--host", "not an address", "--token", TOKEN], "cannot listen"),
        (["--port", "99999"], "65535"),
    ],
)
def test_what_cannot_be_served_is_said_in_one_sentence(serve, arguments, words):
    code, printed, app = serve(*arguments)
    assert (code, app) == (2, None)
    assert words in printed
    assert "Traceback" not in printed


def test_a_port_in_use_is_said_in_one_sentence(serve):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        code, printed, _ = serve("--port", taken.getsockname()[1])
    assert code == 2
    assert "in use" in printed


def test_a_missing_extra_is_said_in_one_sentence(serve, monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    code, printed, _ = serve()
    assert code == 2
    assert "pip install 'mambamatcher[web]'" in printed


def test_a_folder_is_offered_by_its_last_name_alone(tmp_path):
    (tmp_path / "mine").mkdir()
    assert list(model_loaders([str(tmp_path / "mine"), "nearest"])) == ["mine", "nearest"]
    with pytest.raises(ValueError, match="two models are named mine"):
        model_loaders([str(tmp_path / "mine"), str(tmp_path / "mine")])
