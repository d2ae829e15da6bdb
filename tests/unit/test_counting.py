"""What the relay counts when it unites votes or parts."""

from __future__ import annotations

import numpy as np
import pytest

from core.tokens import TokenKey, encode_bitmap, encode_set
from relay_server.counting import VALUES_MAX, Union
from relay_server.pb import exchange_pb2 as pb

KEY = TokenKey(bytes(32))
BITS = 20


def tokens(*people: int) -> pb.Persons:
    found = KEY.persons(1, np.array(people, np.int64), BITS)
    return pb.Persons(count=len(found), tokens=encode_set(found, BITS))


def bitmap(*leaves: int) -> bytes:
    return encode_bitmap(np.array(leaves, np.int64), 100)


def value_tokens(*values: int) -> bytes:
    return encode_set(KEY.values(1, np.array(values, np.int64), BITS), BITS)


def union(*, disjoint: bool = False, values_as_tokens: bool = False) -> Union:
    return Union(disjoint, values_as_tokens, BITS, BITS)


def counted(of: Union) -> tuple[int, int]:
    return of.persons, of.values


def test_nothing_is_nobody() -> None:
    assert counted(union()) == (0, 0)


def test_a_person_at_two_sites_is_one_person() -> None:
    both = union()
    both.add(tokens(1, 2, 3), bitmap(0))
    both.add(tokens(3, 4), bitmap(0))
    assert counted(both) == (4, 1)


def test_a_value_at_two_sites_is_one_value() -> None:
    both = union()
    both.add(tokens(1), bitmap(5, 70))
    both.add(tokens(2), bitmap(5))
    assert counted(both) == (2, 2)


def test_values_as_tokens_are_united_too() -> None:
    both = union(values_as_tokens=True)
    both.add(tokens(1), value_tokens(-5, 70))
    both.add(tokens(2), value_tokens(70, 71))
    assert counted(both) == (2, 3)


def test_the_same_set_twice_changes_nothing() -> None:
    twice = union()
    for _ in range(2):
        twice.add(tokens(1, 2), bitmap(5))
    assert counted(twice) == (2, 1)


def test_disjoint_persons_are_added_up() -> None:
    both = union(disjoint=True)
    both.add(pb.Persons(count=3), bitmap(1))
    both.add(pb.Persons(count=4), bitmap(2))
    assert counted(both) == (7, 2)


def test_disjoint_numbers_of_one_site_may_be_the_same_persons() -> None:
    one = union(disjoint=True)
    for count in (3, 4, 2):
        one.add(pb.Persons(count=count), b"", site=8)
    one.add(pb.Persons(count=1), b"", site=9)
    assert one.persons == 4 + 1


def test_no_persons_and_no_values_may_be_told() -> None:
    for disjoint in (False, True):
        for values_as_tokens in (False, True):
            nobody = union(disjoint=disjoint, values_as_tokens=values_as_tokens)
            nobody.add(pb.Persons(), b"")
            assert counted(nobody) == (0, 0)


@pytest.mark.parametrize(
    ("persons", "reason"),
    [
        (pb.Persons(count=3), "3 persons with 0 tokens"),
        (pb.Persons(count=3, tokens=tokens(1, 2).tokens), "3 persons with 2 tokens"),
        (pb.Persons(count=1, tokens=tokens(1, 2).tokens), "2 tokens, where 1 to 1"),
        (pb.Persons(tokens=tokens(1).tokens), "1 tokens, where 1 to 0"),
        (pb.Persons(count=2, tokens=tokens(1, 2).tokens[:-1]), "cut short"),
        (pb.Persons(count=2, tokens=b"\xff" * 9), "number"),
    ],
)
def test_persons_that_are_not_their_tokens_are_malformed(persons: pb.Persons, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        union().add(persons, b"")


def test_tokens_where_persons_are_disjoint_are_malformed() -> None:
    with pytest.raises(ValueError, match="disjoint"):
        union(disjoint=True).add(tokens(1), b"")


@pytest.mark.parametrize(
    ("values", "values_as_tokens", "reason"),
    [
        (b"\x01\x00", False, "zero byte"),
        (bytes(VALUES_MAX // 8) + b"\x01", False, "a bitmap of"),
        (b"\x00", True, "a set of 0 tokens"),
        (value_tokens(1) + b"\x00", True, "followed"),
    ],
)
def test_values_that_no_site_wrote_are_malformed(
    values: bytes, values_as_tokens: bool, reason: str
) -> None:
    with pytest.raises(ValueError, match=reason):
        union(values_as_tokens=values_as_tokens).add(tokens(1), values)


@pytest.mark.parametrize("values_as_tokens", [False, True])
def test_what_is_malformed_changes_nothing(values_as_tokens: bool) -> None:
    kept = union(values_as_tokens=values_as_tokens)
    good = value_tokens(1) if values_as_tokens else bitmap(1)
    more = value_tokens(2) if values_as_tokens else bitmap(2)
    kept.add(tokens(1, 2), good)
    with pytest.raises(ValueError, match=r"zero byte|a set of 0 tokens"):
        kept.add(tokens(3, 4), b"\x00")
    with pytest.raises(ValueError, match="9 persons with 0 tokens"):
        kept.add(pb.Persons(count=9), more)
    assert counted(kept) == (2, 1)
