"""The promises, watched from outside: only events go in, only effects are looked at.

Hypothesis drives a machine with arrivals, repeated persons, floods, ticks and restarts from
snapshots. A second machine, restored from the last snapshot, must go on in step with the first.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from core.config import Parameters
from core.events import SUPPRESSED, Event, Publish, Records, RecordsArrived, StreamEnded, Ticked
from core.hierarchy import Hierarchy, flat, from_nested
from core.kernels.layout import GRID
from core.machine import Machine
from core.schema import Attribute, Kind, Role, Schema

TOP = 20  # numeric values are 0..TOP
SECOND = 1_000_000_000
NESTED, _ = from_nested(
    {"any": {"a": ["a1", "a2", "a3"], "b": {"b1": [], "bb": ["b2", "b3"]}, "c": []}},
    file="",
    line=None,
    attribute="",
)
assert NESTED is not None


def numeric(name: str) -> Attribute:
    domain = (0.0, float(TOP))
    return Attribute(name=name, role=Role.QUASI_IDENTIFIER, kind=Kind.NUMERIC, domain=domain)


def categorical(name: str, hierarchy: Hierarchy) -> Attribute:
    return Attribute(
        name=name, role=Role.QUASI_IDENTIFIER, kind=Kind.CATEGORICAL, hierarchy=hierarchy
    )


SCHEMAS = [
    Schema(attributes=(numeric("x"), numeric("y")), person="id"),
    Schema(attributes=(numeric("x"), categorical("c", NESTED)), person="id"),
    Schema(attributes=(categorical("c", NESTED), categorical("d", flat("uvw"))), person="id"),
    Schema(attributes=(numeric("x"), categorical("c", NESTED), numeric("y")), person=None),
]

# Two numbers for the numeric attributes, two for the leaves, a person, a value, and whether the
# policy suppresses it.
Row = tuple[int, int, int, int, int, int, bool]
ROWS = st.tuples(
    st.integers(0, TOP),
    st.integers(0, TOP),
    st.integers(0, 6),
    st.integers(0, 2),
    st.integers(0, 15),
    st.integers(0, 3),
    st.sampled_from((False,) * 9 + (True,)),
)


@st.composite
def parameters(draw: st.DrawFn) -> Parameters:
    k = draw(st.integers(2, 5))
    return Parameters(
        k=k,
        l=draw(st.integers(1, min(k, 3))),
        delay_tuples=draw(st.integers(k, 40)),
        delay_seconds=draw(st.sampled_from((None, 2.5))),
        beta=draw(st.integers(1, 6)),
        mu=draw(st.integers(1, 8)),
        reuse_max=draw(st.integers(0, 70)),
        split=draw(st.sampled_from(("cut", "castle"))),
        order=draw(st.sampled_from(("released", "input"))),
    )


def encode(schema: Schema, rows: list[Row]) -> Records:
    count, numbers, nodes = len(rows), len(schema.numeric), len(schema.categorical)
    raw = np.array([row[:numbers] for row in rows], np.float64).reshape(count, numbers)
    leaf = np.array([row[2 : 2 + nodes] for row in rows], np.int64).reshape(count, nodes)
    return Records(
        code=np.hstack([np.rint(raw / TOP * GRID), leaf]).astype(np.int32),
        raw=raw,
        person=np.array([row[4] for row in rows], np.int64),
        value=np.array([row[5] for row in rows], np.int64),
        general=np.array([row[6] for row in rows], np.bool_),
    )


def plain(effects: list[Publish]) -> list[tuple[Any, ...]]:
    """Effects in a form that can be compared."""
    return [
        (
            effect.position.tolist(),
            effect.row.tolist(),
            effect.classes.class_id.tolist(),
            effect.classes.low.tolist(),
            effect.classes.high.tolist(),
            effect.classes.node.tolist(),
        )
        for effect in effects
    ]


class Promises(RuleBasedStateMachine):
    """A machine, everything that went in, and everything that came out."""

    @initialize(
        schema=st.sampled_from(SCHEMAS), parameters=parameters(), seed=st.integers(0, 2**64 - 1)
    )
    def start(self, schema: Schema, parameters: Parameters, seed: int) -> None:
        self.schema, self.parameters, self.seed = schema, parameters, seed
        self.machine = Machine(schema, parameters, seed=seed)
        self.copy: Machine | None = None
        self.clock = 0
        self.events: list[Event] = []
        self.effects: list[list[tuple[Any, ...]]] = []
        self.rows: list[Row] = []
        self.arrived: list[int] = []
        self.outcome: dict[int, int] = {}  # position -> class id
        self.classes: dict[int, tuple[Any, ...]] = {}
        self.members: dict[int, list[int]] = {}
        self.sound = True

    # What happens.

    @rule(rows=st.lists(ROWS, max_size=12))
    def arrive(self, rows: list[Row]) -> None:
        self.rows += rows
        self.arrived += [self.clock] * len(rows)
        self.step(RecordsArrived(encode(self.schema, rows), self.clock))

    @rule(row=ROWS, which=st.integers(0, 10**6))
    def repeat_a_person(self, row: Row, which: int) -> None:
        if self.rows:
            person = self.rows[which % len(self.rows)][4]
            self.arrive([(*row[:4], person, *row[5:])])

    @rule(seed=st.integers(0, 2**32), count=st.sampled_from((30, 100, 1_100)))
    def flood(self, seed: int, count: int) -> None:
        draw = random.Random(seed).randint
        top = (TOP, TOP, 6, 2, 15, 3)
        self.arrive([(*(draw(0, most) for most in top), False) for _ in range(count)])

    @rule(quarters=st.integers(-1, 12))
    def tick(self, quarters: int) -> None:
        now = self.clock + quarters * SECOND // 4
        # A host's clock may run backwards; the machine's does not.
        self.clock = max(self.clock, now)
        self.step(Ticked(now))

    @rule()
    def restart(self) -> None:
        self.copy = Machine.restore(self.machine.snapshot(), self.schema, self.parameters)

    def teardown(self) -> None:
        if not getattr(self, "sound", False):
            return
        self.step(StreamEnded())
        # P1: nothing is left behind.
        assert sorted(self.outcome) == list(range(len(self.rows)))
        assert self.machine.open_clusters == 0
        # P2, whatever the order.
        for members in self.members.values():
            self.require_private(members)
        # P5.
        again = Machine(self.schema, self.parameters, seed=self.seed)
        assert [plain(again.step(event)) for event in self.events] == self.effects

    def step(self, event: Event) -> None:
        self.sound = False
        effects = self.machine.step(event)
        self.events.append(event)
        self.effects.append(plain(effects))
        if self.copy is not None:
            assert plain(self.copy.step(event)) == self.effects[-1]
        for effect in effects:
            self.take(effect)
        self.sound = True

    # What must hold of every effect.

    def take(self, effect: Publish) -> None:
        fresh_rows = self.take_classes(effect)
        assert set(effect.row.tolist()) <= {SUPPRESSED, *range(len(effect.classes))}
        for position, row in zip(effect.position.tolist(), effect.row.tolist(), strict=True):
            # P1: an outcome is given once, and to a record that was accepted.
            assert position not in self.outcome
            assert 0 <= position < len(self.rows)
            self.outcome[position] = SUPPRESSED
            if row != SUPPRESSED:
                class_id = int(effect.classes.class_id[row])
                self.outcome[position] = class_id
                self.members.setdefault(class_id, []).append(position)
                self.require_inside(position, class_id)
        if self.parameters.order == "input":
            assert list(self.outcome) == list(range(len(self.outcome)))
        else:
            # P2: a class is whole in the row that shows it first. In order of input its records
            # come out one by one, and it is counted at the end.
            for row in fresh_rows:
                self.require_private(effect.position[effect.row == row].tolist())

    def take_classes(self, effect: Publish) -> list[int]:
        """Note the classes; returns the rows of new ones. An old one must be as it was."""
        fresh = []
        for row, class_id in enumerate(effect.classes.class_id.tolist()):
            table = (effect.classes.low, effect.classes.high, effect.classes.node)
            generalisation = tuple(tuple(column[row].tolist()) for column in table)
            if class_id not in self.classes:
                fresh.append(row)
            assert self.classes.setdefault(class_id, generalisation) == generalisation
        return fresh

    def require_private(self, members: list[int]) -> None:
        assert len({self.person(p) for p in members}) >= self.parameters.k
        assert len({self.rows[p][5] for p in members}) >= self.parameters.l

    def person(self, position: int) -> int:
        return position if self.schema.person is None else self.rows[position][4]

    def require_inside(self, position: int, class_id: int) -> None:
        low, high, node = self.classes[class_id]
        row = self.rows[position]
        for place in range(len(self.schema.numeric)):
            assert low[place] <= row[place] <= high[place]
        for place, attribute in enumerate(self.schema.categorical):
            tree = attribute.hierarchy
            assert tree is not None
            assert tree.first_leaf[node[place]] <= row[2 + place] <= tree.last_leaf[node[place]]

    # What must hold after every step. P3 is asked of the published stream, in either order.

    def waiting(self) -> list[int]:
        return [p for p in range(len(self.rows)) if p not in self.outcome]

    @invariant()
    def no_record_waits_for_more_than_delay_tuples(self) -> None:
        last = len(self.rows) - 1
        assert all(last - p < self.parameters.delay_tuples for p in self.waiting())
        assert self.machine.statistics()["delay_max"] <= self.parameters.delay_tuples

    @invariant()
    def no_record_waits_for_delay_seconds(self) -> None:
        if self.parameters.delay_seconds is not None:
            wait_ns = self.parameters.delay_seconds * 1e9
            assert all(self.clock < self.arrived[p] + wait_ns for p in self.waiting())

    @invariant()
    def open_clusters_are_at_most_beta(self) -> None:
        assert self.machine.open_clusters <= self.parameters.beta

    @invariant()
    def positions_count_the_records(self) -> None:
        assert self.machine.position == len(self.rows)


Promises.TestCase.settings = settings(max_examples=150, stateful_step_count=25, deadline=None)
TestPromises = Promises.TestCase
