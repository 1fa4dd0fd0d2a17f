"""`mambamatcher serve`: the web server and its annotation page."""

import socket
from importlib.util import find_spec
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote

import typer

from mambamatcher.cli.engine_options import Device, Runtime, RuntimeName, Threads
from mambamatcher.cli.match import load_matcher
from mambamatcher.cli.tool_options import (
    LabelStudioFlag,
    LabelStudioUrl,
    PointsFile,
    References,
    ToolOptions,
    XAnyLabelingFlag,
)
from mambamatcher.errors import InputError
from mambamatcher.extras import naming_extra

if TYPE_CHECKING:
    from collections.abc import Callable

    from mambamatcher.matching.matcher import Matcher
    from mambamatcher.web.server import Tool

MIN_TOKEN_LENGTH = 16
MIN_TOKEN_CHARACTERS = 6  # different ones
MIB = 2**20

Host = Annotated[str, typer.Option(help="Address to listen on; any but the loopback address requires --token.")]
Port = Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")]
Token = Annotated[str | None, typer.Option(envvar="MAMBAMATCHER_TOKEN", help="Secret that clients must send.")]
HostName = Annotated[
    list[str] | None, typer.Option(help="Host name that clients use for this machine; can be repeated.")
]


def serve(
    host: Host = "127.0.0.1",
    port: Port = 8000,
    token: Token = None,
    host_name: HostName = None,
    model: Annotated[
        list[str] | None,
        typer.Option(help="Shipped model, preset or folder of a saved model; can be repeated to offer several."),
    ] = None,
    device: Device = None,
    runtime: Runtime = None,
    threads: Threads = None,
    max_upload_mb: Annotated[int, typer.Option(min=1, help="Maximum file size of an image in MB.")] = 20,
    max_megapixels: Annotated[int, typer.Option(min=1, help="Maximum size of an image in megapixels.")] = 40,
    max_requests: Annotated[int, typer.Option(min=1, help="Maximum requests in progress; others must retry.")] = 64,
    keep_minutes: Annotated[
        float, typer.Option(min=0.1, help="How long images are kept after a client's last request.")
    ] = 30,
    label_studio: LabelStudioFlag = False,
    label_studio_url: LabelStudioUrl = None,
    x_anylabeling: XAnyLabelingFlag = False,
    reference: References = None,
    points: PointsFile = None,
) -> None:
    """Match images in a browser, or predict the points of a reference for an annotation tool.

    Example: mambamatcher serve --port 8000
    """
    check_access(host, token)
    options = ToolOptions(
        label_studio=label_studio,
        label_studio_url=label_studio_url,
        x_anylabeling=x_anylabeling,
        references=reference or [],
        points=points,
    )
    with naming_extra("web"):
        from mambamatcher.web.connections import limited_server
        from mambamatcher.web.server import create_app
        from mambamatcher.web.state import Settings

    settings = Settings(
        token=token,
        host_names=tuple(name.lower() for name in [*(host_name or []), host]),
        picture_bytes=max_upload_mb * MIB,
        picture_pixels=max_megapixels * 1_000_000,
        requests=max_requests,
        keep_seconds=keep_minutes * 60,
    )
    listening = listen(host, port)
    loaders = model_loaders(model, device, runtime, threads)
    typer.echo("loading the model")
    tools: list[Tool] = []
    if options.any:
        name, load = next(iter(loaders.items()))
        matcher = load()
        loaders[name] = lambda: matcher
        tools = options.connect(matcher, settings)
    app = create_app(settings, loaders, tools=tools)
    app.state.server.warm_up()  # now, so that a model that cannot be loaded ends the command
    for tool in tools:
        typer.echo(tool.instruction(server_address(host, listening)))
    typer.echo(f"open {page_address(host, listening, token)} (stop with Ctrl+C)")
    limited_server(app).run([listening])


def page_address(host: str, listening: socket.socket, token: str | None) -> str:
    """Return the address to open in a browser. Browsers do not send what follows '#', so no log holds the token."""
    return f"{server_address(host, listening)}/{f'#token={quote(token)}' if token else ''}"


def server_address(host: str, listening: socket.socket) -> str:
    """Return the address that clients use."""
    url_host = f"[{host}]" if ":" in host else host
    return f"http://{url_host}:{listening.getsockname()[1]}"


def check_access(host: str, token: str | None) -> None:
    """Check that only clients with a strong token can connect from other machines.

    Raises:
        InputError: The token is too short, or missing although other machines can connect.
    """
    if token is not None and len(token.strip()) < MIN_TOKEN_LENGTH:
        raise InputError(
            f"the token has {len(token.strip())} characters, not counting blanks around it; "
            f"use at least {MIN_TOKEN_LENGTH}, so that it cannot be guessed"
        )
    if token is not None and len(set(token)) < MIN_TOKEN_CHARACTERS:
        raise InputError(
            f"the token has only {len(set(token))} different characters; "
            f"use at least {MIN_TOKEN_CHARACTERS}, so that it cannot be guessed"
        )
    if token is None and not is_loopback(host):
        raise InputError(f"--host {host} lets other machines connect; set a shared secret with --token")


def is_loopback(host: str) -> bool:
    """Return whether only this machine can connect to an address."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def listen(host: str, port: int) -> socket.socket:
    """Bind the port before the model is loaded, so that a port in use is reported at once."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.create_server(address[:2], family=family)
    except OSError as error:
        reason = error.strerror or error
        raise InputError(
            f"cannot listen on {host} port {port}: {reason}; choose others with --host and --port"
        ) from error
    # Accepted connections inherit it: otherwise the last bytes of a response wait for the client's acknowledgement.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def model_loaders(
    models: list[str] | None,
    device: str | None = None,
    runtime: RuntimeName | None = None,
    threads: int | None = None,
) -> "dict[str, Callable[[], Matcher]]":
    """Return the models to offer: for each name, a function that loads it.

    A folder is named by its last component, so that clients learn no paths.

    Args:
        models: Shipped models, presets and folders; None for both shipped models and, with PyTorch, `nearest`.
        device: Where the models compute; None for the CPU.
        runtime: What they compute with; None for each model's default.
        threads: Threads that each computes with; None for one per core.
    """
    from mambamatcher.model.saved import SHIPPED

    presets = [] if find_spec("torch") is None or runtime == "onnx" else ["nearest"]
    models = models or [*map(str, SHIPPED.values()), *presets]
    loaders: dict[str, Callable[[], Matcher]] = {}
    for model in models:
        name = Path(model).resolve().name if Path(model).is_dir() else model
        if name in loaders:
            raise InputError(f"two models are named {name}; rename one of the folders")
        loaders[name] = lambda model=model: load_matcher(model, device, runtime, threads)  # type: ignore[misc]
    return loaders
