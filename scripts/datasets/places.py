"""Where data sets are looked for: a folder named, $DCASTLE_DATA, the cache, beside a checkout."""

from __future__ import annotations

import os
from pathlib import Path

from core.errors import DataError
from scripts.datasets.entry import Entry


def places(data_dir: Path | None) -> list[Path]:
    """List the folders to look in, in this order."""
    named = [data_dir] if data_dir else []
    return [*named, *_from_environment(), cache(), *_beside_checkout()]


def home(data_dir: Path | None) -> Path:
    """Choose the folder that a download goes to: the first of those the user has chosen."""
    named = [data_dir] if data_dir else []
    return [*named, *_from_environment(), cache()][0]


def cache() -> Path:
    """Name the user's own folder for downloads."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "dcastle" / "data"


def locate(folder: Path, path: str) -> Path | None:
    """Find a file of the data folder, or its uncompressed twin; None when neither is there."""
    candidates = (folder / path.removesuffix(".gz"), folder / path)
    return next((file for file in candidates if file.is_file()), None)


def first_missing(entry: Entry, folder: Path) -> str | None:
    """Name the first file of the set that this folder has not; None when it has them all."""
    return next((path for path in entry.needs if locate(folder, path) is None), None)


def find(entry: Entry, data_dir: Path | None) -> Path | None:
    """Find the first place that holds all files of the set."""
    return next((p for p in places(data_dir) if first_missing(entry, p) is None), None)


def require(entry: Entry, data_dir: Path | None) -> Path:
    """Find the set, or say what is missing where and how to get it."""
    folder = find(entry, data_dir)
    if folder is None:
        looked = [f"  {p}: no {first_missing(entry, p)}" for p in places(data_dir)]
        advice = entry.no_download or f"get it with: dcastle data fetch {entry.name}"
        raise DataError("\n".join([f"data set '{entry.name}' is not here", *looked, advice]))
    return folder


def _from_environment() -> list[Path]:
    named = os.environ.get("DCASTLE_DATA")
    return [Path(named)] if named else []


def _beside_checkout() -> list[Path]:
    """Look beside a checkout of the source, where its developers keep the data."""
    checkout = Path(__file__).resolve().parents[2]
    return [checkout.parent / "shared" / "data"] if (checkout / "pyproject.toml").is_file() else []
