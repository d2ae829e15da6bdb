"""Columns for the auditor: each distinct text is looked at once, rows are small integers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from core.verify_rules import Categorical, QuasiIdentifier, Tree

Codes = NDArray[np.int32]
Numbers = NDArray[np.float64]

MISSING: Final = -1

_INTERVAL: Final = r"^\[\s*(?P<lo>[^,\[\]\s]+)\s*,\s*(?P<hi>[^,\[\]\s]+)\s*\]$"
# Beyond this a float no longer tells neighbouring whole numbers apart.
_WHOLE_MAX: Final = 2.0**53


@dataclass(frozen=True, slots=True)
class Coded:
    """A column of text: `codes[row]` is a place in `texts`, or MISSING; each text occurs."""

    codes: Codes
    texts: Any

    def text(self, row: int) -> str:
        """Return what the cell says."""
        code = self.codes[row]
        return "" if code == MISSING else str(self.texts[int(code)])


def encode_shown(column: Any) -> Coded:
    """Code a column of generalisations exactly as they stand: a blank more is a difference."""
    array = column.dictionary_encode().unify_dictionaries().combine_chunks()
    codes = array.indices.fill_null(MISSING).to_numpy(False)
    return _without_unused(Coded(codes.astype(np.int32), array.dictionary.cast(pa.string())))


def encode(column: Any, missing: Sequence[str] = ("",)) -> Coded:
    """Code a column of values; blanks around a text are no part of it, `missing` texts no value.

    Taking ' A' and 'A' for one value can only make the audit stricter.
    """
    exact = encode_shown(column)
    trimmed = pc.utf8_trim_whitespace(exact.texts).dictionary_encode()
    texts = trimmed.dictionary
    known = np.arange(len(texts), dtype=np.int32)
    known[pc.is_in(texts, value_set=pa.array(missing, pa.string())).to_numpy(False)] = MISSING
    recode = _look_up(known, trimmed.indices.fill_null(MISSING).to_numpy(False))
    return _without_unused(Coded(_look_up(recode, exact.codes), texts))


def _without_unused(column: Coded) -> Coded:
    used = np.zeros(len(column.texts) + 1, dtype=np.bool_)
    used[column.codes] = True
    used = used[:-1]
    if used.all():
        return column
    renumbered = np.cumsum(used, dtype=np.int32) - np.int32(1)
    return Coded(_look_up(renumbered, column.codes), column.texts.filter(pa.array(used)))


def _look_up(values: NDArray[np.int32], codes: Codes) -> Codes:
    # MISSING is numpy's last place, so the appended entry keeps a missing row missing.
    return np.append(values, np.int32(MISSING))[codes]


def with_blanks(column: Coded) -> Coded:
    """Put the empty text in place of MISSING, for columns where a value must be shown."""
    missing = column.codes == MISSING
    if not missing.any():
        return column
    codes = np.where(missing, np.int32(len(column.texts)), column.codes)
    return Coded(codes, pa.concat_arrays([column.texts, pa.array([""])]))


def join_bounds(low: Coded, high: Coded) -> Coded:
    """Make one column of intervals of two columns of bounds, so that both forms are read alike."""
    low, high = with_blanks(low), with_blanks(high)
    width = len(high.texts)
    keys = low.codes.astype(np.int64) * width + high.codes
    pairs, codes = np.unique(keys, return_inverse=True)
    ends = low.texts.take(pa.array(pairs // width)), high.texts.take(pa.array(pairs % width))
    texts = pc.binary_join_element_wise("[", ends[0], ",", ends[1], "]", "")
    return Coded(codes.astype(np.int32), texts)


def numbers(texts: Any) -> Numbers:
    """Read the finite number each text stands for, NaN for any other text."""
    try:
        values: Numbers = texts.cast(pa.float64()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:
        values = np.array([_number(text) for text in texts.to_pylist()], dtype=np.float64)
    return np.where(np.isfinite(values), values, np.nan)


def _number(text: str | None) -> float:
    # Python reads 1_000 as a number; nobody else does.
    try:
        return float(text) if text and "_" not in text else float("nan")
    except ValueError:
        return float("nan")


def intervals(texts: Any) -> tuple[Numbers, Numbers]:
    """Read both ends of each `[lo,hi]`, NaN where the text is no such interval."""
    ends = pc.extract_regex(texts, pattern=_INTERVAL)
    return numbers(pc.struct_field(ends, "lo")), numbers(pc.struct_field(ends, "hi"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What a publication shows of one quasi-identifier, read once per distinct text.

    `low` and `high` are the ends of an interval, or the first leaf and the last one under a node;
    both are NaN where `faults` says why the text cannot be read.
    """

    name: str
    column: Coded
    low: Numbers
    high: Numbers
    loss: Numbers
    whole: NDArray[np.bool_]
    faults: dict[int, str]


def read_shown(rule: QuasiIdentifier, column: Coded) -> Shown:
    """Read the generalisations of one column."""
    column = with_blanks(column)
    if isinstance(rule, Categorical):
        return _read_nodes(rule.name, rule.tree, column)
    return _read_intervals(rule.name, rule.domain, column)


def _read_intervals(name: str, domain: tuple[float, float], column: Coded) -> Shown:
    low, high = intervals(column.texts)
    unreadable = np.isnan(low) | np.isnan(high)
    crossed = low > high
    outside = ~crossed & ((low < domain[0]) | (high > domain[1]))
    faults = _say(unreadable, "is no interval [lo,hi]")
    faults |= _say(crossed, "has its ends crossed")
    faults |= _say(outside, f"is not inside the domain [{domain[0]:g},{domain[1]:g}]")
    wrong = unreadable | crossed | outside
    low, high = np.where(wrong, np.nan, low), np.where(wrong, np.nan, high)
    # A domain of one point has nothing to lose.
    extent = (domain[1] - domain[0]) or 1.0
    return Shown(
        name=name,
        column=column,
        low=low,
        high=high,
        loss=(high - low) / extent,
        whole=(low == domain[0]) & (high == domain[1]),
        faults=faults,
    )


def _read_nodes(name: str, tree: Tree, column: Coded) -> Shown:
    texts = column.texts.to_pylist()
    spans = [tree.spans.get(text, (np.nan, np.nan)) for text in texts]
    first, stop = np.array(spans, dtype=np.float64).reshape(-1, 2).T
    leaves = len(tree.places)
    return Shown(
        name=name,
        column=column,
        low=first,
        high=stop - 1,
        loss=(stop - first - 1) / max(leaves - 1, 1),
        whole=np.array([text == tree.root for text in texts], dtype=np.bool_),
        faults=_say(np.isnan(first), "is no node of the hierarchy"),
    )


def _say(wrong: NDArray[np.bool_], why: str) -> dict[int, str]:
    return {int(code): why for code in np.flatnonzero(wrong)}


def read_raw(rule: QuasiIdentifier, column: Coded) -> Numbers:
    """Place each distinct raw text on the scale of `Shown.low`; NaN for a foreign value."""
    if isinstance(rule, Categorical):
        places = [rule.tree.places.get(text, np.nan) for text in column.texts.to_pylist()]
        return np.array(places, dtype=np.float64)
    values = numbers(column.texts)
    return np.clip(values, *rule.domain) if rule.clamp else values


def align(left: Coded, right: Coded) -> tuple[Codes, Codes]:
    """Renumber two columns so that equal values have equal codes: `5.0` here may be `5` there.

    MISSING stays MISSING. A text that both sides write the same needs no second look.
    """
    texts = pa.chunked_array([left.texts, right.texts], type=pa.string())
    merged = texts.dictionary_encode().unify_dictionaries().combine_chunks()
    places = merged.indices.to_numpy(zero_copy_only=False)
    here, there = places[: len(left.texts)], places[len(left.texts) :]
    one_sided = np.setxor1d(here, there)
    mask = np.zeros(len(merged.dictionary), dtype=np.bool_)
    mask[one_sided] = True
    words = [_canonical(text) for text in merged.dictionary.filter(pa.array(mask)).to_pylist()]
    canonical = pc.replace_with_mask(merged.dictionary, mask, pa.array(words, pa.string()))
    same = canonical.dictionary_encode().indices.to_numpy(zero_copy_only=False)
    return _look_up(same[here], left.codes), _look_up(same[there], right.codes)


def _canonical(text: str) -> str:
    value = _number(text)
    if not isfinite(value):
        return text
    return str(int(value)) if value.is_integer() and abs(value) < _WHOLE_MAX else repr(value)
