"""Requests generated from the API's own description never make the server fail."""

import warnings

import pytest

schemathesis = pytest.importorskip("schemathesis", reason="the API is fuzzed with schemathesis")
pytest.importorskip("fastapi", reason="the web extra is not installed")

from collections import Counter  # noqa: E402

from hypothesis import HealthCheck, settings  # noqa: E402

from mambamatcher.io.points import make_points  # noqa: E402
from mambamatcher.tools.references import Reference  # noqa: E402
from mambamatcher.web.fetching import LabelStudioImages  # noqa: E402
from mambamatcher.web.label_studio import LabelStudio  # noqa: E402
from mambamatcher.web.predictor import Predictor  # noqa: E402
from mambamatcher.web.server import create_app  # noqa: E402
from mambamatcher.web.sessions import COOKIE  # noqa: E402
from mambamatcher.web.state import Settings  # noqa: E402
from mambamatcher.web.x_anylabeling import XAnyLabeling  # noqa: E402
from tests.helpers import noise_file  # noqa: E402
from tests.web.conftest import small_matcher, small_stored_image  # noqa: E402

pytestmark = [pytest.mark.web, pytest.mark.filterwarnings("ignore::UserWarning")]

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it is untrained
    matcher = small_matcher()
predictor = Predictor(matcher, [Reference(matcher.read(noise_file()), make_points([(9, 9)], ["nose"]))])
tools = [LabelStudio(predictor, LabelStudioImages("http://127.0.0.1:9", None, 10**6)), XAnyLabeling(predictor)]
app = create_app(Settings(host_names=("testserver",)), {"small": lambda: matcher}, tools=tools)
session = app.state.server.sessions.open()
stored = small_stored_image()
session.images[stored.id] = stored
schema = schemathesis.openapi.from_asgi("/openapi.json", app)
answered: Counter[tuple[str, bool]] = Counter()


def with_existing_images(body, file_or_id):
    """Replace generated images by existing ones, to get past the first check."""
    if isinstance(body, list):
        return [with_existing_images(each, file_or_id) for each in body]
    if not isinstance(body, dict):
        return body
    real = {key: with_existing_images(value, file_or_id) for key, value in body.items()}
    return real | {key: file_or_id for key in ("source", "target", "picture") if isinstance(real.get(key), str)}


@schema.parametrize()
@settings(max_examples=15, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_no_request_makes_the_server_fail(case):
    file_or_id = noise_file() if case.media_type == "multipart/form-data" else stored.id
    for body in (case.body, with_existing_images(case.body, file_or_id)):
        case.body = body
        answer = case.call(headers={"Cookie": f"{COOKIE}={session.secret}"})
        answered[case.path, answer.status_code < 400] += 1
        assert answer.status_code < 500, answer.text
        assert answer.status_code < 400 or isinstance(answer.json()["detail"], str)


def test_every_route_was_requested_and_some_generated_requests_succeeded():
    assert {path for path, _ in answered} == set(app.openapi()["paths"])
    for path in ("/pictures", "/pairs/match", "/drawing"):
        assert answered[path, True], path
