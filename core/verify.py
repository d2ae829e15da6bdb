"""The auditor: tells whether a publication is as anonymous as its schema promises.

It shares no code with the anonymiser and believes neither its classes nor its trace. Tables come
in, an `Audit` goes out; reading files is `scripts.verify`'s part.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from core.verify_columns import MISSING, Codes, Numbers, numbers
from core.verify_findings import Audit, Breaches, SmallClass
from core.verify_metrics import (
    Counts,
    by_values,
    distinct,
    equal_distances,
    ordered_distances,
    tally,
)
from core.verify_original import Witness, compare, compare_without_trace
from core.verify_publication import SUPPRESSED, Publication, read_publication
from core.verify_rules import Rules


def audit(
    rules: Rules,
    output: pa.Table,
    *,
    trace: pa.Table | None = None,
    original: pa.Table | None = None,
    worst: int = 10,
) -> Audit:
    """Audit the published rows, with the trace and the raw rows as witnesses where given.

    Columns of `output` and `original` are strings or dictionaries of strings; an original row that
    cannot be read is all null. `trace` has `row` and `class_id` as integers, `outcome` as text.
    """
    breaches = Breaches()
    publication = read_publication(rules, output, breaches)
    witness = Witness()
    if trace is not None:
        witness = compare(rules, publication, trace, original, breaches)
    elif original is not None:
        compare_without_trace(rules, publication, original, breaches)
    classes = _judge(rules, publication, witness, breaches)
    return _summarise(rules, publication, classes, witness, breaches, worst)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Classes:
    """What is judged class by class: `counted` are persons where they are known, rows where not.

    `sensitive` are the rows' sensitive values, numbered in their order.
    """

    k_counts: Literal["persons", "rows"]
    counted: Counts
    sensitive: Codes | None = None
    values: Counts | None = None
    t: float | None = None


def _judge(
    rules: Rules, publication: Publication, witness: Witness, breaches: Breaches
) -> _Classes:
    persons = publication.sizes if rules.person is None else witness.persons
    k_counts: Literal["persons", "rows"] = "rows" if persons is None else "persons"
    counted = publication.sizes if persons is None else persons
    _check_floor(publication, "k", rules.k, counted, k_counts, breaches)
    if rules.sensitive is None:
        return _Classes(k_counts=k_counts, counted=counted)
    sensitive = _sensitive(rules.sensitive, rules.sensitive_is_numeric, publication, breaches)
    per_class = tally(publication.class_of, sensitive, len(publication.class_ids))
    values = distinct(per_class)
    _check_floor(publication, "l", rules.l, values, f"values of '{rules.sensitive}'", breaches)
    distances = ordered_distances if rules.sensitive_is_numeric else equal_distances
    whole = np.bincount(sensitive[sensitive != MISSING])
    return _Classes(
        k_counts=k_counts,
        counted=counted,
        sensitive=sensitive,
        values=values,
        t=float(distances(per_class, whole).max()) if len(values) and len(whole) else None,
    )


def _check_floor(
    publication: Publication,
    kind: Literal["k", "l"],
    required: int,
    counted: Counts,
    what: str,
    breaches: Breaches,
) -> None:
    short = np.flatnonzero(counted < required)
    breaches.add(
        kind,
        # The shortest first: they are the ones that get listed.
        short[np.argsort(counted[short], kind="stable")],
        lambda place: (
            f"class {publication.class_ids[place]} has {counted[place]} of {kind}={required} {what}"
        ),
        class_id=lambda place: int(publication.class_ids[place]),
    )


def _sensitive(name: str, is_numeric: bool, publication: Publication, breaches: Breaches) -> Codes:
    """Rank the rows' sensitive values, without gaps and in the order of the values."""
    column = publication.carried[name]
    if not is_numeric:
        return column.codes
    values = numbers(column.texts)
    breaches.add(
        "unreadable",
        np.flatnonzero(np.isnan(values)),
        lambda code: f"{name} '{column.texts[int(code)]}' is no number",
        attribute=name,
    )
    ordered = np.unique(values[~np.isnan(values)])
    ranks = np.where(np.isnan(values), MISSING, np.searchsorted(ordered, values))
    # The last entry serves MISSING, which is numpy's last place.
    return np.append(ranks, MISSING).astype(np.int32)[column.codes]


def _summarise(
    rules: Rules,
    publication: Publication,
    classes: _Classes,
    witness: Witness,
    breaches: Breaches,
    worst: int,
) -> Audit:
    in_class = publication.class_of >= 0
    rows, suppressed = publication.rows, publication.suppressed
    loss, loss_published, by_attribute = _losses(publication, in_class)
    shown = [column.column.codes[in_class] for column in publication.shown]
    sensitive = None if classes.sensitive is None else classes.sensitive[in_class]
    k_by_values, l_by_values = by_values(shown, sensitive)
    average = _mean(publication.sizes)
    return Audit(
        passed=not breaches.counts,
        k=_least(classes.counted),
        l=None if classes.values is None else _least(classes.values),
        t=classes.t,
        k_required=rules.k,
        l_required=rules.l,
        k_counts=classes.k_counts,
        k_by_values=k_by_values,
        l_by_values=l_by_values,
        classes=len(publication.class_ids),
        rows=rows,
        suppressed=suppressed,
        suppressed_share=suppressed / rows if rows else None,
        rejected=witness.rejected,
        discernibility=int(np.square(publication.sizes).sum()) + suppressed * rows,
        average_class_size=average,
        average_class_size_over_k=None if average is None else average / rules.k,
        information_loss=loss,
        information_loss_published=loss_published,
        loss_by_attribute=by_attribute,
        breach_count=breaches.counts.total(),
        breach_count_by_kind=dict(breaches.counts),
        breaches=breaches.listed,
        worst=_smallest(publication, classes, worst),
        notes=_notes(publication, classes),
    )


def _losses(
    publication: Publication, in_class: NDArray[np.bool_]
) -> tuple[float | None, float | None, dict[str, float | None]]:
    """Average the loss over all rows, over the rows in classes, and by attribute."""
    suppressed = publication.class_of == SUPPRESSED
    total: Numbers = np.zeros(publication.rows)
    by_attribute: dict[str, float | None] = {}
    for shown in publication.shown:
        # By definition, also where the domain is one point and the interval loses nothing.
        loss = np.where(suppressed, 1.0, shown.loss[shown.column.codes])
        by_attribute[shown.name] = _mean(loss)
        total += loss
    total /= max(len(publication.shown), 1)
    return _mean(total), _mean(total[in_class]), by_attribute


def _mean(values: Numbers | Counts) -> float | None:
    """Average what could be read; None when there is nothing."""
    readable = values[~np.isnan(values)]
    return float(readable.mean()) if len(readable) else None


def _least(counts: Counts) -> int | None:
    return int(counts.min()) if len(counts) else None


def _smallest(publication: Publication, classes: _Classes, worst: int) -> list[SmallClass]:
    order = np.lexsort((publication.class_ids, publication.sizes, classes.counted))
    return [
        SmallClass(
            class_id=int(publication.class_ids[place]),
            persons=int(classes.counted[place]) if classes.k_counts == "persons" else None,
            rows=int(publication.sizes[place]),
            values=None if classes.values is None else int(classes.values[place]),
            shown=publication.shows(int(publication.first[place])),
        )
        for place in order[:worst]
    ]


def _notes(publication: Publication, classes: _Classes) -> list[str]:
    if not publication.rows:
        return ["the output has no rows: nothing is published, so there is nothing to judge"]
    if not len(publication.class_ids):
        return ["no row is in a class: there is no class to judge"]
    if classes.k_counts == "rows":
        return ["k counts rows: persons can only be counted with the trace and the original"]
    return []
