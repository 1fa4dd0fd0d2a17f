import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from mambamatcher.matching.matcher import Matcher

pytest.importorskip("fastapi", reason="the web extra is not installed")
from fastapi.testclient import TestClient

from mambamatcher.io.points import make_points
from mambamatcher.tools.references import Reference
from mambamatcher.web.predictor import Predictor
from mambamatcher.web.server import create_app
from mambamatcher.web.state import Settings
from mambamatcher.web.uploads import StoredImage, decode, store_image
from tests.helpers import noise_file

ROOT = Path(__file__).parents[2]
DESKTOP = {"width": 1280, "height": 900}


def small_matcher() -> Matcher:
    """Nearest neighbours of untrained features at low resolution: fast, and an image is found in itself."""
    return Matcher.from_preset("nearest", ["side=96", "backbone.weights=random"])


def upload(client: TestClient, data: bytes | None = None, name: str = "a.png") -> dict:
    answer = client.post("/pictures", files={"picture": (name, noise_file() if data is None else data)})
    assert answer.status_code == 201, answer.text
    return answer.json()


def small_stored_image() -> StoredImage:
    return store_image(decode(noise_file(), "a.png", 10**6), "a.png")


@pytest.fixture(scope="session")
def matcher() -> Matcher:
    with pytest.warns(UserWarning, match="untrained"):
        return small_matcher()


@pytest.fixture
def make_client(matcher):
    """Return a function that starts a server with the given settings and returns a client for it."""
    clients = []

    def make(**settings: object) -> TestClient:
        app = create_app(Settings(**settings), {"small": lambda: matcher, "other": lambda: matcher})
        client = TestClient(app, base_url="http://localhost", raise_server_exceptions=True)
        client.__enter__()
        clients.append(client)
        return client

    yield make
    for client in clients:
        client.__exit__(None, None, None)


@pytest.fixture
def connect_tool(matcher):
    """Return a function that starts a server for an annotation tool and returns a client for it.

    The reference is `noise_file()`. The tool is made by a function of the predictor and the settings.
    """
    with ExitStack() as clients:

        def connect(make_tool, places, names, **options: object) -> TestClient:
            settings = Settings(**options)
            predictor = Predictor(matcher, [Reference(matcher.read(noise_file()), make_points(places, names))])
            app = create_app(settings, {"small": lambda: matcher}, tools=[make_tool(predictor, settings)])
            return clients.enter_context(TestClient(app, base_url="http://localhost"))

        yield connect


@pytest.fixture
def client(make_client) -> TestClient:
    return make_client()


@pytest.fixture(scope="session")
def app():
    """The server's application with a shipped model, as the browser tests use it."""
    matcher = Matcher.from_pretrained("lite")
    app = create_app(Settings(), {"default": lambda: matcher, "nearest": lambda: Matcher.from_preset("nearest")})
    app.state.server.warm_up()
    return app


@pytest.fixture(scope="session")
def address(app):
    from tests.web.browser import serving

    with serving(app) as address:
        yield address


@pytest.fixture(scope="session")
def browser():
    from tests.web.browser import launched_browser

    with launched_browser() as browser:
        yield browser


@pytest.fixture
def visit(browser, request):
    """Return a function that opens the page. Script errors and requests to other sites fail the test."""
    violations, contexts = [], []

    def open_page(path="/", at=None, **options):
        base = at or request.getfixturevalue("address")
        context = browser.new_context(**({"viewport": DESKTOP} | options))
        context.set_default_timeout(15_000)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: violations.append(str(error)))
        page.on("console", lambda message: violations.append(message.text) if "Content Security" in message.text else 0)
        allowed = (base, "blob:")
        page.on("request", lambda asked: None if asked.url.startswith(allowed) else violations.append(asked.url))
        page.goto(base + path)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert not violations


@pytest.fixture
def example(visit):
    """Return a function that opens the page with the example loaded."""
    from tests.web.browser import expect, source_of, target_of

    def load(**options):
        page = visit(**options)
        expect(page.locator("#model")).to_be_enabled()  # from then on the page handles clicks
        page.get_by_role("button", name="Try the example").click()
        expect(source_of(page)).to_be_visible()
        expect(target_of(page)).to_be_visible()
        return page

    return load


@pytest.fixture(scope="session")
def static_host(tmp_path_factory):
    """The built documentation under a sub-path of a static host."""
    from tests.web.static_host import hosting

    folder = tmp_path_factory.mktemp("host")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", folder / "some" / "where"]
    subprocess.run(command, cwd=ROOT, check=True)
    with hosting(folder) as host:
        yield host


@pytest.fixture
def try_page(visit, static_host):
    """Return a function that opens the page that needs no server."""
    from tests.web.browser import expect

    def open_page(**options):
        page = visit("/some/where/try/", at=static_host.address, **options)
        expect(page.locator("#model")).to_be_enabled()  # from then on the page handles clicks
        return page

    return open_page
