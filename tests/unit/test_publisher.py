"""The publisher: nothing short of k or l is shown, and nothing is lost."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import relay_server.publisher
from core.errors import PrivacyBreachError
from core.tokens import TokenKey, encode_bitmap, encode_set, range_bits
from relay_server.counting import Union
from relay_server.pb import exchange_pb2 as pb
from relay_server.publisher import Effect, Publisher, RefusedPart, Visible

REPOSITORY = Path(__file__).resolve().parents[2]
KEY = TokenKey(bytes(32))
K, L = 5, 2
BOX = b"box"


def publisher(**options: Any) -> Publisher:
    return Publisher(**{"k": K, "l": L, "disjoint": False, "values_as_tokens": False, **options})


def persons(people: range, class_id: int) -> pb.Persons:
    bits = range_bits(K)
    found = KEY.persons(class_id, np.array(people, np.int64), bits)
    return pb.Persons(count=len(found), tokens=encode_set(found, bits))


def values(*leaves: int) -> bytes:
    return encode_bitmap(np.array(leaves, np.int64), 64)


def part(
    people: range,
    *leaves: int,
    class_id: int = 1,
    bounds: bytes = BOX,
    payload: bytes = b"",
    records: int | None = None,
) -> pb.Part:
    return pb.Part(
        class_id=class_id,
        bounds=bounds,
        records=len(people) if records is None else records,
        persons=persons(people, class_id),
        values=values(*leaves),
        payload=payload,
    )


def voted(records: int, *, class_id: int = 1, bounds: bytes = BOX, payload: bytes = b"") -> pb.Part:
    return pb.Part(class_id=class_id, bounds=bounds, records=records, voted=True, payload=payload)


def vote(people: range, *leaves: int, class_id: int = 1) -> tuple[pb.Persons, bytes]:
    return persons(people, class_id), values(*leaves)


def step(to: Publisher, site: int, *parts: pb.Part) -> list[Effect]:
    return to.step(site, pb.Publication(parts=parts))


def suppressed(site: int, records: int, payload: bytes = b"") -> Visible:
    return Visible(None, b"", site, records, payload)


def shown(site: int, records: int, payload: bytes = b"", class_id: int = 1) -> Visible:
    return Visible(class_id, BOX, site, records, payload)


# --- classes


def test_a_class_with_k_persons_and_l_values_is_visible_at_once() -> None:
    assert step(publisher(), 3, part(range(5), 0, 1, payload=b"x")) == [shown(3, 5, b"x")]


def test_a_class_that_is_one_person_short_is_held() -> None:
    held = publisher()
    assert step(held, 0, part(range(4), 0, 1)) == []
    assert held.statistics.held_records == 4
    assert held.statistics.held_classes == 1


def test_a_class_that_is_one_value_short_is_held() -> None:
    assert step(publisher(), 0, part(range(9), 1)) == []


def test_records_of_one_person_do_not_make_k_persons() -> None:
    assert step(publisher(), 0, part(range(1), 0, 1, records=100)) == []


def test_a_person_who_is_at_two_sites_is_counted_once() -> None:
    held = publisher()
    assert step(held, 0, part(range(4), 0, 1)) == []
    assert step(held, 1, part(range(4), 0, 1)) == []
    assert step(held, 2, part(range(3, 5), 0)) != []


def test_what_was_held_comes_out_at_once_in_the_order_of_arrival() -> None:
    held = publisher()
    step(held, 2, part(range(2), 0, payload=b"a"))
    step(held, 0, part(range(2, 4), 1, payload=b"b"))
    assert step(held, 1, part(range(4, 7), 0, payload=b"c")) == [
        shown(2, 2, b"a"),
        shown(0, 2, b"b"),
        shown(1, 3, b"c"),
    ]
    assert held.statistics.held_records == 0


def test_a_later_part_of_a_visible_class_passes_at_once() -> None:
    reused = publisher()
    step(reused, 0, part(range(5), 0, 1))
    assert step(reused, 1, part(range(1), 0, payload=b"r")) == [shown(1, 1, b"r")]
    untold = pb.Part(class_id=1, bounds=BOX, records=2)
    assert step(reused, 1, untold) == [shown(1, 2)]


def test_a_class_with_other_bounds_is_another_class() -> None:
    held = publisher()
    step(held, 0, part(range(5), 0, 1))
    assert step(held, 1, part(range(3), 0, 1, bounds=b"other")) == []
    assert step(held, 1, part(range(3, 5), 0, 1, bounds=b"other")) != []


def test_a_class_with_another_id_is_another_class() -> None:
    held = publisher()
    step(held, 0, part(range(4), 0, 1))
    assert step(held, 1, part(range(4, 8), 0, 1, class_id=2)) == []


def test_the_class_zero_is_a_class() -> None:
    effects = step(publisher(), 0, part(range(5), 0, 1, class_id=0))
    assert effects == [shown(0, 5, class_id=0)]


def test_suppressed_records_pass_at_once() -> None:
    passing = publisher()
    assert step(passing, 4, pb.Part(suppressed=True, records=2, payload=b"s")) == [
        suppressed(4, 2, b"s")
    ]
    assert passing.statistics.suppressed_by_sites == 2


def test_with_l_of_one_values_need_not_be_told() -> None:
    assert step(publisher(l=1), 0, part(range(5))) == [shown(0, 5)]


def test_disjoint_persons_of_two_sites_are_added_up() -> None:
    held = publisher(disjoint=True)
    told = pb.Part(class_id=1, bounds=BOX, records=3, persons=pb.Persons(count=3), values=b"\x03")
    assert step(held, 0, told) == []
    assert step(held, 1, told) == [shown(0, 3), shown(1, 3)]


def test_disjoint_persons_in_two_parts_of_one_site_may_be_the_same() -> None:
    held = publisher(disjoint=True)
    told = pb.Part(class_id=1, bounds=BOX, records=3, persons=pb.Persons(count=3), values=b"\x03")
    assert step(held, 0, told, told, told) == []
    assert held.finish() == [suppressed(0, 3)] * 3


def test_values_as_tokens_are_counted() -> None:
    def told(people: range, value: int) -> pb.Part:
        tokens = KEY.values(1, np.array([value], np.int64), range_bits(L))
        made = part(people)
        made.values = encode_set(tokens, range_bits(L))
        return made

    held = publisher(values_as_tokens=True)
    assert step(held, 0, told(range(5), 10)) == []
    assert step(held, 1, told(range(5), 10)) == []
    assert len(step(held, 2, told(range(5), 12))) == 3


@pytest.mark.parametrize(("k", "l"), [(0, 1), (1, 0), (-5, 2)])
def test_a_publisher_that_would_show_everything_is_refused(k: int, l: int) -> None:
    with pytest.raises(ValueError, match=f"k={k} and l={l}"):
        publisher(k=k, l=l)


# --- joint classes


def joint(votes: Mapping[int, tuple[pb.Persons, bytes]], bounds: bytes | None = None) -> Publisher:
    made = publisher()
    made.expect(1, bounds, votes)
    return made


THREE = {0: vote(range(3), 0), 1: vote(range(2, 5), 1), 2: vote(range(5, 7), 0)}


def test_a_vote_alone_shows_nothing() -> None:
    assert joint(THREE).finish() == []


def test_a_voted_part_counts_as_its_sites_vote() -> None:
    made = joint(THREE)
    assert step(made, 0, voted(4, payload=b"a")) == []
    assert step(made, 1, voted(3, payload=b"b")) == [shown(0, 4, b"a"), shown(1, 3, b"b")]
    assert step(made, 2, voted(2, payload=b"c")) == [shown(2, 2, b"c")]


def test_a_joint_class_waits_for_a_participant_that_may_still_come() -> None:
    made = joint(THREE)
    assert step(made, 0, voted(3)) == []
    assert made.withdraw(1, 2) == []
    assert step(made, 1, voted(3)) == [shown(0, 3), shown(1, 3)]


def test_a_joint_class_is_suppressed_as_soon_as_it_cannot_get_there() -> None:
    made = joint(THREE)
    step(made, 0, voted(3, payload=b"a"))
    assert made.withdraw(1, 1) == []
    assert step(made, 2, voted(2, payload=b"c")) == [suppressed(0, 3, b"a"), suppressed(2, 2, b"c")]
    assert made.statistics.suppressed_here == 5


def test_a_withdrawal_after_the_others_arrived_suppresses_at_once() -> None:
    made = joint({0: vote(range(3), 0), 1: vote(range(3, 6), 1)})
    step(made, 0, voted(3))
    assert made.withdraw(1, 1) == [suppressed(0, 3)]


def test_a_withdrawal_after_the_class_became_visible_changes_nothing() -> None:
    made = joint(THREE)
    step(made, 0, voted(3))
    step(made, 1, voted(3))
    assert made.withdraw(1, 2) == []
    assert step(made, 7, part(range(1), 0)) == [shown(7, 1)]


def test_a_withdrawal_of_what_was_never_voted_changes_nothing() -> None:
    made = joint(THREE)
    assert made.withdraw(1, 9) == []
    assert made.withdraw(2, 0) == []


def test_reuse_of_a_class_that_is_suppressed_is_suppressed_before_and_after() -> None:
    made = joint({0: vote(range(3), 0), 1: vote(range(3, 6), 1)})
    assert step(made, 5, part(range(10, 11), 0, payload=b"early")) == []
    step(made, 0, voted(3))
    assert made.withdraw(1, 1) == [suppressed(5, 1, b"early"), suppressed(0, 3)]
    assert step(made, 6, part(range(20), 0, 1, payload=b"late")) == [suppressed(6, 20, b"late")]


def test_reuse_of_a_class_that_all_withdrew_from_is_suppressed() -> None:
    made = joint({0: vote(range(3), 0), 1: vote(range(3, 6), 1)})
    made.withdraw(1, 0)
    made.withdraw(1, 1)
    assert step(made, 6, part(range(2), 0, 1)) == [suppressed(6, 2)]


def test_reuse_counts_towards_a_joint_class() -> None:
    made = joint({0: vote(range(3), 0), 1: vote(range(3, 6), 1)})
    step(made, 0, voted(3))
    assert step(made, 5, part(range(10, 12), 1)) == [shown(0, 3), shown(5, 2)]


def test_a_lost_site_takes_all_of_its_votes_with_it() -> None:
    made = publisher()
    for class_id in (1, 2, 3):
        votes = {
            0: vote(range(3), 0, class_id=class_id),
            class_id: vote(range(3, 6), 1, class_id=class_id),
        }
        made.expect(class_id, None, votes)
        step(made, 0, voted(3, class_id=class_id, payload=bytes((class_id,))))
    assert made.lost(2) == [suppressed(0, 3, b"\x02")]
    assert made.statistics.held_records == 6


def test_a_vote_that_falls_short_in_the_end_is_suppressed() -> None:
    made = joint({0: vote(range(2), 0), 1: vote(range(2, 4), 1)})
    step(made, 0, voted(2))
    assert step(made, 1, voted(2)) == [suppressed(0, 2), suppressed(1, 2)]


def test_voted_parts_with_different_bounds_are_different_classes() -> None:
    made = joint({0: vote(range(3), 0), 1: vote(range(3, 6), 1)})
    assert step(made, 0, voted(3, bounds=b"one")) == []
    assert step(made, 1, voted(3, bounds=b"two")) == [suppressed(0, 3), suppressed(1, 3)]


@pytest.mark.parametrize(
    ("votes", "reason"),
    [
        ({}, "of no site"),
        ({0: (pb.Persons(count=3), b"")}, "3 persons with 0 tokens"),
        ({0: (pb.Persons(), b"\x00")}, "zero byte"),
    ],
)
def test_votes_that_cannot_be_are_not_expected(
    votes: Mapping[int, tuple[pb.Persons, bytes]], reason: str
) -> None:
    made = publisher()
    with pytest.raises(ValueError, match=reason):
        made.expect(1, None, votes)
    made.expect(1, None, THREE)
    with pytest.raises(ValueError, match="class 1 is expected already"):
        made.expect(1, None, THREE)


# --- malformed parts


GOOD = part(range(5), 0, 1)


def spoiled(**fields: Any) -> pb.Part:
    made = pb.Part()
    made.CopyFrom(GOOD)
    for name, value in fields.items():
        if name == "persons":
            made.persons.CopyFrom(value)
        else:
            setattr(made, name, value)
    return made


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (spoiled(suppressed=True), "suppressed and in class 1"),
        (pb.Part(suppressed=True, records=1, bounds=BOX), "suppressed and in class 0"),
        (pb.Part(suppressed=True, records=1, voted=True), "suppressed and in class 0"),
        (spoiled(bounds=b""), "0 bytes of bounds"),
        (spoiled(bounds=bytes(5000)), "5000 bytes of bounds"),
        (spoiled(voted=True), "persons of its own"),
        (voted(3), "no vote is expected"),
        (spoiled(persons=pb.Persons(count=5)), "5 persons with 0 tokens"),
        (spoiled(persons=pb.Persons(count=6, tokens=GOOD.persons.tokens)), "6 persons with 5"),
        (spoiled(persons=pb.Persons(count=5, tokens=b"\x05\xff")), "cut short"),
        (spoiled(values=b"\x01\x00"), "zero byte"),
        (spoiled(records=4), "5 persons and 2 values in 4 records"),
        (part(range(2), 0, 1, 2), "2 persons and 3 values in 2 records"),
    ],
)
def test_a_malformed_part_is_refused_and_its_records_come_out_suppressed(
    bad: pb.Part, reason: str
) -> None:
    refusing = publisher()
    bad.payload = b"p"
    refused, out = step(refusing, 7, bad)
    assert isinstance(refused, RefusedPart)
    assert refused.site == 7
    assert reason in refused.reason
    assert out == suppressed(7, bad.records, b"p")
    assert refusing.statistics.refused_parts == 1
    assert refusing.statistics.suppressed_here == bad.records
    assert refusing.finish() == []


def test_a_part_without_records_is_refused_and_nothing_comes_out() -> None:
    (refused,) = step(publisher(), 7, pb.Part(class_id=1, bounds=BOX))
    assert isinstance(refused, RefusedPart)
    assert "without records" in refused.reason


def test_a_refused_part_does_not_count() -> None:
    made = publisher()
    step(made, 0, part(range(4), 0, 1))
    step(made, 0, part(range(4, 9), 0, 1, records=2))
    assert made.finish() == [suppressed(0, 4)]


def test_the_other_parts_of_a_publication_are_taken_in() -> None:
    effects = step(publisher(), 0, part(range(4), 0, 1), voted(9), part(range(4, 6), 0))
    assert [type(effect) for effect in effects] == [RefusedPart, Visible, Visible, Visible]
    assert effects[1:] == [suppressed(0, 9), shown(0, 4), shown(0, 2)]


def test_a_vote_arrives_once() -> None:
    made = joint(THREE)
    step(made, 0, voted(3))
    refused, _ = step(made, 0, voted(3))
    assert isinstance(refused, RefusedPart)


def test_a_withdrawn_vote_does_not_arrive() -> None:
    made = joint(THREE)
    made.withdraw(1, 0)
    refused, out = step(made, 0, voted(3))
    assert isinstance(refused, RefusedPart)
    assert out == suppressed(0, 3)


def test_a_vote_with_fewer_records_than_persons_is_refused() -> None:
    refused, _ = step(joint(THREE), 0, voted(2))
    assert isinstance(refused, RefusedPart)
    assert "3 persons" in refused.reason


def test_a_vote_with_other_bounds_than_agreed_is_refused() -> None:
    made = joint(THREE, BOX)
    refused, _ = step(made, 0, voted(3, bounds=b"other"))
    assert isinstance(refused, RefusedPart)
    assert step(made, 0, voted(3)) == []


# --- bounds


def test_when_too_many_classes_are_held_the_oldest_comes_out_suppressed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(relay_server.publisher, "CLASSES_HELD_MAX", 2)
    full = publisher()
    for class_id in (1, 2):
        assert step(full, 0, part(range(3), 0, class_id=class_id, payload=bytes((class_id,)))) == []
    assert step(full, 0, part(range(3), 0, class_id=3)) == [suppressed(0, 3, b"\x01")]
    assert full.statistics.held_classes == 2
    assert step(full, 0, part(range(9), 0, 1, class_id=1)) == [suppressed(0, 9)]


def test_when_too_many_bytes_are_held_the_oldest_classes_come_out_suppressed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(relay_server.publisher, "HELD_BYTES_MAX", 1000)
    full = publisher()
    assert step(full, 0, part(range(3), 0, class_id=1)) == []
    assert step(full, 0, part(range(3), 0, class_id=2)) == []
    large = part(range(3), 0, class_id=3, payload=bytes(700))
    assert step(full, 0, large) == [suppressed(0, 3), suppressed(0, 3)]
    assert full.statistics.held_records == 3


def test_when_too_many_joint_classes_are_open_the_votes_of_the_oldest_are_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(relay_server.publisher, "JOINT_CLASSES_MAX", 1)
    made = joint(THREE)
    assert step(made, 0, voted(3)) == []
    made.expect(2, None, {0: vote(range(3), 0, class_id=2)})
    assert isinstance(step(made, 1, voted(3))[0], RefusedPart)
    assert made.finish() == [suppressed(0, 3)]


def test_a_forgotten_class_has_to_prove_k_and_l_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay_server.publisher, "FATES_MAX", 2)
    made = publisher()
    for class_id in (1, 2):
        step(made, 0, part(range(5), 0, 1, class_id=class_id))
    # Reuse keeps a class in mind.
    assert step(made, 0, part(range(1), 0, class_id=1)) == [shown(0, 1)]
    step(made, 0, part(range(5), 0, 1, class_id=3))
    assert step(made, 0, part(range(1), 0, class_id=1)) == [shown(0, 1)]
    assert step(made, 0, part(range(1), 0, class_id=2)) == []
    assert len(step(made, 0, part(range(5), 0, 1, class_id=2))) == 2


# --- the end


def test_in_the_end_what_is_held_comes_out_suppressed_oldest_class_first() -> None:
    made = publisher()
    step(made, 0, part(range(2), 0, class_id=8, payload=b"1"))
    step(made, 1, part(range(2), 0, class_id=4, payload=b"2"))
    step(made, 2, part(range(2), 0, class_id=8, payload=b"3"))
    assert made.finish() == [suppressed(0, 2, b"1"), suppressed(2, 2, b"3"), suppressed(1, 2, b"2")]
    assert made.finish() == []


def test_the_statistics_add_up() -> None:
    made = publisher()
    step(made, 0, part(range(5), 0, 1), pb.Part(suppressed=True, records=2), voted(3))
    step(made, 0, part(range(4), 0, 1, class_id=2), part(range(1), class_id=3))
    counted = made.statistics
    assert (counted.visible_classes, counted.visible_records) == (1, 5)
    assert (counted.suppressed_by_sites, counted.suppressed_here) == (2, 3)
    assert (counted.held_classes, counted.held_records, counted.refused_parts) == (2, 5, 1)


# --- the recount


@pytest.mark.parametrize(
    ("name", "error", "told"),
    [
        ("persons", 1, part(range(4), 0, 1, records=9)),
        ("persons", -1, part(range(6), 0, 1, records=9)),
        ("values", 1, part(range(5), 0, records=9)),
    ],
)
def test_the_recount_finds_what_the_union_miscounts(
    name: str, error: int, told: pb.Part, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = getattr(Union, name).fget
    monkeypatch.setattr(Union, name, property(lambda self: right(self) + error))
    with pytest.raises(PrivacyBreachError, match="class 1 was counted as 5 persons and 2 values"):
        step(publisher(), 0, told)


@pytest.mark.parametrize("values_as_tokens", [False, True])
def test_the_recount_finds_a_decoder_that_reads_other_tokens(
    values_as_tokens: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def strange(data: bytes, bits: int, count_max: int) -> np.ndarray:
        return np.arange(strange_from[0], strange_from[0] + data[0], dtype=np.uint64)

    strange_from = [0]
    monkeypatch.setattr("relay_server.counting.decode_set", strange)
    made = publisher(values_as_tokens=values_as_tokens, l=1)
    told = part(range(3), records=9)
    told.values = b"\x01\x09\x01" if values_as_tokens else b"\x01"
    step(made, 0, told)
    strange_from[0] = 100
    with pytest.raises(PrivacyBreachError, match="and again as 3"):
        step(made, 1, told)


def test_the_recount_does_not_depend_on_asserts() -> None:
    program = (
        "import relay_server.publisher as p, relay_server.counting as c\n"
        "from relay_server.pb import exchange_pb2 as pb\n"
        "c.Union.persons = property(lambda self: 99)\n"
        "made = p.Publisher(k=5, l=1, disjoint=True, values_as_tokens=False)\n"
        "part = pb.Part(class_id=1, bounds=b'b', records=99, persons=pb.Persons(count=4))\n"
        "try: made.step(0, pb.Publication(parts=[part]))\n"
        "except p.PrivacyBreachError as error: print(error)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-O", "-c", program],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "counted as 99 persons" in ended.stdout
