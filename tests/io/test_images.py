import io
import struct

import numpy as np
import pytest
import torch
from PIL import Image, ImageOps

from mambamatcher.errors import InputError
from mambamatcher.io import decoding, images
from mambamatcher.io.images import load_image, read_size
from tests.helpers import to_tensor


def picture(width: int = 6, height: int = 4) -> Image.Image:
    values = np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(values)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_pictures_come_upright_whatever_their_exif_says(orientation, tmp_path):
    # what must be done to the upright picture for a camera to store it under each orientation
    undo = {2: [0], 3: [3], 4: [1], 5: [5], 6: [2], 7: [6], 8: [4]}
    stored = picture()
    for operation in undo.get(orientation, []):
        stored = stored.transpose(Image.Transpose(operation))
    exif = Image.Exif()
    exif[0x0112] = orientation
    stored.save(tmp_path / "a.png", exif=exif)
    assert np.array_equal(np.asarray(load_image(tmp_path / "a.png")), np.asarray(picture()))
    assert np.array_equal(np.asarray(load_image(Image.open(tmp_path / "a.png"))), np.asarray(picture()))


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("file_format", ["PNG", "JPEG"])
def test_a_picture_that_was_made_upright_is_not_turned_again(orientation, file_format):
    exif = Image.Exif()
    exif[0x0112] = orientation
    stored = io.BytesIO()
    picture().save(stored, file_format, exif=exif)
    once = load_image(stored.getvalue())
    assert np.array_equal(np.asarray(load_image(once)), np.asarray(once))


@pytest.mark.parametrize("damaged", [b"Exif\0\0not EXIF at all", b"Exif\0\0II*\0\xff\xff\xff\x7f", b"Exif\0\0"])
def test_a_picture_whose_exif_is_damaged_is_read_as_it_is_stored(damaged, tmp_path):
    picture().save(tmp_path / "a.png", exif=damaged)
    assert np.array_equal(np.asarray(load_image(tmp_path / "a.png")), np.asarray(picture()))
    assert read_size(tmp_path / "a.png") == picture().size


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("mode", ["L", "P", "RGB", "RGBA", "CMYK", "I;16"])
def test_a_tiff_stored_sideways_is_the_same_from_its_path_its_content_and_pillow(mode, orientation, tmp_path):
    made = sixteen_bits(picture(40, 30).convert("L")) if mode == "I;16" else picture(40, 30).convert(mode)
    exif = Image.Exif()
    exif[0x0112] = orientation
    path = tmp_path / "a.tif"
    made.save(path, exif=exif)
    upright = load_image(made).transpose(decoding._TURNS[orientation]) if orientation > 1 else load_image(made)
    for given in (path, path.read_bytes(), Image.open(path)):
        assert np.array_equal(np.asarray(load_image(given)), np.asarray(upright))
    assert read_size(path) == upright.size


def sixteen_bits(grey: Image.Image) -> Image.Image:
    return Image.fromarray(np.asarray(grey).astype(np.uint16) * 257)


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "YCbCr", "I;16", "I", "F"])
def test_every_colour_mode_becomes_rgb(mode):
    grey = Image.fromarray(np.tile(np.linspace(0, 255, 8, dtype=np.uint8), (4, 1)))
    made = grey.convert(mode, dither=Image.Dither.NONE) if mode != "I;16" else sixteen_bits(grey)
    loaded = load_image(made)
    assert loaded.mode == "RGB"
    assert loaded.size == (8, 4)
    values = np.asarray(loaded)[0, :, 0].astype(int)
    assert values[0] < 10
    assert values[-1] > 245
    assert (np.diff(values) >= 0).all()


def at_once(values: np.ndarray) -> np.ndarray:
    """Greys of more than 8 bits brought to 8, the whole picture at once."""
    values, sixteen = np.nan_to_num(values.astype(np.float64)), values.dtype == np.uint16
    low, high = (0.0, 65535.0) if sixteen else (values.min(), values.max())
    return np.uint8(np.clip((values - low) / max(high - low, 1e-12), 0, 1) * 255.0)


@pytest.mark.parametrize("piece", [1, 7, 256, 1000, 1 << 20])
@pytest.mark.parametrize(
    "values",
    [
        np.arange(65536, dtype=np.uint16).reshape(256, 256),
        np.full((3, 5), 65535, np.uint16),
        np.zeros((5, 3), np.uint16),
        np.array([[-(2**31), 5, 2**31 - 1], [0, 1, 2]], np.int32),
        np.full((4, 3), -7, np.int32),
        np.random.default_rng(0).normal(size=(13, 9)).astype(np.float32),
        np.array([[np.nan, -1e30, 3e38], [0, 1, 2]], np.float32),
        np.full((2, 2), 0.25, np.float32),
    ],
)
def test_greys_are_stretched_by_the_piece_as_at_once(values, piece, monkeypatch):
    if values.size > 1000 and piece < 100:
        values = values[::50, ::50].copy()
    monkeypatch.setattr(decoding, "_PIECE", piece)
    found = np.asarray(load_image(Image.fromarray(values)))
    assert np.array_equal(found, np.repeat(at_once(values)[..., None], 3, axis=2))


def test_transparency_is_blended_with_white_as_pillow_composites():
    values = np.zeros((256, 256, 4), np.uint8)
    values[..., 0], values[..., 3] = np.arange(256)[:, None], np.arange(256)
    image = Image.fromarray(values)
    expected = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image).convert("RGB")
    assert load_image(image).tobytes() == expected.tobytes()


def test_transparent_parts_are_white():
    clear = Image.new("RGBA", (2, 2), (255, 0, 0, 0))
    assert np.asarray(load_image(clear)).min() == 255


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is empty"),
        (b"this is no picture", "not a readable image"),
        (None, "no image file"),
    ],
)
def test_files_that_are_no_pictures_are_refused_by_name(content, says, tmp_path):
    path = tmp_path / "a.jpg"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=says) as caught:
        load_image(path)
    assert "a.jpg" in str(caught.value)


@pytest.mark.parametrize("kind", ["jpeg", "png", "webp", "gif", "tiff"])
def test_truncated_pictures_are_refused_and_never_half_read(kind, tmp_path):
    buffer = io.BytesIO()
    picture(64, 64).save(buffer, kind)
    path = tmp_path / f"cut.{kind}"
    path.write_bytes(buffer.getvalue()[: len(buffer.getvalue()) // 2])
    with pytest.raises(InputError, match="cut"):
        load_image(path)


def test_giant_pictures_are_refused_before_they_are_decoded(tmp_path, monkeypatch):
    monkeypatch.setattr(images, "MAX_PIXELS", 20)
    picture().save(tmp_path / "big.png")
    monkeypatch.setattr(Image.Image, "load", lambda self: pytest.fail("was decoded"))
    with pytest.raises(InputError, match="6x4 pixels, more than the 20 allowed"):
        load_image(tmp_path / "big.png")


def test_very_tall_pictures_are_refused_before_they_are_decoded(tmp_path, monkeypatch):
    monkeypatch.setattr(decoding, "MAX_SIDE", 5)
    picture(4, 6).save(tmp_path / "tall.png")
    monkeypatch.setattr(Image.Image, "load", lambda self: pytest.fail("was decoded"))
    with pytest.raises(InputError, match="4x6 pixels; no side may have more than 5"):
        load_image(tmp_path / "tall.png")


def test_a_decompression_bomb_is_our_error_and_warns_of_nothing(tmp_path, recwarn):
    bomb = Image.new("1", (20000, 20000))
    bomb.save(tmp_path / "bomb.png")
    with pytest.raises(InputError, match="bomb"):
        load_image(tmp_path / "bomb.png")
    assert not recwarn.list


def test_tensors_are_square_and_between_zero_and_one():
    tensor = to_tensor(picture(60, 40), 28)
    assert tensor.shape == (3, 28, 28)
    assert tensor.dtype == torch.float32
    assert 0 <= tensor.min() <= tensor.max() <= 1
    assert torch.allclose(to_tensor(Image.new("RGB", (5, 9), (255, 0, 51)), 14)[:, 0, 0], torch.tensor([1, 0, 0.2]))


def test_a_damaged_exif_tag_does_not_keep_a_photo_from_being_rotated():
    orientation = struct.pack("<HHIHH", 0x0112, 3, 1, 6, 0)
    damaged = struct.pack("<HHI4s", 0xA005, 2, 4, b"abc\0")  # text where an offset belongs
    exif = b"Exif\0\0II*\0" + struct.pack("<IH", 8, 2) + orientation + damaged + bytes(4)
    file = io.BytesIO()
    picture(6, 4).save(file, "JPEG", exif=exif)
    with pytest.raises(struct.error):  # why Pillow's own function is not used
        ImageOps.exif_transpose(Image.open(file))
    assert load_image(file.getvalue()).size == (4, 6)
