"""What users may rely on is written down here; changing it takes a change of this file."""

import json
from dataclasses import fields
from pathlib import Path

import mambamatcher
from mambamatcher import ops
from mambamatcher.cli import app
from mambamatcher.model.backbones import BACKBONES
from mambamatcher.model.correlation import CORRELATION_AGGREGATIONS
from mambamatcher.model.features import FEATURE_AGGREGATIONS
from mambamatcher.model.layers.mamba import MambaSettings
from mambamatcher.model.mambamatcher import ModelConfig
from mambamatcher.model.presets import PRESETS
from mambamatcher.model.transfer_settings import Transfer

SURFACE = Path(__file__).with_name("api_surface.json")


def names(config_class: type) -> list[str]:
    return sorted(field.name for field in fields(config_class))


def verb(command) -> str:
    return command.name or command.callback.__name__


def surface() -> dict[str, object]:
    registries = {"backbone": BACKBONES, "features": FEATURE_AGGREGATIONS, "correlation": CORRELATION_AGGREGATIONS}
    groups = {group.name: group.typer_instance for group in app.registered_groups}
    verbs = sorted(verb(command) for command in app.registered_commands)
    for group, inner in groups.items():
        verbs += sorted(f"{group} {verb(command)}" for command in inner.registered_commands)
    return {
        "mambamatcher": sorted(mambamatcher.__all__),
        "mambamatcher.ops": sorted(ops.__all__),
        "verbs": verbs,
        "presets": sorted(PRESETS),
        "configuration": {
            "model": names(ModelConfig),
            "transfer": names(Transfer),
            "mamba": names(MambaSettings),
            **{
                f"{key}={kind}": names(entry)
                for key, registry in registries.items()
                for kind, entry in registry.items()
            },
        },
    }


def test_public_names_verbs_and_configuration_keys_are_as_written_down():
    assert surface() == json.loads(SURFACE.read_text()), "if this is meant, run: python -m tests.test_api_surface"


def test_every_public_name_is_really_there():
    for name in mambamatcher.__all__:
        assert getattr(mambamatcher, name) is not None


if __name__ == "__main__":
    SURFACE.write_text(json.dumps(surface(), indent=2) + "\n")
