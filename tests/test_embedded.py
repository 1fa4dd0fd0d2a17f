"""The embedded model: small enough, complete, and still giving the matches it gave when it was shipped.

`python -m tests.test_embedded` stores its matches anew, after a new model was shipped.
"""

import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from mambamatcher import Matcher
from mambamatcher.datasets.benchmarks import read_pairs
from mambamatcher.datasets.records import Pair
from mambamatcher.model.checkpoint import EMBEDDED

STORED = Path(__file__).parent / "embedded_matches.json"
PAIRS = 6


@cache
def matcher() -> Matcher:
    return Matcher.from_pretrained()


def rendered() -> list[Pair]:
    return list(read_pairs("synthetic", "test").pairs[:PAIRS])


def matches(pair: Pair) -> np.ndarray:
    return matcher().match(pair.source.rendered, pair.target.rendered, pair.points()[0]).points


def test_it_fits_in_twenty_megabytes_and_needs_nothing_else():
    assert sum(path.stat().st_size for path in EMBEDDED.iterdir()) <= 20e6
    assert {"model.safetensors", "config.json", "calibration.json", "README.md"} <= {p.name for p in EMBEDDED.iterdir()}


@pytest.mark.parametrize("number", range(PAIRS))
def test_it_gives_the_matches_it_was_shipped_with(number):
    pair = rendered()[number]
    stored = json.loads(STORED.read_text())[pair.name]
    # half a pixel of 256: other machines add up in another order
    np.testing.assert_allclose(matches(pair), np.array(stored), atol=0.5)


def test_it_finds_what_an_untrained_model_does_not():
    def hits(found, pair: Pair) -> float:
        left, top, right, bottom = pair.target.bbox
        reach = 0.1 * max(right - left, bottom - top)
        return float((np.linalg.norm(found - pair.points()[1], axis=1) <= reach).mean())

    untrained = Matcher.from_preset("nearest")
    ours = np.mean([hits(matches(pair), pair) for pair in rendered()])
    theirs = np.mean(
        [
            hits(untrained.match(pair.source.rendered, pair.target.rendered, pair.points()[0]).points, pair)
            for pair in rendered()
        ]
    )
    assert ours > theirs


if __name__ == "__main__":
    STORED.write_text(json.dumps({pair.name: matches(pair).round(2).tolist() for pair in rendered()}, indent=1) + "\n")
