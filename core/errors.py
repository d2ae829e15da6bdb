"""Everything dcastle raises on purpose.

DcastleError
├── ConfigurationError     the schema or an argument is wrong: every fault at once   (exit 4)
├── DataError              the data cannot be read or anonymised at all               (exit 1)
├── PrivacyBreachError     a release was about to show fewer than k persons or l values (exit 1)
└── SnapshotError          bytes that are not a snapshot of this machine              (exit 1)

Operating faults are these types and carry their numbers; an invariant of ours that breaks is an
`assert` and surfaces as exit 5. A privacy gate always raises: `python -O` strips asserts.
"""

from __future__ import annotations

from dataclasses import dataclass


class DcastleError(Exception):
    """Root of everything raised on purpose; `exit_code` is what the command line ends with."""

    exit_code = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One thing wrong with a configuration: where it is, what it is, what to do about it."""

    message: str
    file: str = ""
    line: int | None = None
    attribute: str = ""
    value: str = ""
    hint: str = ""

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}" if self.file and self.line else self.file
        text = f"{where}: " if where else ""
        text += f"attribute '{self.attribute}': " if self.attribute else ""
        text += self.message
        return f"{text} ({self.hint})" if self.hint else text


class ConfigurationError(DcastleError):
    """A schema, parameter or argument is wrong. Carries every fault found, not only the first."""

    exit_code = 4

    def __init__(self, faults: list[Fault]) -> None:
        self.faults = tuple(faults)
        super().__init__("\n".join(str(fault) for fault in faults))


class DataError(DcastleError):
    """The data cannot be read or cannot be anonymised at all."""


class PrivacyBreachError(DcastleError):
    """The gate in front of a release found a class that is short. Nothing of it was published."""


class SnapshotError(DcastleError):
    """The bytes are not a snapshot that this machine can continue from."""
