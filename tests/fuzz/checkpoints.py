"""Saved models that lie, are torn, or would run code."""

import io
import json
import os
import pickle
import shutil
import struct
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

import torch

from mambamatcher import MambaMatcher, presets
from mambamatcher.model.backbones.weights import read_state_dict
from mambamatcher.model.checkpoint import load_pretrained, save_pretrained
from mambamatcher.model.saved import CONFIG, WEIGHTS
from tests.fuzz.damage import Rng, damaged_bytes, damaged_json, pick


class Malicious:
    """Makes a folder when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@cache
def saved() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="fuzz-model-"))
    torch.manual_seed(0)
    save_pretrained(MambaMatcher(presets.tiny()), folder)
    return folder


def lying_header(rng: Rng, data: bytes) -> bytes:
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + length])
    name = pick(rng, [key for key in header if key != "__metadata__"])
    entry = header[name]
    begin, end = entry["data_offsets"]
    lies = (
        {"data_offsets": [begin, end * 1000]},
        {"data_offsets": [end, begin]},
        {"data_offsets": [-1, end]},
        {"data_offsets": [0, end - begin]},
        {"shape": [2**40]},
        {"shape": [2**62, 4]},
        {"shape": [-1, *entry["shape"]]},
        {"shape": []},
        {"dtype": pick(rng, ("F64", "I8", "BOOL", "X99", "F16"))},
    )
    header[name] = {**entry, **pick(rng, lies)}
    text = json.dumps(header).encode()
    stated = pick(rng, (len(text), len(text), len(text), len(text) + 10**6, 2**63, 2**64 - 1, 0))
    return struct.pack("<Q", stated) + text + data[8 + length :]


def pickled(rng: Rng, canary: Path) -> bytes:
    """A pickle that runs code, in each wrapping torch reads."""
    content = {"model": Malicious(canary), "weight": torch.zeros(2)}
    way = int(rng.integers(3))
    if way == 0:
        return pickle.dumps(content)
    buffer = io.BytesIO()
    torch.save(content, buffer, _use_new_zipfile_serialization=way == 1)
    return buffer.getvalue()


def run(rng: Rng, folder: Path) -> tuple[str, Callable[[], None]]:
    model, canary = folder / "model", folder / "canary"
    shutil.rmtree(model, ignore_errors=True)
    shutil.copytree(saved(), model)
    weights = model / WEIGHTS
    kind = pick(rng, ("lying header", "damaged", "malicious pickle", "torch file", "configuration", "link"))
    path: Path | None = None
    if kind == "lying header":
        weights.write_bytes(lying_header(rng, weights.read_bytes()))
    elif kind == "damaged":
        weights.write_bytes(damaged_bytes(rng, weights.read_bytes()))
    elif kind == "malicious pickle":
        path = weights if rng.integers(2) else model / pick(rng, ("weights.pth", "weights.pt", "weights.bin"))
        path.write_bytes(pickled(rng, canary))
    elif kind == "torch file":
        path = model / "weights.pth"
        buffer = io.BytesIO()
        torch.save({"weight": torch.zeros(3, 4), "bias": torch.ones(4)}, buffer)
        path.write_bytes(damaged_bytes(rng, buffer.getvalue()))
    elif kind == "configuration":
        text = damaged_json(rng, json.loads((model / CONFIG).read_text()))
        (model / CONFIG).write_text(text, encoding="utf-8", errors="surrogateescape")
    else:
        weights.unlink()
        weights.symlink_to(pick(rng, ("/dev/null", "/etc/passwd", str(weights), "/nowhere", "/")))

    def load() -> None:
        try:
            if path is None:
                load_pretrained(model)
            else:
                read_state_dict(path)
        finally:
            assert not canary.exists(), "code of a checkpoint was run"

    return f"checkpoint: {kind}", load
