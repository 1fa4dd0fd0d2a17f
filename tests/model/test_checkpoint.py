import shutil
from contextlib import suppress
from pathlib import Path

import pytest
import torch

from mambamatcher import MambaMatcher, Matcher, cli, presets
from mambamatcher.errors import ConfigError, WeightsError
from mambamatcher.matching.confidence import Calibration, load_calibration
from mambamatcher.model.checkpoint import load_pretrained, push_to_hub, save_pretrained, take_mean
from mambamatcher.model.config import override
from mambamatcher.model.saved import SHIPPED, find_pretrained


@pytest.fixture(scope="module")
def model():
    return MambaMatcher(presets.tiny())


def same(a: MambaMatcher, b: MambaMatcher) -> bool:
    return all(torch.equal(x, y) for x, y in zip(a.state_dict().values(), b.state_dict().values(), strict=True))


def test_what_is_pushed_to_the_hub_loads_by_its_id(model, tmp_path, monkeypatch):
    """A local folder stands in for the hub, since tests have no network."""
    hub: dict[str, Path] = {}

    class Api:
        def create_repo(self, hub_id, private, exist_ok):
            hub[hub_id] = tmp_path / "hub"

        def upload_folder(self, repo_id, folder_path, commit_message):
            shutil.copytree(folder_path, hub[repo_id])
            return f"hub:{repo_id}"

    monkeypatch.setattr("huggingface_hub.HfApi", Api)
    monkeypatch.setattr("huggingface_hub.snapshot_download", lambda hub_id, **_: str(hub[hub_id]))
    assert push_to_hub(model, "someone/tiny") == "hub:someone/tiny"
    assert same(load_pretrained("someone/tiny"), model)
    shutil.copy(SHIPPED["default"] / "calibration.json", hub["someone/tiny"])
    assert Matcher.from_pretrained("someone/tiny").calibration == load_calibration(SHIPPED["default"]) != Calibration()


@pytest.mark.parametrize("source", ["someone/unknown", "nowhere", "a/b/c"])
def test_a_model_that_is_nowhere_is_refused_in_one_sentence(source, monkeypatch, tmp_path):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(WeightsError, match=source) as caught:
        load_pretrained(source)
    assert "\n" not in str(caught.value)


def test_the_mean_of_models_is_taken_weight_by_weight_and_refused_between_architectures(model, tmp_path, monkeypatch):
    three = [MambaMatcher(presets.tiny()) for _ in range(3)]
    expected = {key: sum(each.state_dict()[key] for each in three) / 3 for key in three[0].state_dict()}
    for number, each in enumerate(three):
        save_pretrained(each, tmp_path / str(number))
    folders = [f"--average={tmp_path / str(number)}" for number in (1, 2)]
    command = ["mambamatcher", "export", "--model", str(tmp_path / "0"), *folders, "--folder", str(tmp_path / "mean")]
    monkeypatch.setattr("sys.argv", command)
    with suppress(SystemExit):
        cli.main()
    for key, value in load_pretrained(tmp_path / "mean").state_dict().items():
        torch.testing.assert_close(value, expected[key])
    other = MambaMatcher(override(presets.tiny(), ["correlation=linear"]))
    with pytest.raises(ConfigError, match="different architectures"):
        take_mean(model, [other])


def test_half_precision_files_load_as_single_precision(model, tmp_path):
    from safetensors.torch import load_file, save_file

    save_pretrained(model, tmp_path)
    state = load_file(tmp_path / "model.safetensors")
    save_file({key: value.half() for key, value in state.items()}, tmp_path / "model.safetensors")
    loaded = load_pretrained(tmp_path)
    assert {value.dtype for value in loaded.state_dict().values()} == {torch.float32}


def test_saving_over_a_model_keeps_the_old_one_until_the_new_one_is_whole(model, tmp_path, monkeypatch):
    save_pretrained(model, tmp_path)
    monkeypatch.setattr("mambamatcher.model.checkpoint.save", lambda *_: (_ for _ in ()).throw(OSError(28, "full")))
    from mambamatcher.errors import InputError

    with pytest.raises(InputError, match="full"):
        save_pretrained(MambaMatcher(presets.tiny()), tmp_path, overwrite=True)
    assert same(load_pretrained(tmp_path), model)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["config.json", "model.safetensors"]


def test_shipped_models_have_names_unless_a_folder_has_the_same(model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, folder in SHIPPED.items():
        assert find_pretrained(name) == folder
        assert (folder / "model.safetensors").is_file()
    save_pretrained(model, "lite")
    assert find_pretrained("lite") == Path("lite")
