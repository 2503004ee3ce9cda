"""``--set section.field=value``: change one field of a run, with its type checked."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import fields, replace
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from .config import OWN_FIELDS, DataConfig, ModelConfig, RunConfig, TrainingConfig

SECTIONS: dict[str, type] = {"data": DataConfig, "model": ModelConfig, "training": TrainingConfig}


def override(config: RunConfig, settings: Iterable[str]) -> RunConfig:
    """The configuration with each ``section.field=value`` applied, in order.

    >>> config = RunConfig(DataConfig("copy"), ModelConfig("lstm"))
    >>> override(config, ["training.lr=0.01", "training.clip=none"]).training.lr
    0.01
    >>> override(config, ["training.lrr=0.01"])
    Traceback (most recent call last):
    ValueError: --set: there is no field 'training.lrr'; did you mean 'training.lr'?
    """
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals:
            raise ValueError(f"--set: expected section.field=value, got {setting!r}")
        config = _set(config, name.strip(), text.strip())
    return config


def field_types() -> dict[str, Any]:
    """Every field that can be set, ``section.field``, with its type."""
    return {
        f"{section}.{item.name}": get_type_hints(kind)[item.name]
        for section, kind in SECTIONS.items()
        for item in fields(kind)
    }


def _set(config: RunConfig, name: str, text: str) -> RunConfig:
    types = field_types()
    if name not in types:
        raise ValueError(f"--set: there is no field {name!r}; {_suggest(name, list(types))}")
    section, _, field = name.partition(".")
    if section == "model" and config.model.layer not in OWN_FIELDS.get(
        field, (config.model.layer,)
    ):
        raise ValueError(
            f"--set: {name} belongs to {' and '.join(OWN_FIELDS[field])}, and this model's layer "
            f"is {config.model.layer}"
        )
    value = parse(name, text, types[name])
    changed = replace(getattr(config, section), **{field: value})
    return replace(config, **{section: changed})


def parse(name: str, text: str, kind: Any) -> Any:
    """``text`` as the field's type, or an error that names what the type is."""
    choices = get_args(kind) if get_origin(kind) in (UnionType, Union) else (kind,)
    if NoneType in choices and text.lower() == "none":
        return None
    for choice in choices:
        if choice is NoneType:
            continue
        try:
            return _convert(text, choice)
        except ValueError:
            continue
    raise ValueError(f"--set: {name} must be {_describe(choices)}, got {text!r}")


def _convert(text: str, kind: Any) -> Any:
    if get_origin(kind) is tuple:
        item = get_args(kind)[0]
        return tuple(_convert(part, item) for part in text.strip("()[] ").split(",") if part)
    if kind is float:
        value = float(text)
        if value != value or value in (float("inf"), float("-inf")):
            raise ValueError(text)
        return value
    return kind(text)


def _describe(choices: tuple[Any, ...]) -> str:
    words = {int: "a whole number", float: "a number", str: "a text", NoneType: "none"}
    return " or ".join(words.get(choice, "numbers with commas between") for choice in choices)


def _suggest(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.75)
    if not near:  # the right field in the wrong section, or in none
        leaves = {full.partition(".")[2]: full for full in known}
        leaf = difflib.get_close_matches(name.rpartition(".")[2], leaves, n=1, cutoff=0.6)
        near = [leaves[part] for part in leaf]
    if near:
        return f"did you mean {near[0]!r}?"
    section = name.partition(".")[0]
    own = [full for full in known if full.startswith(f"{section}.")]
    return f"there are {', '.join(own or known)}"
