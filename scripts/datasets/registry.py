"""The data sets by name, and what a command gets when the user says `adult` or `visits.csv`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Final

import pyarrow as pa

from core.errors import DataError
from scripts.datasets import adult, backblaze, diabetes130, pima, stores, taxi
from scripts.datasets.entry import Entry
from scripts.datasets.places import locate, require

ENTRIES: Final[dict[str, Entry]] = {
    module.ENTRY.name: module.ENTRY
    for module in (stores, adult, diabetes130, taxi, backblaze, pima)
}

_HIERARCHY_FILE = re.compile(r'^(\s*hierarchy\s*=\s*)"([^"]+)"', re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSet:
    """What `resolve` found: a named set, ready to use, or a file of the user's own.

    path       the file that holds the rows; None for a generated set
    toml_path  the ready dcastle.toml; None for a file
    folder     what the hierarchy paths in the ready dcastle.toml are relative to
    entry      what is known about a named set; None for a file, which the caller reads itself
    """

    name: str
    path: Path | None
    toml_path: Path | None
    folder: Path
    entry: Entry | None

    def batches(self, rows: int | None = None, seed: int = 1) -> Iterator[pa.RecordBatch]:
        """Yield the first rows of a named set (None: all of them), in the order of the stream."""
        if self.entry is None:
            raise DataError(f"{self.name} is a file, not a named data set")
        return self.entry.read(self.folder, rows, seed)

    def schema_text(self) -> str:
        """Read the ready dcastle.toml of a named set."""
        if self.toml_path is None:
            raise DataError(f"{self.name} has no ready dcastle.toml (dcastle init drafts one)")
        return self.toml_path.read_text(encoding="utf-8")

    def portable_schema_text(self) -> str:
        """Read it with absolute hierarchy paths, so that it works from anywhere here."""
        return _HIERARCHY_FILE.sub(self._absolute, self.schema_text())

    def read_file(self, path: str) -> str:
        """Read a hierarchy that the ready dcastle.toml names."""
        return (self.folder / path).read_text(encoding="utf-8")

    def _absolute(self, found: re.Match[str]) -> str:
        path = (self.folder / found[2]).resolve()
        # A JSON string is a TOML string.
        return found[1] + json.dumps(str(path), ensure_ascii=False)


def names() -> list[str]:
    """List the named sets, the built-in one first."""
    return list(ENTRIES)


def resolve(name_or_path: str, data_dir: Path | None = None) -> DataSet:
    """Find a named set, a file or `-`, a pipe; a name wins, `./adult` is always a file."""
    entry = ENTRIES.get(name_or_path)
    if entry is not None:
        return _named(entry, data_dir)
    if name_or_path == "-":
        return DataSet(name="-", path=None, toml_path=None, folder=Path(), entry=None)
    path = Path(name_or_path)
    # Not is_file(): a pipe will do.
    if not path.exists() or path.is_dir():
        raise DataError(_unknown(name_or_path))
    return DataSet(name=name_or_path, path=path, toml_path=None, folder=path.parent, entry=None)


def _named(entry: Entry, data_dir: Path | None) -> DataSet:
    here = Path(__file__).parent
    folder = require(entry, data_dir) if entry.needs else here
    return DataSet(
        name=entry.name,
        path=locate(folder, entry.needs[0]) if entry.needs else None,
        toml_path=here / f"{entry.name}.toml",
        folder=folder,
        entry=entry,
    )


def _unknown(text: str) -> str:
    near = get_close_matches(text, ENTRIES, n=1)
    hint = f"; did you mean '{near[0]}'?" if near else ""
    return f"'{text}' is neither a file nor a named data set ({', '.join(ENTRIES)}){hint}"
