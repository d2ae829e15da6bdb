"""A machine that gives tuples to classes of several sites: grow, rank, hold, let go, reach."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from core.boxes import Box, BoxCodec, pack_sparse, unpack_sparse
from core.config import Parameters
from core.events import Publish, Records
from core.exchange import RADIUS_ALL, SITES_MAX
from core.joint import JointMachine
from core.kernels.layout import GRID
from core.machine import records_slice
from core.schema import Schema
from tests.exchange_pump import LEAVES, parameters, records, schema

NUMERIC = 2
EVERYWHERE = Box(np.zeros(3, np.int32), np.array([GRID, GRID, LEAVES - 1], np.int32))


def machine(count: int = 80, seed: int = 1, **options: Any) -> tuple[JointMachine, Records]:
    """A machine with so many records, none of them due."""
    of: Schema = options.pop("of", schema(person=None))
    rules = parameters(**{"delay_tuples": 500, **options})
    stream = replace(records(count, seed), general=np.zeros(count, np.bool_))
    joint = JointMachine(of, rules, seed=seed)
    joint.join(3)
    accepted, published = joint.offer(stream, 0)
    assert (accepted, published) == (count, [])
    return joint, stream


# --- plain twins


def leaf_cost(of: Schema, low: int, high: int) -> int:
    """What a range of leaves loses: the cost of the lowest node above it."""
    tree = of.categorical[0].hierarchy
    assert tree is not None
    node = low
    while tree.first_leaf[node] > low or tree.last_leaf[node] < high:
        node = int(tree.parents[node])
    return round(float(tree.loss()[node]) * GRID)


def plain_loss(of: Schema, low: list[int], high: list[int]) -> int:
    spans = sum(high[d] - low[d] for d in range(NUMERIC))
    return spans + leaf_cost(of, low[NUMERIC], high[NUMERIC])


def plain_enlargement(of: Schema, box: Box, code: list[int]) -> int:
    low, high = box.low.tolist(), box.high.tolist()
    wider_low = [min(a, b) for a, b in zip(low, code, strict=True)]
    wider_high = [max(a, b) for a, b in zip(high, code, strict=True)]
    return plain_loss(of, wider_low, wider_high) - plain_loss(of, low, high)


def held_positions(joint: JointMachine, slots: Any) -> list[int]:
    return [int(position) for position in joint.positions(slots)]


# --- growing


@pytest.mark.parametrize("steps", [1, 3, 8])
@pytest.mark.parametrize("tuples", [1, 2, 7, 30, 500])
def test_the_box_that_grows_encloses_the_record_and_as_many_as_were_wanted(
    tuples: int, steps: int
) -> None:
    joint, stream = machine()
    for position in (0, 17, 79):
        box, persons = joint.box_around(position, tuples, steps)
        assert persons == min(tuples, 80)
        code = stream.code[position]
        assert (box.low <= code).all()
        assert (code <= box.high).all()
        inside = ((box.low <= stream.code) & (stream.code <= box.high)).all(axis=1)
        assert inside.sum() >= persons


def test_a_box_that_grows_in_one_step_takes_the_nearest() -> None:
    joint, stream = machine()
    of = schema()
    for position in (3, 40):
        box, _ = joint.box_around(position, 10, 1)
        code = stream.code[position]
        start = Box(code, code)
        away = sorted(
            plain_enlargement(of, start, stream.code[other].tolist())
            for other in range(80)
            if other != position
        )
        # What is inside is at most as far away as the ninth of the others.
        nearest = [
            other
            for other in range(80)
            if other == position
            or plain_enlargement(of, start, stream.code[other].tolist()) < away[8]
        ]
        for other in nearest:
            assert (box.low <= stream.code[other]).all()
            assert (stream.code[other] <= box.high).all()


def test_a_box_of_few_persons_with_many_records_counts_the_persons() -> None:
    of = schema()
    joint = JointMachine(of, parameters(delay_tuples=500), seed=1)
    stream = replace(
        records(60, 2), person=np.arange(60, dtype=np.int64) % 4, general=np.zeros(60, np.bool_)
    )
    joint.offer(stream, 0)
    assert joint.box_around(0, 60, 8)[1] == 4


# --- ranking and holding


@pytest.mark.parametrize("seed", range(5))
def test_the_nearest_are_held_first_and_of_equals_the_oldest(seed: int) -> None:
    joint, stream = machine(seed=seed)
    of, draw = schema(), random.Random(seed)
    some = [draw.randrange(80) for _ in range(3)]
    box = Box(stream.code[some].min(axis=0), stream.code[some].max(axis=0))
    away = [plain_enlargement(of, box, code) for code in stream.code.tolist()]
    order = sorted(range(80), key=lambda position: (away[position], position))
    held = joint.hold_nearest(box, least=0, radius=RADIUS_ALL, persons=20)
    assert held_positions(joint, held.slots) == order[:20]
    assert (held.persons, held.spare) == (20, 60)


def test_nothing_beyond_the_radius_or_before_the_oldest_position_is_held() -> None:
    joint, stream = machine()
    of = schema()
    box = Box(stream.code[5], stream.code[5])
    radius = 20_000
    held = joint.hold_nearest(box, least=30, radius=radius, persons=80)
    away = [plain_enlargement(of, box, code) for code in stream.code.tolist()]
    expected = {p for p in range(30, 80) if away[p] <= radius << 8}
    assert set(held_positions(joint, held.slots)) == expected
    assert 0 < len(expected) < 50


def test_the_record_itself_is_held_first_even_where_it_is_older_than_may_be() -> None:
    joint, _ = machine()
    box = BoxCodec(schema()).decode(BoxCodec(schema()).encode(joint.box_around(2, 5, 8)[0]))
    held, radius = joint.hold_around(box, 2, least=40, persons=5, reach=1.5)
    positions = held_positions(joint, held.slots)
    assert positions[0] == 2
    assert all(position >= 40 for position in positions[1:])
    assert 1 <= radius <= RADIUS_ALL


def test_held_records_are_in_no_cluster_and_let_go_puts_them_back() -> None:
    joint, _ = machine()
    assert joint.free_records == 80
    held = joint.hold_nearest(EVERYWHERE, least=0, radius=RADIUS_ALL, persons=25)
    assert joint.free_records == 55
    assert all(joint.is_held(p) and not joint.is_free(p) for p in held_positions(joint, held.slots))
    sizes = [joint.cluster(slot)[0] for slot in joint.clusters_over(1).values()]
    assert sum(sizes) == 55
    again = joint.hold_nearest(EVERYWHERE, least=0, radius=RADIUS_ALL, persons=80)
    assert again.persons == 55
    joint.let_go(held.slots)
    joint.let_go(again.slots)
    assert joint.free_records == 80
    assert joint.undecided() == list(range(80))
    assert sum(joint.cluster(slot)[0] for slot in joint.clusters_over(1).values()) == 80


def test_all_records_of_a_person_that_rank_before_the_next_one_are_held() -> None:
    of = schema()
    joint = JointMachine(of, parameters(delay_tuples=500), seed=1)
    same = records(1, 4)
    stream = Records(
        code=np.repeat(same.code, 9, axis=0),
        raw=np.repeat(same.raw, 9, axis=0),
        person=np.array([1, 2, 1, 3, 3, 3, 4, 1, 5], np.int64),
        value=np.zeros(9, np.int64),
        general=np.zeros(9, np.bool_),
    )
    joint.offer(stream, 0)
    held = joint.hold_nearest(EVERYWHERE, least=0, radius=RADIUS_ALL, persons=3)
    assert held_positions(joint, held.slots) == [0, 1, 2, 3, 4, 5]
    assert (held.persons, held.spare) == (3, 2)


def test_a_new_value_is_found_where_there_is_one() -> None:
    joint, stream = machine()
    wanted = int(stream.value[33])

    def is_wanted(values: Any) -> Any:
        return values == wanted

    held = joint.hold_new_value(EVERYWHERE, least=0, radius=RADIUS_ALL, other_than=is_wanted)
    (position,) = held_positions(joint, held.slots)
    assert stream.value[position] == wanted
    nothing = joint.hold_new_value(
        EVERYWHERE, least=0, radius=RADIUS_ALL, other_than=lambda values: values < 0
    )
    assert (len(nothing.slots), nothing.persons) == (0, 0)


# --- reach and joint classes


@pytest.mark.parametrize("seed", range(8))
def test_a_joint_class_encloses_what_was_held_for_it_whatever_the_box(seed: int) -> None:
    joint, stream = machine(seed=seed)
    of, codec, draw = schema(), BoxCodec(schema()), random.Random(seed)
    tree = of.categorical[0].hierarchy
    assert tree is not None
    for _ in range(20):
        some = [draw.randrange(80) for _ in range(draw.randint(1, 4))]
        tight = Box(stream.code[some].min(axis=0), stream.code[some].max(axis=0))
        box = codec.decode(codec.encode(tight))
        held = joint.hold_nearest(box, least=0, radius=RADIUS_ALL, persons=draw.randint(3, 40))
        covered, stray, reach = joint.reach(held.slots, box)
        assert len(stray) == 0
        made = joint.joint_class(7, box, reach)
        for position in held_positions(joint, covered):
            raw, leaf = stream.raw[position], int(stream.code[position, NUMERIC])
            assert (made.low <= raw).all()
            assert (raw <= made.high).all()
            assert tree.first_leaf[made.node[0]] <= leaf <= tree.last_leaf[made.node[0]]
        assert (made.code_low <= box.low).all()
        assert (box.high <= made.code_high).all()
        for place, attribute in enumerate(of.numeric):
            assert attribute.domain is not None
            assert attribute.domain[0] <= made.low[place] <= made.high[place]
            assert made.high[place] <= attribute.domain[1]
        joint.let_go(held.slots)


def test_the_larger_of_two_reaches_encloses_what_either_does() -> None:
    joint, stream = machine()
    box = Box(stream.code[0], stream.code[0])
    one = joint.hold_nearest(box, least=0, radius=RADIUS_ALL, persons=10)
    other = joint.hold_nearest(box, least=0, radius=RADIUS_ALL, persons=30)
    reaches = [joint.reach(each.slots, box)[2] for each in (one, other)]
    numbers = [np.frombuffer(_dense(each), np.uint8) for each in reaches]
    both = np.maximum(*numbers)
    made = joint.joint_class(7, box, _packed(both))
    for position in held_positions(joint, np.concatenate([one.slots, other.slots])):
        assert (made.low <= stream.raw[position]).all()
        assert (stream.raw[position] <= made.high).all()


def _dense(reach: bytes) -> bytes:
    return unpack_sparse(reach, 2 * NUMERIC + 1).tobytes()


def _packed(numbers: Any) -> bytes:
    return pack_sparse(numbers)


def test_two_machines_derive_the_same_class_from_a_box_and_a_reach() -> None:
    one, stream = machine(seed=1)
    other, _ = machine(seed=2)
    box = Box(stream.code[0], stream.code[0])
    held = one.hold_nearest(box, least=0, radius=RADIUS_ALL, persons=30)
    reach = one.reach(held.slots, box)[2]
    first, second = one.joint_class(9, box, reach), other.joint_class(9, box, reach)
    assert first.low.tobytes() == second.low.tobytes()
    assert first.high.tobytes() == second.high.tobytes()
    assert first.node.tolist() == second.node.tolist()


@pytest.mark.parametrize("bounds", [b"", b"x" * 36, bytes(35), b"\xff" * 36])
def test_bounds_that_are_none_are_not_learned(bounds: bytes) -> None:
    joint, _ = machine()
    with pytest.raises(ValueError, match="bounds"):
        joint.learn(5, bounds)


# --- the stream


def test_a_record_comes_due_so_many_arrivals_before_its_deadline_and_stops_the_stream() -> None:
    rules: Parameters = parameters(delay_tuples=50)
    joint = JointMachine(schema(person=None), rules, seed=1)
    joint.join(0)
    joint.lead = 20
    stream = replace(records(200, 1), general=np.zeros(200, np.bool_))
    accepted, _ = joint.offer(stream, 0)
    due = joint.due
    assert due is not None
    assert (due.position, due.overdue) == (0, False)
    assert accepted == 50 - 20 + 1
    assert joint.deadline(0) == 20
    # The next offer goes on with the next one: the first is its owner's business now.
    joint.offer(records_slice(stream, accepted, 200), 0)
    assert joint.due is not None
    assert joint.due.position == 1


def test_an_overdue_record_stops_the_stream_until_it_is_decided() -> None:
    joint = JointMachine(schema(person=None), parameters(delay_tuples=50), seed=1)
    joint.join(0)
    stream = replace(records(200, 1), general=np.zeros(200, np.bool_))
    accepted = 0
    while joint.due is None or not joint.due.overdue:
        accepted += joint.offer(records_slice(stream, accepted, 200), 0)[0]
    assert joint.due.position == accepted - 51
    for _ in range(3):
        assert joint.offer(records_slice(stream, accepted, 200), 0)[0] == 0
    overdue = joint.due.position
    joint.decide(overdue)
    joint.offer(records_slice(stream, accepted, 200), 0)
    assert joint.due is None or joint.due.position > overdue


def test_ids_are_those_of_the_site_and_never_come_again() -> None:
    joint, _ = machine()
    numbers = [joint.next_id() for _ in range(5)]
    joint.join(3)
    numbers += [joint.next_id() for _ in range(5)]
    assert len(set(numbers)) == 10
    assert numbers == sorted(numbers)
    assert {number % SITES_MAX for number in numbers} == {3}


def outcomes(effects: list[Publish], into: Counter[int]) -> None:
    for effect in effects:
        into.update(effect.position.tolist())


@pytest.mark.parametrize("seed", range(12))
def test_every_record_ends_with_exactly_one_outcome_whatever_is_held_and_let_go(seed: int) -> None:
    draw = random.Random(seed)
    of = schema(person=draw.choice(("pid", None)))
    delay = draw.choice((6, 25, 60))
    rules = parameters(k=draw.choice((2, 6)), delay_tuples=delay, beta=draw.choice((1, 6)))
    joint = JointMachine(of, rules, seed=seed)
    joint.join(1)
    joint.lead = draw.randint(1, delay)
    stream = records(400, seed, persons=draw.choice((30, 10**6)))
    found: Counter[int] = Counter()
    held: list[tuple[Box, Any]] = []
    accepted = 0
    while accepted < 400:
        upto = min(400, accepted + draw.randint(1, 15))
        count, effects = joint.offer(records_slice(stream, accepted, upto), 0)
        accepted += count
        outcomes(effects, found)
        due = joint.due
        if due is not None and due.overdue:
            for each in [each for each in held if due.position in joint.positions(each[1])]:
                held.remove(each)
                joint.let_go(each[1])
            outcomes(joint.decide(due.position), found)
        at = draw.randrange(accepted) if accepted else 0
        box = Box(stream.code[at], stream.code[at])
        if draw.random() < 0.5:
            slots = joint.hold_nearest(
                box, least=0, radius=draw.choice((5_000, RADIUS_ALL)), persons=draw.randint(1, 9)
            ).slots
            if len(slots):
                held.append((box, slots))
        if held and draw.random() < 0.6:
            box, slots = held.pop(draw.randrange(len(held)))
            if draw.random() < 0.5:
                joint.let_go(slots)
            else:
                covered, stray, reach = joint.reach(slots, box)
                joint.let_go(stray)
                made = joint.joint_class(joint.next_id(), box, reach)
                outcomes(joint.publish(made, covered), found)
        assert all(count == 1 for count in found.values())
        assert set(range(accepted - delay - 1)) <= set(found)
    for _, slots in held:
        joint.let_go(slots)
    for position in joint.undecided():
        if joint.is_free(position):
            outcomes(joint.decide(position), found)
    outcomes(joint.empty_line(), found)
    assert not joint.has_undecided
    assert found == Counter(range(400))
