"""Snapshots: what they restore exactly, and everything that is refused instead of restored."""

from __future__ import annotations

import hashlib
import json
import struct
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from core.config import Parameters
from core.errors import SnapshotError
from core.events import Publish, Records, RecordsArrived, StreamEnded, Ticked
from core.hierarchy import flat
from core.kernels.layout import GRID
from core.machine import Machine
from core.schema import Attribute, Kind, Role, Schema
from core.snapshot import VERSION

QI = Role.QUASI_IDENTIFIER
AGE = Attribute(name="age", role=QI, kind=Kind.NUMERIC, domain=(0.0, 128.0))
SEX = Attribute(name="sex", role=QI, kind=Kind.CATEGORICAL, hierarchy=flat(["f", "m"]))
SCHEMA = Schema(attributes=(AGE, SEX), person="pid")
PARAMETERS = Parameters(k=3, l=2, delay_tuples=64, beta=5, reuse_max=20, delay_seconds=7.5)
PREFIX = struct.Struct("<4sHI")


def arrivals(seed: int, count: int, now_ns: int = 0) -> RecordsArrived:
    draw = np.random.default_rng(seed)
    age = draw.integers(0, 128, count).astype(np.float64)
    sex = draw.integers(0, 2, count)
    return RecordsArrived(
        Records(
            code=np.stack([age / 128 * GRID, sex], axis=1).astype(np.int32),
            raw=age[:, None].copy(),
            person=draw.integers(0, 40, count),
            value=draw.integers(0, 3, count),
            general=np.zeros(count, np.bool_),
        ),
        now_ns,
    )


def busy(parameters: Parameters = PARAMETERS) -> Machine:
    """A machine in mid-stream: tuples wait, classes can be reused."""
    machine = Machine(SCHEMA, parameters, seed=5)
    machine.step(arrivals(1, 500, now_ns=10**9))
    return machine


def plain(effects: list[Publish]) -> list[Any]:
    tables = [(e.classes.class_id, e.classes.low, e.classes.high, e.classes.node) for e in effects]
    return [
        (e.position.tolist(), e.row.tolist(), [column.tolist() for column in table])
        for e, table in zip(effects, tables, strict=True)
    ]


def reseal(data: bytes, change: dict[str, Any]) -> bytes:
    """The snapshot with another header and a checksum that is right again."""
    magic, version, size = PREFIX.unpack_from(data)
    header = json.loads(data[PREFIX.size : PREFIX.size + size]) | change
    text = json.dumps(header).encode()
    body = data[PREFIX.size + size : -32]
    whole = PREFIX.pack(magic, version, len(text)) + text + body
    return whole + hashlib.sha256(whole).digest()


def header_of(data: bytes) -> dict[str, Any]:
    _, _, size = PREFIX.unpack_from(data)
    header: dict[str, Any] = json.loads(data[PREFIX.size : PREFIX.size + size])
    return header


@pytest.mark.parametrize("order", ["released", "input"])
@pytest.mark.parametrize("split", ["cut", "castle"])
def test_a_restored_machine_goes_on_as_the_original(split: Any, order: Any) -> None:
    parameters = replace(PARAMETERS, split=split, order=order)
    machine = busy(parameters)
    copy = Machine.restore(machine.snapshot(), SCHEMA, parameters)
    events = [arrivals(2, 300, 2 * 10**9), Ticked(9 * 10**9), arrivals(3, 50), StreamEnded()]
    original = [plain(machine.step(event)) for event in events]
    assert sum(len(effects) for effects in original) > 0
    assert [plain(copy.step(event)) for event in events] == original
    assert copy.statistics() == machine.statistics()


def test_a_snapshot_of_a_restored_machine_is_the_same_bytes() -> None:
    data = busy().snapshot()
    assert Machine.restore(data, SCHEMA, PARAMETERS).snapshot() == data


def test_taking_a_snapshot_changes_nothing() -> None:
    machine, other = busy(), busy()
    machine.snapshot()
    assert plain(machine.step(arrivals(2, 300))) == plain(other.step(arrivals(2, 300)))


def test_a_restored_machine_shares_nothing_with_the_original() -> None:
    machine = busy()
    data = machine.snapshot()
    Machine.restore(data, SCHEMA, PARAMETERS).step(StreamEnded())
    assert machine.snapshot() == data


def test_a_snapshot_says_its_version() -> None:
    assert PREFIX.unpack_from(busy().snapshot())[:2] == (b"DCSN", VERSION)


def test_a_newer_version_is_refused_with_both_named() -> None:
    data = bytearray(busy().snapshot())
    struct.pack_into("<H", data, 4, VERSION + 1)
    with pytest.raises(SnapshotError, match=f"format {VERSION + 1}.* reads {VERSION}"):
        Machine.restore(bytes(data), SCHEMA, PARAMETERS)


@pytest.mark.parametrize(
    "data", [b"", b"DCSN", b"SQLite format 3\0" + bytes(4096), b"PK\3\4" + bytes(100), bytes(1000)]
)
def test_foreign_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(SnapshotError, match="not a dcastle snapshot"):
        Machine.restore(data, SCHEMA, PARAMETERS)


@pytest.mark.parametrize("missing", [1, 31, 32, 33, 1_000])
def test_a_truncated_snapshot_is_refused_as_damaged(missing: int) -> None:
    with pytest.raises(SnapshotError, match="damaged: its checksum does not match"):
        Machine.restore(busy().snapshot()[:-missing], SCHEMA, PARAMETERS)


def test_a_snapshot_is_refused_wherever_it_ends_early() -> None:
    data = busy().snapshot()
    for end in range(0, len(data), 211):
        with pytest.raises(SnapshotError):
            Machine.restore(data[:end], SCHEMA, PARAMETERS)


def test_a_snapshot_with_bytes_after_its_end_is_refused() -> None:
    with pytest.raises(SnapshotError, match="damaged"):
        Machine.restore(busy().snapshot() + b"\0", SCHEMA, PARAMETERS)


def test_a_flipped_bit_is_found_wherever_it_is() -> None:
    data = busy().snapshot()
    for place in [*range(64), *range(64, len(data), 97), len(data) - 1]:
        flipped = bytearray(data)
        flipped[place] ^= 1 << (place % 8)
        with pytest.raises(SnapshotError):
            Machine.restore(bytes(flipped), SCHEMA, PARAMETERS)


def test_a_snapshot_of_another_schema_is_refused_with_both_fingerprints() -> None:
    other = replace(SCHEMA, attributes=(replace(AGE, domain=(0.0, 100.0)), SEX))
    both = f"schema {SCHEMA.fingerprint[:12]}, .* schema {other.fingerprint[:12]}"
    with pytest.raises(SnapshotError, match=both):
        Machine.restore(busy().snapshot(), other, PARAMETERS)


def test_a_snapshot_with_other_parameters_is_refused_and_they_are_named() -> None:
    other = replace(PARAMETERS, k=4, delay_seconds=None)
    with pytest.raises(SnapshotError, match=r"other parameters: k, delay_seconds$"):
        Machine.restore(busy().snapshot(), SCHEMA, other)


def test_a_snapshot_that_lacks_an_array_is_refused() -> None:
    data = busy().snapshot()
    arrays = header_of(data)["arrays"]
    with pytest.raises(SnapshotError, match=f"lacks {arrays[-1][0]}"):
        Machine.restore(reseal(data, {"arrays": arrays[:-1]}), SCHEMA, PARAMETERS)


def test_a_snapshot_with_an_array_of_another_shape_is_refused() -> None:
    data = busy().snapshot()
    arrays = header_of(data)["arrays"]
    arrays[0][2] = [arrays[0][2][0] + 1]
    with pytest.raises(SnapshotError, match="register is laid out differently"):
        Machine.restore(reseal(data, {"arrays": arrays}), SCHEMA, PARAMETERS)


def test_a_snapshot_with_an_array_of_another_name_is_refused() -> None:
    data = busy().snapshot()
    arrays = header_of(data)["arrays"]
    arrays[0][0] = "accumulator"
    with pytest.raises(SnapshotError, match="accumulator is laid out differently"):
        Machine.restore(reseal(data, {"arrays": arrays}), SCHEMA, PARAMETERS)
