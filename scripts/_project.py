"""Reading a dcastle.toml from disk, with the flags that override it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from core.config import Project, parse_project
from core.errors import ConfigurationError, Fault
from core.schema import Role, Schema
from scripts.datasets.registry import DataSet


def load_project(config: str | None, data: DataSet, overrides: Mapping[str, object]) -> Project:
    """The project in `config`, or the ready one of a named data set."""
    if config is None:
        if data.toml_path is None:
            hint = f"dcastle init {data.name} > dcastle.toml drafts one"
            raise ConfigurationError([Fault(message="no schema: give one with -c", hint=hint)])
        return parse_project(
            data.schema_text(),
            file=data.toml_path.name,
            read_file=data.read_file,
            overrides=overrides,
        )
    path = Path(config)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not valid UTF-8"
        raise ConfigurationError([Fault(message=str(reason), file=config)]) from error
    return parse_project(
        text,
        file=config,
        read_file=lambda name: (path.parent / name).read_text(encoding="utf-8"),
        overrides=overrides,
    )


def first_attributes(schema: Schema, count: int) -> Schema:
    """The schema with its first quasi-identifiers only; the others are dropped."""
    dropped = {attribute.name for attribute in schema.quasi_identifiers[count:]}
    attributes = tuple(
        replace(each, role=Role.IDENTIFIER) if each.name in dropped else each
        for each in schema.attributes
    )
    return replace(schema, attributes=attributes)
