"""What a site of the `strict` exchange says and does, and what it never says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from core.boxes import Box, BoxCodec
from core.config import Parameters
from core.errors import PrivacyBreachError
from core.events import SUPPRESSED, Publish, Records, RecordsArrived, StreamEnded, Ticked
from core.exchange import PERSONS_REVEALED_MIN, PROTOCOL_VERSION, RADIUS_ALL, SITES_MAX
from core.joint import JointMachine
from core.kernels.layout import GRID
from core.machine import records_slice
from core.schema import Schema
from relay_server.pb import exchange_pb2 as pb
from site_node.exchange_events import Accept, Received, Send, SessionEffect, SessionEvent
from site_node.session import Session
from site_node.telling import Teller
from tests.exchange_pump import (
    KEY,
    LEAVES,
    PATIENCE_NS,
    SECOND,
    Pump,
    parameters,
    records,
    schema,
)

THEIRS = 5 * SITES_MAX + 9
EVERYTHING = BoxCodec(schema()).encode(
    Box(np.zeros(3, np.int32), np.array([GRID, GRID, LEAVES - 1], np.int32))
)


class Site:
    """A session without a network: a test is its relay."""

    def __init__(
        self,
        of: Schema | None = None,
        rules: Parameters | None = None,
        *,
        sites: int = 3,
        stream: Records | None = None,
        **options: Any,
    ) -> None:
        self.rules = rules or parameters()
        of = of or schema(person=None)
        self.session = Session(
            of, self.rules, site="s", key=KEY, seed=1, patience_ns=PATIENCE_NS, **options
        )
        self.stream = records(400, 1) if stream is None else stream
        self.accepted = 0
        self.said: list[pb.SiteMessage] = []
        self.published: list[Publish] = []
        if sites:
            self.hear(welcome=pb.Welcome(site_index=0, sites=sites))

    def step(self, event: SessionEvent) -> list[SessionEffect]:
        effects = self.session.step(event)
        for effect in effects:
            match effect:
                case Accept(count):
                    self.accepted += count
                case Send(message):
                    self.said.append(message)
                case Publish():
                    self.published.append(effect)
        return effects

    def hear(self, **body: Any) -> list[SessionEffect]:
        return self.step(Received(pb.RelayMessage(**body)))

    def offer(self, count: int, now_ns: int = 0) -> None:
        until = min(len(self.stream), self.accepted + count)
        while self.accepted < until:
            self.step(RecordsArrived(records_slice(self.stream, self.accepted, until), now_ns))

    def of_kind(self, kind: str) -> list[Any]:
        return [getattr(each, kind) for each in self.said if each.WhichOneof("body") == kind]

    def outcomes(self) -> list[int]:
        """Positions that were decided, in order."""
        return sorted(int(p) for each in self.published for p in each.position)

    def ask(self, persons: int = 6, **fields: Any) -> pb.Vote:
        ask = pb.Ask(
            **{
                "settlement": THEIRS,
                "box": EVERYTHING,
                "radius": RADIUS_ALL,
                "persons": persons,
                **fields,
            }
        )
        self.hear(ask=ask)
        vote: pb.Vote = self.of_kind("vote")[-1]
        return vote

    def commit(self, vote: pb.Vote, **fields: Any) -> list[SessionEffect]:
        commit = pb.Commit(
            **{
                "settlement": vote.settlement,
                "box": EVERYTHING,
                "reach": vote.reach,
                "persons": self.rules.k,
                "values": self.rules.l,
                **fields,
            }
        )
        return self.hear(commit=commit)


# --- joining


def test_the_hello_says_what_must_be_the_same_everywhere() -> None:
    hello = Site(own_k=50, own_l=4).session.hello().hello
    assert (hello.protocol_version, hello.site, hello.exchange) == (PROTOCOL_VERSION, "s", "strict")
    assert (hello.k, hello.l, hello.own_k, hello.own_l) == (6, 2, 50, 4)
    assert hello.schema_fingerprint == bytes.fromhex(schema(person=None).fingerprint)
    assert (hello.numeric, hello.categorical, hello.persons_disjoint) == (2, 1, True)


def test_before_a_welcome_nothing_is_accepted() -> None:
    site = Site(sites=0)
    assert site.step(RecordsArrived(site.stream)) == [Accept(0)]
    assert site.step(Ticked(5)) == []
    assert site.session.position == 0


def test_ids_are_those_of_the_site() -> None:
    site = Site()
    site.hear(welcome=pb.Welcome(site_index=17, sites=3))
    site.offer(200)
    proposed = site.of_kind("propose")
    assert proposed
    assert all(each.settlement % SITES_MAX == 17 for each in proposed)


def test_alone_it_decides_everything_itself_and_proposes_nothing() -> None:
    site = Site(sites=1)
    site.offer(400)
    site.step(StreamEnded())
    assert site.session.finished
    assert site.outcomes() == list(range(400))
    assert not site.of_kind("propose")
    assert not site.of_kind("share")


# --- votes


def test_an_ask_is_answered_with_the_nearest() -> None:
    site = Site()
    site.offer(25)  # none of them is due yet
    middle = site.stream.code[20]
    box = BoxCodec(schema()).encode(Box(middle, middle))
    vote = site.ask(persons=5, box=box)
    assert (vote.settlement, vote.short) == (THEIRS, 0)
    assert vote.spare == sum(not general for general in site.stream.general[:25]) - 5
    effects = site.commit(vote, box=box)
    (published,) = [each for each in effects if isinstance(each, Publish)]
    assert 20 in published.position.tolist()
    assert len(published) == 5


def test_a_commit_publishes_what_was_voted_for_with_the_class_of_the_settlement() -> None:
    site = Site()
    site.offer(40)
    vote = site.ask()
    published, sent = site.commit(vote)
    assert isinstance(published, Publish)
    assert published.classes.class_id.tolist() == [THEIRS]
    assert isinstance(sent, Send)
    (part,) = sent.message.publication.parts
    assert (part.class_id, part.voted, part.records) == (THEIRS, True, 6)
    assert not part.HasField("persons")


def test_an_abort_gives_everything_back() -> None:
    site = Site()
    site.offer(40)
    site.ask()
    site.hear(abort=pb.Abort(settlement=THEIRS, reason=pb.ABORT_REASON_TOO_FEW))
    assert site.published == [] or THEIRS not in site.published[-1].classes.class_id
    again = site.ask(persons=30, settlement=THEIRS + SITES_MAX)
    assert again.short == 0


def test_what_is_held_for_one_settlement_is_not_promised_to_another() -> None:
    site = Site()
    site.offer(20)
    usable = int((~site.stream.general[:20]).sum())
    site.ask(persons=12)
    assert site.ask(persons=20, settlement=THEIRS + SITES_MAX).short == 20 - (usable - 12)


def test_more_are_given_when_asked_for_and_new_values_where_they_are_wanted() -> None:
    stream = records(60, 2, values=1)
    stream = replace(stream, general=np.zeros(60, np.bool_))
    stream.value[30] = 3
    site = Site(stream=stream)
    site.offer(50)
    vote = site.ask(persons=6, values_wanted=True)
    assert vote.values == b"\x01"
    more = pb.More(
        settlement=THEIRS, radius=RADIUS_ALL, persons=2, values_wanted=True, values=b"\x01"
    )
    site.hear(more=more)
    answer = site.of_kind("vote")[-1]
    assert answer.short == 0
    assert answer.values in (b"\x09", b"\x08")


def test_fewer_than_three_persons_are_never_given() -> None:
    site = Site(stream=replace(records(2, 1), general=np.zeros(2, np.bool_)))
    site.offer(2)
    vote = site.ask(persons=5)
    assert (vote.short, vote.reach, vote.values, vote.tokens, vote.spare) == (5, b"", b"", b"", 0)


def test_persons_of_an_earlier_vote_are_not_counted_again() -> None:
    # Four persons with ten records each.
    stream = replace(
        records(40, 3), person=np.arange(40, dtype=np.int64) % 4, general=np.zeros(40, np.bool_)
    )
    site = Site(schema(disjoint=True), stream=stream)
    site.offer(40)
    small = stream.code[:1].min(axis=0)
    box = BoxCodec(schema()).encode(Box(small, small))
    first = site.ask(persons=3, box=box)
    given = 3 - first.short
    more = pb.More(settlement=THEIRS, radius=RADIUS_ALL, persons=9)
    site.hear(more=more)
    given += 9 - site.of_kind("vote")[-1].short
    assert given == 4


# --- what a relay may not do


@pytest.mark.parametrize(
    "fields",
    [{"persons": 5}, {"values": 1}, {"persons": 0, "values": 0}, {"box": bytes(6)}],
)
def test_a_commit_that_proves_too_little_or_is_of_another_box_halts_and_publishes_nothing(
    fields: dict[str, Any],
) -> None:
    site = Site()
    site.offer(40)
    vote = site.ask()
    before = len(site.published)
    with pytest.raises(PrivacyBreachError, match=str(THEIRS)):
        site.commit(vote, **fields)
    assert len(site.published) == before


def test_a_session_that_ignores_the_proof_would_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Session, "_check_proof", lambda *_: None)
    with pytest.raises(pytest.fail.Exception):
        test_a_commit_that_proves_too_little_or_is_of_another_box_halts_and_publishes_nothing(
            {"persons": 5}
        )


def test_the_own_policy_is_what_a_commit_has_to_prove() -> None:
    site = Site(own_k=20)
    site.offer(40)
    vote = site.ask()
    with pytest.raises(PrivacyBreachError, match="k=20"):
        site.commit(vote, persons=19)


def test_the_own_policy_holds_for_what_the_site_decides_alone() -> None:
    site = Site(own_k=25, own_l=3, sites=1)
    site.offer(400)
    site.step(StreamEnded())
    sizes: dict[int, set[int]] = {}
    for each in site.published:
        for position, row in zip(each.position.tolist(), each.row.tolist(), strict=True):
            if row != SUPPRESSED:
                sizes.setdefault(int(each.classes.class_id[row]), set()).add(position)
    assert sizes
    for members in sizes.values():
        assert len(members) >= 25
        assert len(set(site.stream.value[sorted(members)].tolist())) >= 3


@pytest.mark.parametrize(("own_k", "learned"), [(0, [THEIRS, 77]), (50, [])])
def test_a_class_of_others_that_is_short_of_the_own_policy_is_not_learned(
    monkeypatch: pytest.MonkeyPatch, own_k: int, learned: list[int]
) -> None:
    found: list[int] = []
    monkeypatch.setattr(
        JointMachine, "publish", lambda _, made, slots: found.append(made.class_id) or []
    )
    site = Site(own_k=own_k, sites=2)
    site.hear(commit=pb.Commit(settlement=THEIRS, box=EVERYTHING, persons=6, values=2))
    bounds = np.array([0.0, -40.0, 500.0, 160.0]).tobytes() + np.int32(0).tobytes()
    site.hear(release=pb.Release(classes=[pb.Class(id=77, bounds=bounds)]))
    assert found == learned


MALFORMED = [
    {"ask": pb.Ask(settlement=THEIRS + 1, box=b"short", radius=5, persons=4)},
    {"ask": pb.Ask(settlement=THEIRS + 1, box=bytes([9, 1] * 3), radius=5, persons=4)},
    {"ask": pb.Ask(settlement=THEIRS, box=EVERYTHING, radius=5, persons=4)},
    {"more": pb.More(settlement=THEIRS + 1, radius=5, persons=4)},
    {
        "more": pb.More(
            settlement=THEIRS, radius=RADIUS_ALL, persons=4, values_wanted=True, values=b"\x01\x00"
        )
    },
    {"commit": pb.Commit(settlement=THEIRS + 1, box=b"x", persons=99, values=9)},
    {"commit": pb.Commit(settlement=THEIRS + 1, box=EVERYTHING, reach=b"\xff" * 9)},
    {"release": pb.Release(classes=[pb.Class(id=4, bounds=b"not bounds")])},
    {"release": pb.Release(classes=[pb.Class(id=4, bounds=b"\xff" * 36)])},
    {"share": pb.Share()},
    {},
]


@pytest.mark.parametrize("body", MALFORMED)
def test_a_malformed_message_of_the_relay_is_counted_and_changes_nothing(
    body: dict[str, Any],
) -> None:
    site, twin = Site(), Site()
    for each in (site, twin):
        each.offer(40)
        each.ask()
    assert site.hear(**body) == []
    assert site.session.statistics()["refused"] == 1
    for each in (site, twin):
        each.commit(each.of_kind("vote")[0])
        each.offer(400)
        each.step(StreamEnded())
        for tick in range(400):
            each.step(Ticked(2 * tick * PATIENCE_NS))
        assert each.session.finished
    assert site.outcomes() == list(range(400))
    said = [[message.SerializeToString() for message in each.said] for each in (site, twin)]
    assert said[0] == said[1]


def test_random_messages_never_stop_a_site() -> None:
    draw = np.random.default_rng(2)
    site = Site()
    samples = [pb.RelayMessage(**body).SerializeToString() for body in MALFORMED if body]
    for turn in range(1_500):
        if turn % 10 == 0:
            site.offer(2)
        data = bytearray(samples[draw.integers(len(samples))])
        for _ in range(draw.integers(1, 4)):
            data[draw.integers(len(data))] = draw.integers(256)
        try:
            message = pb.RelayMessage.FromString(bytes(data))
        except Exception:  # noqa: S112 - the host refuses what is no message
            continue
        if message.WhichOneof("body") not in ("commit", "welcome", "members"):
            site.step(Received(message))
    site.hear(members=pb.Members(sites=1))
    site.offer(400)
    site.step(StreamEnded())
    for tick in range(600):
        site.step(Ticked(2 * tick * PATIENCE_NS))
    assert site.outcomes() == list(range(400))


# --- deadlines


@pytest.mark.parametrize("delay", [6, 7, 20, 60, 399])
def test_with_a_dead_relay_every_record_is_decided_in_time(delay: int) -> None:
    site = Site(rules=parameters(delay_tuples=delay), stream=records(400, delay))
    decided: set[int] = set()
    for position in range(400):
        site.offer(1)
        decided = set(site.outcomes())
        assert decided >= set(range(position - delay)), position
    assert site.session.statistics()["delay_max"] <= delay
    site.step(StreamEnded())
    for tick in range(500):
        site.step(Ticked(2 * tick * PATIENCE_NS))
    assert site.session.finished
    assert site.outcomes() == list(range(400))


def test_with_a_dead_relay_promises_to_others_do_not_delay_either() -> None:
    site = Site(rules=parameters(delay_tuples=30), stream=records(300, 5))
    for turn in range(60):
        site.offer(5)
        site.ask(persons=5, settlement=THEIRS + turn * SITES_MAX)
    assert site.session.statistics()["delay_max"] <= 30
    assert site.outcomes()[: 300 - 31] == list(range(300 - 31))
    assert site.of_kind("withdraw")


def test_after_patience_a_site_gives_up_and_decides_alone() -> None:
    site = Site(rules=parameters(delay_tuples=200))
    site.offer(150)
    proposed = site.of_kind("propose")
    assert proposed
    site.step(Ticked(PATIENCE_NS))
    assert not site.of_kind("withdraw")
    site.step(Ticked(2 * PATIENCE_NS))
    withdrawn = {each.settlement for each in site.of_kind("withdraw")}
    assert proposed[0].settlement in withdrawn
    assert site.session.statistics()["timed out"] == len(withdrawn)


def test_a_promise_to_others_is_given_up_after_patience_too() -> None:
    site = Site()
    site.offer(40)
    site.ask()
    site.step(Ticked(2 * PATIENCE_NS))
    assert THEIRS in {each.settlement for each in site.of_kind("withdraw")}
    # The commit comes too late: the class may be reused, but nothing is published with it.
    before = site.outcomes()
    site.hear(commit=pb.Commit(settlement=THEIRS, box=EVERYTHING, persons=9, values=3))
    assert site.outcomes() == before


def test_by_the_clock_all_records_that_are_overdue_are_decided_at_once() -> None:
    stream = records(120, 6)
    site = Site(rules=parameters(delay_tuples=200, delay_seconds=4.0), stream=stream)
    site.offer(120, now_ns=SECOND)
    assert len(site.outcomes()) < 120
    site.step(Ticked(6 * SECOND))
    assert site.outcomes() == list(range(120))


# --- what is revealed


class Counted:
    """How many persons every settlement and class of every site rests on, as they are told."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.told: dict[tuple[int, int], set[int]] = {}
        persons = Teller.persons

        def counted(teller: Teller, owner: int, codes: Any) -> pb.Persons:
            told = self.told.setdefault((id(teller), owner), set())
            told.update(codes.tolist())
            assert not told or len(told) >= PERSONS_REVEALED_MIN, f"{len(told)} persons"
            return persons(teller, owner, codes)

        monkeypatch.setattr(Teller, "persons", counted)


def revealing_run(seed: int) -> Pump:
    rules = parameters(k=(3, 4, 9, 20, 5, 12)[seed], l=1 + seed % 3, delay_tuples=40)
    pump = Pump(schema(disjoint=seed % 2 == 0), rules, seed=seed)
    for number in range(4):
        stream = records(300, 10 * seed + number, persons=40)
        pump.add(f"s{number}", replace(stream, person=stream.person * 4 + number), seed=number)
    pump.deliver()
    for _ in range(150):
        pump.offer(pump.random.choice(list(pump.sites)), pump.random.randint(1, 10))
        pump.deliver(pump.random.randint(0, 30))
    for name in pump.sites:
        pump.end(name)
    pump.finish()
    pump.check()
    return pump


@pytest.mark.parametrize("seed", range(6))
def test_nothing_that_is_said_rests_on_fewer_than_three_persons(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    counted = Counted(monkeypatch)
    pump = revealing_run(seed)
    voted = 0
    for site in pump.sites.values():
        teller = id(site.session._teller)
        for message in site.said:
            assert all(each.size >= PERSONS_REVEALED_MIN for each in message.share.clusters)
            if message.WhichOneof("body") == "vote":
                vote = message.vote
                rests_on = counted.told[teller, vote.settlement]
                assert rests_on or not (vote.reach or vote.values or vote.tokens or vote.spare)
                voted += bool(rests_on)
    assert voted > 10


def test_a_site_that_reveals_two_persons_would_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    Counted(monkeypatch)
    monkeypatch.setattr("site_node.session.PERSONS_REVEALED_MIN", 1)
    monkeypatch.setattr("relay_server.settlement.PERSONS_REVEALED_MIN", 1)
    with pytest.raises(AssertionError, match="persons"):
        revealing_run(1)
