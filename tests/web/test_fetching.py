"""Images of Label Studio are fetched from its origin alone, within limits, and the API key goes nowhere else."""

import json

import pytest

pytest.importorskip("fastapi", reason="the web extra is not installed")

from mambamatcher.errors import InputError
from mambamatcher.web.fetching import LabelStudioImages, check_server_url
from tests.helpers import noise_file
from tests.web.other_server import IMAGE, drip, other_server

MIB = 2**20
PERSONAL = "header.payload.signature"


@pytest.fixture
def label_studio():
    with other_server({"/data/upload/1/a.png": IMAGE, "/data/local-files/": IMAGE}) as server:
        yield server


def images(server, key=None, max_bytes=MIB, max_seconds=20.0):
    return LabelStudioImages(server.url, key, max_bytes, max_seconds)


@pytest.mark.parametrize("address", ["/data/upload/1/a.png", "data/upload/1/a.png", "{url}/data/upload/1/a.png"])
def test_an_image_is_fetched_by_its_path_or_its_url(label_studio, address):
    fetched = images(label_studio).fetch_blocking(address.format(url=label_studio.url))
    assert (fetched.data, fetched.name) == (noise_file(), "a.png")


def test_a_query_is_kept_and_a_name_with_spaces_and_accents_is_encoded(label_studio):
    label_studio.answers["/data/upload/1/deux%20%C3%A9t%C3%A9.png"] = IMAGE
    images(label_studio).fetch_blocking("/data/local-files/?d=cats/1.png")
    images(label_studio).fetch_blocking("/data/upload/1/deux été.png")
    assert [path for _, path, _ in label_studio.asked] == [
        "/data/local-files/?d=cats/1.png",
        "/data/upload/1/deux%20%C3%A9t%C3%A9.png",
    ]


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("http://evil.example/a.png", "the only server"),
        ("https://127.0.0.1:{port}/data/upload/1/a.png", "the only server"),
        ("http://127.0.0.1:1/data/upload/1/a.png", "the only server"),
        ("http://127.0.0.1.evil.example:{port}/a.png", "the only server"),
        ("//evil.example/a.png", "the only server"),
        ("http://user:password@127.0.0.1:{port}/data/upload/1/a.png", "the only server"),
        ("http://127.0.0.1:{port}@evil.example/a.png", "the only server"),
        ("file:///etc/passwd", "the only server"),
        ("s3://bucket/a.png", "the only server"),
        ("data:image/png;base64,AAAA", "the only server"),
        ("/data/upload/../../api/users", "leads out of a folder"),
        ("/data/upload/%2e%2e/%2e%2e/api/users", "leads out of a folder"),
        ("/data/local-files/?d=../../etc/passwd", "leads out of a folder"),
        ("/data/local-files/?d=..%2f..%2fetc%2fpasswd", "leads out of a folder"),
        ("/\\evil.example/a.png", "backslashes"),
        ("/data/a.png\r\nHost: evil.example", "control characters"),
        ("http://[", "not a URL"),
    ],
)  # fmt: skip
def test_an_address_that_is_not_allowed_is_refused_before_anything_is_sent(label_studio, address, words):
    with pytest.raises(InputError, match=words):
        images(label_studio).fetch_blocking(address.format(port=label_studio.url.rpartition(":")[2]))
    assert not label_studio.asked


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_no_redirect_is_followed_and_its_target_sees_no_key(label_studio, status):
    with other_server({"/a.png": IMAGE}) as elsewhere:
        for target in (f"{elsewhere.url}/a.png", "/data/upload/1/a.png", "file:///etc/passwd"):
            label_studio.answers["/data/redirect"] = (status, {"Location": target}, b"")
            with pytest.raises(InputError, match=f"{status}, and redirects are not followed"):
                images(label_studio, key="secret").fetch_blocking("/data/redirect")
        assert not elsewhere.asked
    assert len(label_studio.asked) == 3


def test_an_image_above_the_limit_is_refused_from_its_announced_size_or_as_it_arrives(label_studio):
    content = noise_file()
    label_studio.answers["/large"] = (200, {"Content-Type": "image/png", "Content-Length": str(10**12)}, content)
    unannounced = b"HTTP/1.0 200 OK\r\nContent-Type: image/png\r\n\r\n" + bytes(3 * MIB)
    label_studio.answers["/endless"] = drip(unannounced)
    for path in ("/large", "/endless"):
        with pytest.raises(InputError, match="more than the 1,048,576 bytes allowed"):
            images(label_studio).fetch_blocking(path)
    assert len(images(label_studio, max_bytes=len(content)).fetch_blocking("/data/upload/1/a.png").data) == len(content)
    with pytest.raises(InputError, match="bytes allowed"):
        images(label_studio, max_bytes=len(content) - 1).fetch_blocking("/data/upload/1/a.png")


@pytest.mark.parametrize("kind", ["text/html", "application/json", "video/mp4"])
def test_what_is_not_an_image_is_refused_by_its_type(label_studio, kind):
    label_studio.answers["/page"] = (200, {"Content-Type": kind}, b"<html>")
    with pytest.raises(InputError, match=f"of the type '{kind}', not an image"):
        images(label_studio).fetch_blocking("/page")


@pytest.mark.parametrize(
    "sent",
    [
        b"HTTP/1.1 200 OK\r\nContent-Type: image/png\r\nContent-Length: 900000\r\n\r\n",  # a slow body
        b"HTTP/1.0 200 OK\r\nContent-Type: image/png\r\n\r\n",  # of unknown length
        b"HTTP/1.1 200 OK\r\nX-Header: ",  # a slow head
    ],
)
def test_a_server_that_sends_slowly_is_not_waited_for(label_studio, sent):
    label_studio.answers["/slow"] = drip(sent)
    with pytest.raises(InputError, match=r"it took longer than 0\.3 s"):
        images(label_studio, max_seconds=0.3).fetch_blocking("/slow")


def test_a_truncated_or_missing_image_is_refused(label_studio):
    label_studio.answers["/short"] = (200, {"Content-Type": "image/png", "Content-Length": "90000"}, b"\x89PNG")
    with pytest.raises(InputError, match="ended before its announced size"):
        images(label_studio).fetch_blocking("/short")
    with pytest.raises(InputError, match="'/data/none' cannot be fetched: Label Studio answers 404"):
        images(label_studio).fetch_blocking("/data/none")


def test_a_server_that_is_not_there_is_named():
    with pytest.raises(InputError, match=r"cannot be fetched from 127\.0\.0\.1:9: Connection refused"):
        LabelStudioImages("http://127.0.0.1:9", None, MIB).fetch_blocking("/data/a.png")


def test_a_legacy_token_is_sent_for_the_data_of_tasks_only(label_studio):
    label_studio.answers["/elsewhere.png"] = IMAGE
    for path in ("/data/upload/1/a.png", "/elsewhere.png"):
        images(label_studio, key="secret").fetch_blocking(path)
    assert [headers.get("Authorization") for _, _, headers in label_studio.asked] == ["Token secret", None]


def test_a_personal_access_token_is_exchanged_once_and_again_when_it_has_expired(label_studio):
    issued = []

    def issue(handler):
        issued.append(json.loads(handler.body)["refresh"])
        body = json.dumps({"access": f"access-{len(issued)}"}).encode()
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    label_studio.answers["/api/token/refresh/"] = issue
    own = images(label_studio, key=PERSONAL)
    for _ in range(2):
        own.fetch_blocking("/data/upload/1/a.png")
    assert issued == [PERSONAL]
    label_studio.answers["/data/upload/1/a.png"] = (401, {}, b"")
    with pytest.raises(InputError, match="answers 401; check the environment variable LABEL_STUDIO_API_KEY"):
        own.fetch_blocking("/data/upload/1/a.png")
    assert issued == [PERSONAL] * 2
    sent = [headers.get("Authorization") for method, _, headers in label_studio.asked if method == "GET"]
    assert sent == ["Bearer access-1"] * 3 + ["Bearer access-2"]


def test_a_refused_token_is_reported_without_it(label_studio):
    label_studio.answers["/api/token/refresh/"] = (401, {}, b"")
    with pytest.raises(InputError, match="refuses the token of LABEL_STUDIO_API_KEY: status 401") as refused:
        images(label_studio, key=PERSONAL).fetch_blocking("/data/upload/1/a.png")
    assert PERSONAL not in str(refused.value)


@pytest.mark.parametrize(
    "url",
    [
        "localhost:8080",
        "ftp://host",
        "http://",
        "http://u:p@host",
        "http://host/?a=1",
        "http://ho st",
        "http://h:99999",
    ],
)
def test_an_address_that_is_not_a_servers_is_refused(url):
    with pytest.raises(InputError, match="is not the address of a server"):
        check_server_url(url)
