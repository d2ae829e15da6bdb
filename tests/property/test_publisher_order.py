"""The publisher under arbitrary interleavings of parts, votes, withdrawals and losses.

Safety: what is shown of a class has k persons and l values, at every moment. Conservation: every
record comes out exactly once. Bugs are planted to see that the scripts would find them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st

import relay_server.publisher
from core.tokens import encode_bitmap, encode_set, range_bits
from relay_server.counting import Union
from relay_server.pb import exchange_pb2 as pb
from relay_server.publisher import Effect, Publisher, RefusedPart, Visible

SITES = 4


@dataclass(frozen=True)
class Rules:
    k: int
    l: int
    disjoint: bool
    values_as_tokens: bool
    held_max: int
    fates_max: int
    joint_max: int


@dataclass(frozen=True)
class Told:
    """Persons and values that are really in the records."""

    persons: frozenset[int]
    values: frozenset[int]


@dataclass(frozen=True)
class PartSent:
    site: int
    class_id: int
    bounds: bytes
    told: Told
    voted: bool = False
    fault: str = ""
    more: int = 0  # records than persons


@dataclass(frozen=True)
class Committed:
    class_id: int
    votes: dict[int, Told] = field(hash=False)
    bounds: bytes | None = None


@dataclass(frozen=True)
class Withdrawn:
    class_id: int
    site: int


@dataclass(frozen=True)
class Lost:
    site: int


Event = PartSent | Committed | Withdrawn | Lost
FAULTS = ("count", "tokens", "values", "suppressed", "records", "bounds")

# Few classes and mostly good parts, so that something happens in a short script.
class_ids = st.integers(0, 1)
site_indices = st.integers(0, SITES - 1)
tolds = st.builds(
    Told,
    st.frozensets(st.integers(0, 9), min_size=1, max_size=5),
    st.frozensets(st.integers(0, 3), min_size=1, max_size=2),
)
parts = st.builds(
    PartSent,
    site=site_indices,
    class_id=class_ids,
    bounds=st.sampled_from((b"one", b"one", b"two")),
    told=tolds,
    voted=st.sampled_from((False, False, True)),
    fault=st.sampled_from([""] * 30 + list(FAULTS)),
    more=st.integers(0, 2),
)
events = st.one_of(
    parts,
    parts,
    parts,
    parts,
    st.builds(
        Committed,
        class_ids,
        st.dictionaries(site_indices, tolds, min_size=2),
        st.sampled_from((None, None, b"one")),
    ),
    st.builds(Withdrawn, class_ids, site_indices),
    st.builds(Lost, site_indices),
)
rules = st.builds(
    Rules,
    k=st.integers(1, 6),
    l=st.integers(1, 3),
    disjoint=st.booleans(),
    values_as_tokens=st.booleans(),
    held_max=st.sampled_from((1, 2, 100, 100)),
    fates_max=st.sampled_from((1, 3, 100, 100)),
    joint_max=st.sampled_from((1, 100, 100)),
)
scripts = st.tuples(rules, st.lists(events, min_size=8, max_size=30))
Script = tuple[Rules, list[Event]]


class Run:
    """Sends a script to a publisher and remembers what is really behind every payload."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.publisher = Publisher(
            k=rules.k,
            l=rules.l,
            disjoint=rules.disjoint,
            values_as_tokens=rules.values_as_tokens,
        )
        self.sent: dict[bytes, tuple[PartSent, int, Told]] = {}
        self.votes: dict[tuple[int, int], Told] = {}
        self.refused: list[bytes] = []
        self.out: list[Visible] = []

    def handle(self, event: Event) -> None:
        if isinstance(event, PartSent):
            self.show(self.send(event))
        elif isinstance(event, Committed):
            self.commit(event)
        elif isinstance(event, Withdrawn):
            self.show(self.publisher.withdraw(event.class_id, event.site))
        else:
            self.show(self.publisher.lost(event.site))

    def commit(self, event: Committed) -> None:
        votes = {site: self.wire(told) for site, told in event.votes.items()}
        try:
            self.publisher.expect(event.class_id, event.bounds, votes)
        except ValueError:
            return
        self.votes |= {(event.class_id, site): told for site, told in event.votes.items()}

    def send(self, event: PartSent) -> Sequence[Effect]:
        told = event.told
        if event.voted:
            told = self.votes.get((event.class_id, event.site), told)
        payload = b"%d" % len(self.sent)
        records = max(len(told.persons), len(told.values)) + event.more
        part = pb.Part(
            class_id=event.class_id,
            bounds=event.bounds,
            records=records,
            payload=payload,
            voted=event.voted,
        )
        if not event.voted:
            persons, part.values = self.wire(told)
            part.persons.CopyFrom(persons)
        spoil(part, event.fault)
        self.sent[payload] = (event, part.records, told)
        effects = self.publisher.step(event.site, pb.Publication(parts=[part]))
        if any(isinstance(effect, RefusedPart) for effect in effects):
            self.refused.append(payload)
        else:
            assert not event.fault
        return effects

    def wire(self, told: Told) -> tuple[pb.Persons, bytes]:
        # The persons are their own tokens: none collide.
        count = len(told.persons)
        persons = pb.Persons(count=count)
        if not self.rules.disjoint:
            tokens = np.array(sorted(told.persons), np.uint64)
            persons.tokens = encode_set(tokens, range_bits(self.rules.k))
        values = np.array(sorted(told.values))
        if self.rules.values_as_tokens:
            return persons, encode_set(values.astype(np.uint64), range_bits(self.rules.l))
        return persons, encode_bitmap(values, 4)

    def show(self, effects: Sequence[Effect]) -> None:
        self.out += [effect for effect in effects if isinstance(effect, Visible)]
        self.check_safety()

    def check_safety(self) -> None:
        persons: dict[tuple[int, bytes], set[tuple[int, int]]] = {}
        values: dict[tuple[int, bytes], set[int]] = {}
        for visible in self.out:
            event, records, told = self.sent[visible.payload]
            assert (visible.site, visible.records) == (event.site, records)
            if visible.class_id is None:
                assert visible.bounds == b""
                continue
            assert (visible.class_id, visible.bounds) == (event.class_id, event.bounds)
            assert not event.fault
            assert visible.payload not in self.refused
            key = visible.class_id, visible.bounds
            # Where persons are disjoint, the same number at another site is another person.
            site = event.site if self.rules.disjoint else 0
            persons.setdefault(key, set()).update((site, person) for person in told.persons)
            values.setdefault(key, set()).update(told.values)
        for key, found in persons.items():
            assert len(found) >= self.rules.k, f"class {key} has {len(found)} persons"
            assert self.rules.l == 1 or len(values[key]) >= self.rules.l

    def finish(self) -> None:
        self.show(self.publisher.finish())
        payloads = [visible.payload for visible in self.out]
        with_records = [payload for payload, (_, records, _) in self.sent.items() if records]
        assert sorted(payloads) == sorted(with_records), "not every record came out once"
        counted = self.publisher.statistics
        assert (counted.held_records, counted.held_classes) == (0, 0)
        of_classes = [visible for visible in self.out if visible.class_id is not None]
        assert counted.visible_records == sum(visible.records for visible in of_classes)
        assert counted.suppressed_here + counted.suppressed_by_sites == sum(
            visible.records for visible in self.out if visible.class_id is None
        )


def spoil(part: pb.Part, fault: str) -> None:
    if fault == "count":
        # Not a fault that shows where persons are disjoint, unless the records are too few.
        part.persons.count += 1000
    elif fault == "tokens":
        part.persons.tokens += b"\xff"
    elif fault == "values":
        part.values += b"\x00"
    elif fault == "suppressed":
        part.suppressed = True
    elif fault == "records":
        part.records = 0
    elif fault == "bounds":
        part.bounds = b""


@contextmanager
def limits(rules: Rules) -> Iterator[None]:
    with (
        patch.object(relay_server.publisher, "CLASSES_HELD_MAX", rules.held_max),
        patch.object(relay_server.publisher, "FATES_MAX", rules.fates_max),
        patch.object(relay_server.publisher, "JOINT_CLASSES_MAX", rules.joint_max),
    ):
        yield


def play(script: Script) -> Run:
    rules, events = script
    with limits(rules):
        run = Run(rules)
        for event in events:
            run.handle(event)
        run.finish()
    return run


@settings(max_examples=500, deadline=None)
@given(scripts)
def test_nothing_short_is_ever_visible_and_every_record_comes_out_once(script: Script) -> None:
    play(script)


@given(rules, st.lists(parts, max_size=30))
def test_without_votes_a_class_is_visible_exactly_when_enough_has_arrived(
    rules: Rules, sent: list[PartSent]
) -> None:
    run = Run(rules)
    arrived: dict[tuple[int, bytes], list[PartSent]] = {}
    for event in sent:
        if event.voted or event.fault:
            continue
        run.show(run.send(event))
        key = event.class_id, event.bounds
        arrived.setdefault(key, []).append(event)
        visible = {(out.class_id, out.bounds) for out in run.out}
        values = frozenset[int]().union(*(part.told.values for part in arrived[key]))
        if rules.disjoint:
            # One site's numbers may be about the same persons.
            persons = sum(
                max((len(p.told.persons) for p in arrived[key] if p.site == site), default=0)
                for site in range(SITES)
            )
        else:
            persons = len(frozenset[int]().union(*(p.told.persons for p in arrived[key])))
        enough = persons >= rules.k and (rules.l == 1 or len(values) >= rules.l)
        assert (key in visible) == enough
    run.finish()


# --- planted bugs

SEARCH = settings(max_examples=2000, derandomize=True, database=None, phases=[Phase.generate])


def one_person_too_many() -> AbstractContextManager[Any]:
    right = Union.persons.fget  # type: ignore[attr-defined]
    return patch.object(Union, "persons", property(lambda self: right(self) + 1))


def numbers_of_one_site_added_up() -> AbstractContextManager[Any]:
    right = Union.add
    return patch.object(
        Union, "add", lambda self, persons, values, site=None: right(self, persons, values)
    )


def one_value_too_many() -> AbstractContextManager[Any]:
    right = Union.values.fget  # type: ignore[attr-defined]
    return patch.object(Union, "values", property(lambda self: right(self) + 1))


def bounds_forgotten() -> AbstractContextManager[Any]:
    right = Publisher._fate

    def wrong(self: Publisher, class_id: int, bounds: bytes) -> bool | None:
        return right(
            self, class_id, next((b for i, b in self._fates if i == class_id and b), bounds)
        )

    return patch.object(Publisher, "_fate", wrong)


def last_part_lost() -> AbstractContextManager[Any]:
    right = Publisher._let_go

    def wrong(self: Publisher, *arguments: Any) -> list[Visible]:
        shown = right(self, *arguments)
        return shown[:-1] if len(shown) > 1 else shown

    return patch.object(Publisher, "_let_go", wrong)


def vote_counts_before_it_arrives() -> AbstractContextManager[Any]:
    right = Publisher._pass_or_hold

    def wrong(self: Publisher, class_id: int, bounds: bytes, part: Any) -> list[Visible]:
        joint = self._joint.get(class_id)
        if joint is not None and self._fate(class_id, bounds) is None:
            union = self._unions.setdefault((class_id, bounds), self._union())
            for told in joint.votes.values():
                union.add(pb.Persons(count=told.persons, tokens=told.tokens), told.values)
        return right(self, class_id, bounds, part)

    return patch.object(Publisher, "_pass_or_hold", wrong)


@pytest.mark.parametrize(
    "bug",
    [
        one_person_too_many,
        numbers_of_one_site_added_up,
        one_value_too_many,
        bounds_forgotten,
        last_part_lost,
        vote_counts_before_it_arrives,
    ],
)
def test_a_planted_bug_is_found_when_the_recount_does_not_find_it(
    bug: Callable[[], AbstractContextManager[Any]],
) -> None:
    def fails(script: Script) -> bool:
        try:
            play(script)
        except AssertionError:
            return True
        return False

    with ExitStack() as stack:
        stack.enter_context(bug())
        stack.enter_context(patch.object(Publisher, "_check_again", lambda *_: None))
        find(scripts, fails, settings=SEARCH)
