"""Columns to codes: what a record's values become before the machine sees them.

A value that cannot be used is met by the attribute's policy: `reject` the record, `clamp` the
number to its domain, or `suppress` the record (publish it with the most general values). A record
that is rejected is reported once, with the first of its faults; nothing is dropped in silence.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from core.events import Records
from core.kernels.layout import GRID
from core.kernels.text import hash_text
from core.schema import Attribute, Kind, Policy, Schema

_NUMBER: Final = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
# Values outside the hierarchy that are kept to be named in the summary, per attribute.
FOREIGN_MAX: Final = 1_000

Flags = NDArray[np.bool_]


class Reason(StrEnum):
    """Why a value cannot be used."""

    MISSING = "missing value"
    NOT_A_NUMBER = "not a number"
    OUTSIDE_DOMAIN = "outside the domain"
    NOT_IN_HIERARCHY = "not in the hierarchy"
    NOT_UTF8 = "not valid UTF-8"


@dataclass(frozen=True, slots=True)
class RowFault:
    """Why the record in this row of a batch is rejected."""

    row: int
    attribute: str
    reason: Reason
    value: str


@dataclass(slots=True, eq=False)
class Encoded:
    """A batch in codes: the accepted records, in order, and what happened to the others."""

    records: Records
    accepted: NDArray[np.int64]  # rows of the batch
    faults: list[RowFault]
    suppressed: Counter[tuple[str, Reason]]
    clamped: Counter[str]
    foreign: dict[str, list[str]]
    site: pa.Array | None  # where each row of the batch comes from, when a column says so


@dataclass(slots=True, eq=False)
class _Verdict:
    """What is known so far about the rows of a batch."""

    rows: int
    rejected: Flags = field(init=False)
    general: Flags = field(init=False)
    faults: list[RowFault] = field(default_factory=list)
    suppressed: Counter[tuple[str, Reason]] = field(default_factory=Counter)
    clamped: Counter[str] = field(default_factory=Counter)
    foreign: dict[str, list[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.rejected = np.zeros(self.rows, np.bool_)
        self.general = np.zeros(self.rows, np.bool_)

    def complain(
        self, name: str, policy: Policy, bad: Flags, reason: Reason, column: pa.Array
    ) -> None:
        """Apply the policy to the bad rows that are not rejected already."""
        rows = np.flatnonzero(bad & ~self.rejected)
        if len(rows) == 0:
            return
        if policy is Policy.SUPPRESS:
            self.general[rows] = True
            self.suppressed[name, reason] += len(rows)
            return
        self.rejected[rows] = True
        for row, value in zip(rows.tolist(), _shown(column, rows), strict=True):
            self.faults.append(RowFault(row, name, reason, value))


class Encoder:
    """Turns batches of columns into codes for one schema.

    `site` names a column that says where a record comes from; a record without it is rejected.
    """

    def __init__(
        self, schema: Schema, missing: tuple[str, ...] = ("",), *, site: str | None = None
    ) -> None:
        self._schema = schema
        self._missing = frozenset(missing)
        self._site = site
        self._leaves = {
            attribute.name: {
                name: code
                for code, name in enumerate(
                    attribute.hierarchy.names[: attribute.hierarchy.leaf_count]
                )
            }
            for attribute in schema.attributes
            if attribute.hierarchy is not None
        }

    def encode(self, columns: Mapping[str, pa.Array], rows: int) -> Encoded:
        """Encode `rows` records; every column the schema uses is in `columns`."""
        schema, verdict = self._schema, _Verdict(rows)
        code = np.zeros((rows, len(schema.quasi_identifiers)), np.int32)
        raw = np.zeros((rows, len(schema.numeric)), np.float64)
        for place, attribute in enumerate(schema.numeric):
            values = self._numeric(attribute, columns[attribute.name], verdict)
            raw[:, place] = values
            code[:, place] = _grid(attribute, values)
        for place, attribute in enumerate(schema.categorical):
            code[:, len(schema.numeric) + place] = self._leaf_codes(
                attribute, columns[attribute.name], verdict
            )
        value = self._sensitive(columns, verdict)
        person = self._person(columns, verdict)
        for attribute in schema.insensitive:
            _, broken = _texts(columns[attribute.name])
            verdict.complain(
                attribute.name, Policy.REJECT, broken, Reason.NOT_UTF8, columns[attribute.name]
            )
        site = None
        if self._site is not None:
            site = self._named(self._site, columns[self._site], verdict)
        return self._accept(code, raw, person, value, verdict, site)

    @staticmethod
    def _accept(
        code: NDArray[np.int32],
        raw: NDArray[np.float64],
        person: NDArray[np.int64],
        value: NDArray[np.int64],
        verdict: _Verdict,
        site: pa.Array | None,
    ) -> Encoded:
        if verdict.faults:
            keep = np.flatnonzero(~verdict.rejected)
            code, raw, person, value = code[keep], raw[keep], person[keep], value[keep]
            general = verdict.general[keep]
        else:
            keep, general = np.arange(verdict.rows), verdict.general
        return Encoded(
            records=Records(code=code, raw=raw, person=person, value=value, general=general),
            accepted=keep,
            faults=sorted(verdict.faults, key=lambda fault: fault.row),
            suppressed=verdict.suppressed,
            clamped=verdict.clamped,
            foreign=verdict.foreign,
            site=site,
        )

    def _numeric(
        self, attribute: Attribute, column: pa.Array, verdict: _Verdict
    ) -> NDArray[np.float64]:
        """The attribute's numbers; bad ones are met by its policy."""
        name, policy = attribute.name, attribute.policy
        values, missing, broken = self._numbers(column)
        verdict.complain(name, policy, missing, Reason.MISSING, column)
        verdict.complain(name, policy, broken, Reason.NOT_A_NUMBER, column)
        unusable = missing | broken
        if attribute.domain is None:
            return np.where(unusable, 0.0, values)
        low, high = attribute.domain
        outside = ~((values >= low) & (values <= high)) & ~unusable
        if outside.any():
            if policy is Policy.CLAMP:
                verdict.clamped[name] += int(np.count_nonzero(outside & ~verdict.rejected))
            else:
                verdict.complain(name, policy, outside, Reason.OUTSIDE_DOMAIN, column)
        if unusable.any() or outside.any():
            values = np.clip(np.where(unusable, low, values), low, high)
        return values

    def _numbers(self, column: pa.Array) -> tuple[NDArray[np.float64], Flags, Flags]:
        """(values, missing, not a number)."""
        if _is_number(column.type):
            # Not safe: a whole number too large for a float is outside of any domain.
            numbers = column.cast(pa.float64(), safe=False)
            missing = _nulls(numbers)
            values = numbers.fill_null(0.0).to_numpy(zero_copy_only=False)
            return values, missing, ~np.isfinite(values)
        texts, broken = _texts(column)
        encoded = texts.dictionary_encode()
        distinct = encoded.dictionary.to_pylist()
        index = encoded.indices.fill_null(len(distinct)).to_numpy(zero_copy_only=False)
        missing_of = np.array([text.strip() in self._missing for text in distinct] + [True])
        numbers_of = np.array([_number(text) for text in distinct] + [np.nan])
        missing = missing_of[index] & ~broken
        values = numbers_of[index]
        return np.nan_to_num(values), missing, broken | (np.isnan(values) & ~missing)

    def _leaf_codes(
        self, attribute: Attribute, column: pa.Array, verdict: _Verdict
    ) -> NDArray[np.int32]:
        """The attribute's leaves; what is missing or no leaf is met by its policy."""
        name, leaves = attribute.name, self._leaves[attribute.name]
        if pa.types.is_dictionary(column.type) and pa.types.is_string(column.type.value_type):
            encoded, broken = column, np.zeros(len(column), np.bool_)
        else:
            texts, broken = _texts(column)
            encoded = texts.dictionary_encode()
        distinct = encoded.dictionary.to_pylist()
        index = encoded.indices.fill_null(len(distinct)).to_numpy(zero_copy_only=False)
        codes = [leaves.get(text, leaves.get(text.strip(), -1)) for text in distinct]
        code_of = np.array([*codes, -1], np.int32)
        code: NDArray[np.int32] = code_of[index]
        if (code >= 0).all():
            return code
        # A leaf may be named like a missing marker ("?"): then it is a value, not a gap.
        missing_of = np.array([text.strip() in self._missing for text in distinct] + [True])
        missing = missing_of[index] & (code < 0) & ~broken
        foreign = (code < 0) & ~missing & ~broken
        verdict.complain(name, attribute.policy, broken, Reason.NOT_UTF8, column)
        verdict.complain(name, attribute.policy, missing, Reason.MISSING, column)
        verdict.complain(name, attribute.policy, foreign, Reason.NOT_IN_HIERARCHY, column)
        if foreign.any():
            names = [distinct[i] for i in np.unique(index[foreign]).tolist()]
            verdict.foreign[name] = names[:FOREIGN_MAX]
        return np.maximum(code, np.int32(0))

    def _sensitive(self, columns: Mapping[str, pa.Array], verdict: _Verdict) -> NDArray[np.int64]:
        """A code per sensitive value: equal values have equal codes."""
        attribute = self._schema.sensitive
        if attribute is None:
            return np.zeros(verdict.rows, np.int64)
        column = columns[attribute.name]
        if attribute.kind is Kind.NUMERIC:
            # 5 and 5.0 are one value, and so are 0.0 and -0.0.
            return (self._numeric(attribute, column, verdict) + 0.0).view(np.int64)
        if attribute.hierarchy is not None:
            return self._leaf_codes(attribute, column, verdict).astype(np.int64)
        return self._hashed(attribute.name, column, verdict)

    def _person(self, columns: Mapping[str, pa.Array], verdict: _Verdict) -> NDArray[np.int64]:
        """A code per person; without a person column nobody looks at it."""
        name = self._schema.person
        if name is None:
            return np.zeros(verdict.rows, np.int64)
        return self._hashed(name, columns[name], verdict)

    def _hashed(self, name: str, column: pa.Array, verdict: _Verdict) -> NDArray[np.int64]:
        """A 64-bit code of each text; a missing one has the record rejected."""
        return text_codes(self._named(name, column, verdict))

    def _named(self, name: str, column: pa.Array, verdict: _Verdict) -> pa.Array:
        """The texts that name somebody or something; a missing one has the record rejected.

        Blanks around a text are no part of it: `Ann` and ` Ann` are one person.
        """
        texts, broken = _texts(column)
        texts = pc.utf8_trim_whitespace(texts)
        verdict.complain(name, Policy.REJECT, broken, Reason.NOT_UTF8, column)
        missing = _nulls(texts)
        for marker in self._missing:
            missing |= pc.equal(texts, marker).fill_null(False).to_numpy(zero_copy_only=False)
        verdict.complain(name, Policy.REJECT, missing & ~broken, Reason.MISSING, column)
        return texts


def _number(text: str) -> float:
    """The number a text says, or nan. Only plain decimal notation is a number."""
    stripped = text.strip()
    if not _NUMBER.fullmatch(stripped):
        return float("nan")
    number = float(stripped)
    return number if np.isfinite(number) else float("nan")


def _grid(attribute: Attribute, values: NDArray[np.float64]) -> NDArray[np.int32]:
    """Grid coordinates of values inside the domain."""
    assert attribute.domain is not None
    low, high = attribute.domain
    return np.rint((values - low) * (GRID / (high - low))).astype(np.int32)


def _is_number(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind))


def _nulls(column: pa.Array) -> Flags:
    if column.null_count == 0:
        return np.zeros(len(column), np.bool_)
    return np.asarray(column.is_null().to_numpy(zero_copy_only=False))


def _texts(column: pa.Array) -> tuple[pa.Array, Flags]:
    """The column as text, null where it is not valid UTF-8; and where that is."""
    if pa.types.is_string(column.type):
        return column, np.zeros(len(column), np.bool_)
    if pa.types.is_dictionary(column.type):
        return _texts(column.cast(column.type.value_type))
    if pa.types.is_fixed_size_binary(column.type):
        return _texts(column.cast(pa.binary()))
    if not pa.types.is_binary(column.type) and not pa.types.is_large_binary(column.type):
        return column.cast(pa.string()), np.zeros(len(column), np.bool_)
    try:
        return column.cast(pa.string()), np.zeros(len(column), np.bool_)
    except pa.ArrowInvalid:
        texts = [None if value is None else _decoded(value) for value in column.to_pylist()]
        broken = np.array([t is None for t in texts], np.bool_) & ~_nulls(column)
        return pa.array(texts, pa.string()), broken


def _decoded(value: bytes) -> str | None:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


def text_codes(texts: pa.Array) -> NDArray[np.int64]:
    """A 64-bit code of each text; equal texts have equal codes, on any machine."""
    code = np.zeros(len(texts), np.int64)
    if len(texts) == 0:
        return code
    _, offsets, data = texts.buffers()
    offset = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    content = np.frombuffer(data, np.uint8) if data is not None else np.zeros(1, np.uint8)
    hash_text(offset, content, code)
    return code


def _shown(column: pa.Array, rows: NDArray[np.int64]) -> list[str]:
    """The values of these rows as text for a report; bytes that are no text are escaped."""
    return [_said(value) for value in column.take(pa.array(rows)).to_pylist()]


def _said(value: object) -> str:
    match value:
        case None:
            return ""
        case bytes():
            return value.decode(errors="backslashreplace")
        case float() if value.is_integer():
            return str(int(value))
    return str(value)
