import numpy as np
import pytest
import torch
from torch.testing import assert_close

from mambamatcher.errors import ConfigError
from mambamatcher.model.correlation import (
    CORRELATION_AGGREGATIONS,
    Conv4dAggregation,
    FastFormerAggregation,
    HighResolutionAggregation,
    HoughAggregation,
    PointwiseAggregation,
    ShapedConfig,
    SimilarityScanAggregation,
)
from mambamatcher.model.correlation.similarity_scan import SORT_KEYS, without_state
from mambamatcher.model.layers.mamba import MambaSettings
from mambamatcher.model.layers.positional import POSITIONAL_ENCODINGS
from mambamatcher.model.layers.scan_orders import SCAN_ORDERS
from tests import slow, slow_heads

LEVELS = 3
GRIDS = (2, 3, 4, 5)  # hs, ws, ht, wt all differ, so a swapped axis fails
SMALL = MambaSettings(state=4, expand=2)


def scan(**kwargs) -> SimilarityScanAggregation:
    return SimilarityScanAggregation(mamba=SMALL, **kwargs)


# those that fit one grid only have tests of their own
ANY_GRID = {name: config for name, config in CORRELATION_AGGREGATIONS.items() if not issubclass(config, ShapedConfig)}
# every row of the paper's correlation, sort-key and positional tables
ROWS = {
    **{name: config() for name, config in ANY_GRID.items()},
    "conv4d k=1": Conv4dAggregation(kernel_size=1),
    "conv4d k=5": Conv4dAggregation(kernel_size=5),
    "fastformer with heads of 8": FastFormerAggregation(heads=3, head_width=8, depth=2),
    "fastformer without rotary": FastFormerAggregation(rotary=False, depth=2),
    "fastformer upsampled": FastFormerAggregation(depth=2, upsample=2),
    "hough without scales": HoughAggregation(kernel_size=3, scales=1, upsample=1),
    "hough at two scales": HoughAggregation(kernel_size=3, scales=2, upsample=3),
    "pointwise at the same grid": PointwiseAggregation(hidden=(), upsample=1),
    "pointwise, two hidden layers": PointwiseAggregation(hidden=(5, 4)),
    "conv4d consensus": Conv4dAggregation(hidden=(2,), consensus=True),
    **{f"order {name}": scan(orders=(name,)) for name in SCAN_ORDERS},
    "bidirectional": scan(orders=("raster", "reverse_raster")),
    **{f"sort by {name}": scan(sort_key=name) for name in SORT_KEYS},
    **{f"positional {name}": scan(positional=name) for name in POSITIONAL_ENCODINGS},
    "norm": scan(norm=True),
    "norm and positions, depth 2": scan(norm=True, positional="sinusoidal", depth=2),
    "no residual, depth 2": scan(residual=False, depth=2),
    "layer scale": scan(layer_scale=0.5, depth=2),
    "standardized": scan(standardize=True),
    "steered by positions": scan(steered=True, orders=("descending", "ascending")),
    "rows": scan(scope="source"),
    "columns, steered, standardized": scan(scope="target", steered=True, standardize=True),
    "no state": SimilarityScanAggregation(mamba=MambaSettings(state=0, conv=1)),
}


def correlation(seed: int = 0) -> torch.Tensor:
    # values in the range of cosine similarities, with ties as in real maps
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-10, 11, (2, LEVELS, *GRIDS), generator=generator) / 10.0


def build(config):
    torch.manual_seed(1)
    module = config.build(LEVELS).double()
    for name, parameter in module.named_parameters():
        # initial values that are symmetric would hide errors
        if name.startswith(("project", "scales", "embed.bias", "votes")) or "direction_B" in name:
            torch.nn.init.normal_(parameter)
    return module


def sequence_of(maps: np.ndarray) -> np.ndarray:
    return np.stack([maps[(slice(None), *place)] for place in np.ndindex(*GRIDS)])


def slow_mean(module, maps, config):
    return maps.sum(0) / LEVELS


def slow_linear(module, maps, config):
    return slow.linear(module.project, sequence_of(maps)).reshape(GRIDS)


def slow_conv4d(module, maps, config):
    def stack(x):
        for index, layer in enumerate(module.convolutions):
            x = slow.conv(x, slow.numpy(layer.weight), slow.numpy(layer.bias))
            x = np.maximum(x, 0) if index + 1 < len(module.convolutions) else x
        return x

    if not config.consensus:
        return stack(maps)[0]
    maps = slow_heads.mutual(maps)
    forwards, backwards = stack(maps), stack(maps.transpose(0, 3, 4, 1, 2)).transpose(0, 3, 4, 1, 2)
    return slow_heads.mutual(np.maximum(forwards, 0) + np.maximum(backwards, 0))[0]


def slow_noised(module, maps, config):
    seed = round(1000 * np.abs(maps).sum()) % 2**31
    noise = torch.randn(maps.shape, generator=torch.Generator().manual_seed(seed))
    (layer,) = module.refine.convolutions
    return slow.conv(maps + config.noise * noise.numpy(), slow.numpy(layer.weight), slow.numpy(layer.bias))[0]


def slow_high_resolution(module, maps, config):
    return slow_heads.upsample4d(slow_heads.mutual(maps).mean(0), config.upsample)


def slow_fastformer(module, maps, config):
    tokens = slow.linear(module.embed, np.maximum(sequence_of(maps), 0))
    for layer in module.layers:
        norm, attend = layer.attention
        tokens = tokens + slow.additive_attention(attend, slow.layer_norm(norm, tokens))
        tokens = tokens + slow.feed_forward(layer.feed_forward, tokens)
    return slow_heads.upsample4d(slow.linear(module.project, tokens).reshape(GRIDS), config.upsample)


def slow_plain_mamba(module, maps, config):
    tokens = sequence_of(maps)
    return slow.linear(module.project, tokens + slow.snake_scan(module.scan, tokens, GRIDS)).reshape(GRIDS)


def slow_order(name, similarity, shape):
    if name == "random":  # any permutation is valid, so use the module's own
        return SCAN_ORDERS[name](torch.zeros(1, len(similarity)), shape)[0].tolist()
    return slow.scan_order(name, similarity, shape)


def slow_positions(module, tokens, name):
    tokens = tokens.copy()
    for position, place in enumerate(np.ndindex(*GRIDS)):
        for axis, coordinate in enumerate(place):
            if name == "sinusoidal":
                angle = np.pi * ((coordinate + 0.5) * 2 / GRIDS[axis] - 1)
                for channel in range(LEVELS):
                    if channel % 4 == axis:
                        turn = channel // 4
                        tokens[position, channel] += (np.sin, np.cos)[turn % 2](angle * 2 ** (turn // 2))
            if name == "learnable":
                table = slow.numpy(module.positional.tables)[axis]
                at = (coordinate + 0.5) * table.shape[1] / GRIDS[axis] - 0.5
                low = int(np.floor(at))
                tokens[position] += table[:, low] * (low + 1 - at) + table[:, low + 1] * (at - low)
    return tokens


def slow_coordinates(place):
    centre = [(coordinate + 0.5) * 2 / count - 1 for coordinate, count in zip(place, GRIDS, strict=True)]
    (source_y, source_x), (target_y, target_x) = centre[:2], centre[2:]
    plain = [source_x, source_y, target_x, target_y, target_x - source_x, target_y - source_y]
    waves = [wave(np.pi * turns * each) for turns in (1, 2) for wave in (np.sin, np.cos) for each in plain]
    return plain + waves


def slow_sequences(scope):
    """List the positions of each sequence that is scanned alone."""
    places = list(np.ndindex(*GRIDS))
    parts = {"pair": lambda place: 0, "source": lambda place: place[:2], "target": lambda place: place[2:]}
    groups = {}
    for position, place in enumerate(places):
        groups.setdefault(parts[scope](place), []).append(position)
    return list(groups.values())


def slow_similarity_scan(module, maps, config):
    tokens = sequence_of(maps)
    similarity = {"last": tokens[:, -1], "penultimate": tokens[:, -2], "mean": tokens.mean(1)}[config.sort_key]
    similarity = np.round(similarity, 9)
    places = np.array([slow_coordinates(place) for place in np.ndindex(*GRIDS)]) if config.steered else None
    for index, (norm, layer) in enumerate(zip(module.norms, module.scans, strict=True)):
        seen = tokens
        if config.standardize:
            seen = (tokens - tokens.mean(0)) / tokens.std(0, ddof=1).clip(1e-6)
        seen = slow_positions(module, seen, config.positional)
        seen = slow.layer_norm(norm, seen) if config.norm else seen
        scanned = np.zeros_like(tokens)
        for sequence in slow_sequences(config.scope):
            shape = {"pair": GRIDS, "source": GRIDS[2:], "target": GRIDS[:2]}[config.scope]
            orders = [slow_order(name, similarity[sequence], shape) for name in config.orders]
            own = None if places is None else places[sequence]
            scanned[sequence] = slow.ordered_scan(layer, seen[sequence], orders, own)
        if config.layer_scale:
            scanned = scanned * slow.numpy(module.scales[index])
        tokens = tokens + scanned if config.residual else scanned
    return slow.linear(module.project, tokens).reshape(GRIDS)


SLOW = {
    "mean": slow_mean,
    "linear": slow_linear,
    "conv4d": slow_conv4d,
    "noised": slow_noised,
    "high_resolution": slow_high_resolution,
    "fastformer": slow_fastformer,
    "plain_mamba": slow_plain_mamba,
    "similarity_scan": slow_similarity_scan,
    "hough": slow_heads.hough,
    "pointwise": slow_heads.pointwise,
}


def test_every_registered_aggregation_has_a_slow_version():
    assert SLOW.keys() == ANY_GRID.keys()


@pytest.mark.parametrize("row", ROWS)
def test_equals_its_slow_obvious_version(row):
    config = ROWS[row]
    module = build(config)
    maps = correlation().double()
    if row == "sort by mean":  # means of tied levels round differently, depending on the order of the sum
        maps = maps + torch.rand(maps.shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64) / 100
    name = CORRELATION_AGGREGATIONS.name_of(type(config))
    refined = module(maps)
    for b in range(len(maps)):
        expected = SLOW[name](module, slow.numpy(maps[b]), config)
        assert_close(slow.numpy(refined[b]), expected, rtol=2e-5, atol=5e-6)


@pytest.mark.parametrize("row", ROWS)
def test_gives_one_map_with_finite_non_zero_gradients(row):
    module = build(ROWS[row]).float()
    maps = correlation(1).requires_grad_()
    refined = module(maps)
    assert refined.shape == (2, *(getattr(ROWS[row], "upsample", 1) * n for n in GRIDS))
    (refined * torch.randn_like(refined)).sum().backward()
    for name, tensor in {"maps": maps, **dict(module.named_parameters())}.items():
        assert tensor.grad is not None, name
        assert tensor.grad.isfinite().all(), name
        assert tensor.grad.abs().sum() > 0, name


def test_consensus_of_images_with_the_same_grid_takes_both_directions_at_once_and_equals_its_slow_version():
    config = Conv4dAggregation(kernel_size=5, hidden=(2,), consensus=True)
    module = build(config)
    maps = torch.rand(2, LEVELS, 3, 2, 3, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for refined, each in zip(module(maps), maps, strict=True):
        assert_close(slow.numpy(refined), slow_conv4d(module, slow.numpy(each), config), rtol=2e-5, atol=5e-6)


@pytest.mark.parametrize("row", ["hough", "pointwise", "fastformer upsampled", "conv4d consensus"])
def test_gradients_are_the_slopes_of_the_slow_version(row):
    """Along a random direction of the map and of all parameters at once; the sizes differ, so no axis is swapped."""
    generator = torch.Generator().manual_seed(2)
    module, step = build(ROWS[row]), 1e-5
    maps = torch.rand(1, LEVELS, *GRIDS, generator=generator).double().requires_grad_()
    leaves = [maps, *module.parameters()]
    directions = [torch.randn(leaf.shape, generator=generator).double() for leaf in leaves]
    refined = module(maps)
    weights = torch.randn(refined.shape, generator=generator).double()
    gradients = torch.autograd.grad((refined * weights).sum(), leaves)
    name = CORRELATION_AGGREGATIONS.name_of(type(ROWS[row]))
    sums = []
    for sign in (1, -2):  # one step forwards, then two back
        with torch.no_grad():
            for leaf, direction in zip(leaves, directions, strict=True):
                leaf += sign * step * direction
        sums.append((SLOW[name](module, slow.numpy(maps[0]), ROWS[row]) * weights[0].numpy()).sum())
    slope = sum((g * d).sum().item() for g, d in zip(gradients, directions, strict=True))
    assert slope == pytest.approx((sums[0] - sums[1]) / (2 * step), rel=1e-4)


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("value", [0.0, -1.0, 1.0])
def test_constant_maps_give_finite_scores(row, value):
    module = build(ROWS[row]).float()
    assert module(torch.full((1, LEVELS, *GRIDS), value)).isfinite().all()


@pytest.mark.parametrize("name", ["linear", "similarity_scan"])
def test_an_untrained_projection_starts_as_the_mean_of_the_levels(name):
    project = CORRELATION_AGGREGATIONS[name]().build(LEVELS).project
    assert_close(project.weight, torch.full((1, LEVELS), 1 / LEVELS))
    assert project.bias.item() == 0


@pytest.mark.parametrize("inference", [False, True], ids=["training", "inference"])
@pytest.mark.parametrize("positional", POSITIONAL_ENCODINGS)
def test_positions_reach_the_block_and_never_the_projection(positional, inference):
    torch.manual_seed(0)
    module = scan(positional=positional, identity_start=True).build(LEVELS)
    constant = torch.full((1, LEVELS, *GRIDS), 0.3)
    with torch.inference_mode(inference):
        assert module(constant).unique().numel() == 1  # the block adds zero, so no position may differ from another
        torch.nn.init.normal_(module.scans[0].blocks[0].out_proj.weight.data)
        scores = module(torch.zeros(1, LEVELS, *GRIDS)).detach()
    assert (scores.std() > 1e-3) == (positional != "none")


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda: Conv4dAggregation(kernel_size=4), "odd"),
        (lambda: FastFormerAggregation(head_width=3), "even head_width"),
        (lambda: FastFormerAggregation(heads=0), "heads"),
        (lambda: FastFormerAggregation(upsample=5), "upsample must be from 1 to 4"),
        (lambda: HoughAggregation(kernel_size=4), "odd"),
        (lambda: HoughAggregation(scales=6), "scales must be from 1 to 5"),
        (lambda: PointwiseAggregation(hidden=(0,)), "hidden must be from 1 to 1,024"),
        (lambda: HighResolutionAggregation(upsample=5), "upsample must be from 1 to 4"),
        (lambda: scan(orders=()), "at least one order"),
        (lambda: scan(orders=("decending",)), "Did you mean 'descending'"),
        (lambda: scan(sort_key="lats"), "Did you mean 'last'"),
        (lambda: scan(positional="sinus"), "Did you mean 'sinusoidal'"),
        (lambda: scan(depth=0), "depth"),
        (lambda: scan(layer_scale=0.0), "layer_scale"),
        (lambda: scan(scope="source", positional="learnable"), "scope=pair"),
        (lambda: SimilarityScanAggregation(mamba=MambaSettings(state=0), steered=True), "needs a state"),
    ],
)
def test_impossible_choices_are_refused(wrong, says):
    with pytest.raises(ConfigError, match=says):
        wrong()


def permuted(maps: torch.Tensor, sources: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Exchange the source positions among each other, and the target positions."""
    flat = maps.flatten(-4, -3).flatten(-2)
    return flat[..., sources, :][..., targets].reshape(maps.shape)


@pytest.mark.parametrize(("steered", "equivariant"), [(False, True), (True, False)])
def test_only_a_steered_scan_knows_where_a_match_lies(steered, equivariant):
    """Sorted by distinct similarities, a scan without positions commutes with every exchange of positions."""
    module = build(scan(steered=steered))
    maps = torch.rand(1, LEVELS, *GRIDS, dtype=torch.float64, generator=torch.Generator().manual_seed(5))
    sources, targets = torch.randperm(6), torch.randperm(20).flip(0)
    same = torch.equal(module(permuted(maps, sources, targets)), permuted(module(maps), sources, targets))
    assert same == equivariant


@pytest.mark.parametrize("steered", [False, True])
def test_a_scan_without_its_state_is_pointwise_but_for_the_convolution(steered):
    config = SimilarityScanAggregation(mamba=MambaSettings(state=4, conv=1), steered=steered)
    module = without_state(build(config))
    maps = correlation().double()
    changed = maps.clone()
    changed[..., 0] += 0.25
    assert_close(module(changed)[..., 1:], module(maps)[..., 1:])
    assert not torch.allclose(build(config)(changed)[..., 1:], build(config)(maps)[..., 1:])
