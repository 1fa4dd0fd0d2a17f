"""Slow, obvious versions of what the package computes: loops over plain numbers, written from the papers' equations."""

from itertools import pairwise
from math import prod

import numpy as np
from torch import Tensor, nn


def numpy(value: Tensor) -> np.ndarray:
    return value.detach().cpu().numpy().astype(np.float64)


def silu(x: np.ndarray) -> np.ndarray:
    return x / (1 + np.exp(-x))


def linear(layer: nn.Linear, x: np.ndarray) -> np.ndarray:
    bias = 0 if layer.bias is None else numpy(layer.bias)
    return x @ numpy(layer.weight).T + bias


def layer_norm(layer: nn.LayerNorm, x: np.ndarray) -> np.ndarray:
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + layer.eps) * numpy(layer.weight) + numpy(layer.bias)


def gelu(x: np.ndarray) -> np.ndarray:
    from scipy.special import erf

    return 0.5 * x * (1 + erf(x / np.sqrt(2)))


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max())
    return e / e.sum()


def feed_forward(layers: nn.Sequential, x: np.ndarray) -> np.ndarray:
    norm, widen, _, narrow = layers
    return linear(narrow, gelu(linear(widen, layer_norm(norm, x))))


def causal_conv(layer, inner: np.ndarray) -> np.ndarray:
    """The depthwise causal convolution, one output number at a time; `inner` is (length, channel)."""
    kernel, bias = numpy(layer.weight)[:, 0], numpy(layer.bias)
    width = kernel.shape[1]
    out = np.zeros_like(inner)
    for t, c in np.ndindex(*inner.shape):
        past = [inner[t - width + 1 + k, c] if t - width + 1 + k >= 0 else 0.0 for k in range(width)]
        out[t, c] = np.dot(kernel[c], past) + bias[c]
    return out


def state_recurrence(
    block, inputs: np.ndarray, direction: np.ndarray | None = None, steering: np.ndarray | None = None
) -> np.ndarray:
    """The state recurrence, a step and a channel at a time; `inputs` is (length, channel)."""
    length, channels = inputs.shape
    A, D = -np.exp(numpy(block.A_log)), numpy(block.D)
    state = np.zeros((channels, block.state))
    out = np.zeros((length, channels))
    for t in range(length):
        u = inputs[t]
        projected = linear(block.x_proj, u) + (0 if steering is None else steering[t])
        low, B, C = np.split(projected, [block.rank, block.rank + block.state])
        if direction is not None:
            B = B + numpy(block.direction_B)[direction[t]]
        delta = np.log1p(np.exp(linear(block.dt_proj, low)))
        for c in range(channels):
            state[c] = np.exp(delta[c] * A[c]) * state[c] + delta[c] * B * u[c]
            out[t, c] = state[c] @ C + D[c] * u[c]
    return out


def mamba(block, tokens: np.ndarray, steering: np.ndarray | None = None) -> np.ndarray:
    inner, gate = np.split(linear(block.in_proj, tokens), 2, axis=-1)
    u = silu(causal_conv(block.conv1d, inner))
    y = state_recurrence(block, u, steering=steering) if block.state else numpy(block.D) * u
    return linear(block.out_proj, y * silu(gate))


def ordered_scan(scan, tokens: np.ndarray, orders: list[list[int]], places: np.ndarray | None = None) -> np.ndarray:
    total = np.zeros_like(tokens)
    for index, (block, order) in enumerate(zip(scan.blocks, orders, strict=True)):
        steering = None if places is None else linear(scan.steering[index], places[order])
        scanned = mamba(block, tokens[order], steering)
        for place, position in enumerate(order):
            total[position] += scanned[place]
    return total


def snake_path(shape: tuple[int, ...], fastest: int) -> list[tuple[int, ...]]:
    """Walk the grid recursively, turning round at every border."""
    axes = [a for a in range(len(shape)) if a != fastest] + [fastest]

    def walk(depth: int, backwards: list[bool]) -> list[dict[int, int]]:
        if depth == len(axes):
            return [{}]
        axis = axes[depth]
        places = list(range(shape[axis]))
        if backwards[depth]:
            places.reverse()
        backwards[depth] = not backwards[depth]
        return [{axis: place, **rest} for place in places for rest in walk(depth + 1, backwards)]

    steps = walk(0, [False] * len(axes))
    return [tuple(step[a] for a in range(len(shape))) for step in steps]


def direction_names(path: list[tuple[int, ...]]) -> list[int]:
    names = [0]
    for before, after in pairwise(path):
        (axis,) = [a for a in range(len(before)) if before[a] != after[a]]
        names.append(1 + 2 * axis + (after[axis] < before[axis]))
    return names


def snake_scan(scan, tokens: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    inner, gate = np.split(linear(scan.in_proj, tokens), 2, axis=-1)
    u = silu(depthwise_conv2d(scan.convolutions, inner, shape))
    total = np.zeros_like(inner)
    for axis in range(len(shape)):
        for path in (snake_path(shape, axis), snake_path(shape, axis)[::-1]):
            order = [int(np.ravel_multi_index(place, shape)) for place in path]
            scanned = state_recurrence(scan, u[order], np.array(direction_names(path)))
            for place, position in enumerate(order):
                total[position] += scanned[place]
    return linear(scan.out_proj, total * silu(gate))


def depthwise_conv2d(layers, tokens: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """One 2D convolution for each pair of axes, over all taps of each position in turn."""
    grid = tokens.reshape(*shape, -1)
    for image, layer in enumerate(layers):
        kernel, bias = numpy(layer.weight)[:, 0], numpy(layer.bias)
        reach = kernel.shape[-1] // 2
        out = np.zeros_like(grid)
        for place in np.ndindex(*shape):
            out[place] = bias
            for i, j in np.ndindex(*kernel.shape[1:]):
                at = list(place)
                at[2 * image] += i - reach
                at[2 * image + 1] += j - reach
                if all(0 <= a < n for a, n in zip(at, shape, strict=True)):
                    out[place] += kernel[:, i, j] * grid[tuple(at)]
        grid = out
    return grid.reshape(tokens.shape)


def z_code(place: tuple[int, ...]) -> str:
    """The interleaved bits of the coordinates, most significant first, as text."""
    return "".join(format(c, "08b")[bit] for bit in range(8) for c in place)


def scan_order(name: str, similarity: np.ndarray, shape: tuple[int, ...]) -> list[int]:
    positions = list(range(prod(shape)))
    if name == "descending":
        return sorted(positions, key=lambda p: -similarity[p])
    if name == "ascending":
        return sorted(positions, key=lambda p: similarity[p])
    if name == "raster":
        return positions
    if name == "reverse_raster":
        return positions[::-1]
    if name == "z_order":
        return sorted(positions, key=lambda p: z_code(tuple(int(c) for c in np.unravel_index(p, shape))))
    raise KeyError(name)


def attention(block, tokens: np.ndarray, context: np.ndarray) -> np.ndarray:
    query = linear(block.query, layer_norm(block.norm_tokens, tokens))
    norm_context = block.norm_tokens if block.norm_context is None else block.norm_context
    key, value = np.split(linear(block.key_value, layer_norm(norm_context, context)), 2, axis=-1)
    width = query.shape[1] // block.heads
    gathered = np.zeros_like(query)
    for head in range(block.heads):
        part = slice(head * width, (head + 1) * width)
        for i in range(len(tokens)):
            weights = softmax(key[:, part] @ query[i, part] / np.sqrt(width))
            gathered[i, part] = weights @ value[:, part]
    tokens = tokens + linear(block.out, gathered)
    return tokens + feed_forward(block.feed_forward, tokens)


def additive_attention(layer, tokens: np.ndarray) -> np.ndarray:
    """TransforMatcher's layer: global vectors pool rotated tokens, and products sum each pair of channels."""
    query, key, value = np.split(linear(layer.to_query_key_value, tokens), 3, axis=-1)
    width = query.shape[1] // layer.heads
    mixed = np.zeros_like(query)
    for head in range(layer.heads):
        part = slice(head * width, (head + 1) * width)
        q, k, v = query[:, part], key[:, part], value[:, part]
        rotated_q, rotated_k = (rotary(q), rotary(k)) if layer.rotary else (q, k)
        global_query = softmax(linear(layer.query_weight, q)[:, 0] / np.sqrt(width)) @ rotated_q
        p = k * global_query
        p = p[:, 0::2] + p[:, 1::2] if layer.rotary else p
        global_key = softmax(linear(layer.key_weight, p)[:, 0] / np.sqrt(width)) @ rotated_k
        u = v * global_key
        u = u[:, 0::2] + u[:, 1::2] if layer.rotary else u
        mixed[:, part] = linear(layer.transform, u) + q
    return linear(layer.out, mixed)


def rotary(x: np.ndarray) -> np.ndarray:
    """Turn each pair of channels of token n by n times its frequency, from π to 5π ("pixel" frequencies)."""
    out = np.zeros_like(x)
    for n in range(len(x)):
        for pair, frequency in enumerate(np.linspace(1, 5, x.shape[1] // 2) * np.pi):
            a, b = x[n, 2 * pair], x[n, 2 * pair + 1]
            cos, sin = np.cos(n * frequency), np.sin(n * frequency)
            out[n, 2 * pair], out[n, 2 * pair + 1] = a * cos - b * sin, b * cos + a * sin
    return out


def conv(x: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """Convolve any number of dimensions, one output number at a time; x is (channel, *grid)."""
    grid, reach = x.shape[1:], weight.shape[-1] // 2
    out = np.zeros((len(weight), *grid))
    for place in np.ndindex(*grid):
        total = bias.copy()
        for tap in np.ndindex(*weight.shape[2:]):
            at = tuple(p + t - reach for p, t in zip(place, tap, strict=True))
            if all(0 <= a < n for a, n in zip(at, grid, strict=True)):
                total += weight[(slice(None), slice(None), *tap)] @ x[(slice(None), *at)]
        out[(slice(None), *place)] = total
    return out
