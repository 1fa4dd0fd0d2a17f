"""The shipped models: small enough, complete, and still giving the matches they gave when they were shipped.

`python -m tests.test_shipped lite` stores the matches of a new `lite`.
"""

import json
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from mambamatcher import Matcher
from mambamatcher.datasets.benchmarks import read_pairs
from mambamatcher.datasets.records import Pair
from mambamatcher.model.saved import SHIPPED

STORED = Path(__file__).parent / "shipped_matches.json"
PAIRS = 6
LARGEST = {"default": 60e6, "lite": 20e6}  # bytes


@cache
def matcher(model: str) -> Matcher:
    return Matcher.from_pretrained(model)


def rendered() -> list[Pair]:
    return list(read_pairs("synthetic", "test").pairs[:PAIRS])


def matches(model: str, pair: Pair) -> np.ndarray:
    return matcher(model).match(pair.source.rendered, pair.target.rendered, pair.points()[0]).points


def test_every_shipped_model_has_a_limit_of_its_size():
    assert SHIPPED.keys() == LARGEST.keys()


@pytest.mark.parametrize("model", SHIPPED)
def test_it_is_small_enough_and_needs_nothing_else(model):
    files = list(SHIPPED[model].iterdir())
    assert sum(path.stat().st_size for path in files) <= LARGEST[model]
    assert {"model.safetensors", "config.json", "calibration.json", "README.md"} <= {path.name for path in files}


@pytest.mark.parametrize("number", range(PAIRS))
@pytest.mark.parametrize("model", SHIPPED)
def test_it_gives_the_matches_it_was_shipped_with(model, number):
    pair = rendered()[number]
    stored = json.loads(STORED.read_text())[model][pair.name]
    # half a pixel of 256: other machines add up in another order
    np.testing.assert_allclose(matches(model, pair), np.array(stored), atol=0.5)


@pytest.mark.parametrize("model", SHIPPED)
def test_it_finds_what_an_untrained_model_does_not(model):
    def hits(found, pair: Pair) -> float:
        left, top, right, bottom = pair.target.bbox
        reach = 0.1 * max(right - left, bottom - top)
        return float((np.linalg.norm(found - pair.points()[1], axis=1) <= reach).mean())

    untrained = Matcher.from_preset("nearest")
    ours = np.mean([hits(matches(model, pair), pair) for pair in rendered()])
    theirs = np.mean(
        [
            hits(untrained.match(pair.source.rendered, pair.target.rendered, pair.points()[0]).points, pair)
            for pair in rendered()
        ]
    )
    assert ours > theirs


if __name__ == "__main__":
    content = json.loads(STORED.read_text())
    content[sys.argv[1]] = {pair.name: matches(sys.argv[1], pair).round(2).tolist() for pair in rendered()}
    STORED.write_text(json.dumps(content, indent=1) + "\n")
