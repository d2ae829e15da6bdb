"""The hub: who takes part, what is refused and why, and who hears what."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from core.exchange import PROTOCOL_VERSION, SITES_MAX
from core.tokens import TokenKey, encode_bitmap, encode_set, range_bits
from relay_server.directory import ASKED_MAX, CLUSTERS_MAX, Directory
from relay_server.hub import (
    CLUSTERS_PER_MESSAGE_MAX,
    MESSAGE_BYTES_MAX,
    NAME_BYTES_MAX,
    Agreement,
    Effect,
    Hub,
    Show,
)
from relay_server.pb import exchange_pb2 as pb
from relay_server.settlement import Tell

K, L = 9, 2
SCHEMA = bytes(range(32))
BOX = bytes([10, 20])
KEY = TokenKey(bytes(32))


def hub(exchange: str = "strict", **options: Any) -> Hub:
    return Hub(Agreement(exchange=exchange, k=K, l=L, **options), patience_ns=1_000)


def hello(site: str = "a", **fields: Any) -> pb.SiteMessage:
    return pb.SiteMessage(
        hello=pb.Hello(
            **{
                "protocol_version": PROTOCOL_VERSION,
                "site": site,
                "schema_fingerprint": SCHEMA,
                "k": K,
                "l": L,
                "exchange": "strict",
                "numeric": 1,
                **fields,
            }
        )
    )


def joined(*names: str, exchange: str = "strict") -> Hub:
    relay = hub(exchange)
    for name in names:
        relay.step(None, hello(name, exchange=exchange), 0)
    return relay


def told(effects: list[Effect], site: int) -> list[pb.RelayMessage]:
    return [each.message for each in effects if isinstance(each, Tell) and each.site == site]


def refusal(effects: list[Effect], sender: int = -1) -> pb.Refused:
    message = told(effects, sender)[0]
    assert message.WhichOneof("body") == "refused"
    return message.refused


def tokens(persons: range, number: int) -> bytes:
    bits = range_bits(K)
    return encode_set(KEY.persons(number, np.array(persons, np.int64), bits), bits)


def propose(persons: range, number: int = SITES_MAX, **fields: Any) -> pb.SiteMessage:
    return pb.SiteMessage(
        propose=pb.Propose(
            **{
                "settlement": number,
                "box": BOX,
                "radius": 1_000,
                "tokens": tokens(persons, number),
                "values": encode_bitmap(np.array([0, 1]), 8),
                **fields,
            }
        )
    )


def share(number: int, size: int = 5, box: bytes = BOX) -> pb.SiteMessage:
    return pb.SiteMessage(share=pb.Share(clusters=[pb.Cluster(id=number, size=size, box=box)]))


def kinds(messages: list[pb.RelayMessage]) -> list[str | None]:
    return [message.WhichOneof("body") for message in messages]


# --- hello


@pytest.mark.parametrize(
    ("fields", "reason", "named"),
    [
        (
            {"protocol_version": 77},
            pb.REASON_PROTOCOL_VERSION,
            ["77", str(PROTOCOL_VERSION)],
        ),
        (
            {"schema_fingerprint": b"\xab" * 32},
            pb.REASON_SCHEMA,
            ["ab" * 6, SCHEMA.hex()[:12]],
        ),
        ({"exchange": "paper"}, pb.REASON_EXCHANGE, ["'paper'", "'strict'"]),
        ({"k": 8}, pb.REASON_POLICY, ["k=8", f"k={K}"]),
        ({"k": 10}, pb.REASON_POLICY, ["k=10", f"k={K}"]),
        ({"l": 3}, pb.REASON_POLICY, ["l=3", f"l={L}"]),
        ({"own_k": K - 1}, pb.REASON_POLICY, [f"k={K - 1}", f"k={K}", "weaker"]),
        ({"own_l": 1}, pb.REASON_POLICY, ["l=1", f"l={L}", "weaker"]),
    ],
)
def test_a_hello_that_differs_is_refused_with_both_values(
    fields: dict[str, Any], reason: pb.Reason, named: list[str]
) -> None:
    relay = joined("first")
    answer = refusal(relay.step(None, hello("a", **fields), 0))
    assert (answer.reason, answer.message) == (reason, "hello")
    for value in named:
        assert value in answer.detail
    assert relay.sites == 1
    assert relay.index_of("a") is None
    assert relay.refused.total() == 1


def test_a_relay_that_knows_its_schema_refuses_the_first_site_with_another() -> None:
    relay = hub(schema_fingerprint=b"\x11" * 32)
    answer = refusal(relay.step(None, hello(), 0))
    assert answer.reason == pb.REASON_SCHEMA
    assert "11" * 6 in answer.detail


def test_a_site_whose_persons_are_told_otherwise_is_refused() -> None:
    answer = refusal(joined("a").step(None, hello("b", persons_disjoint=True), 0))
    assert answer.reason == pb.REASON_SCHEMA


@pytest.mark.parametrize("name", ["", "x" * (NAME_BYTES_MAX + 1), "a\nb", "\0"])
def test_a_name_that_is_none_is_refused(name: str) -> None:
    assert refusal(hub().step(None, hello(name), 0)).reason == pb.REASON_NAME


def test_a_name_that_is_taken_is_refused_and_the_first_site_stays() -> None:
    relay = joined("a")
    assert refusal(relay.step(None, hello("a"), 0)).reason == pb.REASON_NAME
    assert relay.index_of("a") == 0


def test_a_welcome_says_the_index_and_the_others_hear_how_many_they_are() -> None:
    relay = joined("a")
    effects = relay.step(None, hello("b"), 0)
    (welcome,) = told(effects, 1)
    assert (welcome.welcome.site_index, welcome.welcome.sites) == (1, 2)
    (members,) = told(effects, 0)
    assert members.members.sites == 2


def test_who_leaves_and_comes_back_gets_the_same_index_and_others_never_do() -> None:
    relay = joined("a", "b")
    (members,) = told(relay.step(1, pb.SiteMessage(goodbye=pb.Goodbye()), 0), 0)
    assert members.members.sites == 1
    assert relay.index_of("b") is None
    relay.step(None, hello("c"), 0)
    relay.step(None, hello("b"), 0)
    assert (relay.index_of("a"), relay.index_of("b"), relay.index_of("c")) == (0, 1, 2)


def test_no_more_than_the_most_sites_take_part() -> None:
    relay = hub()
    for number in range(SITES_MAX):
        relay._names[f"old-{number}"] = number
    relay._names.pop("old-5")
    relay._names["x"] = 5
    assert refusal(relay.step(None, hello("one more"), 0)).reason == pb.REASON_FULL
    assert told(relay.step(None, hello("x"), 0), 5)[0].welcome.site_index == 5


def test_a_stricter_own_policy_is_accepted_and_honoured() -> None:
    relay = joined("a", "b")
    relay.step(None, hello("strict", own_k=2 * K, own_l=3), 0)
    effects = relay.step(0, propose(range(4)), 0)
    asks = {each.site: each.message.ask for each in effects if isinstance(each, Tell)}
    assert sum(ask.persons for ask in asks.values()) == 2 * K - 4
    assert all(ask.values_wanted for ask in asks.values())
    for site, ask in asks.items():
        vote = pb.Vote(
            settlement=SITES_MAX,
            short=ask.persons - 3,
            tokens=tokens(range(10 * site, 10 * site + 3), SITES_MAX),
            values=encode_bitmap(np.array([0]), 8),
        )
        effects = relay.step(site, pb.SiteMessage(vote=vote), 0)
    # Ten persons and two values: enough for a and b, not for the third.
    assert {"more"} == {kind for site in range(3) for kind in kinds(told(effects, site))}


# --- what is refused


def state(relay: Hub) -> tuple[object, ...]:
    running = relay._running
    assert running is not None
    return (
        dict(relay._present),
        {site: dict(rows) for site, rows in running.directory._rows.items()},
        dict(running.settlement._open),
        dict(running.settlement._last),
        running.publisher.statistics,
    )


BAD_MESSAGES = [
    (pb.SiteMessage(), pb.REASON_UNKNOWN),
    (share(1, box=b"\x01"), pb.REASON_MALFORMED),
    (share(1, box=bytes([20, 10])), pb.REASON_MALFORMED),
    (pb.SiteMessage(remove=pb.Remove(ids=[77])), pb.REASON_UNKNOWN),
    (pb.SiteMessage(remove=pb.Remove(ids=[1024, 77])), pb.REASON_UNKNOWN),
    (
        pb.SiteMessage(release=pb.Release(clusters=[pb.Cluster(id=1, box=b"abc")])),
        pb.REASON_MALFORMED,
    ),
    (
        pb.SiteMessage(
            share=pb.Share(clusters=[pb.Cluster(box=BOX)] * (CLUSTERS_PER_MESSAGE_MAX + 1))
        ),
        pb.REASON_OVERSIZED,
    ),
    (propose(range(4), box=b""), pb.REASON_MALFORMED),
    (propose(range(4), box=b"\x01\x02\x03"), pb.REASON_MALFORMED),
    (propose(range(4), box=bytes(10)), pb.REASON_MALFORMED),
    (propose(range(4), box=bytes([9, 3])), pb.REASON_MALFORMED),
    (propose(range(4), tokens=b"\xff\xff"), pb.REASON_MALFORMED),
    (propose(range(4), number=SITES_MAX + 1), pb.REASON_MALFORMED),
    (propose(range(4), radius=0), pb.REASON_MALFORMED),
    (pb.SiteMessage(vote=pb.Vote(settlement=9 * SITES_MAX)), pb.REASON_UNKNOWN),
    (pb.SiteMessage(publication=pb.Publication(parts=[pb.Part(class_id=3)])), pb.REASON_MALFORMED),
]


@pytest.mark.parametrize(("message", "reason"), BAD_MESSAGES)
def test_a_message_that_cannot_be_right_is_refused_counted_and_changes_nothing(
    message: pb.SiteMessage, reason: pb.Reason
) -> None:
    relay = joined("a", "b")
    relay.step(0, share(1024), 0)
    before = state(relay)
    effects = relay.receive(0, message.SerializeToString(), 0)
    answer = refusal(effects, 0)
    assert answer.reason == reason
    assert answer.detail
    assert answer.message == (message.WhichOneof("body") or "message")
    assert told(effects, 1) == []
    assert not any(isinstance(each, Show) for each in effects)
    assert relay.refused == {pb.Reason.Name(reason).removeprefix("REASON_").lower(): 1}
    after = state(relay)
    assert after[:4] == before[:4]
    assert relay.statistics()[f"refused: {pb.Reason.Name(reason)[7:].lower()}"] == 1


def test_who_proposes_or_votes_in_vain_may_let_go() -> None:
    relay = joined("a", "b")
    for message in (
        propose(range(4), radius=0),
        pb.SiteMessage(vote=pb.Vote(settlement=SITES_MAX)),
    ):
        heard = told(relay.step(0, message, 0), 0)
        assert kinds(heard) == ["refused", "abort"]
        assert heard[1].abort.settlement == SITES_MAX


@pytest.mark.parametrize("sender", [None, 7])
def test_before_a_hello_nothing_is_taken(sender: int | None) -> None:
    relay = joined("a")
    for message in (share(1), propose(range(4)), pb.SiteMessage(goodbye=pb.Goodbye())):
        effects = relay.step(sender, message, 0)
        assert refusal(effects, -1 if sender is None else sender).reason == pb.REASON_NO_HELLO
    assert hub().step(None, share(1), 0)


def test_bytes_that_are_no_message_are_refused() -> None:
    relay = joined("a")
    answer = refusal(relay.receive(0, b"\xff\xff\xff not protobuf", 0), 0)
    assert (answer.reason, answer.message) == (pb.REASON_MALFORMED, "message")


def test_a_message_that_is_too_large_is_refused_unread() -> None:
    relay = joined("a")
    answer = refusal(relay.receive(0, b"\0" * (MESSAGE_BYTES_MAX + 1), 0), 0)
    assert answer.reason == pb.REASON_OVERSIZED
    assert str(MESSAGE_BYTES_MAX) in answer.detail


def test_random_bytes_never_stop_the_relay() -> None:
    relay = joined("a", "b")
    draw = np.random.default_rng(1)
    samples = [message.SerializeToString() for message, _ in BAD_MESSAGES]
    samples += [propose(range(5)).SerializeToString(), hello("c").SerializeToString()]
    for _ in range(3_000):
        data = bytearray(samples[draw.integers(len(samples))][:200])
        for _ in range(draw.integers(1, 6)):
            if data:
                data[draw.integers(len(data))] = draw.integers(256)
        relay.receive(int(draw.integers(2)), bytes(data), 0)
        if relay.sites < 2:
            relay = joined("a", "b")


# --- who hears what


def test_in_paper_mode_summaries_go_to_all_others() -> None:
    relay = joined("a", "b", "c", exchange="paper")
    remove = pb.SiteMessage(remove=pb.Remove(ids=[3]))
    release = pb.SiteMessage(release=pb.Release(clusters=[pb.Cluster(id=3, box=BOX)]))
    for message, kind in ((share(3), "share"), (remove, "remove"), (release, "release")):
        effects = relay.step(1, message, 0)
        assert kinds(told(effects, 0)) == kinds(told(effects, 2)) == [kind]
        assert told(effects, 1) == []


def test_in_paper_mode_publications_are_shown_as_they_come() -> None:
    relay = joined("a", exchange="paper")
    part = pb.Part(class_id=5, bounds=b"x" * 16, records=1, payload=bytes(8))
    (shown,) = relay.step(0, pb.SiteMessage(publication=pb.Publication(parts=[part])), 0)
    assert isinstance(shown, Show)
    assert shown.visible.payload == bytes(8)


def test_in_strict_mode_summaries_go_to_the_directory_only() -> None:
    relay = joined("a", "b", "c")
    assert relay.step(1, share(1025), 0) == []
    # Far away from b's cluster: of those who share, only c (who shares nothing) is asked.
    relay.step(1, share(1025, box=bytes([200, 210])), 0)
    directory = Directory(2)
    directory.join(1)
    assert relay.step(1, pb.SiteMessage(remove=pb.Remove(ids=[1025])), 0) == []


def test_classes_that_may_be_reused_are_announced_to_all_others() -> None:
    relay = joined("a", "b", "c")
    release = pb.SiteMessage(release=pb.Release(classes=[pb.Class(id=4, bounds=b"b")]))
    effects = relay.step(0, release, 0)
    assert kinds(told(effects, 1)) == kinds(told(effects, 2)) == ["release"]


def test_a_commit_reaches_everybody_and_then_the_votes_may_be_published() -> None:
    relay = joined("a", "b")
    asked = told(relay.step(0, propose(range(5)), 0), 1)[0].ask
    vote = pb.Vote(
        settlement=SITES_MAX,
        short=asked.persons - 4,
        tokens=tokens(range(5, 9), SITES_MAX),
    )
    effects = relay.step(1, pb.SiteMessage(vote=vote), 0)
    assert kinds(told(effects, 0)) == kinds(told(effects, 1)) == ["commit"]
    part = pb.Part(class_id=SITES_MAX, bounds=bytes(16), records=5, voted=True, payload=bytes(40))
    publication = pb.SiteMessage(publication=pb.Publication(parts=[part]))
    assert relay.step(0, publication, 0) == [], "five of nine persons have arrived"
    part.records, part.payload = 4, bytes(32)
    publication = pb.SiteMessage(publication=pb.Publication(parts=[part]))
    shown = relay.step(1, publication, 0)
    assert [each.visible.site for each in shown if isinstance(each, Show)] == [0, 1]


def test_when_a_participant_dies_after_the_commit_the_others_come_out_suppressed() -> None:
    relay = joined("a", "b")
    relay.step(0, propose(range(5)), 0)
    vote = pb.Vote(settlement=SITES_MAX, tokens=tokens(range(5, 9), SITES_MAX))
    relay.step(1, pb.SiteMessage(vote=vote), 0)
    part = pb.Part(class_id=SITES_MAX, bounds=bytes(16), records=5, voted=True, payload=bytes(40))
    publication = pb.SiteMessage(publication=pb.Publication(parts=[part]))
    assert relay.step(0, publication, 0) == []
    effects = relay.lose(1, 0, for_ever=True)
    (shown,) = [each.visible for each in effects if isinstance(each, Show)]
    assert (shown.class_id, shown.site, shown.records) == (None, 0, 5)  # type: ignore[union-attr]


def test_a_withdrawal_after_the_commit_suppresses_what_cannot_be_proved_any_more() -> None:
    relay = joined("a", "b")
    relay.step(0, propose(range(5)), 0)
    vote = pb.Vote(settlement=SITES_MAX, tokens=tokens(range(5, 9), SITES_MAX))
    relay.step(1, pb.SiteMessage(vote=vote), 0)
    part = pb.Part(class_id=SITES_MAX, bounds=bytes(16), records=5, voted=True, payload=bytes(40))
    relay.step(0, pb.SiteMessage(publication=pb.Publication(parts=[part])), 0)
    withdraw = pb.SiteMessage(withdraw=pb.Withdraw(settlement=SITES_MAX))
    (shown,) = relay.step(1, withdraw, 0)
    assert isinstance(shown, Show)


def test_what_the_barrier_holds_at_the_end_comes_out_suppressed() -> None:
    relay = joined("a")
    part = pb.Part(
        class_id=4,
        bounds=bytes(16),
        records=3,
        payload=bytes(24),
        persons=pb.Persons(count=3, tokens=tokens(range(3), 4)),
        values=b"\x03",
    )
    assert relay.step(0, pb.SiteMessage(publication=pb.Publication(parts=[part])), 0) == []
    (shown,) = relay.finish()
    assert isinstance(shown, Show)
    assert shown.visible.payload == bytes(24)
    assert hub().finish() == []
    assert hub().tick(5) == []


# --- the directory


def test_the_directory_picks_those_who_have_most_near_the_box() -> None:
    directory = Directory(2)
    for site in range(2 * ASKED_MAX):
        directory.join(site)
        # The higher the site, the nearer its cluster.
        edge = 100 + 2 * ASKED_MAX - site
        directory.share(site, site, 10, bytes([edge, edge]))
    asked = directory.whom_to_ask(0, bytes([90, 100]))
    assert asked == list(range(ASKED_MAX, 2 * ASKED_MAX))
    directory.lose(2 * ASKED_MAX - 1)
    assert directory.whom_to_ask(0, bytes([90, 100]))[0] == ASKED_MAX - 1


def test_the_directory_leaves_out_those_who_share_only_what_is_far_away() -> None:
    directory = Directory(4)
    for site in range(4):
        directory.join(site)
    directory.share(1, 1, 10, bytes([0, 0, 0, 0]))
    directory.share(2, 2, 10, bytes([250, 255, 240, 255]))
    # Site 3 shares nothing: nobody knows.
    assert directory.whom_to_ask(0, bytes([255, 255, 255, 255])) == [2, 3]
    assert directory.remove(1, 1)
    assert not directory.remove(1, 1)
    assert directory.whom_to_ask(0, bytes([255, 255, 255, 255])) == [1, 2, 3]


def test_the_directory_forgets_the_oldest_clusters_of_a_site() -> None:
    directory = Directory(2)
    directory.join(0)
    for number in range(CLUSTERS_MAX + 1):
        directory.share(0, number, 1, BOX)
    assert not directory.knows(0, [0])
    assert directory.knows(0, [1, CLUSTERS_MAX])
