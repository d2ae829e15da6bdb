"""A machine's state as bytes, and back.

    magic "DCSN" | version u16 | header length u32 | header (JSON) | arrays, zlib | SHA-256 of all

The header says which schema and parameters the state belongs to and how the arrays are laid out.
Scratch space and the buffers of the last step's outcomes are not part of it.
"""

from __future__ import annotations

import hashlib
import json
import struct
import zlib
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from core.config import Parameters
from core.errors import SnapshotError
from core.kernels.layout import State
from core.schema import Schema

VERSION: Final = 1
_MAGIC: Final = b"DCSN"
_PREFIX: Final = struct.Struct("<4sHI")
_DIGEST_BYTES: Final = 32
# Fast compression: most of a window is small numbers.
_COMPRESSION_LEVEL: Final = 1

Arrays = dict[str, NDArray[np.generic]]


def pack(schema: Schema, parameters: Parameters, state: State, extra: Arrays) -> bytes:
    """The state, and `extra` arrays that belong to it, as bytes."""
    arrays = dict(_persistent(state)) | {f"extra.{name}": value for name, value in extra.items()}
    header = {
        "schema": schema.fingerprint,
        "parameters": asdict(parameters),
        "arrays": [[name, _describe(array), array.shape] for name, array in arrays.items()],
    }
    text = json.dumps(header, separators=(",", ":")).encode()
    body = zlib.compress(
        b"".join(np.ascontiguousarray(array).tobytes() for array in arrays.values()),
        _COMPRESSION_LEVEL,
    )
    data = _PREFIX.pack(_MAGIC, VERSION, len(text)) + text + body
    return data + hashlib.sha256(data).digest()


def unpack(data: bytes, schema: Schema, parameters: Parameters, state: State) -> Arrays:
    """Fill a new state from a snapshot; returns the extra arrays."""
    header, body = _open(data)
    if header["schema"] != schema.fingerprint:
        raise SnapshotError(
            f"the snapshot belongs to schema {header['schema'][:12]}, "
            f"this machine has schema {schema.fingerprint[:12]}"
        )
    if header["parameters"] != asdict(parameters):
        mine = asdict(parameters)
        names = [key for key, value in header["parameters"].items() if mine.get(key) != value]
        raise SnapshotError(f"the snapshot was taken with other parameters: {', '.join(names)}")
    targets = dict(_persistent(state))
    extra: Arrays = {}
    offset = 0
    for name, description, shape in header["arrays"]:
        if name.startswith("extra."):
            extra[name.removeprefix("extra.")] = target = np.empty(shape, np.dtype(description))
        else:
            target = targets.pop(name, np.empty(0))
            if [_describe(target), list(target.shape)] != [description, shape]:
                raise SnapshotError(f"the snapshot's {name} is laid out differently")
        size = target.nbytes
        target[...] = np.frombuffer(body[offset : offset + size], target.dtype).reshape(shape)
        offset += size
    if targets:
        raise SnapshotError(f"the snapshot lacks {', '.join(targets)}")
    return extra


def _open(data: bytes) -> tuple[dict[str, Any], bytes]:
    if len(data) < _PREFIX.size + _DIGEST_BYTES or data[:4] != _MAGIC:
        raise SnapshotError("not a dcastle snapshot")
    _, version, header_bytes = _PREFIX.unpack_from(data)
    if version != VERSION:
        raise SnapshotError(
            f"the snapshot has format {version}, this version of dcastle reads {VERSION}"
        )
    if hashlib.sha256(data[:-_DIGEST_BYTES]).digest() != data[-_DIGEST_BYTES:]:
        raise SnapshotError("the snapshot is damaged: its checksum does not match")
    text = data[_PREFIX.size : _PREFIX.size + header_bytes]
    return json.loads(text), zlib.decompress(data[_PREFIX.size + header_bytes : -_DIGEST_BYTES])


def _persistent(state: State) -> Iterator[tuple[str, NDArray[Any]]]:
    """The arrays that make up the state between two steps."""
    yield "register", state.register
    yield "recent", state.recent
    for group, value in (
        ("window", state.window),
        ("clusters", state.clusters),
        ("counts", state.counts),
        ("reusable", state.reusable),
        ("line", state.line),
    ):
        for name, array in value._asdict().items():
            yield f"{group}.{name}", array


def _describe(array: NDArray[Any]) -> str:
    """A dtype as text: a plain one's code, or all fields of a record."""
    return array.dtype.str if array.dtype.names is None else str(array.dtype.descr)
