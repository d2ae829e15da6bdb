"""Counting distinct persons and distinct sensitive values, exactly."""

from __future__ import annotations

import numpy as np

from core.kernels.jit import leaf
from core.kernels.layout import RANDOM, STAMP, Longs, Records

_MIX = np.uint64(0x9E3779B97F4A7C15)
_MIX_2 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_3 = np.uint64(0x94D049BB133111EB)


@leaf
def wide(number: int) -> int:
    """The number as 64 bit: a variable that starts narrow would stay narrow in compiled code."""
    return np.int64(number)  # type: ignore[return-value]


@leaf
def spread(key: int, owner: int) -> np.uint64:
    """A well-mixed word of a key and the cluster it is counted in."""
    word = (np.uint64(key) ^ (np.uint64(owner + 2) * _MIX_2)) * _MIX
    return word ^ (word >> np.uint64(32))


@leaf
def add(table: Records, key: int, owner: int) -> int:
    """Count one more `key` in `owner`; returns how many there are now."""
    mask = table.shape[0] - 1
    place = np.int64(spread(key, owner)) & mask
    while table[place].count != 0:
        if table[place].key == key and table[place].owner == owner:
            table[place].count += 1
            return table[place].count
        place = (place + 1) & mask
    table[place].key = key
    table[place].owner = owner
    table[place].count = 1
    return 1


@leaf
def remove(table: Records, key: int, owner: int) -> int:
    """Count one `key` less in `owner`; returns how many are left."""
    mask = table.shape[0] - 1
    place = np.int64(spread(key, owner)) & mask
    while table[place].key != key or table[place].owner != owner or table[place].count == 0:
        place = (place + 1) & mask
    table[place].count -= 1
    left = table[place].count
    if left == 0:
        _close_gap(table, place, mask)
    return left


@leaf
def _close_gap(table: Records, gap: int, mask: int) -> None:
    """Shift later entries of the run back, so that no search stops early at the gap."""
    place = gap
    while True:
        place = (place + 1) & mask
        if table[place].count == 0:
            return
        home = np.int64(spread(table[place].key, table[place].owner)) & mask
        if ((place - home) & mask) >= ((place - gap) & mask):
            table[gap].key = table[place].key
            table[gap].owner = table[place].owner
            table[gap].count = table[place].count
            table[place].count = 0
            gap = place


@leaf
def fresh_stamp(register: Longs) -> int:
    """A mark no scratch entry carries yet: using it empties the distinct counter at once."""
    register[STAMP] += 1
    return register[STAMP]


@leaf
def first_sight(seen: Records, stamp: int, key: int, note: int) -> int:
    """-1 when `key` is new under this stamp (and notes `note` for it), else what was noted."""
    mask = seen.shape[0] - 1
    place = np.int64(spread(key, 0)) & mask
    while seen[place].stamp == stamp:
        if seen[place].key == key:
            return seen[place].note
        place = (place + 1) & mask
    seen[place].key = key
    seen[place].stamp = stamp
    seen[place].note = note
    return -1


@leaf
def sighted(seen: Records, stamp: int, key: int) -> bool:
    """Whether `key` was sighted under this stamp."""
    mask = seen.shape[0] - 1
    place = np.int64(spread(key, 0)) & mask
    while seen[place].stamp == stamp:
        if seen[place].key == key:
            return True
        place = (place + 1) & mask
    return False


@leaf
def below(register: Longs, bound: int) -> int:
    """The next random number in 0..bound-1 (splitmix64, scaled)."""
    state = np.uint64(register[RANDOM]) + _MIX
    register[RANDOM] = np.int64(state)
    word = (state ^ (state >> np.uint64(30))) * _MIX_2
    word = (word ^ (word >> np.uint64(27))) * _MIX_3
    word = word ^ (word >> np.uint64(31))
    return wide(((word >> np.uint64(32)) * np.uint64(bound)) >> np.uint64(32))  # type: ignore[arg-type]
