"""Dealing: any file or named data set becomes one stream of records, each at its site.

A row goes to a site by the value of a column, in turn (row r of the input to site r modulo n, so
that a row that is rejected was somewhere, too), or by a hash: the 64-bit code of the person's id
(`core.encode.text_codes`), or of the row number's digits when there is no person column, modulo n.
The hash puts all rows of a person at one site, on any machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from core.config import Project
from core.encode import text_codes
from core.errors import ConfigurationError, DataError, Fault
from core.events import Records
from scripts._intake_lines import nothing_usable
from scripts._reading import Ahead, as_raw, read_source
from scripts.datasets.registry import DataSet
from scripts.datasets.tables import repeated_order
from scripts.simulation.plan import SITES_MAX, SITES_UNLESS_TOLD, Plan
from scripts.simulation.stream import Dealt
from site_node.batch import RawBatch, SourceOptions
from site_node.intake import Intake, Taken, source_options
from site_node.render import Renderer
from site_node.summary import Summary
from site_node.trace import DeadLetters

Longs = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Dealing:
    """A dealt stream, and what it takes to write it out again.

    `rejected` are input rows that are no records, `rejected_site` where each was, None when nobody
    can tell.
    """

    dealt: Dealt
    position: Longs  # [n] of each record in its site's own stream
    summary: Summary
    rejected: list[int]
    rejected_site: list[str | None]
    columns: dict[str, pa.ChunkedArray]  # of the accepted rows: those published as they came
    place: Longs  # [n] each record's place among the accepted rows

    def kept(self, record: Longs) -> dict[str, pa.Array]:
        """The columns of these records that are published as they came."""
        place = pa.array(self.place[record])
        return {name: _whole(column.take(place)) for name, column in self.columns.items()}

    def sites(self, record: Longs) -> pa.Array:
        """The names of the sites of these records."""
        return pa.array(self.dealt.names, pa.string()).take(pa.array(self.dealt.site[record]))


def deal(project: Project, source: DataSet, plan: Plan, letters: DeadLetters) -> Dealing:
    """Read a source to its end and deal it; rejected rows go to `letters`.

    Raises DataError when there is nothing to simulate, ConfigurationError when the sites that the
    column names are not those that were asked for.
    """
    pile = _Pile(by_column=plan.site_column is not None)
    summary = Summary()
    intake = Intake(
        project,
        kept=Renderer(project.schema).kept,
        dead_letters=letters,
        summary=summary,
        site_column=plan.site_column,
    )
    ahead = Ahead(_batches(project, source, plan))
    while (batch := ahead.next_batch(None)) is not None:
        pile.add(intake.take(batch), batch.csv_bytes)
        if len(pile.names) > SITES_MAX:
            message = f"column '{plan.site_column}' names more than {SITES_MAX:,} sites"
            raise ConfigurationError([Fault(message=message)])
    if not summary.accepted:
        if not summary.rows:
            raise DataError(f"{source.name}: no rows: nothing to simulate")
        letters.commit()
        raise nothing_usable(summary, letters.name)
    _require_sites(plan, len(pile.names))
    return _Deck(project, plan, pile).dealing(summary)


def _batches(project: Project, source: DataSet, plan: Plan) -> Iterator[RawBatch]:
    needs: SourceOptions = replace(source_options(project, plan.site_column), measure=True)
    entry = source.entry
    own = entry is not None and plan.site_column == entry.site_column
    if own and plan.sites is not None and entry is not None and entry.generate is not None:
        return as_raw(source.name, entry.generate(plan.rows, plan.sites), needs)
    return read_source(source, needs, rows=plan.rows)


def _require_sites(plan: Plan, found: int) -> None:
    if plan.site_column is None or plan.sites is None or plan.sites == found:
        return
    message = f"--sites is {plan.sites:,}, but column '{plan.site_column}' names {found:,} sites"
    raise ConfigurationError([Fault(message=message, hint="leave out --sites")])


@dataclass(slots=True, eq=False)
class _Pile:
    """Everything that was read, batch on batch."""

    by_column: bool
    records: list[Records] = field(default_factory=list)
    row: list[Longs] = field(default_factory=list)
    columns: dict[str, list[pa.Array]] = field(default_factory=dict)
    names: dict[str, int] = field(default_factory=dict)  # sites in the order of appearance
    site: list[NDArray[np.int32]] = field(default_factory=list)
    rejected: list[int] = field(default_factory=list)
    rejected_site: list[str | None] = field(default_factory=list)
    csv_bytes: int = 0

    def add(self, taken: Taken, csv_bytes: int) -> None:
        self.records.append(taken.records)
        self.row.append(taken.row)
        for name, column in taken.columns.items():
            self.columns.setdefault(name, []).append(column)
        self.rejected += taken.rejected
        self.rejected_site += taken.rejected_site
        self.csv_bytes += csv_bytes
        if taken.site is not None:
            encoded = taken.site.dictionary_encode()
            index = [
                self.names.setdefault(name, len(self.names))
                for name in encoded.dictionary.to_pylist()
            ]
            self.site.append(np.array(index, np.int32)[encoded.indices.to_numpy()])


class _Deck:
    """Turns a pile into a dealing."""

    def __init__(self, project: Project, plan: Plan, pile: _Pile) -> None:
        self._plan, self._pile = plan, pile
        self._persons = project.schema.person is not None
        self._sites = len(pile.names) or plan.sites or SITES_UNLESS_TOLD
        accepted = sum(map(len, pile.row))
        wanted = plan.repeat_to
        self._place = (
            np.arange(accepted) if wanted is None else repeated_order(accepted, wanted, plan.seed)
        )

    def dealing(self, summary: Summary) -> Dealing:
        pile, place = self._pile, self._place
        row = np.concatenate(pile.row)
        # A row that comes again arrives at its turn, not at that of its number.
        number = row if self._plan.repeat_to is None else np.arange(len(place))
        records = self._records()
        site = self._site(records, number)
        return Dealing(
            dealt=Dealt(
                records=records,
                site=site,
                row=row[place],
                names=self._names(),
                dataset_bytes=round(pile.csv_bytes * len(place) / len(row)),
            ),
            position=_positions(site, self._sites),
            summary=summary,
            rejected=pile.rejected,
            rejected_site=self._rejected_site(),
            columns={name: pa.chunked_array(parts) for name, parts in pile.columns.items()},
            place=place,
        )

    def _records(self) -> Records:
        parts, place = self._pile.records, self._place
        person = np.concatenate([part.person for part in parts])[place]
        return Records(
            code=np.concatenate([part.code for part in parts])[place],
            raw=np.concatenate([part.raw for part in parts])[place],
            # Without a person column every record is a person of its own.
            person=person if self._persons else np.arange(len(place)),
            value=np.concatenate([part.value for part in parts])[place],
            general=np.concatenate([part.general for part in parts])[place],
        )

    def _names(self) -> tuple[str, ...]:
        if self._pile.by_column:
            return tuple(self._pile.names)
        return tuple(f"site-{number}" for number in range(1, self._sites + 1))

    def _site(self, records: Records, number: Longs) -> NDArray[np.int32]:
        if self._pile.by_column:
            return np.concatenate(self._pile.site)[self._place]
        if self._plan.way == "hash":
            return _by_code(records.person if self._persons else _codes(number), self._sites)
        return (number % self._sites).astype(np.int32)

    def _rejected_site(self) -> list[str | None]:
        """Where rejected rows were; the person of one is not known, so neither is its hash."""
        if self._pile.by_column or (self._plan.way == "hash" and self._persons):
            return self._pile.rejected_site
        number, names = np.array(self._pile.rejected, np.int64), self._names()
        hashed = self._plan.way == "hash"
        site = _by_code(_codes(number), self._sites) if hashed else number % self._sites
        return [names[at] for at in site.tolist()]


def _codes(number: Longs) -> Longs:
    return text_codes(pa.array(number).cast(pa.string()))


def _by_code(code: Longs, sites: int) -> NDArray[np.int32]:
    return (code.view(np.uint64) % np.uint64(sites)).astype(np.int32)


def _positions(site: NDArray[np.int32], sites: int) -> Longs:
    """How many records came to the same site before each."""
    order = np.argsort(site, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(site, minlength=sites))])
    position = np.empty(len(site), np.int64)
    position[order] = np.arange(len(site)) - starts[site[order]]
    return position


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
