import socket
import sys

import pytest

pytest.importorskip("fastapi", reason="the web extra is not installed")

import uvicorn

from mambamatcher.cli import serve as command
from mambamatcher.cli.serve import model_loaders
from tests.helpers import run_cli
from tests.test_sample import PHOTOS

TOKEN = "a long enough secret"


@pytest.fixture
def serve(monkeypatch, capsys, matcher):
    """Return a function that runs the command without serving: (exit code, output, the application)."""
    monkeypatch.setattr(command, "load_matcher", lambda *_: matcher)

    def call(*arguments):
        served = []
        monkeypatch.setattr(uvicorn.Server, "run", lambda server, sockets: served.append((server.config.app, sockets)))
        code, out, err = run_cli(monkeypatch, capsys, "serve", "--port", 0, *arguments)
        for _, sockets in served:
            for each in sockets:
                each.close()
        return code, out + err, served[0][0] if served else None

    return call


def test_the_server_listens_on_the_loopback_address_by_default(serve):
    code, printed, app = serve()
    assert code == 0
    assert "open http://127.0.0.1:" in printed
    assert app.state.server.settings.token is None
    assert app.state.server.models.names == ["default", "lite", "nearest"]


def test_options_set_the_limits(serve):
    _, _, app = serve("--max-upload-mb", 3, "--max-megapixels", 2, "--max-requests", 5, "--keep-minutes", 1)
    settings = app.state.server.settings
    assert (settings.picture_bytes, settings.picture_pixels) == (3 * 2**20, 2_000_000)
    assert (settings.requests, settings.keep_seconds) == (5, 60)


def test_the_token_can_come_from_the_environment(serve, monkeypatch):
    monkeypatch.setenv("MAMBAMATCHER_TOKEN", TOKEN)
    _, printed, app = serve("--host", "0.0.0.0")
    assert app.state.server.settings.token == TOKEN
    assert "#token=a%20long%20enough%20secret" in printed


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--host", "0.0.0.0"], "--token"),
        (["--host", "::"], "--token"),
        (["--host", "lab.example"], "--token"),
        (["--token", "short"], "use at least 16"),
        (["--token", " " * 16], "0 characters, not counting blanks around it; use at least 16"),
        (["--token", "abab" * 8], "2 different characters; use at least 6"),
        (["--host", "not an address", "--token", TOKEN], "cannot listen"),
        (["--port", "99999"], "65535"),
    ],
)
def test_invalid_options_end_in_one_sentence(serve, arguments, words):
    code, printed, app = serve(*arguments)
    assert (code, app) == (2, None)
    assert words in printed
    assert "Traceback" not in printed


def reference(*options):
    return ["--reference", PHOTOS / "cat.jpg", "--points", PHOTOS / "cat.json", *options]


def test_annotation_tools_are_answered_with_the_points_of_the_reference(serve, monkeypatch):
    monkeypatch.setenv("LABEL_STUDIO_API_KEY", "secret")
    code, printed, app = serve(*reference("--x-anylabeling", "--label-studio", "--label-studio-url", "http://[::1]:80"))
    assert code == 0, printed
    assert "in Label Studio: Settings, Model, Connect Model, Backend URL http://127.0.0.1:" in printed
    assert "in X-AnyLabeling: " in printed
    assert "secret" not in printed
    assert {"/setup", "/predict", "/versions", "/v1/models", "/v1/predict"} <= set(app.openapi()["paths"])
    for tool in app.state.tools.values():
        assert tool.predictor.names == ["left eye", "right eye", "nose", "mouth", "left ear", "right ear"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--label-studio", "--label-studio-url", "http://localhost:8080"], "give --reference IMAGE and --points FILE"),
        (["--x-anylabeling", "--points", PHOTOS / "cat.json"], "give --reference IMAGE and --points FILE"),
        (reference("--label-studio"), "--label-studio and --label-studio-url are used together"),
        (reference("--x-anylabeling", "--label-studio-url", "http://localhost"), "are used together"),
        (reference("--label-studio", "--label-studio-url", "localhost:8080"), "is not the address of a server"),
        (reference(), "add --label-studio or --x-anylabeling"),
        (["--x-anylabeling", "--reference", "no.jpg", "--points", PHOTOS / "cat.json"], "no image file at no.jpg"),
        (
            ["--x-anylabeling", "--reference", PHOTOS / "cat.jpg", "--points", "no.json"],
            "cannot read points from no.json",
        ),
        (
            ["--x-anylabeling", "--reference", PHOTOS / "cat.jpg", "--points", PHOTOS / "README.md"],
            "needs a header with x and y",
        ),
    ],
)
def test_options_for_annotation_tools_that_do_not_fit_end_in_one_sentence(serve, arguments, words):
    code, printed, app = serve(*arguments)
    assert (code, app) == (2, None)
    assert words in " ".join(printed.split())
    assert "Traceback" not in printed


def test_accepted_connections_do_not_delay_small_packets():
    with command.listen("127.0.0.1", 0) as listening, socket.create_connection(listening.getsockname()):
        accepted, _ = listening.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_a_port_in_use_ends_in_one_sentence(serve):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        code, printed, _ = serve("--port", taken.getsockname()[1])
    assert code == 2
    assert "in use" in printed


def test_a_missing_extra_ends_in_one_sentence(serve, monkeypatch):
    monkeypatch.delitem(sys.modules, "mambamatcher.web.connections", raising=False)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    code, printed, _ = serve()
    assert code == 2
    assert "pip install 'mambamatcher[web]'" in printed


def test_a_folder_is_offered_by_its_last_component_only(tmp_path):
    (tmp_path / "mine").mkdir()
    assert list(model_loaders([str(tmp_path / "mine"), "nearest"])) == ["mine", "nearest"]
    with pytest.raises(ValueError, match="two models are named mine"):
        model_loaders([str(tmp_path / "mine"), str(tmp_path / "mine")])
