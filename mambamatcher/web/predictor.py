"""What annotation tools ask this server for: the points of the references, found in an image of theirs."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from mambamatcher import __version__
from mambamatcher.errors import MambaMatcherError
from mambamatcher.io.tensor_store import digest
from mambamatcher.matching.matcher import Matcher
from mambamatcher.tools.references import Reference, TransferredPoints, propagate_to, read_references
from mambamatcher.web.state import ServerState
from mambamatcher.web.uploads import Upload

logger = logging.getLogger("uvicorn.error")  # the server's own, which limits what it writes


@dataclass(frozen=True)
class Predictor:
    """Transfers the points of annotated images.

    Attributes:
        matcher: Finds the points.
        references: The annotated images.
    """

    matcher: Matcher
    references: Sequence[Reference]

    @classmethod
    def read(cls, matcher: Matcher, sources: Sequence[Path], points_file: Path) -> "Predictor":
        """Read the annotated images.

        Raises:
            InputError: An image or its points cannot be used.
        """
        return cls(matcher, read_references(matcher, sources, points_file))

    @property
    def names(self) -> list[str]:
        """The names of all points, in their order."""
        return list(dict.fromkeys(name for each in self.references for name in each.points.names))

    @property
    def version(self) -> str:
        """A name for these predictions that changes with the model, the references and the points."""
        parts = [digest(each.loaded.key, *each.points.names, each.points.points) for each in self.references]
        threshold = str(self.matcher.calibration.threshold)
        return f"mambamatcher {__version__} {digest(self.matcher.runtime.weights_hash(), threshold, *parts)[:8]}"

    def predict_blocking(self, state: ServerState, image: Upload) -> TransferredPoints:
        """Find the points in an image. It takes long: run it in a worker thread."""
        return propagate_to(self.matcher, self.references, state.decode_blocking(image))


@contextmanager
def logged(tool: str) -> Iterator[None]:
    """Log an error of this package on its way to the client: annotation tools show the status of an answer only."""
    try:
        yield
    except MambaMatcherError as error:
        said = "".join(character if character.isprintable() else "?" for character in str(error))
        logger.warning("%s: %s", tool, said)
        raise
