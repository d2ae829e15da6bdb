"""Sites that do not talk to each other, and one machine that sees everything."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from core.config import Parameters
from core.events import SUPPRESSED, Effect, RecordsArrived, StreamEnded
from core.exchange import SITES_MAX
from core.machine import Machine, records_slice
from core.schema import Schema
from scripts.simulation.outcome import Collector, Outcome, added_up
from scripts.simulation.stream import Dealt, records_of
from site_node.publication import bounds_of

_STEP_TUPLES = 65_536


def run_alone(
    schema: Schema,
    parameters: Parameters,
    dealt: Dealt,
    *,
    seed: int,
    progress: Callable[[int], None],
) -> Outcome:
    """Every site anonymises its own stream."""
    collector, done = Collector(schema), 0
    statistics, open_max = [], 0
    for site in range(len(dealt.names)):
        index = np.flatnonzero(dealt.site == site)
        records = records_of(dealt, index)
        machine = Machine(schema, parameters, seed=seed * SITES_MAX + site)
        for start in range(0, len(index), _STEP_TUPLES):
            step = records_slice(records, start, start + _STEP_TUPLES)
            _collect(collector, machine.step(RecordsArrived(step)), index, site)
            open_max = max(open_max, machine.open_clusters)
            progress(done + min(start + _STEP_TUPLES, len(index)))
        _collect(collector, machine.step(StreamEnded()), index, site)
        statistics.append(machine.statistics())
        done += len(index)
    return Outcome(
        merged=collector.merged(),
        delay_max=max((each["delay_max"] for each in statistics), default=0),
        open_clusters_max=open_max,
        details=added_up(statistics),
    )


def _collect(
    collector: Collector,
    effects: list[Effect],
    index: np.ndarray[tuple[int], np.dtype[np.int64]],
    site: int,
) -> None:
    for effect in effects:
        order = np.argsort(effect.row, kind="stable")
        row = effect.row[order]
        for members in np.split(order, np.flatnonzero(row[1:] != row[:-1]) + 1):
            if not len(members):
                continue
            record, place = index[effect.position[members]], int(effect.row[members[0]])
            if place == SUPPRESSED:
                collector.add(None, b"", record)
            else:
                number = int(effect.classes.class_id[place]) * SITES_MAX + site
                collector.add(number, bounds_of(effect.classes, place), record)
