"""Requests made up from the API's own description; whatever comes, the server must not fail."""

import pytest

schemathesis = pytest.importorskip("schemathesis", reason="the API is fuzzed with schemathesis")
pytest.importorskip("fastapi", reason="the web extra is not installed")

from collections import Counter  # noqa: E402

from hypothesis import HealthCheck, settings  # noqa: E402

from mambamatcher.web.guard import COOKIE  # noqa: E402
from mambamatcher.web.server import create_app  # noqa: E402
from mambamatcher.web.settings import Settings  # noqa: E402
from tests.web.conftest import keep_small, picture, small_matcher  # noqa: E402

pytestmark = [pytest.mark.web, pytest.mark.filterwarnings("ignore::UserWarning")]

app = create_app(Settings(host_names=("testserver",)), {"small": small_matcher})
session = app.state.service.sessions.open()
stored = keep_small()
session.pictures[stored.id] = stored
schema = schemathesis.openapi.from_asgi("/openapi.json", app)
answered: Counter[tuple[str, bool]] = Counter()


def with_pictures_there_are(body, file_or_name):
    """Put real pictures in the place of made-up ones, to get past the first check."""
    if isinstance(body, list):
        return [with_pictures_there_are(each, file_or_name) for each in body]
    if not isinstance(body, dict):
        return body
    real = {key: with_pictures_there_are(value, file_or_name) for key, value in body.items()}
    return real | {key: file_or_name for key in ("source", "target", "picture") if isinstance(real.get(key), str)}


@schema.parametrize()
@settings(max_examples=15, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_no_request_makes_the_server_fail(case):
    file_or_name = picture() if case.media_type == "multipart/form-data" else stored.id
    for body in (case.body, with_pictures_there_are(case.body, file_or_name)):
        case.body = body
        answer = case.call(headers={"Cookie": f"{COOKIE}={session.secret}"})
        answered[case.path, answer.status_code < 400] += 1
        assert answer.status_code < 500, answer.text
        assert answer.status_code < 400 or isinstance(answer.json()["detail"], str)


def test_every_route_was_asked_and_made_up_requests_got_past_the_checks():
    assert {path for path, _ in answered} == set(app.openapi()["paths"])
    for path in ("/pictures", "/pairs/match", "/points/{file_format}", "/drawing"):
        assert answered[path, True], path
