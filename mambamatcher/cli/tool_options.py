"""The options of `serve` for annotation tools: which of them to answer, and with the points of which images."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mambamatcher.errors import InputError

if TYPE_CHECKING:
    from mambamatcher.matching.matcher import Matcher
    from mambamatcher.web.server import Tool
    from mambamatcher.web.state import Settings

API_KEY = "LABEL_STUDIO_API_KEY"  # the name that Label Studio's own programs use

LabelStudioFlag = Annotated[
    bool, typer.Option("--label-studio", help="Be a machine learning backend of Label Studio; see --reference.")
]
LabelStudioUrl = Annotated[
    str | None,
    typer.Option(help=f"Label Studio's address: images are fetched from there only, with the token in {API_KEY}."),
]
XAnyLabelingFlag = Annotated[
    bool, typer.Option("--x-anylabeling", help="Be a remote server of X-AnyLabeling; see --reference.")
]
References = Annotated[
    list[Path] | None, typer.Option("--reference", help="Annotated image for the tools; can be repeated.")
]
PointsFile = Annotated[
    Path | None, typer.Option("--points", help="The points of the references, in any format that propagate reads.")
]


@dataclass(frozen=True, kw_only=True)
class ToolOptions:
    """Which annotation tools to answer.

    Raises:
        InputError: An option is missing, or of no use without another; or a file cannot be read.
    """

    label_studio: bool
    label_studio_url: str | None
    x_anylabeling: bool
    references: Sequence[Path]
    points: Path | None

    def __post_init__(self) -> None:
        if not self.any:
            if self.label_studio_url or self.references or self.points:
                raise InputError(
                    "--reference, --points and --label-studio-url are for annotation tools; "
                    "add --label-studio or --x-anylabeling"
                )
            return
        if not self.references or self.points is None:
            raise InputError(
                "an annotation tool needs the points of an image; give --reference IMAGE and --points FILE"
            )
        if self.label_studio != (self.label_studio_url is not None):
            raise InputError("--label-studio and --label-studio-url are used together; give both or neither")
        from mambamatcher.io.images import require_file
        from mambamatcher.io.points import read_points
        from mambamatcher.web.fetching import check_server_url

        if self.label_studio_url is not None:
            check_server_url(self.label_studio_url)
        for path in self.references:  # before a model is loaded
            require_file(path)
            read_points(self.points, path)

    @property
    def any(self) -> bool:
        """Whether there is a tool to answer."""
        return self.label_studio or self.x_anylabeling

    def connect(self, matcher: "Matcher", settings: "Settings") -> "list[Tool]":
        """Read the references and return what answers each tool.

        Raises:
            InputError: A reference, its points or the address of Label Studio cannot be used.
        """
        from mambamatcher.web.fetching import LabelStudioImages
        from mambamatcher.web.label_studio import LabelStudio
        from mambamatcher.web.predictor import Predictor
        from mambamatcher.web.x_anylabeling import XAnyLabeling

        assert self.points is not None
        predictor = Predictor.read(matcher, self.references, self.points)
        tools: list[Tool] = [XAnyLabeling(predictor)] if self.x_anylabeling else []
        if self.label_studio_url is not None:
            images = LabelStudioImages(self.label_studio_url, os.environ.get(API_KEY), settings.picture_bytes)
            tools.append(LabelStudio(predictor, images))
        return tools
