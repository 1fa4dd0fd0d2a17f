from dataclasses import replace

import pytest
from PIL import Image

from mambamatcher import Matcher, presets
from mambamatcher.errors import MambaMatcherError, MemoryLimitError
from mambamatcher.matching import memory_guard as memory
from mambamatcher.matching.memory_guard import available_bytes
from mambamatcher.matching.torch_runtime import TorchRuntime, needed_bytes
from mambamatcher.model.checkpoint import reconfigured
from mambamatcher.model.config import override
from mambamatcher.model.mambamatcher import MambaMatcher
from tests.helpers import build_untrained


@pytest.fixture(scope="module")
def paper():
    return build_untrained(override(presets.paper(), ["backbone.weights=random"]))


def test_the_papers_model_is_foreseen_to_fit_where_the_targets_say(paper):
    loaded = 4 * sum(parameter.numel() for parameter in paper.parameters())
    assert loaded + needed_bytes(paper, 420) < 4e9
    assert needed_bytes(paper, 840) < 7e9
    paper.features.keep_transformed = False
    assert loaded + needed_bytes(paper, 420) < 2.5e9
    paper.features.keep_transformed = True


def test_more_pixels_need_more_and_unfused_aggregators_most(paper):
    sizes = [needed_bytes(paper, side) for side in (238, 420, 560, 700, 840)]
    assert sizes == sorted(sizes)
    deeper = build_untrained(override(presets.paper(), ["backbone.weights=random", "correlation.depth=2"]))
    assert needed_bytes(deeper, 840) > 2 * needed_bytes(paper, 840)


def test_too_little_memory_is_refused_with_a_side_that_fits(monkeypatch):
    model = MambaMatcher(presets.tiny())
    enough = needed_bytes(model, 56)
    monkeypatch.setattr(memory, "available_bytes", lambda: enough)
    TorchRuntime(reconfigured(model, replace(model.config, side=56))).check_memory()
    with pytest.raises(MemoryLimitError, match="a side of 56 would fit") as caught:
        Matcher(model).prepare(Image.new("RGB", (30, 20)), Image.new("RGB", (30, 20)))
    assert isinstance(caught.value, MambaMatcherError)
    assert isinstance(caught.value, MemoryError)
    monkeypatch.setattr(memory, "available_bytes", lambda: 10)
    with pytest.raises(MemoryLimitError, match="no smaller side"):
        TorchRuntime(model).check_memory()
    monkeypatch.setattr(memory, "available_bytes", lambda: None)
    TorchRuntime(model).check_memory()


def test_a_containers_own_limit_counts(monkeypatch, tmp_path):
    monkeypatch.setattr(memory, "CONTAINER", tmp_path)
    free = available_bytes()
    (tmp_path / "memory.max").write_text("1500\n")
    (tmp_path / "memory.current").write_text("600\n")
    assert available_bytes() == 900
    (tmp_path / "memory.max").write_text("max\n")
    assert free is None or available_bytes() > 900
