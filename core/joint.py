"""A site's machine that can give tuples to classes of several sites.

It stops in front of the next record when a tuple is due, so that its owner can open a settlement.
Tuples that are promised are held: they are in no cluster until they are published or let go.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from core.boxes import Box, grid_points, pack_sparse, unpack_sparse
from core.config import Parameters
from core.events import Effect, Records, joined
from core.exchange import RADIUS_ALL, RADIUS_SHIFT, SITES_MAX
from core.kernels import layout
from core.kernels.box import box_loss
from core.kernels.joint import (
    KEY_SHIFT,
    advance_jointly,
    decide_alone,
    empty_line,
    grow,
    hold,
    hold_nearest,
    let_go,
    publish_jointly,
    rank,
)
from core.kernels.reach import cover, stretch
from core.machine import Machine, records_slice
from core.schema import Schema
from core.state import CHUNK_TUPLES

Longs = NDArray[np.int64]
Flags = NDArray[np.bool_]

# A published bound of a joint class is a short number: at least so many of them fit the domain.
_SHORT_NUMBERS: Final = 2_000
# The share of delay_seconds after which a tuple comes due.
_SOFT_SECONDS: Final = 0.75
# Rows of split.low and split.high that `grow` works in; `rank` uses row 0.
_GROWN: Final = 1


@dataclass(frozen=True, slots=True)
class Due:
    """The tuple that stopped the stream. One that is overdue has to be decided now."""

    position: int
    overdue: bool


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """Tuples that are promised to a settlement, of so many persons; others could be in addition."""

    slots: Longs
    persons: int
    spare: int


@dataclass(slots=True, eq=False)
class JointClass:
    """A class as every site derives it from a box and a reach."""

    class_id: int
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    node: NDArray[np.int32]
    code_low: NDArray[np.int32]
    code_high: NDArray[np.int32]
    loss: int = 0  # in 1/GRID, summed over the attributes


class JointMachine(Machine):
    """CASTLE for one stream, with tuples that come due before their deadline."""

    def __init__(self, schema: Schema, parameters: Parameters, *, seed: int) -> None:
        super().__init__(schema, parameters, seed=seed)
        state = self._state
        self._mask = len(state.window.item) - 1
        self._slots = np.zeros(len(state.window.item), np.int64)
        self._found = np.zeros(2, np.int64)
        self._domain = _domain_table(schema)
        self._numeric, self._categorical = len(schema.numeric), len(schema.categorical)
        self._made = self._blank_class(0)
        self.site_index = 0
        self.no_records = self._nothing
        self.lead = 1

    # --- ids and deadlines

    def join(self, site_index: int, last_id: int = 0) -> None:
        """From now on ids are those of this site, larger than any that it has used before."""
        self.site_index = site_index
        register = self._state.register
        used = max(int(register[layout.CLASSES]), last_id + SITES_MAX if last_id else 0)
        register[layout.CLASSES] = used // SITES_MAX * SITES_MAX + site_index
        register[layout.CLASS_STEP] = SITES_MAX

    def next_id(self) -> int:
        """An id that no other site makes up."""
        register = self._state.register
        register[layout.CLASSES] += register[layout.CLASS_STEP]
        return int(register[layout.CLASSES] - register[layout.CLASS_STEP])

    @property
    def lead(self) -> int:
        """Arrivals before its deadline at which a tuple comes due."""
        return int(self._state.register[layout.LEAD])

    @lead.setter
    def lead(self, tuples: int) -> None:
        most = max(1, self._parameters.delay_tuples // 2)
        self._state.register[layout.LEAD] = min(max(1, tuples), most)

    def deadline(self, position: int) -> int:
        """How many more records may be accepted before this one has to be decided."""
        return position + self._parameters.delay_tuples + 1 - self.position

    # --- the stream

    def offer(self, records: Records, now_ns: int) -> tuple[int, list[Effect]]:
        """Take in records until a tuple is due; returns how many, and what to publish."""
        now, accepted = self._tell(now_ns), 0
        effects: list[Effect] = []
        while True:
            chunk = records_slice(records, accepted, accepted + CHUNK_TUPLES)
            seconds = self._parameters.delay_seconds
            soft = (
                self._moment(now) if seconds is None else now - round(seconds * _SOFT_SECONDS * 1e9)
            )
            with self._guarded():
                accepted += advance_jointly(
                    self._state,
                    chunk.code,
                    chunk.raw,
                    chunk.person,
                    chunk.value,
                    chunk.general,
                    now,
                    soft,
                    self._moment(now),
                )
                effects += self._decided()
            if self.due is not None or accepted >= len(records):
                return accepted, self._in_order(effects)

    @property
    def due(self) -> Due | None:
        """The tuple that stopped the last offer, if one did."""
        register = self._state.register
        if register[layout.DUE] == layout.NOBODY:
            return None
        position = int(self._positions(register[layout.DUE : layout.DUE + 1])[0])
        return Due(position, bool(register[layout.OVERDUE]))

    def decide(self, position: int) -> list[Effect]:
        """The record is decided now, by this site alone."""
        with self._guarded():
            decide_alone(self._state, position & self._mask)
            return self._in_order(self._decided())

    def empty_line(self) -> list[Effect]:
        """No record will follow: publish what stands in line."""
        with self._guarded():
            empty_line(self._state)
            return self._in_order(self._decided())

    def undecided(self) -> list[int]:
        """Positions of the records that are in a cluster, oldest first."""
        register, item = self._state.register, self._state.window.item
        positions = np.arange(register[layout.DECIDED], register[layout.POSITION])
        return [int(p) for p in positions[item["owner"][positions & self._mask] >= 0]]

    def is_free(self, position: int) -> bool:
        """Whether the record is in a cluster: neither decided nor held."""
        return bool(self._state.window.item["owner"][position & self._mask] >= 0)

    @property
    def free_records(self) -> int:
        """How many records are in a cluster."""
        return int(self._state.clusters.meta["tuples"][self._state.clusters.closed == 0].sum())

    def past_due(self, slots: Longs, *, all_of_them: bool) -> list[int]:
        """Positions of these free records whose turn to come due is over, or of all of them."""
        positions = self._positions(slots)
        passed = all_of_them | (positions < int(self._state.register[layout.EXPIRED]))
        free = self._state.window.item["owner"][slots] >= 0
        return [int(position) for position in positions[passed & free]]

    def is_held(self, position: int) -> bool:
        """Whether the record is promised to a settlement."""
        return bool(self._state.window.item["owner"][position & self._mask] == layout.HELD)

    @property
    def has_undecided(self) -> bool:
        """Whether any record waits for its outcome, held ones included."""
        register, item = self._state.register, self._state.window.item
        positions = np.arange(register[layout.DECIDED], register[layout.POSITION])
        return bool((item["owner"][positions & self._mask] != layout.NOBODY).any())

    # --- summaries

    def clusters_over(self, persons: int) -> dict[int, int]:
        """The open clusters of at least so many persons: serial number -> slot."""
        clusters = self._state.clusters
        large = (clusters.persons >= persons) & (clusters.closed == 0)
        slots = np.flatnonzero(large)
        serials = clusters.meta["serial"][slots]
        return dict(zip(serials.tolist(), slots.tolist(), strict=True))

    def cluster(self, slot: int) -> tuple[int, Box, Longs]:
        """Size, box and sensitive values of an open cluster."""
        state, numeric = self._state, self._numeric
        clusters, item = state.clusters, state.window.item
        low = np.zeros(numeric + self._categorical, np.int32)
        high = np.zeros_like(low)
        low[:numeric] = clusters.low[:numeric, slot]
        high[:numeric] = clusters.high[:numeric, slot]
        for place in range(self._categorical):
            node = state.trees.tree["node"][place] + clusters.node[place, slot]
            low[numeric + place] = state.trees.node["first"][node]
            high[numeric + place] = state.trees.node["last"][node]
        values = np.unique(item["value"][item["owner"] == slot])
        return int(clusters.persons[slot]), Box(low, high), values

    @property
    def mean_loss(self) -> float:
        """Tau: the mean loss of the last classes."""
        register = self._state.register
        count = int(register[layout.TAU_COUNT]) * (self._numeric + self._categorical)
        return int(register[layout.TAU_SUM]) / (count * layout.GRID) if count else 0.0

    def loss(self, box: Box) -> int:
        """The loss of a box, in 1/GRID, summed over the attributes."""
        return int(box_loss(self._state.rules, self._state.trees, box.low, box.high))

    # --- what can be given

    def box_around(self, position: int, tuples: int, steps: int) -> tuple[Box, int]:
        """The box of the record and its nearest free ones, and how many persons it holds."""
        split = self._state.split
        persons = grow(self._state, position & self._mask, tuples, steps, _GROWN)
        return Box(split.low[_GROWN].copy(), split.high[_GROWN].copy()), int(persons)

    def hold_around(
        self, box: Box, position: int, *, least: int, persons: int, reach: float
    ) -> tuple[Held, int]:
        """Hold the record and the nearest of so many persons, and the radius to ask others for.

        The radius is that within which this site has `reach` times as many records. `least` is the
        oldest position that may be held beside the record.
        """
        state = self._state
        slot = position & self._mask
        count = rank(state, box.low, box.high, slot, least, RADIUS_ALL << RADIUS_SHIFT)
        last = min(count, max(1, round(reach * persons))) - 1
        radius = min((int(state.split.key[last]) >> KEY_SHIFT >> RADIUS_SHIFT) + 1, RADIUS_ALL)
        limit = ((radius << RADIUS_SHIFT) + 1) << KEY_SHIFT
        within = int(np.searchsorted(state.split.key[:count], limit))
        return self._hold(persons, within), radius

    def hold_nearest(self, box: Box, *, least: int, radius: int, persons: int) -> Held:
        """Hold records that enlarge the box by at most `radius`, of so many persons at most.

        `least` is the oldest position that may be held.
        """
        held = hold_nearest(
            self._state,
            box.low,
            box.high,
            least,
            radius << RADIUS_SHIFT,
            persons,
            self._slots,
            self._found,
        )
        return Held(self._slots[:held].copy(), int(self._found[0]), int(self._found[1]))

    def _hold(self, persons: int, count: int) -> Held:
        held = hold(self._state, persons, count, self._slots, self._found)
        return Held(self._slots[:held].copy(), int(self._found[0]), int(self._found[1]))

    def hold_new_value(
        self, box: Box, *, least: int, radius: int, other_than: Callable[[Longs], Flags]
    ) -> Held:
        """Hold the nearest record of another value; `other_than` tells which are."""
        state = self._state
        count = rank(state, box.low, box.high, layout.NOBODY, least, radius << RADIUS_SHIFT)
        places = state.split.key[:count] & ((1 << KEY_SHIFT) - 1)
        slots = state.split.order[places].astype(np.int64)
        new = np.flatnonzero(other_than(self.values(slots)))
        if not len(new):
            return Held(slots[:0], 0, 0)
        state.split.key[0] = state.split.key[new[0]]
        return self._hold(1, 1)

    def let_go(self, slots: Longs) -> None:
        """These are no longer promised."""
        if len(slots):
            let_go(self._state, slots)

    def persons(self, slots: Longs) -> Longs:
        """The persons of these tuples; without a person column each is one."""
        if not self._state.rules.count_persons:
            return self._positions(slots)
        return np.asarray(self._state.window.item["person"][slots])

    def values(self, slots: Longs) -> Longs:
        """The sensitive values of these tuples."""
        return np.asarray(self._state.window.item["value"][slots])

    def slots(self, positions: Longs) -> Longs:
        """Where these records are in the window; of decided ones, until later ones come."""
        return positions & self._mask

    def positions(self, slots: Longs) -> Longs:
        """Where these tuples are in the stream."""
        return self._positions(slots)

    def _positions(self, slots: Longs) -> Longs:
        latest = int(self._state.register[layout.POSITION]) - 1
        return latest - ((latest - slots) & self._mask)

    # --- classes of several sites

    def reach(self, slots: Longs, box: Box) -> tuple[Longs, Longs, bytes]:
        """How far these tuples reach beyond the box: those that this covers, the others, the reach.

        A tuple is not covered when its value is where no reach of the grid's can enclose it.
        """
        state, made = self._state, self._made
        reach = np.zeros(2 * self._numeric + self._categorical, np.uint8)
        covered = cover(
            state.rules,
            state.trees,
            state.window,
            self._domain,
            slots,
            box.low,
            box.high,
            reach,
            made.code_low,
            made.code_high,
            made.low,
            made.high,
            made.node,
        )
        return slots[:covered], slots[covered:], pack_sparse(reach)

    def joint_class(self, class_id: int, box: Box, reach: bytes) -> JointClass:
        """The class behind a commit; ValueError when the reach is none."""
        numbers = unpack_sparse(reach, 2 * self._numeric + self._categorical)
        return self._stretch(class_id, box, numbers)

    def _stretch(self, class_id: int, box: Box, reach: NDArray[np.uint8]) -> JointClass:
        state, made = self._state, self._blank_class(class_id)
        made.loss = stretch(
            state.rules,
            state.trees,
            self._domain,
            box.low,
            box.high,
            reach,
            made.code_low,
            made.code_high,
            made.low,
            made.high,
            made.node,
        )
        return made

    def _blank_class(self, class_id: int) -> JointClass:
        attributes = self._numeric + self._categorical
        return JointClass(
            class_id,
            np.zeros(self._numeric),
            np.zeros(self._numeric),
            np.zeros(self._categorical, np.int32),
            np.zeros(attributes, np.int32),
            np.zeros(attributes, np.int32),
        )

    def publish(self, made: JointClass, slots: Longs) -> list[Effect]:
        """Publish held tuples with the class, and keep it for reuse; none: only learn of it."""
        with self._guarded():
            publish_jointly(
                self._state,
                slots,
                made.class_id,
                made.low,
                made.high,
                made.node,
                made.code_low,
                made.code_high,
                made.loss,
            )
            return self._in_order(self._decided())

    def learn(self, class_id: int, bounds: bytes) -> None:
        """Another site published this class: it may be reused. ValueError when it is none."""
        numeric, categorical = self._numeric, self._categorical
        if len(bounds) != 16 * numeric + 4 * categorical:
            raise ValueError(f"a class has no bounds of {len(bounds)} bytes here")
        ends = np.frombuffer(bounds, "<f8", 2 * numeric)
        low, high = ends[:numeric].copy(), ends[numeric:].copy()
        node = np.frombuffer(bounds, "<i4", categorical, 16 * numeric).astype(np.int32)
        domain = self._domain
        inside = (domain[0, :numeric] <= low) & (low <= high) & (high <= domain[1, :numeric])
        trees = self._state.trees
        sizes = np.diff(np.append(trees.tree["node"][:categorical], len(trees.node)))
        if not inside.all() or (node < 0).any() or (node >= sizes).any():
            raise ValueError("a class has bounds outside of the schema")
        code_low = np.zeros(numeric + categorical, np.int32)
        code_high = np.zeros_like(code_low)
        step = (domain[1, :numeric] - domain[0, :numeric]) / layout.GRID
        code_low[:numeric] = np.rint((low - domain[0, :numeric]) / step)
        code_high[:numeric] = np.rint((high - domain[0, :numeric]) / step)
        at = trees.tree["node"][:categorical] + node
        code_low[numeric:] = trees.node["first"][at]
        code_high[numeric:] = trees.node["last"][at]
        loss = self.loss(Box(code_low, code_high))
        made = JointClass(class_id, low, high, node, code_low, code_high, loss)
        self.publish(made, np.zeros(0, np.int64))

    def _in_order(self, effects: list[Effect]) -> list[Effect]:
        if len(effects) > 1:
            effects = [joined(effects)]
        return self._order.step(effects) if self._order else effects


def _domain_table(schema: Schema) -> NDArray[np.float64]:
    """What core.kernels.reach needs to know of every numeric attribute."""
    table = np.zeros((5, max(1, len(schema.numeric))))
    for place, attribute in enumerate(schema.numeric):
        assert attribute.domain is not None
        low, high = attribute.domain
        digits = int(np.floor(np.log10((high - low) / _SHORT_NUMBERS)))
        parts = 10.0**-digits if digits < 0 else 0.0
        table[:, place] = low, high, 10.0**digits, parts, grid_points(attribute)
    return table
