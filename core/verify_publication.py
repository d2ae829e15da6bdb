"""A publication by itself: its columns, its classes, and whether every row shows what it may."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from core.errors import DataError
from core.verify_columns import Coded, Codes, Shown, encode, encode_shown, join_bounds, read_shown
from core.verify_findings import Breaches, in_rows
from core.verify_metrics import Counts
from core.verify_rules import CLASS_ID, Numeric, QuasiIdentifier, Rules

SUPPRESSED: Final = -1
UNREADABLE: Final = -2

_WHOLE: Final = re.compile(r"-?[0-9]{1,18}\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """Published rows; `class_of[row]` is a place in `class_ids`, SUPPRESSED or UNREADABLE.

    `sizes` and `first` are the rows of each class and the first of them; `shown` are the
    generalised columns, `carried` those published as they are.
    """

    class_ids: Counts
    class_of: Codes
    sizes: Counts
    first: Counts
    shown: tuple[Shown, ...]
    carried: dict[str, Coded]

    @property
    def rows(self) -> int:
        """All rows, the suppressed included."""
        return len(self.class_of)

    @property
    def suppressed(self) -> int:
        """The rows without a class."""
        return int(np.count_nonzero(self.class_of == SUPPRESSED))

    def class_id(self, row: int) -> int | None:
        """Return the class that a row says it is in."""
        place = self.class_of[row]
        return int(self.class_ids[place]) if place >= 0 else None

    def shows(self, row: int) -> dict[str, str]:
        """Return the generalisation of a row."""
        return {shown.name: shown.column.text(row) for shown in self.shown}


def read_publication(rules: Rules, output: pa.Table, breaches: Breaches) -> Publication:
    """Read the published table and note what is wrong with it on its own."""
    _check_columns(rules, output, breaches)
    class_ids, class_of = _read_class_ids(_column(output, CLASS_ID), breaches)
    in_class = np.flatnonzero(class_of >= 0)
    first = np.zeros(len(class_ids), dtype=np.int64)
    # Written backwards, so that the first row of a class is the one that stays.
    first[class_of[in_class[::-1]]] = in_class[::-1]
    publication = Publication(
        class_ids=class_ids,
        class_of=class_of,
        sizes=np.bincount(class_of[in_class], minlength=len(class_ids)),
        first=first,
        shown=tuple(_read_shown(rule, output) for rule in rules.quasi_identifiers),
        carried={name: encode(_column(output, name), rules.missing) for name in rules.carried},
    )
    for shown in publication.shown:
        _check_readable(publication, shown, breaches)
    _check_suppressed(publication, breaches)
    _check_one_generalisation(publication, breaches)
    return publication


def _check_columns(rules: Rules, output: pa.Table, breaches: Breaches) -> None:
    names = output.column_names
    doubled = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if doubled:
        raise DataError(f"the output has more than one column {_quoted(doubled)}")
    expected = _expected_columns(rules, names)
    missing = [name for name in expected if name not in names]
    # JSON Lines without a line name no columns; then nothing is published, and nothing missing.
    if missing and names:
        raise DataError(f"the output lacks {_quoted(missing)}")
    secret = {*rules.identifiers, rules.person}
    breaches.add(
        "leaked-column",
        [name for name in names if name in secret],
        lambda name: f"column '{name}' tells persons apart and is published",
    )
    breaches.add(
        "unexpected-column",
        [name for name in names if name not in expected and name not in secret],
        lambda name: f"column '{name}' is published and the schema does not name it",
    )


def _expected_columns(rules: Rules, names: Sequence[str]) -> list[str]:
    shown = [_bounds(rule, names) or (rule.name,) for rule in rules.quasi_identifiers]
    return [*(name for group in shown for name in group), *rules.carried, CLASS_ID]


def _bounds(rule: QuasiIdentifier, names: Sequence[str]) -> tuple[str, str] | None:
    """Name the two columns that show this attribute in place of its own, if they do."""
    low, high = f"{rule.name}_min", f"{rule.name}_max"
    replaced = isinstance(rule, Numeric) and rule.name not in names
    return (low, high) if replaced and (low in names or high in names) else None


def _column(table: pa.Table, name: str) -> Any:
    if name in table.column_names:
        return table[name]
    return pa.chunked_array([], type=pa.string())


def _read_shown(rule: QuasiIdentifier, output: pa.Table) -> Shown:
    bounds = _bounds(rule, output.column_names)
    if bounds is None:
        return read_shown(rule, encode_shown(_column(output, rule.name)))
    low, high = (encode_shown(output[name]) for name in bounds)
    return read_shown(rule, join_bounds(low, high))


def _read_class_ids(column: Any, breaches: Breaches) -> tuple[Counts, Codes]:
    coded = encode(column)
    read = [int(text) if _WHOLE.match(text) else None for text in coded.texts.to_pylist()]
    ids = sorted({number for number in read if number is not None})
    places = {number: place for place, number in enumerate(ids)}
    of_text = [UNREADABLE if number is None else places[number] for number in read]
    # The last entry serves MISSING, which is numpy's last place.
    class_of = np.array([*of_text, SUPPRESSED], dtype=np.int32)[coded.codes]
    breaches.add(
        "unreadable",
        np.flatnonzero(class_of == UNREADABLE),
        lambda row: f"row {row} of the output: class id '{coded.text(row)}' is no whole number",
        attribute=CLASS_ID,
    )
    return np.array(ids, dtype=np.int64), class_of


def _check_readable(publication: Publication, shown: Shown, breaches: Breaches) -> None:
    if not shown.faults:
        return
    # Written backwards, so that the first row of each text is the one that stays.
    first = np.zeros(len(shown.column.texts), dtype=np.int64)
    first[shown.column.codes[::-1]] = np.arange(publication.rows)[::-1]
    rows = np.bincount(shown.column.codes)
    breaches.add(
        "unreadable",
        list(shown.faults),
        lambda code: (
            f"{shown.name} '{shown.column.texts[code]}' {shown.faults[code]}: "
            f"{in_rows(rows[code])}, first row {first[code]} of the output"
        ),
        class_id=lambda code: publication.class_id(first[code]),
        attribute=shown.name,
    )


def _check_suppressed(publication: Publication, breaches: Breaches) -> None:
    rows = np.flatnonzero(publication.class_of == SUPPRESSED)
    special = np.zeros(len(rows), dtype=np.bool_)
    for shown in publication.shown:
        special |= ~shown.whole[shown.column.codes[rows]]
    breaches.add(
        "not-suppressed",
        rows[special],
        lambda row: (
            f"row {row} of the output looks suppressed but shows {_special(publication, row)}"
        ),
    )


def _special(publication: Publication, row: int) -> str:
    return ", ".join(
        f"{shown.name} '{shown.column.text(row)}'"
        for shown in publication.shown
        if not shown.whole[shown.column.codes[row]]
    )


def _check_one_generalisation(publication: Publication, breaches: Breaches) -> None:
    rows = np.flatnonzero(publication.class_of >= 0)
    places = publication.class_of[rows]
    for shown in publication.shown:
        codes = shown.column.codes
        odd = rows[codes[rows] != codes[publication.first][places]]
        _report_mixed(publication, shown, odd, breaches)


def _report_mixed(
    publication: Publication, shown: Shown, odd: NDArray[np.intp], breaches: Breaches
) -> None:
    """Note one breach for each class with an odd row."""
    _, at = np.unique(publication.class_of[odd], return_index=True)
    text = shown.column.text
    breaches.add(
        "mixed-class",
        odd[at],
        lambda row: (
            f"class {publication.class_id(row)} shows {shown.name} '{text(row)}' and "
            f"'{text(int(publication.first[publication.class_of[row]]))}'"
        ),
        class_id=publication.class_id,
        attribute=shown.name,
    )


def _quoted(names: Sequence[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)
