import copy
import pickle
import threading
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import nn
from torch.testing import assert_close

from mambamatcher.errors import ConfigError, InputError, WeightsError
from mambamatcher.model.backbones import EfficientNetLiteConfig, ResNetConfig, VitConfig
from mambamatcher.model.backbones.facets import FACETS, IMAGENET_MEAN, IMAGENET_STD
from mambamatcher.model.backbones.vit import ARCHITECTURES

TINY = VitConfig(name="dinov2-tiny", layers=(1, 3), facets=FACETS, weights="random")


class OfficialViT(nn.Module):
    """An independent implementation of DINOv2 with the parameter names of the official checkpoints."""

    def __init__(self, width: int, depth: int, heads: int, registers: int = 0) -> None:
        super().__init__()
        self.heads = heads
        self.cls_token = nn.Parameter(torch.randn(1, 1, width))
        self.mask_token = nn.Parameter(torch.randn(1, width))
        self.pos_embed = nn.Parameter(torch.randn(1, 1 + 37 * 37, width))
        if registers:
            self.register_tokens = nn.Parameter(torch.randn(1, registers, width))
        self.patch_embed = nn.ModuleDict({"proj": nn.Conv2d(3, width, 14, 14)})
        self.blocks = nn.ModuleList(self.block(width) for _ in range(depth))
        self.norm = nn.LayerNorm(width, eps=1e-6)

    @staticmethod
    def block(width: int) -> nn.ModuleDict:
        scale = lambda: nn.ParameterDict({"gamma": nn.Parameter(torch.randn(width))})  # noqa: E731
        return nn.ModuleDict(
            {
                "norm1": nn.LayerNorm(width, eps=1e-6),
                "attn": nn.ModuleDict({"qkv": nn.Linear(width, 3 * width), "proj": nn.Linear(width, width)}),
                "ls1": scale(),
                "norm2": nn.LayerNorm(width, eps=1e-6),
                "mlp": nn.ModuleDict({"fc1": nn.Linear(width, 4 * width), "fc2": nn.Linear(4 * width, width)}),
                "ls2": scale(),
            }
        )

    def facets(self, images: torch.Tensor) -> list[dict[str, torch.Tensor]]:
        """Return every facet of every block as feature maps of the patch tokens."""
        mean, std = (torch.tensor(v).view(3, 1, 1) for v in (IMAGENET_MEAN, IMAGENET_STD))
        patches = self.patch_embed["proj"]((images - mean) / std)
        h, w = patches.shape[-2:]
        grid = self.pos_embed[:, 1:].reshape(1, 37, 37, -1).permute(0, 3, 1, 2)
        # only the published networks with registers interpolate with anti-aliasing
        registers = getattr(self, "register_tokens", None)
        grid = F.interpolate(grid, (h, w), mode="bicubic", align_corners=False, antialias=registers is not None)
        first = (self.cls_token + self.pos_embed[:, :1]).expand(len(images), -1, -1)
        x = torch.cat([first, (patches + grid).flatten(2).mT], dim=1)
        prefix = 1 if registers is None else 1 + registers.shape[1]
        if registers is not None:
            x = torch.cat([x[:, :1], registers.expand(len(x), -1, -1), x[:, 1:]], dim=1)
        seen = []
        for block in self.blocks:
            query, key, value = block["attn"]["qkv"](block["norm1"](x)).chunk(3, dim=-1)
            split = [t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in (query, key, value)]
            scores = split[0] @ split[1].mT / split[0].shape[-1] ** 0.5
            mixed = (scores.softmax(-1) @ split[2]).transpose(1, 2).flatten(2)
            x = x + block["attn"]["proj"](mixed) * block["ls1"]["gamma"]
            hidden = F.gelu(block["mlp"]["fc1"](block["norm2"](x)))
            x = x + block["mlp"]["fc2"](hidden) * block["ls2"]["gamma"]
            tapped = {"token": x, "query": query, "key": key, "value": value}
            seen.append({name: t[:, prefix:].mT.unflatten(-1, (h, w)) for name, t in tapped.items()})
        return seen


@pytest.fixture(params=[0, 4], ids=["plain", "registers"])
def official(request, monkeypatch, tmp_path):
    """Return an independent network, its checkpoint file, and the name of the architecture."""
    torch.manual_seed(0)
    network = OfficialViT(48, 4, 3, registers=request.param).eval()
    path = tmp_path / "dinov2_pretrain.pth"
    torch.save(network.state_dict(), path)
    name = "dinov2-tiny"
    if request.param:
        from mambamatcher.model.backbones.vit import _dinov2

        monkeypatch.setitem(
            ARCHITECTURES, "dinov2-registers-tiny", _dinov2(48, 4, 3, num_register_tokens=request.param)
        )
        name = "dinov2-registers-tiny"
    return network, path, name


def test_every_facet_of_an_official_checkpoint_equals_a_hand_written_forward_pass(official):
    network, path, name = official
    config = VitConfig(name=name, layers=(0, 1, 2, 3), facets=FACETS, weights=str(path))
    images = torch.rand(2, 3, 70, 42)  # 5x3 patches: interpolated position embeddings, height and width differ
    with torch.no_grad():
        levels = config.build().eval()(images)
        expected = network.facets(images)
    for index, (layer, facet) in enumerate(config.taps):
        assert_close(levels[:, index], expected[layer][facet], rtol=1e-4, atol=1e-4, msg=f"layer {layer} {facet}")


def test_names_of_the_official_checkpoint_make_a_round_trip(official):
    network, path, name = official
    loaded = VitConfig(name=name, layers=(0,), weights=str(path)).build().network.state_dict()
    for key, value in network.state_dict().items():
        if ".qkv." in key:
            _, block, _, _, kind = key.split(".")
            parts = [loaded[f"encoder.layer.{block}.attention.{p}_proj.{kind}"] for p in "qkv"]
            assert_close(torch.cat(parts), value, rtol=0, atol=0)
        else:
            same_shape = [v for v in loaded.values() if v.shape == value.shape and torch.equal(v, value)]
            assert same_shape, key
    assert sum(v.numel() for v in loaded.values()) == sum(v.numel() for v in network.state_dict().values())


@pytest.mark.parametrize("kind", ["folder", "file"])
def test_weights_saved_by_transformers_load_from_a_folder_and_from_its_file(kind, tmp_path):
    made = TINY.build()
    made.network.save_pretrained(tmp_path)
    weights = tmp_path if kind == "folder" else tmp_path / "model.safetensors"
    loaded = replace(TINY, weights=str(weights)).build()
    images = torch.rand(1, 3, 42, 28)
    assert_close(loaded(images), made(images), rtol=0, atol=0)


def test_a_hub_id_is_downloaded_once_and_loaded_from_its_folder(tmp_path, monkeypatch):
    made = TINY.build()
    made.network.save_pretrained(tmp_path)
    asked = []
    monkeypatch.setattr("huggingface_hub.snapshot_download", lambda hub_id, **_: asked.append(hub_id) or str(tmp_path))
    monkeypatch.setitem(ARCHITECTURES, "dinov2-tiny", replace(ARCHITECTURES["dinov2-tiny"], hub_id="someone/tiny"))
    images = torch.rand(1, 3, 42, 28)
    for weights in ("pretrained", "someone/tiny"):
        assert_close(replace(TINY, weights=weights).build()(images), made(images), rtol=0, atol=0)
    assert asked == ["someone/tiny"] * 2


def test_facets_of_dinov3_are_its_blocks_outputs_and_projections(monkeypatch):
    from mambamatcher.model.backbones.vit import _dinov3

    monkeypatch.setitem(ARCHITECTURES, "dinov3-tiny", _dinov3(48, 3, 3, ""))
    backbone = VitConfig(name="dinov3-tiny", layers=(0, 2), facets=FACETS, weights="random").build().eval()
    images = torch.rand(2, 3, 48, 32)
    with torch.no_grad():
        levels = dict(zip(backbone.taps, backbone(images).unbind(1), strict=True))
        states = backbone.network((images - backbone.mean) / backbone.std, output_hidden_states=True).hidden_states
        for layer in (0, 2):
            block, before = backbone.blocks()[layer], states[layer]
            expected = {
                facet: getattr(block.attention, f"{facet[0]}_proj")(block.norm1(before)) for facet in FACETS[1:]
            }
            expected["token"] = states[layer + 1]
            for facet, tokens in expected.items():
                assert_close(levels[layer, facet], tokens[:, 5:].mT.unflatten(-1, (3, 2)), msg=f"{layer} {facet}")


def test_offline_with_nothing_cached_one_sentence_says_what_to_do(monkeypatch, tmp_path):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(WeightsError) as caught:
        VitConfig(name="dinov2-base", weights="someone/not-published-anywhere").build()
    message = str(caught.value)
    assert "'someone/not-published-anywhere'" in message
    assert "config.json and model.safetensors" in message
    assert "backbone.weights=FOLDER" in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("config", "known"),
    [
        (
            VitConfig(name="dinov2-tiny", layers=(3,), weights="pretraned"),
            "OWNER/NAME on the hub, pretrained, random, vit-s-focus",
        ),
        (EfficientNetLiteConfig(weights="pretraned"), "pretrained, random"),
    ],
)
def test_weights_that_do_not_exist_are_answered_with_the_names_that_do(config, known):
    with pytest.raises(WeightsError) as caught:
        config.build()
    assert str(caught.value) == (
        f"unknown weights 'pretraned'. Did you mean 'pretrained'? Known: {known}. An existing file or folder works too."
    )


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda path: path / "gone.pth", "no weights file or folder"),
        (lambda path: _written(path / "torn.safetensors", b"\x00\x01"), "cannot read weights"),
        (lambda path: _written(path / "torn.pth", b"not a checkpoint"), "cannot read weights"),
        (lambda path: _saved(path / "other.safetensors", {"a": torch.zeros(2)}), "made for another model"),
        (lambda path: _pickled(path / "list.pth", [1, 2]), "not a dictionary of tensors"),
    ],
)
def test_unusable_weights_are_refused_by_name(make, says, tmp_path):
    path = make(tmp_path)
    with pytest.raises(WeightsError, match=says) as caught:
        replace(TINY, weights=str(path)).build()
    assert str(path.name) in str(caught.value)


def _written(path, content):
    path.write_bytes(content)
    return path


def _saved(path, state):
    save_file(state, path)
    return path


def _pickled(path, value):
    torch.save(value, path)
    return path


def test_a_checkpoint_that_would_run_code_is_not_run(tmp_path):
    class Harm:
        def __reduce__(self):
            return (open, (str(tmp_path / "harm"), "w"))

    torch.save({"model": Harm()}, tmp_path / "harmful.pth")
    with pytest.raises(WeightsError, match="cannot read weights"):
        replace(TINY, weights=str(tmp_path / "harmful.pth")).build()
    assert not (tmp_path / "harm").exists()


@pytest.mark.parametrize("name", sorted(set(ARCHITECTURES) - {"dinov2-tiny"}))
def test_every_published_architecture_gives_levels_on_the_patch_grid(name):
    with torch.device("meta"):
        backbone = VitConfig(name=name, layers=(0, 11), weights="random").build()
        side = 5 * backbone.stride
        levels = backbone(torch.rand(1, 3, side, 2 * side))
    assert levels.shape == (1, 4, ARCHITECTURES[name].sizes["hidden_size"], 5, 10)


@pytest.mark.parametrize("side", [238, 420, 560, 700, 840])
def test_any_side_that_is_a_multiple_of_the_patch_works(side):
    backbone = replace(TINY, facets=("token",), layers=(0,)).build()
    with torch.no_grad():
        assert backbone(torch.rand(1, 3, side, side)).shape[-2:] == (side // 14, side // 14)


def test_levels_go_layer_by_layer_unless_asked_otherwise():
    config = VitConfig(layers=(10, 11), weights="random")
    assert config.taps == [(10, "value"), (10, "token"), (11, "value"), (11, "token")]
    by_facet = replace(config, level_order="by_facet")
    assert by_facet.taps == [(10, "value"), (11, "value"), (10, "token"), (11, "token")]


def test_threads_sharing_a_backbone_do_not_mix_their_features():
    backbone = TINY.build().eval()
    pictures = [torch.rand(1, 3, 14 * (2 + i), 28) for i in range(6)]
    with torch.no_grad():
        expected = [backbone(picture) for picture in pictures]
    found: dict[int, torch.Tensor] = {}

    def work(index: int) -> None:
        with torch.no_grad():
            for _ in range(5):
                found[index] = backbone(pictures[index])

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(pictures))]
    [t.start() for t in threads]
    [t.join() for t in threads]
    for index, levels in enumerate(expected):
        assert_close(found[index], levels)


def test_a_backbone_can_be_copied_and_pickled():
    backbone = TINY.build().eval()
    images = torch.rand(1, 3, 42, 28)
    for copied in (copy.deepcopy(backbone), pickle.loads(pickle.dumps(backbone))):
        assert_close(copied(images), backbone(images), rtol=0, atol=0)


def test_frozen_but_for_the_last_blocks_that_are_to_be_tuned():
    assert not any(p.requires_grad for p in TINY.build().parameters())
    tuned = replace(TINY, trainable_blocks=1, width=8).build()
    trained = {name.split(".")[3] for name, p in tuned.network.named_parameters(prefix="network") if p.requires_grad}
    assert trained == {"3"}
    assert all(p.requires_grad for p in tuned.projections.parameters())
    by_depth = tuned.trainable_parameters()
    assert [len(parameters) for parameters in by_depth] == [len(list(tuned.blocks()[3].parameters())), 0, 0, 0, 0]


@pytest.mark.parametrize(
    "config",
    [
        replace(TINY, trainable_blocks=5),
        VitConfig(name="dinov2-registers-small", layers=(0,), weights="random", trainable_blocks=2),
        EfficientNetLiteConfig(layers=(3, 4), weights="random", trainable_blocks=6),
        ResNetConfig(layers=(3,), weights="random", trainable_blocks=5),
    ],
)
def test_one_block_more_than_there_are_tunes_the_stem_and_nothing_that_gets_no_gradient(config):
    backbone = config.build()
    backbone(torch.rand(2, 3, 112, 112)).square().sum().backward()
    tuned = [parameter for parameter in backbone.parameters() if parameter.requires_grad]
    assert {id(parameter) for parameter in backbone.stem()} < {id(parameter) for parameter in tuned}
    assert all(parameter.grad is not None for parameter in tuned)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"name": "dinov2-bsae"}, "Did you mean 'dinov2-base'"),
        ({"facets": ("tokn",)}, "Did you mean 'token'"),
        ({"facets": ()}, "facets is empty"),
        ({"layers": ()}, "layers is empty"),
        ({"trainable_blocks": -1}, "trainable_blocks"),
    ],
)
def test_impossible_configurations_are_refused(wrong, says):
    with pytest.raises(ConfigError, match=says):
        replace(TINY, **wrong)


def test_a_layer_that_does_not_exist_is_refused():
    with pytest.raises(ConfigError, match="layers 0 to 3; there is no layer 11"):
        replace(TINY, layers=(3, 11)).build()


def test_images_that_do_not_divide_into_patches_are_refused_with_the_size_that_would():
    with pytest.raises(InputError, match="resize them to 98x42"):
        TINY.build()(torch.rand(1, 3, 100, 40))
