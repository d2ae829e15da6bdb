"""What there is to know about a named data set, before any of it is read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

# Reads the first `rows` rows (None: all) of the set in this data folder; `seed` is for generators.
Reader = Callable[[Path, int | None, int], Iterator[pa.RecordBatch]]
# Generates so many rows (None: the usual number) for so many sites.
Generator = Callable[[int | None, int], Iterator[pa.RecordBatch]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """One file of the data folder: what its content must be, and how a download holds it."""

    path: str
    sha256: str
    extract: Callable[[Path], bytes] = Path.read_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Download:
    """One address, and the files made from what it gives."""

    url: str
    pieces: tuple[Piece, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One named data set.

    `needs` are the files, relative to the data folder, without which it cannot be used; the first
    holds the rows, and a set that needs none is generated. A file that ends in `.gz` may also lie
    there uncompressed, without the ending. `no_download` says why there is nothing to fetch.
    `site_column` says where a row comes from; `generate` makes a generated set for other sites.
    """

    name: str
    about: str
    rows: int | None
    persons: int | None
    person_column: str | None = None
    site_column: str | None = None
    licence: str
    needs: tuple[str, ...] = ()
    downloads: tuple[Download, ...] = ()
    no_download: str = ""
    read: Reader
    generate: Generator | None = None
