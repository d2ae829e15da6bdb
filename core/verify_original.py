"""A publication against its witnesses: the trace, and the raw rows it was made from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from core.verify_columns import MISSING, Coded, Shown, align, encode, read_raw
from core.verify_findings import Breaches, in_rows
from core.verify_metrics import Counts, distinct, tally
from core.verify_publication import SUPPRESSED, Publication
from core.verify_rules import QuasiIdentifier, Rules

OUTCOMES: Final = ("published", "suppressed", "sampled-out", "rejected")

# The group of a row that is not in the output.
_NOWHERE: Final = -1
_KEY_MAX: Final = 2**62


@dataclass(frozen=True, slots=True, kw_only=True)
class Witness:
    """What trace and original add to an audit: each class's distinct persons, rejected rows."""

    persons: Counts | None = None
    rejected: int | None = None


@dataclass(frozen=True, slots=True)
class _Lines:
    """Trace lines; `group` is the place of a class, one past the last for the suppressed."""

    row: Counts
    group: Counts

    def where(self, kept: NDArray[np.bool_] | NDArray[np.intp]) -> _Lines:
        return _Lines(self.row[kept], self.group[kept])


def compare(
    rules: Rules,
    publication: Publication,
    trace: pa.Table,
    original: pa.Table | None,
    breaches: Breaches,
) -> Witness:
    """Follow every trace line from its original row to the class it is published in."""
    outcome = _outcomes(trace, breaches)
    lines = _read_lines(publication, trace, outcome, breaches)
    _check_counts(publication, lines, breaches)
    rejected = int(np.count_nonzero(outcome == OUTCOMES.index("rejected")))
    if original is None:
        return Witness(rejected=rejected)
    lines = _match(lines, len(original), breaches)
    for rule, shown in zip(rules.quasi_identifiers, publication.shown, strict=True):
        raw = encode(original[rule.name], rules.missing)
        _check_inside(rule, publication, shown, lines, raw, breaches)
    _check_values(rules, publication, lines, original, breaches)
    if rules.person is None:
        return Witness(rejected=rejected)
    person = encode(original[rules.person], rules.missing)
    return Witness(persons=_persons(publication, lines, person), rejected=rejected)


def compare_without_trace(
    rules: Rules, publication: Publication, original: pa.Table, breaches: Breaches
) -> None:
    """Without a trace no row can be followed: only rows or values too many can be seen."""
    breaches.add(
        "count",
        [len(original)] if publication.rows > len(original) else [],
        lambda rows: f"the output has {publication.rows:,} rows, the original only {rows:,}",
    )
    if rules.sensitive is None:
        return
    published = publication.carried[rules.sensitive]
    here, there = align(published, encode(original[rules.sensitive], rules.missing))
    # Shifted by one, so that MISSING is counted like a value.
    width = max(int(here.max(initial=MISSING)), int(there.max(initial=MISSING))) + 2
    surplus = np.bincount(here + 1, minlength=width) - np.bincount(there + 1, minlength=width)
    codes, rows = np.unique(here, return_index=True)
    breaches.add(
        "values",
        rows[surplus[codes + 1] > 0],
        lambda row: (
            f"the output has {in_rows(int(surplus[here[row] + 1]))} more with "
            f"'{published.text(row)}' than the original"
        ),
        attribute=rules.sensitive,
    )


def _outcomes(trace: pa.Table, breaches: Breaches) -> Counts:
    """Read each line's outcome as its place in OUTCOMES; an unknown one is a breach."""
    column = encode(trace["outcome"])
    places = [
        OUTCOMES.index(text) if text in OUTCOMES else MISSING for text in column.texts.to_pylist()
    ]
    outcome = np.array([*places, MISSING], dtype=np.int64)[column.codes]
    breaches.add(
        "trace-outcome",
        np.flatnonzero(outcome == MISSING),
        lambda line: f"line {line} of the trace has the unknown outcome '{column.text(line)}'",
    )
    return outcome


def _read_lines(
    publication: Publication, trace: pa.Table, outcome: Counts, breaches: Breaches
) -> _Lines:
    row = trace["row"].fill_null(-1).to_numpy()
    class_id = trace["class_id"].fill_null(0).to_numpy()
    in_class = trace["class_id"].is_valid().to_numpy()
    published = outcome == OUTCOMES.index("published")
    breaches.add(
        "trace-outcome",
        np.flatnonzero((in_class != published) & (outcome != MISSING)),
        lambda line: (
            f"line {line} of the trace: row {row[line]} is {OUTCOMES[outcome[line]]} "
            f"{f'and in class {class_id[line]}' if in_class[line] else 'without a class'}"
        ),
    )
    place = np.searchsorted(publication.class_ids, class_id)
    known = np.isin(class_id, publication.class_ids)
    _check_known_classes(class_id[published & in_class & ~known], breaches)
    group = np.where(published & in_class & known, place, _NOWHERE)
    group[outcome == OUTCOMES.index("suppressed")] = len(publication.class_ids)
    return _Lines(row, group)


def _check_known_classes(class_ids: Counts, breaches: Breaches) -> None:
    unknown, counts = np.unique(class_ids, return_counts=True)
    breaches.add(
        "count",
        np.arange(len(unknown)),
        lambda at: f"class {unknown[at]}: {in_rows(int(counts[at]))} in the trace, 0 in the output",
        class_id=lambda at: int(unknown[at]),
    )


def _check_counts(publication: Publication, lines: _Lines, breaches: Breaches) -> None:
    traced = np.bincount(
        lines.group[lines.group != _NOWHERE], minlength=len(publication.class_ids) + 1
    )
    shown = np.append(publication.sizes, publication.suppressed)
    breaches.add(
        "count",
        np.flatnonzero(traced != shown),
        lambda group: (
            f"{_group_name(publication, group)}: {in_rows(int(traced[group]))} in the trace, "
            f"{shown[group]:,} in the output"
        ),
        class_id=lambda group: _group_id(publication, group),
    )


def _match(lines: _Lines, rows: int, breaches: Breaches) -> _Lines:
    """Keep the lines that lead from an existing row into the output, one for each row."""
    exists = (lines.row >= 0) & (lines.row < rows)
    breaches.add(
        "trace-unknown",
        np.unique(lines.row[~exists]),
        lambda row: f"the trace has row {row}, the original has rows 0 to {rows - 1}",
    )
    times = np.bincount(lines.row[exists], minlength=rows)
    breaches.add(
        "trace-duplicate",
        np.flatnonzero(times > 1),
        lambda row: f"row {row} of the original has {times[row]} lines in the trace",
    )
    breaches.add(
        "trace-missing",
        np.flatnonzero(times == 0),
        lambda row: f"row {row} of the original has no line in the trace",
    )
    lines = lines.where(exists & (lines.group != _NOWHERE))
    return lines.where(np.unique(lines.row, return_index=True)[1])


def _check_inside(
    rule: QuasiIdentifier,
    publication: Publication,
    shown: Shown,
    lines: _Lines,
    raw: Coded,
    breaches: Breaches,
) -> None:
    lines = lines.where(lines.group < len(publication.class_ids))
    # The NaN is for MISSING, which is numpy's last place.
    value = np.append(read_raw(rule, raw), np.nan)[raw.codes[lines.row]]
    code = shown.column.codes[publication.first][lines.group]
    low, high = shown.low[code], shown.high[code]
    # Only the whole domain covers a missing or foreign value; what shows no sound
    # generalisation has been reported already.
    inside = ((low <= value) & (value <= high)) | shown.whole[code] | np.isnan(low)
    breaches.add(
        "outside",
        np.flatnonzero(~inside),
        lambda line: (
            f"row {lines.row[line]} of the original: {rule.name} is not covered by "
            f"'{shown.column.texts[code[line]]}' of class "
            f"{_group_id(publication, int(lines.group[line]))}"
        ),
        class_id=lambda line: _group_id(publication, int(lines.group[line])),
        attribute=rule.name,
    )


def _check_values(
    rules: Rules,
    publication: Publication,
    lines: _Lines,
    original: pa.Table,
    breaches: Breaches,
) -> None:
    """Each class must carry the values of its original rows, in the same combinations."""
    suppressed = len(publication.class_ids)
    group = np.where(publication.class_of == SUPPRESSED, suppressed, publication.class_of)
    in_output = np.flatnonzero(group >= 0)
    keys = [np.concatenate((group[in_output], lines.group))]
    for name in rules.carried:
        raw = encode(original[name], rules.missing)
        here, there = align(publication.carried[name], raw)
        # Shifted by one, so that MISSING is compared like a value.
        keys.append(np.concatenate((here[in_output], there[lines.row])) + 1)
    key = _combine(keys)
    differing = _differing(key[: len(in_output)], key[len(in_output) :])
    groups = keys[0][np.isin(key, differing)]
    breaches.add(
        "values",
        np.unique(groups),
        lambda at: (
            f"{_group_name(publication, at)}: the values of {', '.join(rules.carried)} "
            "are not those of the original rows"
        ),
        class_id=lambda at: _group_id(publication, at),
    )


def _combine(columns: Sequence[NDArray[np.integer]]) -> Counts:
    """Give two rows the same number exactly where all columns agree."""
    key = columns[0].astype(np.int64)
    for column in columns[1:]:
        width = int(column.max(initial=0)) + 1
        if int(key.max(initial=0)) >= _KEY_MAX // width:
            key = np.unique(key, return_inverse=True)[1].astype(np.int64)
        key = key * width + column
    return key


def _differing(left: Counts, right: Counts) -> Counts:
    """Find the keys that do not occur equally often on both sides."""
    here, here_count = np.unique(left, return_counts=True)
    there, there_count = np.unique(right, return_counts=True)
    either = np.union1d(here, there)
    balance = np.zeros(len(either), dtype=np.int64)
    balance[np.searchsorted(either, here)] = here_count
    balance[np.searchsorted(either, there)] -= there_count
    differing: Counts = either[balance != 0]
    return differing


def _persons(publication: Publication, lines: _Lines, person: Coded) -> Counts:
    """Count the persons of each class; a row that names nobody may be anyone's and adds none."""
    lines = lines.where(lines.group < len(publication.class_ids))
    return distinct(tally(lines.group, person.codes[lines.row], len(publication.class_ids)))


def _group_id(publication: Publication, group: int) -> int | None:
    if group == len(publication.class_ids):
        return None
    return int(publication.class_ids[group])


def _group_name(publication: Publication, group: int) -> str:
    class_id = _group_id(publication, group)
    return "the suppressed rows" if class_id is None else f"class {class_id}"
