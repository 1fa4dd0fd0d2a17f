"""Make the page that matches images in the browser without a server: `try/` of the built site.

The page is that of `mambamatcher serve`, taken from `mambamatcher/web/static`, except that its `api.js` asks a worker
in the browser, not a server. This hook of mkdocs adds what is not in `docs/try`: the parts of that page, the model and
the photos.
"""

import json
import struct
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import onnx
from mkdocs.structure.files import File, Files
from mkdocs.structure.nav import Navigation

from mambamatcher.io.images import REDUCING_GAP
from mambamatcher.matching.confidence import RETURN_DISTANCE, load_calibration
from mambamatcher.matching.onnx_heads import EPSILON
from mambamatcher.model.config import from_dict
from mambamatcher.model.frames import smallest_radius
from mambamatcher.model.saved import CONFIG, GRAPH, SHIPPED, WEIGHTS, read_plain_config
from mambamatcher.model.transfer_settings import Transfer
from mambamatcher.web.state import Settings

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "mambamatcher"
SERVED = PACKAGE / "web" / "static"
PHOTOS = PACKAGE / "assets" / "photos"
NAME = "lite"
MODEL = SHIPPED[NAME]

POLICY = (
    "default-src 'none'; connect-src 'self'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self' blob:; "
    "style-src 'self'; img-src 'self' blob:; base-uri 'none'; form-action 'none'"
)
# what the page says differently from the one that `serve` serves
CHANGES = {
    '<meta charset="utf-8">': f"""\
<meta charset="utf-8">
  <meta http-equiv="Content-Security-Policy" content="{POLICY}">""",
    '<button class="example primary" type="button">Try the example</button>': """\
<button class="example primary" type="button">Try the example</button>
      <button class="example" type="button" data-example="people">Try two portraits</button>
      <span class="hint">Everything runs in this browser: your images never leave your machine.</span>""",
}


def on_files(files: Files, config: Any) -> Files:
    """Add the generated parts of the page to the site."""
    for name, part in parts().items():
        content = {"abs_src_path": str(part)} if isinstance(part, Path) else {"content": part}
        files.append(File.generated(config, f"try/{name}", **content))
    return files


def on_nav(nav: Navigation, config: Any, files: Files) -> Navigation:
    """Let readers who step from page to page pass by this one, from where no step leads on."""
    page = next(each for each in nav.pages if each.file.src_uri == "try/index.html")
    page.previous_page.next_page, page.next_page.previous_page = page.next_page, page.previous_page
    return nav


def parts() -> dict[str, Path | str | bytes]:
    """Return the content of each generated file, or where it is."""
    encoder = onnx.load(MODEL / GRAPH, load_external_data=False)
    other = ("api.js", "index.html", *(path.name for path in SERVED.glob("review*")))
    static = {f"static/{path.name}": path for path in SERVED.iterdir() if path.name not in other}
    return {
        "index.html": changed((SERVED / "index.html").read_text(encoding="utf-8"), CHANGES),
        **static,
        **{f"photos/{path.name}": path for path in PHOTOS.glob("*.jpg")},
        "model/settings.json": json.dumps(settings(encoder), indent=1),
        f"model/{GRAPH}": with_places(encoder),
        f"model/{WEIGHTS}": MODEL / WEIGHTS,
    }


def changed(text: str, changes: dict[str, str]) -> str:
    """Replace passages, each of which must occur once."""
    for old, new in changes.items():
        if text.count(old) != 1:
            raise ValueError(f"expected once in the page of `serve`, found {text.count(old)} times: {old}")
        text = text.replace(old, new)
    return text


def settings(encoder: onnx.ModelProto) -> dict[str, Any]:
    """Return what the page must know of the model and of its limits, from where Python has it."""
    config = read_plain_config(MODEL / CONFIG)
    transfer = from_dict(Transfer, config["transfer"])
    read = (config["correlation"]["kind"], transfer.scores, transfer.readout, transfer.blends_scores)
    if read != ("linear", "shifted", "kernel_soft_argmax", True):
        raise ValueError(f"docs/try/static/readout.js reads no model with these settings: {read}")
    calibration = load_calibration(MODEL)
    if calibration.height or calibration.border:
        raise ValueError("docs/try/static/readout.js computes no confidence from the height and the border of a match")
    grid = tuple(size.dim_value for size in encoder.graph.output[0].type.tensor_type.shape.dim[2:])
    limits = asdict(Settings())
    return {
        "name": NAME,
        "side": config["side"],
        "reducing_gap": REDUCING_GAP,
        "epsilon": EPSILON,
        "transfer": asdict(transfer) | {"radius": max(transfer.radius, smallest_radius(grid))},
        "calibration": asdict(calibration),
        "return_distance": RETURN_DISTANCE,
        "limits": {key: limits[key] for key in ("picture_bytes", "picture_pixels", "points", "targets")},
    }


def with_places(encoder: onnx.ModelProto) -> bytes:
    """Return the encoder's graph with each weight a reference to its half-precision values in `model.safetensors`.

    Python gives a graph its weights by name. The runtime in the browser reads them from places in a file.
    """
    places = dict(weight_places())
    casts = []
    for tensor in encoder.graph.initializer:
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            full, tensor.name = tensor.name, f"{tensor.name}.half"
            casts.append(onnx.helper.make_node("Cast", [tensor.name], [full], to=onnx.TensorProto.FLOAT))
            tensor.data_type = onnx.TensorProto.FLOAT16
            for key, value in zip(("offset", "length"), places[full], strict=True):
                tensor.external_data.add(key=key, value=str(value))
    nodes = [*casts, *encoder.graph.node]
    encoder.graph.ClearField("node")
    encoder.graph.node.extend(nodes)
    return encoder.SerializeToString()


def weight_places() -> Iterator[tuple[str, tuple[int, int]]]:
    """Yield the name, the offset and the length in bytes of each tensor of half precision in `model.safetensors`."""
    with (MODEL / WEIGHTS).open("rb") as file:
        (size,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(size))
    for name, entry in header.items():
        if name != "__metadata__" and entry["dtype"] == "F16":
            first, last = entry["data_offsets"]
            yield name, (8 + size + first, last - first)
