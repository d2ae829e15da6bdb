"""Downloads a data set from its public origin: checked by sha256, in place all at once or not."""

from __future__ import annotations

import gzip
import hashlib
import http.client
import tempfile
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Final

from core.errors import DataError
from scripts.datasets.entry import Download, Entry, Piece
from scripts.datasets.places import locate

# Told how much of an address has come and, when the origin says so, how much there is.
Progress = Callable[[str, int, int | None], None]

TIMEOUT_SECONDS: Final = 30.0
CHUNK_BYTES: Final = 1 << 16
DOWNLOAD_BYTES_MAX: Final = 1 << 30
AGENT: Final = "dcastle"


class OriginError(DataError):
    """The origin of a data set cannot be reached, or answers with something else than data."""

    exit_code = 2


def fetch(entry: Entry, folder: Path, progress: Progress) -> list[Path]:
    """Bring every file of the set into the folder and return where they are.

    A file that is there and right is not downloaded again.
    """
    if entry.no_download:
        raise DataError(entry.no_download)
    for download in entry.downloads:
        if not all(_is_right(folder, piece) for piece in download.pieces):
            _bring(download, folder, progress)
    pieces = [piece for download in entry.downloads for piece in download.pieces]
    return [file for piece in pieces if (file := locate(folder, f"{piece.path}.gz"))]


def _is_right(folder: Path, piece: Piece) -> bool:
    """Tell whether the file is there, compressed or not, with the content it must have."""
    file = locate(folder, f"{piece.path}.gz")
    if file is None:
        return False
    try:
        content = file.read_bytes()
        content = gzip.decompress(content) if file.suffix == ".gz" else content
    except (OSError, EOFError, zlib.error):
        return False
    return hashlib.sha256(content).hexdigest() == piece.sha256


def _bring(download: Download, folder: Path, progress: Progress) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    # Inside the data folder, so that the last step is a rename on one file system.
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder) as scratch:
        got = Path(scratch) / "download"
        _save(download.url, got, progress)
        ready = [
            (_checked(piece, got, download.url), folder / piece.path) for piece in download.pieces
        ]
        for number, (content, target) in enumerate(ready):
            part = Path(scratch) / str(number)
            part.write_bytes(content)
            target.parent.mkdir(parents=True, exist_ok=True)
            part.replace(target)


def _save(url: str, target: Path, progress: Progress) -> None:
    """Save what an address gives; every way in which a network can fail becomes one line."""
    request = urllib.request.Request(url, headers={"User-Agent": AGENT})  # noqa: S310 (ours)
    try:
        with (
            urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as answer,  # noqa: S310
            target.open("wb") as file,
        ):
            total = answer.length
            while chunk := answer.read(CHUNK_BYTES):
                file.write(chunk)
                progress(url, file.tell(), total)
                if file.tell() > DOWNLOAD_BYTES_MAX:
                    raise DataError(f"{url}: more than {DOWNLOAD_BYTES_MAX:,} bytes, given up")
    except urllib.error.HTTPError as error:
        error.close()
        raise OriginError(f"{url}: the origin answers {error.code} {error.reason}") from error
    except urllib.error.URLError as error:
        raise OriginError(f"{url}: cannot be reached ({error.reason})") from error
    except (TimeoutError, ConnectionError, http.client.HTTPException) as error:
        raise OriginError(f"{url}: the connection broke ({error!r})") from error


def _checked(piece: Piece, got: Path, url: str) -> bytes:
    """Take the piece out of the download; raises unless it is what it must be."""
    try:
        content = piece.extract(got)
    except (zipfile.BadZipFile, ValueError, KeyError, DataError) as error:
        raise DataError(f"{url}: {piece.path} is not in it ({error})") from error
    found = hashlib.sha256(content).hexdigest()
    if found != piece.sha256:
        message = f"{url}: {piece.path} has sha256 {found}, expected {piece.sha256}; not kept"
        raise DataError(message)
    return content
