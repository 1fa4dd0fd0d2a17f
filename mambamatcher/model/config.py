"""Configurations as frozen dataclasses: conversion to and from plain dictionaries, and overrides `key=value`.

A field whose value is one of several classes (a backbone, an aggregator) is declared with `choice(REGISTRY)`. In a
dictionary, the key `kind` names the class.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, Field, field, fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from mambamatcher.errors import ConfigError
from mambamatcher.registry import Registry, unknown

Config = TypeVar("Config")
REGISTRY = "registry"
KIND = "kind"
NONE = "none"  # a name in some registries, and how a missing value is written in an override
LARGEST, LONGEST = 2**53, 1000  # a larger number or a longer list is a mistake or an attack


def check_bounds(owner: str, config: Any, **bounds: tuple[int, int]) -> None:
    """Check numbers of a configuration, or every number of a list, against their least and largest value.

    Args:
        owner: Path of the configuration in error messages, such as "correlation"; empty for a whole model's.
        config: The configuration.
        bounds: Least and largest value by field.

    Raises:
        ConfigError: A number is out of bounds. Whatever is allowed can be built without exhausting the machine.
    """
    for name, (least, largest) in bounds.items():
        value = getattr(config, name)
        for number in value if isinstance(value, tuple) else () if value is None else (value,):
            if not least <= number <= largest:
                path = f"{owner}.{name}" if owner else name
                raise ConfigError(f"{path} must be from {least:,} to {largest:,}, got {number:,}")


def check_length(owner: str, config: Any, **longest: int) -> None:
    """Check the lengths of lists of a configuration; see `check_bounds`."""
    for name, most in longest.items():
        if len(getattr(config, name)) > most:
            raise ConfigError(f"{owner}.{name} may have up to {most} entries, got {len(getattr(config, name)):,}")


def choice(registry: Registry, **kwargs: Any) -> Any:
    """Declare a field whose value is an instance of one of the registry's classes."""
    return field(metadata={REGISTRY: registry}, **kwargs)


def to_dict(config: Any) -> dict[str, Any]:
    """Convert a configuration to plain values that can be written as JSON."""
    plain: dict[str, Any] = {}
    for each in fields(config):
        value = getattr(config, each.name)
        if is_dataclass(value):
            kind = {KIND: each.metadata[REGISTRY].name_of(type(value))} if REGISTRY in each.metadata else {}
            plain[each.name] = kind | to_dict(value)
        else:
            plain[each.name] = list(value) if isinstance(value, tuple) else value
    return plain


def from_dict(config_class: type[Config], values: Any, path: str = "") -> Config:
    """Build a configuration from plain values.

    Args:
        config_class: Dataclass of the configuration.
        values: Mapping of keys to values, as `to_dict` returns it; missing keys take their defaults.
        path: Prefix of the keys in error messages.

    Raises:
        ConfigError: A key is unknown or missing, or a value has the wrong type. The message names the key.
    """
    if not isinstance(values, Mapping):
        raise ConfigError(
            f"{path.rstrip('.') or 'the configuration'} must be a table of keys and values, got {values!r}"
        )
    declared: dict[str, Field] = {each.name: each for each in fields(config_class)}  # type: ignore[arg-type]
    hints = get_type_hints(config_class)
    given: dict[str, Any] = {}
    for key, value in values.items():
        if key not in declared:
            raise unknown(
                f"configuration key for {config_class.__name__}", f"{path}{key}", (path + n for n in declared)
            )
        given[key] = _read(declared[key], hints[key], value, path + key)
    missing = [n for n, f in declared.items() if n not in given and f.default is f.default_factory is MISSING]
    if missing:
        raise ConfigError(f"configuration key {path}{missing[0]} is missing; {config_class.__name__} needs it")
    return config_class(**given)


def override(config: Config, assignments: Iterable[str]) -> Config:
    """Return a copy of a configuration with some values changed.

    Args:
        config: Configuration to start from.
        assignments: Strings `key.path=value`. Values are JSON or plain words. Choosing another kind
            (`features=attention` or `features.kind=attention`) resets that part to the defaults of the kind.

    Raises:
        ConfigError: An assignment has no `=`, a key is unknown, or a value has the wrong type.

    Example:
        >>> from mambamatcher.model import presets
        >>> config = override(presets.paper(), ["side=840", "features=none", "transfer.readout=argmax"])
        >>> config.side, config.features, config.transfer.readout
        (840, NoAggregation(), 'argmax')
    """
    values = to_dict(config)
    for assignment in assignments:
        path, separator, text = assignment.partition("=")
        if not separator:
            raise ConfigError(f"expected key=value, got {assignment!r}; for example side=840")
        _assign(values, path.strip().split("."), _parse(text.strip()))
    return from_dict(type(config), values)


def _parse(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return {"none": NONE, "true": True, "false": False}.get(text.lower(), text)


def _assign(values: dict[str, Any], path: list[str], value: Any) -> None:
    for depth, key in enumerate(path[:-1]):
        if key not in values:
            known = [".".join([*path[:depth], name]) for name in values]
            raise unknown("configuration key", ".".join(path[: depth + 1]), known)
        if not isinstance(values[key], dict):
            raise ConfigError(
                f"configuration key {'.'.join(path[: depth + 1])} holds a value and has no key {path[depth + 1]}"
            )
        values = values[key]
    last = path[-1]
    if last == KIND or (isinstance(values.get(last), dict) and isinstance(value, str)):
        chosen = values if last == KIND else values[last]
        chosen.clear()
        chosen[KIND] = value
    else:
        values[last] = value


def _read(declared: Field, hint: Any, value: Any, path: str) -> Any:
    if REGISTRY not in declared.metadata:
        return _coerce(hint, value, path)
    if isinstance(value, str):
        value = {KIND: value}
    if not isinstance(value, Mapping) or KIND not in value:
        raise ConfigError(f"{path} needs a key '{KIND}', one of: {', '.join(declared.metadata[REGISTRY])}")
    if not isinstance(value[KIND], str):
        raise ConfigError(f"{path}.{KIND} must be a name, got {value[KIND]!r}")
    rest = {key: each for key, each in value.items() if key != KIND}
    return from_dict(declared.metadata[REGISTRY][value[KIND]], rest, f"{path}.")


def _coerce(hint: Any, value: Any, path: str) -> Any:
    """Convert `value` to the annotated type, or raise a ConfigError that names the expected type."""
    origin = get_origin(hint)
    if is_dataclass(hint):
        return from_dict(hint, value, f"{path}.")  # type: ignore[arg-type]
    if origin in (Union, UnionType):
        options = get_args(hint)
        if value in (None, NONE) and NoneType in options:
            return None
        return _coerce(next(option for option in options if option is not NoneType), value, path)
    if origin is Literal:
        if value not in get_args(hint):
            raise unknown(f"value for {path}", str(value), map(str, get_args(hint)))
        return value
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise ConfigError(f"{path} must be a list, got {value!r}")
        if len(value) > LONGEST:
            raise ConfigError(f"{path} may have up to {LONGEST:,} entries, got {len(value):,}")
        return tuple(_coerce(get_args(hint)[0], each, f"{path}[{i}]") for i, each in enumerate(value))
    if not isinstance(value, bool) and isinstance(value, int | float) and not abs(value) < LARGEST:  # also rejects NaN
        raise ConfigError(f"{path} must be a number below {LARGEST:g}, got {value!r}")
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, hint) or (isinstance(value, bool) and hint is not bool):
        raise ConfigError(f"{path} must be of type {hint.__name__}, got {value!r}")
    return value
