"""Figures of a merged output, from the records themselves."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from core.events import SUPPRESSED, Classes
from core.loss import class_losses
from core.schema import Schema
from scripts.simulation.result import Merged, Violation
from scripts.simulation.stream import Dealt

_TIME_BINS = 100


def record_losses(schema: Schema, merged: Merged) -> NDArray[np.float64]:
    """The loss of every published record; 1 for a suppressed one."""
    losses = np.append(class_losses(schema, merged.classes), 1.0)
    return losses[np.where(merged.row == SUPPRESSED, len(merged.classes), merged.row)]


def group_by_bounds(classes: Classes) -> NDArray[np.int64]:
    """Which group each class belongs to: those that show the same values are one."""
    if not len(classes):
        return np.zeros(0, np.int64)
    shown = np.concatenate([classes.low, classes.high, classes.node.astype(np.float64)], axis=1)
    _, group = np.unique(shown, axis=0, return_inverse=True)
    return group.reshape(-1).astype(np.int64)


def class_counts(
    dealt: Dealt, merged: Merged, *, own_persons: bool
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Distinct persons and values of every group of records that look alike, and its first class.

    `own_persons`: every record is a person of its own.
    """
    shown = merged.row != SUPPRESSED
    record, row = merged.record[shown], merged.row[shown]
    groups = group_by_bounds(merged.classes)
    group, count = groups[row], int(groups.max(initial=-1)) + 1
    person = record if own_persons else dealt.records.person[record]
    first = np.full(count, -1, np.int64)
    first[groups[::-1]] = np.arange(len(groups))[::-1]
    return (
        _distinct(group, person, count),
        _distinct(group, dealt.records.value[record], count),
        first,
    )


def _distinct(group: NDArray[np.int64], key: NDArray[np.int64], groups: int) -> NDArray[np.int64]:
    if not len(group):
        return np.zeros(groups, np.int64)
    order = np.lexsort((key, group))
    group, key = group[order], key[order]
    new = np.ones(len(group), np.bool_)
    new[1:] = (group[1:] != group[:-1]) | (key[1:] != key[:-1])
    return np.bincount(group[new], minlength=groups).astype(np.int64)


def violations(
    dealt: Dealt, merged: Merged, *, k: int, l: int, own_persons: bool
) -> tuple[list[Violation], NDArray[np.int64]]:
    """Groups of records that look alike and are short of k persons or l values; all sizes."""
    persons, values, first = class_counts(dealt, merged, own_persons=own_persons)
    used = persons > 0
    short = used & ((persons < k) | ((values < l) if l > 1 else False))
    found = [
        Violation(
            class_id=int(merged.classes.class_id[first[group]]),
            persons=int(persons[group]),
            values=int(values[group]),
        )
        for group in np.flatnonzero(short).tolist()
    ]
    return found, persons[used]


def loss_over_time(record: NDArray[np.int64], loss: NDArray[np.float64]) -> NDArray[np.float64]:
    """[bins, 2]: the mean loss of records by their time of arrival."""
    if not len(record):
        return np.zeros((0, 2))
    order = np.argsort(record, kind="stable")
    pieces = np.array_split(order, min(_TIME_BINS, len(order)))
    return np.array([[record[piece].mean(), loss[piece].mean()] for piece in pieces])
