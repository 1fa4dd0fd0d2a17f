"""`mambamatcher serve`: the matcher in a browser."""

import socket
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote

import typer

from mambamatcher.cli.engines import Device
from mambamatcher.cli.match import load_matcher
from mambamatcher.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from mambamatcher.matching.matcher import Matcher

TOKEN_LENGTH = 16
MIB = 2**20


def serve(
    host: Annotated[
        str, typer.Option(help="The address to listen on; others than this machine need --token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port to listen on; 0 takes a free one.")] = 8000,
    token: Annotated[
        str | None, typer.Option(envvar="MAMBAMATCHER_TOKEN", help="A secret that clients must know.")
    ] = None,
    host_name: Annotated[
        list[str] | None, typer.Option(help="A name clients reach this machine by; repeat for more.")
    ] = None,
    model: Annotated[
        list[str] | None, typer.Option(help="A preset's name or a saved model's folder; repeat to offer several.")
    ] = None,
    device: Device = None,
    max_upload_mb: Annotated[int, typer.Option(min=1, help="The largest picture, as a file.")] = 20,
    max_megapixels: Annotated[int, typer.Option(min=1, help="The largest picture, in pixels.")] = 40,
    max_requests: Annotated[int, typer.Option(min=1, help="Requests at a time; more are told to come back.")] = 64,
    keep_minutes: Annotated[float, typer.Option(min=0.1, help="How long an absent client's pictures are kept.")] = 30,
) -> None:
    """Match pictures in a browser.

    Example: mambamatcher serve --port 8000
    """
    check_access(host, token)
    try:
        import uvicorn

        from mambamatcher.web.server import create_app
    except ModuleNotFoundError as error:
        raise InputError(f"{error.name} is missing; install it with: pip install 'mambamatcher[web]'") from error
    from mambamatcher.web.settings import Settings

    settings = Settings(
        token=token,
        host_names=tuple(name.lower() for name in [*(host_name or []), host]),
        picture_bytes=max_upload_mb * MIB,
        picture_pixels=max_megapixels * 1_000_000,
        requests=max_requests,
        keep_seconds=keep_minutes * 60,
    )
    listening = listen(host, port)
    app = create_app(settings, model_loaders(model, device))
    typer.echo("loading the model")
    app.state.service.warm_up()  # before the first client; a model that cannot be loaded is said here
    shown = f"[{host}]" if ":" in host else host
    secret = f"#token={quote(token)}" if token else ""  # after '#': a browser does not send it, nor write it to logs
    typer.echo(f"open http://{shown}:{listening.getsockname()[1]}/{secret} (stop: Ctrl+C)")
    uvicorn.Server(uvicorn.Config(app, log_level="warning", server_header=False)).run([listening])


def check_access(host: str, token: str | None) -> None:
    """Refuse to open the machine to others without a secret worth the name."""
    if token is not None and len(token) < TOKEN_LENGTH:
        raise InputError(f"the token has {len(token)} characters; use at least {TOKEN_LENGTH}, so it cannot be guessed")
    if token is None and not is_this_machine(host):
        raise InputError(f"--host {host} lets others in; choose a secret of theirs and yours with --token")


def is_this_machine(host: str) -> bool:
    """Tell whether only programs of this machine can reach an address."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def listen(host: str, port: int) -> socket.socket:
    """Take the port now, so that one in use is said in a sentence."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family)
    except OSError as error:
        reason = error.strerror or error
        raise InputError(
            f"cannot listen on {host} port {port}: {reason}; choose others by --host and --port"
        ) from error


def model_loaders(models: list[str] | None, device: str | None = None) -> "dict[str, Callable[[], Matcher]]":
    """Name the models to offer: folders by their last part, so that no path is told to a client."""
    if not models:
        return {"default": lambda: load_matcher(None, device), "nearest": lambda: load_matcher("nearest", device)}
    loaders: dict[str, Callable[[], Matcher]] = {}
    for model in models:
        name = Path(model).resolve().name if Path(model).is_dir() else model
        if name in loaders:
            raise InputError(f"two models are named {name}; rename one of the folders")
        loaders[name] = lambda model=model: load_matcher(model, device)  # type: ignore[misc]
    return loaders
