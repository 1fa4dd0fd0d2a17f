"""`mambamatcher review`: correct the points of `propagate` in a browser."""

from pathlib import Path
from typing import Annotated

import typer

from mambamatcher.cli.engine_options import Device
from mambamatcher.cli.model_options import Model
from mambamatcher.cli.serve import Host, HostName, Port, Token, check_access, listen, page_address
from mambamatcher.extras import naming_extra


def review(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The folder that propagate wrote.")],
    skeleton: Annotated[
        Path | None, typer.Option(help="A COCO file whose category says which points lines join.")
    ] = None,
    host: Host = "127.0.0.1",
    port: Port = 8000,
    token: Token = None,
    host_name: HostName = None,
    model: Model = None,
    device: Device = None,
) -> None:
    """Review and correct the points of a propagate run in a browser, the most doubtful first.

    Every correction is saved at once to OUT/corrections.json. A button repeats propagate with them.

    Example: mambamatcher review annotated
    """
    check_access(host, token)
    from mambamatcher.cli.match import load_matcher
    from mambamatcher.tools.reviewing import ReviewedRun, read_skeleton

    with naming_extra("web"):
        from mambamatcher.web.connections import limited_server
        from mambamatcher.web.review import Review
        from mambamatcher.web.server import create_app
        from mambamatcher.web.state import Settings

    run = ReviewedRun(out)
    reviewed = Review(run, [] if skeleton is None else read_skeleton(skeleton))
    settings = Settings(token=token, host_names=tuple(name.lower() for name in [*(host_name or []), host]))
    listening = listen(host, port)
    # The model is loaded by the first round: without one, none is needed.
    app = create_app(settings, {"model": lambda: load_matcher(model, device)}, reviewed)
    typer.echo(f"{len(run.results)} targets, {len(run.corrections())} of them corrected")
    typer.echo(f"open {page_address(host, listening, token)} (stop with Ctrl+C)")
    limited_server(app).run([listening])
