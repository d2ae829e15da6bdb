"""Settlements, as the relay sees them: votes in, and a class only when they prove it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from core.exchange import IN_FLIGHT_MAX, PERSONS_REVEALED_MIN, RADIUS_ALL, SITES_MAX
from core.tokens import TokenKey, encode_bitmap, encode_set, range_bits
from relay_server.ballot import Ballot
from relay_server.pb import exchange_pb2 as pb
from relay_server.refusal import MessageRefused
from relay_server.settlement import Committed, Effect, Settlement, Tell
from relay_server.terms import Policy, Terms

K, L = 12, 2
PATIENCE = 1_000
BOX = bytes([10, 20, 1, 3])
TOKENS = TokenKey(bytes(32))
REACH_LENGTH = 3
FIRST = SITES_MAX  # the first settlement of site 0
A, B, C = 0, 1, 2


def terms(**options: Any) -> Terms:
    return Terms(
        **{
            "policy": Policy(K, L),
            "disjoint": False,
            "values_as_tokens": False,
            "numeric": 1,
            "categorical": 1,
            **options,
        }
    )


def people(persons: range, number: int) -> bytes:
    bits = range_bits(K)
    return encode_set(TOKENS.persons(number, np.array(persons, np.int64), bits), bits)


def bitmap(*leaves: int) -> bytes:
    return encode_bitmap(np.array(leaves, np.int64), 8)


class Table:
    """A settlement of sites 0, 1, 2 ... and what it said last to whom."""

    def __init__(self, sites: int = 3, **options: Any) -> None:
        self.settlement = Settlement(terms(**options), patience_ns=PATIENCE)
        self.sites = list(range(sites))
        for site in self.sites:
            self.settlement.join(site, Policy(K, L))
        self.now = 0
        self.disjoint = bool(options.get("disjoint"))

    def propose(
        self,
        persons: range,
        leaves: tuple[int, ...] = (0, 1),
        *,
        site: int = A,
        number: int = FIRST,
        others: list[int] | None = None,
        spare: int = 0,
        hurry: bool = False,
        **fields: Any,
    ) -> list[Effect]:
        message = pb.Propose(
            settlement=number,
            box=BOX,
            radius=1_000,
            persons=len(persons) if self.disjoint else 0,
            tokens=b"" if self.disjoint else people(persons, number),
            values=bitmap(*leaves),
            spare=spare,
            hurry=hurry,
        )
        for name, value in fields.items():
            setattr(message, name, value)
        asked = [each for each in self.sites if each != site] if others is None else others
        return self.settlement.propose(site, message, asked, self.now)

    def vote(
        self,
        site: int,
        persons: range,
        *,
        asked: int,
        leaves: tuple[int, ...] = (),
        spare: int = 0,
        number: int = FIRST,
        reach: bytes = b"",
    ) -> list[Effect]:
        vote = pb.Vote(
            settlement=number,
            short=max(0, asked - len(persons)),
            tokens=b"" if self.disjoint or not len(persons) else people(persons, number),
            values=bitmap(*leaves),
            spare=spare,
            reach=reach,
        )
        return self.settlement.vote(site, vote, self.now)

    def withdraw(self, site: int, number: int = FIRST) -> list[Effect]:
        return self.settlement.withdraw(site, pb.Withdraw(settlement=number), self.now)

    def tick(self, time: int) -> list[Effect]:
        self.now += time
        return self.settlement.tick(self.now)

    def __getitem__(self, counter: str) -> int:
        return self.settlement.statistics[counter]


def told(effects: list[Effect], kind: str) -> dict[int, Any]:
    """What each site was told, of this kind."""
    return {
        each.site: getattr(each.message, kind)
        for each in effects
        if isinstance(each, Tell) and each.message.WhichOneof("body") == kind
    }


def committed(effects: list[Effect]) -> list[Committed]:
    return [each for each in effects if isinstance(each, Committed)]


# --- the plain way


def test_the_others_are_asked_for_even_shares_of_what_the_proposer_lacks() -> None:
    asks = told(Table().propose(range(4)), "ask")
    assert set(asks) == {B, C}
    assert sum(ask.persons for ask in asks.values()) == K - 4
    for ask in asks.values():
        assert (ask.settlement, ask.box, ask.radius) == (FIRST, BOX, 1_000)
        assert not ask.values_wanted


def test_values_are_asked_for_only_where_the_proposer_lacks_them() -> None:
    asks = told(Table().propose(range(4), leaves=(1,)), "ask")
    assert all(ask.values_wanted for ask in asks.values())


def test_nobody_is_asked_for_fewer_than_may_be_revealed() -> None:
    asks = told(Table(sites=9).propose(range(K - 1)), "ask")
    assert {ask.persons for ask in asks.values()} == {PERSONS_REVEALED_MIN}


def test_votes_that_have_k_persons_and_l_values_are_committed_and_everybody_hears_it() -> None:
    table = Table()
    table.propose(range(4))
    assert table.vote(B, range(4, 8), asked=4, reach=b"\x20\x05") == []
    effects = table.vote(C, range(8, 12), asked=4)
    (proof,) = committed(effects)
    assert proof.class_id == FIRST
    assert set(proof.votes) == {A, B, C}
    commits = told(effects, "commit")
    assert set(commits) == {A, B, C}
    for commit in commits.values():
        assert (commit.settlement, commit.box, commit.reach) == (FIRST, BOX, b"\x20\x05")
        assert (commit.persons, commit.values) == (K, 2)
    assert effects.index(proof) == 0, "the barrier hears of it before anybody publishes"


def test_nothing_happens_before_the_last_vote() -> None:
    table = Table()
    table.propose(range(11))
    assert table.vote(B, range(11, 20), asked=3) == []


def test_one_person_short_is_not_committed() -> None:
    table = Table()
    table.propose(range(4))
    table.vote(B, range(4, 8), asked=4)
    effects = table.vote(C, range(8, 11), asked=4)
    assert committed(effects) == []
    assert told(effects, "more")


def test_a_person_at_two_sites_is_counted_once() -> None:
    table = Table()
    table.propose(range(4))
    table.vote(B, range(4, 8), asked=4)
    assert committed(table.vote(C, range(4, 8), asked=4)) == []


def test_a_settlement_that_commits_at_k_minus_one_would_be_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Ballot, "persons", property(lambda self: self._union.persons + 1))
    with pytest.raises(AssertionError):
        test_one_person_short_is_not_committed()


def test_a_ballot_that_counts_a_person_twice_would_be_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    twice = property(lambda self: sum(persons.count for persons, _ in self.votes.values()))
    monkeypatch.setattr(Ballot, "persons", twice)
    with pytest.raises(AssertionError):
        test_a_person_at_two_sites_is_counted_once()


def test_without_others_a_settlement_does_with_what_the_proposer_has() -> None:
    assert committed(Table().propose(range(K), others=[]))
    assert set(told(Table().propose(range(3), others=[]), "more")) == {A}


# --- all together are short


def test_a_refill_takes_the_rest_from_those_who_have_most_to_spare() -> None:
    table = Table()
    table.propose(range(4), spare=1)
    table.vote(B, range(4, 7), asked=4, spare=9)
    effects = table.vote(C, range(7, 9), asked=4, spare=0)
    more = told(effects, "more")
    assert set(more) == {B}
    assert (more[B].persons, more[B].radius, more[B].values_wanted) == (3, 1_000, False)
    assert committed(table.vote(B, range(20, 23), asked=3))
    assert (table["refilled"], table["widened"]) == (1, 0)


def test_without_spares_the_radius_is_widened_for_all_until_it_is_infinite() -> None:
    table = Table()
    table.propose(range(4))
    table.vote(B, range(0), asked=4)
    effects = table.vote(C, range(4, 8), asked=4)
    radii = []
    while more := told(effects, "more"):
        radii.append(more[A].radius)
        effects = []
        for site, each in more.items():
            effects = table.vote(site, range(0), asked=each.persons + each.values_wanted)
    assert radii == [1_500, 2_250, RADIUS_ALL]
    aborts = told(effects, "abort")
    assert set(aborts) == {A, B, C}
    assert {abort.reason for abort in aborts.values()} == {pb.ABORT_REASON_TOO_FEW}
    assert table["aborted: too_few"] == 1


def test_who_has_given_nothing_is_not_asked_for_fewer_than_may_be_revealed() -> None:
    table = Table()
    table.propose(range(9))
    table.vote(B, range(9, 11), asked=3)
    more = told(table.vote(C, range(0), asked=3), "more")
    assert more[C].persons == PERSONS_REVEALED_MIN


def test_in_a_hurry_more_are_asked_for_and_the_second_round_is_the_last() -> None:
    table = Table()
    asks = told(table.propose(range(4), hurry=True, spare=50), "ask")
    assert sum(ask.persons for ask in asks.values()) == 10  # 1.25 times the eight that are missing
    table.vote(B, range(4, 6), asked=asks[B].persons, spare=50)
    more = told(table.vote(C, range(0), asked=asks[C].persons), "more")
    assert {each.radius for each in more.values()} == {RADIUS_ALL}


def test_when_all_streams_have_ended_too_few_are_exhausted_until_somebody_joins() -> None:
    table = Table(sites=2)
    for site in table.sites:
        table.settlement.end(site)
    effects = table.propose(range(4), radius=RADIUS_ALL)
    effects = table.vote(B, range(0), asked=8)
    assert told(effects, "abort")[A].reason == pb.ABORT_REASON_EXHAUSTED
    effects = table.propose(range(4), number=FIRST + SITES_MAX)
    assert told(effects, "abort")[A].reason == pb.ABORT_REASON_EXHAUSTED
    assert not told(effects, "ask")
    table.settlement.join(C, Policy(K, L))
    assert told(table.propose(range(4), number=FIRST + 2 * SITES_MAX, others=[B, C]), "ask")


def test_while_another_settlement_holds_records_nothing_is_exhausted() -> None:
    table = Table(sites=2)
    for site in table.sites:
        table.settlement.end(site)
    table.propose(range(4), site=B, number=FIRST + 1)
    table.propose(range(4), radius=RADIUS_ALL)
    effects = table.vote(B, range(0), asked=8)
    assert told(effects, "abort")[A].reason == pb.ABORT_REASON_TOO_FEW


# --- values


def test_too_few_values_lead_to_more_with_those_that_are_known_and_then_to_a_commit() -> None:
    table = Table()
    table.propose(range(4), leaves=(3,))
    table.vote(B, range(4, 8), asked=4, leaves=(3,))
    more = told(table.vote(C, range(8, 12), asked=4, leaves=(3,)), "more")
    assert set(more) == {A, B, C}
    for each in more.values():
        assert each.values_wanted
        assert each.values == bitmap(3)
        assert each.persons == 0
    table.vote(A, range(0), asked=1)
    table.vote(B, range(50, 51), asked=1, leaves=(5,))
    effects = table.vote(C, range(0), asked=1)
    assert told(effects, "commit")[A].values == 2
    assert told(effects, "commit")[A].persons == K + 1


def test_l_of_one_needs_no_values() -> None:
    table = Table(policy=Policy(K, 1))
    table.settlement.join(B, Policy(K, 1))
    table.settlement.join(A, Policy(K, 1))
    table.settlement.join(C, Policy(K, 1))
    asks = told(table.propose(range(4), leaves=()), "ask")
    table.vote(B, range(4, 8), asked=asks[B].persons)
    assert committed(table.vote(C, range(8, 12), asked=asks[C].persons))


def test_the_strictest_policy_of_those_who_take_part_counts() -> None:
    table = Table()
    table.settlement.join(C, Policy(K + 4, 3))
    table.propose(range(4), leaves=(0, 1))
    table.vote(B, range(4, 10), asked=6, leaves=(0,))
    more = told(table.vote(C, range(10, 14), asked=6, leaves=(0,)), "more")
    assert more, "k would be enough, but not for C"
    assert all(each.values_wanted for each in more.values())
    for site, each in list(more.items())[:-1]:
        table.vote(site, range(20 + site, 21 + site), asked=each.persons + 1, leaves=(site,))
    last, each = list(more.items())[-1]
    effects = table.vote(last, range(30, 32), asked=each.persons + 1, leaves=(4,))
    assert told(effects, "commit")[A].persons >= K + 4
    assert told(effects, "commit")[A].values >= 3


def test_the_policy_of_a_site_that_gives_nothing_does_not_count() -> None:
    table = Table()
    table.settlement.join(C, Policy(10 * K, 5))
    asks = told(table.propose(range(6), leaves=(0, 1)), "ask")
    table.vote(B, range(6, 12), asked=asks[B].persons)
    assert committed(table.vote(C, range(0), asked=asks[C].persons))


# --- sites that go, are silent, or decide alone


def proposed() -> Table:
    table = Table()
    table.propose(range(6))
    return table


def test_when_the_proposer_withdraws_all_are_told_that_it_is_over() -> None:
    table = proposed()
    table.vote(B, range(6, 9), asked=3)
    aborts = told(table.withdraw(A), "abort")
    assert set(aborts) == {A, B, C}
    assert {abort.reason for abort in aborts.values()} == {pb.ABORT_REASON_TIMEOUT}
    assert table["withdrawn"] == 1


def test_the_vote_of_a_site_that_withdraws_is_not_counted() -> None:
    table = proposed()
    table.vote(B, range(6, 9), asked=3)
    assert table.withdraw(B) == []
    effects = table.vote(C, range(9, 12), asked=3)
    assert committed(effects) == []
    assert B not in told(effects, "more")


def test_a_site_that_withdraws_before_it_votes_is_not_waited_for() -> None:
    table = proposed()
    table.withdraw(C)
    effects = table.vote(B, range(6, 9), asked=3, spare=9)
    assert told(effects, "more")[B].persons == 3


def test_a_withdrawal_after_the_commit_or_of_something_unknown_changes_nothing() -> None:
    table = proposed()
    table.vote(B, range(6, 9), asked=3)
    table.vote(C, range(9, 12), asked=3)
    assert table.withdraw(B) == []
    assert table.withdraw(B, number=99 * SITES_MAX) == []
    assert table["withdrawn"] == 0


@pytest.mark.parametrize("phase", ["asked", "voted", "more"])
@pytest.mark.parametrize("lost", [A, B])
def test_a_site_that_is_lost_is_done_without_in_every_phase(phase: str, lost: int) -> None:
    table = proposed()
    if phase != "asked":
        table.vote(B, range(6, 9), asked=3, spare=9)
    if phase == "more":
        assert told(table.vote(C, range(9, 11), asked=3), "more")
    effects = table.settlement.lose(lost, table.now)
    heard = {each.site for each in effects if isinstance(each, Tell)}
    assert lost not in heard
    if lost == A:
        assert {each.reason for each in told(effects, "abort").values()} == {
            pb.ABORT_REASON_TIMEOUT
        }
        return
    if phase != "more":
        effects = table.vote(C, range(9, 12), asked=3)
    more = told(effects, "more")
    assert set(more) == {A, C}
    assert not committed(effects)


def test_silent_sites_are_done_without_after_patience() -> None:
    table = proposed()
    table.vote(B, range(6, 12), asked=3)
    assert table.tick(PATIENCE) == []
    effects = table.tick(1)
    (proof,) = committed(effects)
    assert set(proof.votes) == {A, B}
    assert table["silent"] == 1
    kinds = [
        each.message.WhichOneof("body")
        for each in effects
        if isinstance(each, Tell) and each.site == C
    ]
    assert kinds == ["abort", "commit"], "it lets go of what it may hold, then learns of the class"


def test_a_slow_site_is_given_more_time_than_a_quick_one() -> None:
    table = Table()
    table.propose(range(6))
    table.now += 900
    table.vote(B, range(6, 9), asked=3)
    table.vote(C, range(9, 12), asked=3)
    table.propose(range(6), number=FIRST + SITES_MAX)
    assert table.tick(8 * 900) == []
    assert table.tick(1)


def test_a_vote_that_comes_too_late_is_not_taken_for_the_answer_to_a_later_question() -> None:
    # Persons are numbers here. B gives two; C is silent; both others drop out of the picture, so
    # that C would be asked for more than it was at first.
    table = Table(disjoint=True)
    asks = told(table.propose(range(6)), "ask")
    assert asks[C].persons == 3
    table.vote(B, range(0), asked=3)
    table.tick(PATIENCE + 1)
    with pytest.raises(MessageRefused) as refused:
        table.vote(C, range(3), asked=3)
    assert refused.value.reason == pb.REASON_STALE


def test_when_the_proposer_itself_is_silent_it_is_over() -> None:
    table = Table(sites=2)
    table.propose(range(4))
    assert told(table.vote(B, range(0), asked=8), "more")
    table.vote(B, range(0), asked=5)
    assert set(told(table.tick(PATIENCE + 1), "abort")) == {A, B}


# --- what is refused, and changes nothing


def refuse(reason: pb.Reason, call: Any, *arguments: Any, **options: Any) -> None:
    with pytest.raises(MessageRefused) as refused:
        call(*arguments, **options)
    assert refused.value.reason == reason


def test_a_vote_for_something_that_never_was_is_unknown() -> None:
    refuse(pb.REASON_UNKNOWN, Table().vote, B, range(3), asked=3)


def test_a_vote_for_something_that_is_over_is_stale() -> None:
    table = proposed()
    table.withdraw(A)
    refuse(pb.REASON_STALE, table.vote, B, range(6, 9), asked=3)


def test_a_second_vote_of_a_site_is_stale_and_not_counted() -> None:
    table = proposed()
    table.vote(B, range(6, 9), asked=3)
    refuse(pb.REASON_STALE, table.vote, B, range(9, 12), asked=3)
    assert not committed(table.vote(C, range(0), asked=3))


def test_a_vote_of_a_site_that_was_not_asked_is_refused() -> None:
    table = Table(sites=4)
    table.propose(range(6), others=[B, C])
    refuse(pb.REASON_STALE, table.vote, 3, range(6, 9), asked=3)


@pytest.mark.parametrize(
    "field",
    [
        {"short": 4},
        {"tokens": b"\xff\xff\xff"},
        {"values": b"\x01\x00"},
        {"reach": b"\x01\x02\x03\x04\x05"},
    ],
)
def test_a_malformed_vote_is_refused_and_the_site_may_vote_again(field: dict[str, Any]) -> None:
    table = proposed()
    vote = pb.Vote(settlement=FIRST, tokens=people(range(6, 9), FIRST))
    for name, value in field.items():
        setattr(vote, name, value)
    refuse(pb.REASON_MALFORMED, table.settlement.vote, B, vote, 0)
    table.vote(C, range(9, 12), asked=3)
    effects = table.vote(B, range(6, 9), asked=3)
    assert told(effects, "commit")[A].persons == K
    assert told(effects, "commit")[A].reach == b""


@pytest.mark.parametrize(
    ("field", "reason"),
    [
        ({"settlement": 0}, pb.REASON_UNSPECIFIED),  # a site's first id may be 0
        ({"settlement": FIRST + 1}, pb.REASON_MALFORMED),
        ({"radius": 0}, pb.REASON_MALFORMED),
        ({"radius": RADIUS_ALL + 1}, pb.REASON_MALFORMED),
        ({"tokens": b"\xff\xff"}, pb.REASON_MALFORMED),
        ({"values": b"\x00"}, pb.REASON_MALFORMED),
        ({"reach": b"\xff\xff\xff\xff"}, pb.REASON_MALFORMED),
    ],
)
def test_a_malformed_proposal_is_refused_and_asks_nobody(
    field: dict[str, Any], reason: pb.Reason
) -> None:
    table = Table()
    if reason == pb.REASON_UNSPECIFIED:
        assert told(table.propose(range(4), **field), "ask")
        return
    refuse(reason, table.propose, range(4), **field)
    assert table["proposed"] == 0
    assert told(table.propose(range(4)), "ask"), "the same id is good afterwards"


def test_an_id_is_used_once() -> None:
    table = proposed()
    refuse(pb.REASON_STALE, table.propose, range(6))
    table.withdraw(A)
    refuse(pb.REASON_STALE, table.propose, range(6))


def test_so_many_settlements_of_a_site_may_be_under_way_and_no_more() -> None:
    table = Table()
    for number in range(1, IN_FLIGHT_MAX + 1):
        table.propose(range(6), number=number * SITES_MAX)
    after = (IN_FLIGHT_MAX + 1) * SITES_MAX
    refuse(pb.REASON_FULL, table.propose, range(6), number=after)
    table.withdraw(A, number=SITES_MAX)
    assert told(table.propose(range(6), number=after), "ask")


def test_where_persons_are_disjoint_numbers_are_added_and_tokens_refused() -> None:
    table = Table(disjoint=True)
    table.propose(range(6))
    vote = pb.Vote(settlement=FIRST, tokens=people(range(3), FIRST))
    refuse(pb.REASON_MALFORMED, table.settlement.vote, B, vote, 0)
    table.vote(B, range(3), asked=3)
    effects = table.vote(C, range(3), asked=3)
    assert told(effects, "commit")[A].persons == K


def test_a_vote_without_new_persons_still_widens_the_reach() -> None:
    # More records of persons who were counted already may lie further outside.
    table = Table(disjoint=True)
    table.propose(range(6))
    table.vote(B, range(3), asked=3, spare=5)
    assert told(table.vote(C, range(2), asked=3), "more")[B].persons == 1
    effects = table.vote(B, range(0), asked=1, reach=b"\x80\x07", spare=4)
    more = told(effects, "more")
    assert set(more) == {B}
    effects = table.vote(B, range(1), asked=more[B].persons)
    assert told(effects, "commit")[A].reach == b"\x80\x07"
