"""What boxes, reaches, small numbers and frames look like on the wire."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.boxes import POINTS, Box, BoxCodec, pack_sparse, unpack_sparse
from core.hierarchy import flat
from core.kernels.layout import GRID
from core.line import FRAMES_KEPT_MAX, Line
from core.schema import Attribute, Kind, Role, Schema
from core.varint import decode_numbers, encode_numbers
from tests.exchange_pump import LEAVES, schema

MANY_LEAVES = 1_000
LASTS = (GRID, GRID, LEAVES - 1, MANY_LEAVES - 1, 0)


def wide_schema() -> Schema:
    """Two numeric attributes, a tree, a thousand leaves, and a single leaf."""
    role, kind = Role.QUASI_IDENTIFIER, Kind.CATEGORICAL
    many = flat(f"v{number:04}" for number in range(MANY_LEAVES))
    return Schema(
        attributes=(
            *schema().quasi_identifiers,
            Attribute(name="many", role=role, kind=kind, hierarchy=many),
            Attribute(name="one", role=role, kind=kind, hierarchy=flat(["only"])),
        )
    )


CODEC = BoxCodec(wide_schema())


@st.composite
def boxes(draw: st.DrawFn) -> Box:
    ends = [sorted(draw(st.tuples(*[st.integers(0, last)] * 2))) for last in LASTS]
    low, high = np.array(ends, np.int32).T
    return Box(low.copy(), high.copy())


# --- boxes


@given(boxes())
def test_a_box_that_has_travelled_encloses_the_one_that_was_sent(box: Box) -> None:
    data = CODEC.encode(box)
    assert len(data) == CODEC.bytes_per_box == 10
    arrived = CODEC.decode(data)
    # Coordinates of numbers are rounded themselves: one of them is no distance.
    slack = np.array([1, 1, 0, 0, 0])
    assert (arrived.low <= box.low + slack).all()
    assert (arrived.high >= box.high - slack).all()


@given(boxes())
def test_a_box_grows_by_less_than_two_points_of_the_grid(box: Box) -> None:
    arrived = CODEC.decode(CODEC.encode(box))
    steps = np.array([last // min(POINTS, max(1, last)) + 1 for last in LASTS])
    assert (box.low - arrived.low <= 2 * steps).all()
    assert (arrived.high - box.high <= 2 * steps).all()


@given(boxes())
def test_up_to_256_leaves_travel_exactly(box: Box) -> None:
    arrived = CODEC.decode(CODEC.encode(box))
    assert arrived.low[2] == box.low[2]
    assert arrived.high[2] == box.high[2]


@given(st.integers(0, 200), st.integers(0, 200))
def test_whole_numbers_of_a_narrow_domain_travel_exactly(one: int, other: int) -> None:
    # The weight's domain is 200 wide.
    low, high = sorted((one, other))
    codes = [np.array([0, round(end * GRID / 200), 0, 0, 0], np.int32) for end in (low, high)]
    arrived = CODEC.decode(CODEC.encode(Box(*codes)))
    assert round(float(arrived.low[1]) / GRID * 200, 4) == low
    assert round(float(arrived.high[1]) / GRID * 200, 4) == high


def test_the_ends_of_the_domain_are_points_of_the_grid() -> None:
    whole = Box(np.zeros(5, np.int32), np.array(LASTS, np.int32))
    arrived = CODEC.decode(CODEC.encode(whole))
    assert arrived.low.tolist() == [0] * 5
    assert arrived.high.tolist() == list(LASTS)


@given(st.binary(max_size=24))
def test_any_bytes_are_a_box_or_a_value_error(data: bytes) -> None:
    try:
        box = CODEC.decode(data)
    except ValueError:
        return
    assert len(data) == 10
    assert (box.low <= box.high).all()
    assert (box.low >= 0).all()
    assert (box.high <= np.array(LASTS)).all()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        bytes(9),
        bytes(11),
        bytes([9, 3, *[0] * 8]),  # ends out of order
        bytes([0, 0, 0, 0, 0, LEAVES, 0, 0, 0, 0]),  # a leaf that is none
        bytes([0] * 9 + [1]),
    ],
)
def test_wrong_bytes_are_no_box(data: bytes) -> None:
    with pytest.raises(ValueError, match="a box has"):
        CODEC.decode(data)


@given(boxes())
def test_the_node_of_a_range_is_the_lowest_that_covers_it(box: Box) -> None:
    for place, node in enumerate(CODEC.nodes(box).tolist()):
        tree = wide_schema().categorical[place].hierarchy
        assert tree is not None
        low, high = int(box.low[2 + place]), int(box.high[2 + place])
        covering = [
            each
            for each in range(len(tree.names))
            if tree.first_leaf[each] <= low and high <= tree.last_leaf[each]
        ]
        widths = {each: tree.last_leaf[each] - tree.first_leaf[each] for each in covering}
        assert node in covering
        assert widths[node] == min(widths.values())


# --- reaches


@given(st.lists(st.integers(0, 255), max_size=40))
def test_a_reach_comes_back_as_it_was(numbers: list[int]) -> None:
    data = pack_sparse(np.array(numbers, np.uint8))
    assert unpack_sparse(data, len(numbers)).tolist() == numbers
    assert (data == b"") == (not any(numbers))


@given(st.binary(max_size=30), st.integers(0, 40))
def test_any_bytes_are_one_reach_or_a_value_error(data: bytes, length: int) -> None:
    try:
        numbers = unpack_sparse(data, length)
    except ValueError:
        return
    assert len(numbers) == length
    assert pack_sparse(numbers) == data or not numbers.any()


@pytest.mark.parametrize("data", [b"\x80", b"\x80\x00", b"\x80\x01\x02", b"\x10\x01", b"\xff" * 9])
def test_wrong_bytes_are_no_reach(data: bytes) -> None:
    with pytest.raises(ValueError, match="reaches"):
        unpack_sparse(data, 3)


# --- small numbers


@given(st.lists(st.integers(0, 2**63 - 1), max_size=20))
def test_small_numbers_come_back_as_they_were(numbers: list[int]) -> None:
    assert decode_numbers(encode_numbers(numbers), 20, 2**63 - 1) == numbers


@given(st.binary(max_size=30), st.integers(0, 10), st.integers(0, 1_000))
def test_any_bytes_are_small_numbers_within_bounds_or_a_value_error(
    data: bytes, count: int, most: int
) -> None:
    try:
        numbers = decode_numbers(data, count, most)
    except ValueError:
        return
    assert len(numbers) <= count
    assert all(0 <= number <= most for number in numbers)


@pytest.mark.parametrize("data", [b"\x80", b"\x01\x01\x01", b"\x7f", b"\x80" * 30])
def test_wrong_bytes_are_no_small_numbers(data: bytes) -> None:
    with pytest.raises(ValueError, match="number"):
        decode_numbers(data, 2, 100)


# --- frames


def heard(line: Line[str], sequence: int, acknowledged: int = 0) -> bool:
    return line.hear(sequence, acknowledged, has_messages=True)


def test_frames_are_taken_in_order_and_those_that_come_again_or_too_early_are_ignored() -> None:
    line: Line[str] = Line()
    assert [heard(line, number) for number in (1, 1, 3, 2, 3, 2)] == [
        True,
        False,
        False,
        True,
        True,
        False,
    ]
    assert (line.heard, line.ignored) == (3, 3)


def test_a_frame_without_a_number_is_the_next_one() -> None:
    line: Line[str] = Line()
    assert all(heard(line, 0) for _ in range(3))
    assert line.heard == 3
    assert heard(line, 4)


def test_a_frame_is_kept_until_it_is_acknowledged_and_can_be_sent_again() -> None:
    line: Line[str] = Line()
    for word in ("a", "b", "c"):
        assert not line.has_news
        line.say(word)
        assert line.has_news
        line.next_frame()
    assert list(line.kept()) == [(1, ["a"]), (2, ["b"]), (3, ["c"])]
    heard(line, 1, acknowledged=2)
    assert list(line.kept()) == [(3, ["c"])]
    assert not line.hear(0, 1, has_messages=False), "an old acknowledgement takes nothing back"
    assert list(line.kept()) == [(3, ["c"])]


def test_a_bare_acknowledgement_is_not_a_frame() -> None:
    line: Line[str] = Line()
    line.say("a")
    line.next_frame()
    assert not line.hear(0, 1, has_messages=False)
    assert (line.heard, line.ignored, list(line.kept())) == (0, 0, [])


def test_what_is_said_together_travels_in_one_frame() -> None:
    line: Line[str] = Line()
    line.say("a")
    line.say("b")
    assert line.next_frame() == (1, ["a", "b"])
    assert line.next_frame() == (2, [])


def test_a_line_that_is_not_acknowledged_is_full_at_last() -> None:
    line: Line[str] = Line()
    for _ in range(FRAMES_KEPT_MAX):
        assert not line.is_full
        line.next_frame()
    assert line.is_full
    line.hear(0, 1, has_messages=False)
    assert not line.is_full


@given(st.lists(st.integers(0, 5), max_size=60), st.randoms(use_true_random=False))
def test_two_lines_over_a_bad_wire_hear_everything_once_and_in_order(
    turns: list[int], chance: object
) -> None:
    here: Line[int] = Line()
    there: Line[int] = Line()
    wire: list[tuple[int, list[int]]] = []
    got: list[int] = []
    said = 0
    for turn in turns:
        if turn <= 1:
            here.say(said)
            said += 1
            wire.append(here.next_frame())
        elif turn == 2 and wire:
            wire.pop(0)  # lost
        elif turn == 3:
            wire += list(here.kept())
        elif turn == 4 and wire:
            wire.append(wire[0])  # comes twice
        elif wire:
            sequence, messages = wire.pop(chance.randrange(len(wire)))  # type: ignore[attr-defined]
            if there.hear(sequence, 0, has_messages=True):
                got += messages
            here.hear(0, there.heard, has_messages=False)
    for sequence, messages in list(here.kept()):
        if there.hear(sequence, 0, has_messages=True):
            got += messages
    assert got == list(range(said))
