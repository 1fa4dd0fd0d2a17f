"""Slow, obvious versions of the correlation heads of other systems, written from the papers' equations."""

import numpy as np

from tests import slow


def mutual(x: np.ndarray) -> np.ndarray:
    out = np.zeros_like(x)
    for c, i, j, k, l in np.ndindex(*x.shape):  # noqa: E741
        here = x[c, i, j, k, l]
        out[c, i, j, k, l] = here * here / max(x[c, i, j].max(), 1e-6) * here / max(x[c, :, :, k, l].max(), 1e-6)
    return out


def upsample4d(x: np.ndarray, factor: int) -> np.ndarray:
    """Interpolate one axis after the other, one position at a time; outside the outer centres the score is constant."""
    for axis in range(4):
        count = x.shape[axis]
        slices = []
        for fine in range(factor * count):
            at = min(max((fine + 0.5) / factor - 0.5, 0), count - 1)
            low = min(int(at), count - 2) if count > 1 else 0
            high = min(low + 1, count - 1)
            slices.append(x.take(low, axis) * (low + 1 - at) + x.take(high, axis) * (at - low))
        x = np.stack(slices, axis)
    return x


def sharing_key(offsets: tuple[int, ...]) -> tuple[int, int, int]:
    """What elements of a position-sensitive isotropic kernel agree in, from the offsets of source and target."""
    axes = len(offsets) // 2
    source, target = offsets[:axes], offsets[axes:]
    ends = sorted(sum(c * c for c in end) for end in (source, target))
    return ends[0], ends[1], sum((a - b) ** 2 for a, b in zip(source, target, strict=True))


def hough_kernel(kernel) -> np.ndarray:
    """The 6D kernel (two scales, four positions), every element set from the weight of its class."""
    shape = (*(3 if kernel.scales > 1 else 1,) * 2, *(kernel.size,) * 4)
    keys = {}
    for place in np.ndindex(*shape):
        offsets = [p - n // 2 for p, n in zip(place, shape, strict=True)]
        keys[place] = sharing_key(tuple(offsets[:2])), sharing_key(tuple(offsets[2:]))
    order = sorted(set(keys.values()))
    shares = [list(keys.values()).count(key) for key in order]
    weights = slow.numpy(kernel.weight)
    assert len(weights) == len(order)
    out = np.zeros(shape)
    for place, key in keys.items():
        out[place] = weights[order.index(key)] / shares[order.index(key)]
    return out


def conv6d(x: np.ndarray, kernel: np.ndarray, bias: float) -> np.ndarray:
    """Convolve (source scale, target scale, hs, ws, ht, wt), one match at a time."""
    padded = np.pad(x, [(n // 2, n // 2) for n in kernel.shape])
    out = np.zeros_like(x)
    for place in np.ndindex(*x.shape):
        window = tuple(slice(p, p + n) for p, n in zip(place, kernel.shape, strict=True))
        out[place] = (padded[window] * kernel).sum() + bias
    return out


def hough(module, maps: np.ndarray, config) -> np.ndarray:
    if len(maps) != config.scales**2:
        weight, bias = slow.numpy(module.embed.weight)[..., 0, 0], slow.numpy(module.embed.bias)
        maps = np.stack([sum(w * m for w, m in zip(row, maps, strict=True)) for row in weight])
        maps = maps + bias[:, None, None, None, None]
    space = np.maximum(maps, 0).reshape(config.scales, config.scales, *maps.shape[1:])
    votes = conv6d(space, hough_kernel(module.votes_of_scales), slow.numpy(module.votes_of_scales.bias)[0])
    best = (1 / (1 + np.exp(-votes))).max(axis=(0, 1))
    fine = upsample4d(best, config.upsample)[None, None]
    votes = conv6d(fine, hough_kernel(module.votes), slow.numpy(module.votes.bias)[0])[0]
    return mutual(np.log1p(np.exp(votes)))[0]


def pointwise(module, maps: np.ndarray, config) -> np.ndarray:
    out = np.zeros(maps.shape[1:])
    layers = list(module.convolutions)[1::2]
    for place in np.ndindex(*out.shape):
        scores = maps[(slice(None), *place)]
        for layer in layers:
            scores = slow.numpy(layer.weight)[..., 0, 0] @ np.maximum(scores, 0) + slow.numpy(layer.bias)
        out[place] = scores[0]
    return upsample4d(out, config.upsample)
