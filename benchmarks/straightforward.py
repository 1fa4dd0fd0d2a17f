"""A straightforward implementation of the paper's model, to compare the fast one with, stage by stage.

Each function takes the model for its weights. This file is not part of the package.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from mambamatcher.model.mambamatcher import MambaMatcher
from mambamatcher.ops import selective_scan


def extract(model: MambaMatcher, images: Tensor) -> Tensor:
    return model.backbone(images)  # already the plain network of transformers


def aggregate(model: MambaMatcher, features: Tensor) -> Tensor:
    return _convolve(model, features.flatten(0, 1).contiguous()).view_as(features)


def aggregate_channels_last(model: MambaMatcher, features: Tensor) -> Tensor:
    return _convolve(model, features.flatten(0, 1).contiguous(memory_format=torch.channels_last))


def _convolve(model: MambaMatcher, maps: Tensor) -> Tensor:
    layers = model.features
    refined = layers.narrow(F.relu(layers.widen(maps)))
    refined = F.relu(refined) if layers.final_activation else refined
    return maps + refined if layers.residual else refined


def correlate(model: MambaMatcher, source: Tensor, target: Tensor) -> Tensor:
    source, target = (F.normalize(each.flatten(3).contiguous(), dim=2) for each in (source, target))
    return source.transpose(2, 3) @ target


def refine(model: MambaMatcher, correlation: Tensor) -> Tensor:
    """Sort, apply the Mamba block with a loop over all positions, undo the sorting, project."""
    scan, (block,) = model.correlation, model.correlation.scans[0].blocks
    shape = correlation.shape[2:]
    sequence = correlation.flatten(2).transpose(1, 2).contiguous()
    order = sequence[..., -1].argsort(dim=1, descending=True, stable=True)[..., None].expand_as(sequence)
    ordered = sequence.gather(1, order)
    inner, gate = block.in_proj(ordered).chunk(2, dim=-1)
    u = F.silu(block.conv1d(inner.transpose(1, 2))[..., : ordered.shape[1]])
    delta, B, C = block.x_proj(u.transpose(1, 2)).split([block.rank, block.state, block.state], dim=-1)
    y = selective_scan(
        u,
        (delta @ block.dt_proj.weight.T).transpose(1, 2),
        -block.A_log.exp(),
        B.transpose(1, 2),
        C.transpose(1, 2),
        block.D,
        z=gate.transpose(1, 2),
        delta_bias=block.dt_proj.bias,
        delta_softplus=True,
        backend="reference",
    )
    scanned = block.out_proj(y.transpose(1, 2))
    scanned = torch.empty_like(scanned).scatter_(1, order, scanned)
    return scan.project(sequence + scanned).squeeze(-1).unflatten(1, shape)


def transfer(model: MambaMatcher, refined: Tensor, points: Tensor) -> Tensor:
    """Transfer every source position, then sample the points."""
    from mambamatcher.model.transfer import dense_transfer, soft_sampler

    weights = soft_sampler(points, tuple(refined.shape[1:3]), model.config.transfer.radius)
    return weights @ dense_transfer(refined, model.config.transfer)
