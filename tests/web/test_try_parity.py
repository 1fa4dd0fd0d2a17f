"""The page that needs no server finds the same points as Python; in a real browser, served as files."""

from base64 import b64decode, b64encode
from io import BytesIO
from itertools import permutations

import numpy as np
import pytest
from PIL import Image

from mambamatcher.io.images import resize_square
from mambamatcher.matching.matcher import Matcher
from mambamatcher.web.page import PHOTOS
from tests.web.browser import MARKS

pytestmark = MARKS
FRACTIONS = [(0.5, 0.5), (0.3, 0.4), (0.62, 0.31), (0.45, 0.72), (0.81, 0.55), (0.02, 0.97)]  # of width and height
MATCH = """async ([source, target, points]) => {
    const api = await import(new URL("static/api.js", location.href).href);
    const decoded = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    const add = (text, name) => api.addImage(new File([decoded(text)], name));
    const images = [await add(source, "source"), await add(target, "target")];
    const { matches } = await api.matchPair({ source: images[0].id, target: images[1].id, points });
    return { sizes: images.map(({ width, height }) => [width, height]), matches };
}"""


@pytest.fixture(scope="module")
def matcher():
    return Matcher.from_pretrained("lite")


def match_in_browser(page, source: bytes, target: bytes, points) -> dict:
    return page.evaluate(MATCH, [b64encode(source).decode(), b64encode(target).decode(), points])


def assert_agree(matches: list[dict], expected, pixels: float) -> None:
    distance = np.linalg.norm(np.array([match["target"] for match in matches]) - expected.points, axis=1)
    assert distance.max() < pixels
    assert np.abs(np.array([match["confidence"] for match in matches]) - expected.confidence).max() < 0.01
    assert [match["matched"] for match in matches] == expected.matched.tolist()


def test_points_agree_with_python_on_all_pairs_of_photos(try_page, matcher):
    page = try_page()
    for source, target in permutations(sorted(PHOTOS.glob("*.jpg")), 2):
        size = Image.open(source).size
        points = [(x * size[0], y * size[1]) for x, y in FRACTIONS]
        answer = match_in_browser(page, source.read_bytes(), target.read_bytes(), points)
        assert_agree(answer["matches"], matcher.match(source, target, points), pixels=0.5)


def test_points_agree_with_python_on_a_large_rotated_photo(try_page, matcher):
    rotation = Image.Exif()
    rotation[0x0112] = 6  # 90 degrees
    encoded = BytesIO()
    Image.open(PHOTOS / "cat.jpg").resize((2999, 2401)).save(encoded, "JPEG", exif=rotation, quality=95)
    target = (PHOTOS / "raccoon.jpg").read_bytes()
    points = [(x * 2401, y * 2999) for x, y in FRACTIONS]
    answer = match_in_browser(try_page(), encoded.getvalue(), target, points)
    assert answer["sizes"][0] == [2401, 2999]
    assert_agree(answer["matches"], matcher.match(encoded.getvalue(), target, points), pixels=0.5)


def test_transparent_pixels_are_blended_with_white_as_in_python(try_page, matcher):
    image = Image.open(PHOTOS / "cat.jpg").convert("RGBA")
    image.putalpha(Image.linear_gradient("L").resize(image.size))
    encoded = BytesIO()
    image.save(encoded, "PNG")
    target = (PHOTOS / "raccoon.jpg").read_bytes()
    points = [(x * image.width, y * image.height) for x, y in FRACTIONS]
    answer = match_in_browser(try_page(), encoded.getvalue(), target, points)
    assert_agree(answer["matches"], matcher.match(encoded.getvalue(), target, points), pixels=0.5)


def test_images_are_resized_as_pillow_does(try_page):
    page = try_page()
    resized = """async ([bytes, width, height]) => {
        const { resizeToSquare } = await import(new URL("static/resample.js", location.href).href);
        const rgba = Uint8Array.from(atob(bytes), (letter) => letter.charCodeAt(0));
        const rows = (top, count) => rgba.subarray(4 * width * top, 4 * width * (top + count));
        return btoa(String.fromCharCode(...resizeToSquare(rows, width, height, 96, 3)));
    }"""
    for width, height in [(61, 40), (96, 96), (700, 500), (601, 190), (1001, 602), (30, 601)]:
        image = Image.fromarray(np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8))
        answer = page.evaluate(resized, [b64encode(image.convert("RGBA").tobytes()).decode(), width, height])
        given = np.frombuffer(b64decode(answer), dtype=np.uint8).reshape(96, 96, 3).astype(int)
        difference = np.abs(given - np.asarray(resize_square(image, 96)))
        assert difference.max() <= (1 if height > width else 0)  # Pillow resizes tall images vertically first
