"""From a batch of the input to accepted records; what is not accepted is kept and counted."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from core.config import Project
from core.encode import FOREIGN_MAX, Encoded, Encoder
from core.events import Records
from site_node.batch import RawBatch, SourceOptions
from site_node.summary import Summary
from site_node.trace import DeadLetters


def source_options(project: Project, site_column: str | None = None) -> SourceOptions:
    """What the project's schema needs of its source; `site_column` is read beside it."""
    names = _used(project)
    if site_column is not None and site_column not in names:
        names.append(site_column)
    return SourceOptions(
        columns=tuple(names),
        numeric=frozenset(a.name for a in project.schema.numeric),
        categorical=frozenset(a.name for a in project.schema.categorical),
        missing=project.input.missing,
        delimiter=project.input.delimiter,
    )


def _used(project: Project) -> list[str]:
    schema = project.schema
    sensitive = [schema.sensitive] if schema.sensitive else []
    names = [a.name for a in (*schema.quasi_identifiers, *sensitive, *schema.insensitive)]
    return names if schema.person is None else [*names, schema.person]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Taken:
    """The accepted records of a batch, and the numbers of its rows that were rejected.

    `site` and `rejected_site` are what the site column says, None without one; of a rejected row
    it may say nothing.
    """

    row: NDArray[np.int64]
    columns: dict[str, pa.Array]  # those published as they came, as text
    records: Records
    site: pa.Array | None
    rejected: list[int]
    rejected_site: list[str | None]


class Intake:
    """Encodes batches; rejected rows go to the dead letters, numbers to the summary."""

    def __init__(
        self,
        project: Project,
        *,
        kept: list[str],
        dead_letters: DeadLetters,
        summary: Summary,
        site_column: str | None = None,
    ) -> None:
        self._encoder = Encoder(project.schema, project.input.missing, site=site_column)
        self._kept = kept
        self._used = frozenset(_used(project))
        self._dead_letters = dead_letters
        self._summary = summary

    def take(self, batch: RawBatch) -> Taken:
        """Take in a batch."""
        encoded = self._encoder.encode(batch.columns, len(batch.row))
        self._reject(batch, encoded)
        row, site = batch.row, encoded.site
        columns = {name: batch.columns[name] for name in self._kept}
        if len(encoded.accepted) < len(row):
            row = row[encoded.accepted]
            columns = {name: column.take(encoded.accepted) for name, column in columns.items()}
            site = None if site is None else site.take(pa.array(encoded.accepted))
        # What is no text has been rejected; batches differ in how they hold text.
        columns = {name: column.cast(pa.string()) for name, column in columns.items()}
        self._summary.accepted += len(row)
        faults = [fault.row for fault in encoded.faults]
        sites: list[str | None] = [None] * (len(batch.broken) + len(faults))
        if encoded.site is not None:
            sites[len(batch.broken) :] = encoded.site.take(pa.array(faults, pa.int64())).to_pylist()
        return Taken(
            row=row,
            columns=columns,
            records=encoded.records,
            site=site,
            rejected=[broken.row for broken in batch.broken] + batch.row[faults].tolist(),
            rejected_site=sites,
        )

    def _reject(self, batch: RawBatch, encoded: Encoded) -> None:
        """Keep every row that is not accepted, and count why."""
        summary = self._summary
        summary.rows += len(batch.row) + len(batch.broken)
        summary.dropped.update((name, None) for name in batch.names if name not in self._used)
        for broken in batch.broken:
            summary.rejected["", broken.kind] += 1
            self._dead_letters.add(broken.row, "", broken.reason, "", broken.text)
        for fault in encoded.faults:
            summary.rejected[fault.attribute, fault.reason] += 1
            record = _record(batch, fault.row)
            row = int(batch.row[fault.row])
            self._dead_letters.add(row, fault.attribute, fault.reason, fault.value, record)
        summary.suppressed_by_policy.update(encoded.suppressed)
        summary.clamped.update(encoded.clamped)
        for name, values in encoded.foreign.items():
            known = summary.foreign.setdefault(name, {})
            for value in values:
                if len(known) < FOREIGN_MAX:
                    known[value] = None


def _record(batch: RawBatch, at: int) -> dict[str, Any]:
    return {name: _json_value(column[at].as_py()) for name, column in batch.columns.items()}


def _json_value(value: Any) -> Any:
    match value:
        case bytes():
            return value.decode(errors="backslashreplace")
        case float() if value.is_integer():
            return int(value)
        case float() if not isfinite(value):
            return str(value)
        case None | str() | int() | float():
            return value
    return str(value)
