"""Reading a table of a configuration: typed values out, and a fault for each thing that is wrong.

A getter never raises. It notes what is wrong and returns the fallback, so that one reading finds
every fault of the file.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar

from core.errors import Fault
from core.toml_lines import KeyPath, line_of

Fallback = TypeVar("Fallback")
Option = TypeVar("Option", bound=str)

_TYPE_NAMES: Final = {bool: "a boolean", str: "a string", list: "an array", dict: "a table"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One configuration file: where its keys are, which of them a flag replaced, its faults."""

    file: str
    lines: Mapping[KeyPath, int]
    flags: Mapping[KeyPath, str]
    faults: list[Fault] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """The table at `path`; `attribute` is the name of the attribute it describes, if any."""

    document: Document
    path: KeyPath
    values: Mapping[str, object]
    attribute: str = ""

    def label(self, key: str) -> str:
        """Name `key` as a message should: by the flag that set it, or by itself."""
        return self.document.flags.get((*self.path, key), key)

    def fault(
        self, message: str, *, key: str | None = None, value: object = "", hint: str = ""
    ) -> None:
        """Note a fault at `key`, or at the table when there is no key to point at."""
        path = self.path if key is None else (*self.path, key)
        by_flag = path in self.document.flags
        self.document.faults.append(
            Fault(
                message=message,
                file="" if by_flag else self.document.file,
                line=None if by_flag else line_of(self.document.lines, path),
                attribute=self.attribute,
                value=str(value),
                hint=hint,
            )
        )

    def table(self, key: str) -> Table:
        """Return the table under `key`; an empty one when it is missing."""
        values = self.values.get(key, {})
        if not isinstance(values, Mapping):
            self.wrong_type(key, "a table", hint=f"write [{key}] on a line of its own")
            values = {}
        return Table(document=self.document, path=(*self.path, key), values=values)

    def tables(self, key: str) -> list[Table]:
        """Return the tables of the array under `key`."""
        values = self.values.get(key, [])
        if not isinstance(values, list) or not all(isinstance(each, Mapping) for each in values):
            self.wrong_type(key, "an array of tables", hint=f"write [[{key}]] before each")
            return []
        return [
            Table(document=self.document, path=(*self.path, key, position), values=each)
            for position, each in enumerate(values)
        ]

    def require(self, *keys: str) -> None:
        """Note each of `keys` that is missing."""
        # In an [[attribute]] the message names the attribute already.
        section = f" from [{self.path[0]}]" if len(self.path) == 1 else ""
        for key in keys:
            if key not in self.values:
                self.fault(f"{key} is missing{section}", key=key)

    def refuse_unknown(self, known: Iterable[str], homes: Mapping[str, str]) -> None:
        """Note each key that is not `known`; `homes` tells where a misplaced one belongs."""
        known = list(known)
        for key in self.values:
            if key in known:
                continue
            hint = nearest(key, known)
            if key in homes:
                hint = f"it belongs under {homes[key]}"
            noun = "table" if isinstance(self.values[key], Mapping) else "key"
            self.fault(f"unknown {noun} '{key}'", key=key, value=key, hint=hint)

    def integer(self, key: str, fallback: Fallback, *, least: int, most: int) -> int | Fallback:
        """Read a whole number; `least` and `most` are the bounds, both allowed."""
        value = self.values.get(key)
        if value is None:
            return fallback
        if not isinstance(value, int) or isinstance(value, bool):
            self.wrong_type(key, "a whole number")
            return fallback
        if value < least:
            message = f"{self.label(key)} is {value}, must be at least {least}"
            self.fault(message, key=key, value=value)
        elif value > most:
            message = f"{self.label(key)} is {value}, must be at most {most}"
            self.fault(message, key=key, value=value)
        return value

    def text(self, key: str) -> str | None:
        """Read a string with something in it."""
        value = self.values.get(key)
        if isinstance(value, str) and value:
            return value
        if value == "":
            self.fault(f"{self.label(key)} is empty", key=key)
        elif value is not None:
            self.wrong_type(key, "a string")
        return None

    def choice(
        self, key: str, fallback: Fallback, options: tuple[Option, ...]
    ) -> Option | Fallback:
        """Read one of `options`."""
        value = self.values.get(key)
        if value is None:
            return fallback
        if not isinstance(value, str):
            self.wrong_type(key, "a string")
            return fallback
        for option in options:
            if option == value:
                return option
        message = f"{self.label(key)} is '{value}', must be {_either(options)}"
        self.fault(message, key=key, value=value, hint=nearest(value, options, listing=False))
        return fallback

    def wrong_type(self, key: str, wanted: str, *, hint: str = "") -> None:
        """Note that the value of `key` is not `wanted`."""
        value = self.values[key]
        found = _TYPE_NAMES.get(type(value), str(value))
        message = f"{self.label(key)} must be {wanted}, not {found}"
        self.fault(message, key=key, value=value, hint=hint)


def nearest(word: str, known: Iterable[str], *, listing: bool = True) -> str:
    """Hint at the known word that `word` was probably meant to be, or else at all of them."""
    known = list(known)
    close = difflib.get_close_matches(word.lower(), known, n=1)
    if close:
        return f"did you mean '{close[0]}'?"
    return f"known are {', '.join(known)}" if listing else ""


def finite(value: object) -> float | None:
    """Return `value` as a finite float, or None when it is no such number; a boolean is none."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _either(options: tuple[str, ...]) -> str:
    named = [f"'{option}'" for option in options]
    if len(named) == 1:
        return named[0]
    return f"{', '.join(named[:-1])} or {named[-1]}"
