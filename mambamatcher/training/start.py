"""Initialisation of a run: principal components as projections, or the weights of a saved model or checkpoint."""

from collections.abc import Sequence
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mambamatcher.datasets.dataset import PairDataset, collate
from mambamatcher.datasets.records import Pair
from mambamatcher.errors import ConfigError, WeightsError
from mambamatcher.io.atomic import write_bytes_atomically
from mambamatcher.matching.confidence import CALIBRATION
from mambamatcher.model.backbones import Backbone
from mambamatcher.model.backbones.weights import StateDict, load_exactly, read_state_dict, reading
from mambamatcher.model.checkpoint import load_pretrained, read_config
from mambamatcher.model.config import to_dict
from mambamatcher.model.frames import smallest_radius
from mambamatcher.model.mambamatcher import MambaMatcher
from mambamatcher.model.saved import CONFIG, GRAPH, INT8_GRAPH, WEIGHTS, find_pretrained, fingerprint
from mambamatcher.model.transfer import blend_rows, soft_sampler

PAIRS = 64  # whose images the initialisation is computed from


def begin(model: MambaMatcher, start: str | None, pairs: Sequence[Pair]) -> None:
    """Initialise a new model."""
    if start is not None:
        begin_with(model, start)
    elif model.backbone.projections:
        dataset = PairDataset(pairs[:PAIRS], model.config.side)
        principal_projections(model.backbone, [dataset[index].source_image for index in range(len(dataset))])


def begin_with(model: MambaMatcher, start: str | Path) -> None:
    """Take over a model's weights; a correlation aggregation that it does not have keeps its own initialisation."""
    state = checkpoint_weights(Path(start)) if Path(start).is_file() else dict(load_pretrained(start).state_dict())
    own = model.state_dict()
    new = {key: value for key, value in own.items() if key.startswith("correlation.") and not _same(state, key, value)}
    known = {key: value for key, value in state.items() if not key.startswith("correlation.") or key in own}
    try:
        load_exactly(model, known | new, str(start))
    except WeightsError as error:
        raise ConfigError(f"cannot start from {start}: {error}") from error


@torch.no_grad()
def centre_presence(model: MambaMatcher, pairs: Sequence[Pair]) -> None:
    """Set the bias of the aggregation so that points present and absent in the target lie on either side of score 0.

    Training moves the bias slowly. Far from its place, the loss of presence would change all features first.

    Raises:
        ConfigError: The aggregation has no bias, or no keypoint of the pairs is absent in the target.
    """
    bias = getattr(getattr(model.correlation, "project", None), "bias", None)
    if not isinstance(bias, Tensor):
        raise ConfigError("absence_weight needs an aggregation with a bias, for example model.correlation=linear")
    dataset = PairDataset(pairs[:PAIRS], model.config.side)
    temperature = model.config.transfer.loss_temperature
    logits: tuple[list[Tensor], list[Tensor]] = [], []
    for index in range(len(dataset)):
        batch = collate([dataset[index]])
        encoded = model.encode(batch.images)
        refined = model.correlate(encoded[batch.source], encoded[batch.target])
        for seen, points in zip(logits, (batch.source_points, batch.unmatched_points), strict=True):
            grid = refined.shape[1], refined.shape[2]
            rows = blend_rows(refined, soft_sampler(points, grid, smallest_radius(grid)))
            seen.append((temperature * rows.flatten(2)).logsumexp(dim=-1).flatten())
    present, absent = (torch.cat(seen) for seen in logits)
    if not len(absent):
        raise ConfigError("absence_weight needs keypoints that the target does not show; these pairs have none")
    bias -= (present.mean() + absent.mean()) / 2 / temperature


def inherit(start: str, folder: Path) -> None:
    """Give a trained model the calibration of the model it started from, and its ONNX graphs where they still fit.

    A graph holds no weights. A calibration that the folder has already is kept.
    """
    if Path(start).is_file():  # a checkpoint has neither
        return
    before = find_pretrained(start)
    graphs = (GRAPH, INT8_GRAPH) if _fingerprint(before) == _fingerprint(folder) else ()
    for name in (CALIBRATION, *graphs):
        if (before / name).is_file() and not (folder / name).exists():
            write_bytes_atomically(folder / name, (before / name).read_bytes())


def _fingerprint(folder: Path) -> str:
    shapes = {key: tuple(value.shape) for key, value in read_state_dict(folder / WEIGHTS).items()}
    return fingerprint(to_dict(read_config(folder / CONFIG)), shapes)


def checkpoint_weights(path: Path) -> StateDict:
    """Read the model's weights (averaged, where the run averages) from a checkpoint of training.

    Raises:
        WeightsError: The file cannot be read, or is no checkpoint of training.
    """
    with reading(path):
        saved = torch.load(path, map_location="cpu", weights_only=True)
    state = saved.get("state_dict") if isinstance(saved, dict) else None
    if not isinstance(state, dict):
        raise WeightsError(f"{path} is not a checkpoint of training: it has no state_dict")
    return model_weights(state)


def model_weights(state: StateDict) -> StateDict:
    """Return the weights of the model among those of a training module."""
    return {key.removeprefix("model."): value for key, value in state.items() if key.startswith("model.")}


def principal_projections(backbone: Backbone, images: Sequence[Float[Tensor, "3 side side"]]) -> None:
    """Initialise each level's projection with the principal components of its features on these images."""
    levels: list[list[Tensor]] = [[] for _ in backbone.projections]
    with torch.no_grad():
        for image in images:
            for seen, level in zip(levels, backbone.raw_levels(image[None]), strict=True):
                seen.append(level[0].flatten(1).T)
    for projection, seen in zip(backbone.projections, levels, strict=True):
        assert isinstance(projection, nn.Conv2d)
        _project_onto_components(projection, torch.cat(seen).double())


def _project_onto_components(projection: nn.Conv2d, features: Float[Tensor, "position channel"]) -> None:
    mean = features.mean(dim=0)
    _, vectors = torch.linalg.eigh((features - mean).T @ (features - mean))
    kept = vectors.flip(1).T[: projection.out_channels]  # eigenvalues come in ascending order
    with torch.no_grad():
        projection.weight.zero_()
        projection.weight[: len(kept), :, 0, 0] = kept.float()
        assert projection.bias is not None
        projection.bias.zero_()
        projection.bias[: len(kept)] = -(kept @ mean).float()


def _same(state: dict[str, Tensor], key: str, value: Tensor) -> bool:
    return key in state and state[key].shape == value.shape
