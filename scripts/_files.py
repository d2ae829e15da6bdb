"""The files of a run: none may be another one, and what is private stays off pipes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from core.errors import Fault

if TYPE_CHECKING:
    from scripts.datasets.registry import DataSet


def clashes(named: Mapping[str, str | None], private: Mapping[str, str | None]) -> Iterator[Fault]:
    """Find what is wrong with the files behind these flags; None is a flag that was not given."""
    for flag, name in private.items():
        if name == "-":
            yield Fault(message=f"{flag} needs a file: it is not for publication")
    seen: dict[Path, str] = {}
    for flag, name in (*named.items(), *private.items()):
        if name is None or name == "-":
            continue
        path = Path(name).resolve()
        if path in seen and not path.is_char_device():
            yield Fault(message=f"{flag} and {seen[path]} are the same file: {name}")
        seen[path] = flag


def letters_beside(output: str | None) -> str:
    """Where rejected rows go unless the user says: beside the output."""
    return "rejected.jsonl" if output in (None, "-") else f"{output}.rejected.jsonl"


def misfits(source: DataSet, rows: int | None, output: str, form: str) -> Iterator[Fault]:
    """Find what does not go with this source, or with the format of the output."""
    if rows is not None and source.entry is None:
        yield Fault(message=f"--rows goes with a named data set, not with {source.name}")
    if form == "parquet" and output.lower().endswith(".gz"):
        yield Fault(message=f"{output}: Parquet is compressed already: no .gz")
