"""The `strict` exchange from end to end: whatever the network does, k and l are kept."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import scripts.simulation.exchange
from core.config import Parameters
from core.events import SUPPRESSED, Records
from core.exchange import PERSONS_REVEALED_MIN
from core.schema import Schema
from core.tokens import decode_set, range_bits
from relay_server.ballot import Ballot
from relay_server.pb import exchange_pb2 as pb
from relay_server.publisher import Publisher
from scripts._project import load_project
from scripts.datasets.registry import resolve
from scripts.simulation.deal import deal
from scripts.simulation.engine import simulate
from scripts.simulation.network import Kill, Network
from scripts.simulation.plan import Plan
from scripts.simulation.result import RunResult
from scripts.simulation.stream import Dealt
from scripts.simulation.wire import Wire
from site_node.session import Session
from site_node.telling import Teller
from site_node.trace import DeadLetters
from tests.exchange_pump import Pump, dealt, encloses, parameters, project, records, schema

QUICK = range(10)
MANY = range(10, 90)


def run(
    of: Schema, rules: Parameters, stream: Dealt, network: Network | None = None, seed: int = 1
) -> RunResult:
    network = network or Network()
    return simulate(project(of, rules), stream, mode="strict", network=network, seed=seed)


def check(of: Schema, rules: Parameters, stream: Dealt, result: RunResult) -> None:
    """k, l, delay, enclosure, and one outcome for every record that was accepted."""
    assert (result.violations_k, result.violations_l) == (0, 0)
    assert result.delay_max <= rules.delay_tuples
    _recount(of, rules, stream, result)
    out = result.merged.record
    assert len(np.unique(out)) == len(out), "a record came out twice"
    assert result.details["accepted"] - len(out) == result.details["lost with killed sites"]


def check_complete(of: Schema, rules: Parameters, stream: Dealt, result: RunResult) -> None:
    check(of, rules, stream, result)
    assert sorted(result.merged.record.tolist()) == list(range(len(stream)))


def _recount(of: Schema, rules: Parameters, stream: Dealt, result: RunResult) -> None:
    """Count again, plainly: records that look alike, and whether they are where they belong."""
    merged, source = result.merged, stream.records
    groups: dict[bytes, list[int]] = {}
    for record, row in zip(merged.record.tolist(), merged.row.tolist(), strict=True):
        if row == SUPPRESSED:
            continue
        classes = merged.classes
        ends = np.concatenate([classes.low[row], classes.high[row]]).tobytes()
        bounds = ends + classes.node[row].astype("<i4").tobytes()
        assert encloses(bounds, source, record, of)
        groups.setdefault(bounds, []).append(record)
    for members in groups.values():
        own = of.person is None
        assert len(members if own else set(source.person[members].tolist())) >= rules.k
        assert rules.l == 1 or len(set(source.value[members].tolist())) >= rules.l


# --- a seeded sample of everything at once


def case(seed: int) -> tuple[Schema, Parameters, Dealt, Network]:
    draw = random.Random(seed)
    sites = draw.randint(1, 12)
    k, l = draw.choice((2, 3, 5, 9, 16, 30)), draw.randint(1, 4)
    person = draw.choice(("pid", "pid", None))
    disjoint = person is not None and draw.random() < 0.35
    numeric_value = draw.random() < 0.3
    of = schema(person=person, disjoint=disjoint, numeric_value=numeric_value)
    rules = parameters(
        k=k,
        l=min(k, l),
        delay_tuples=draw.choice((k, k + 1, 2 * k, 50, 150)),
        beta=draw.choice((1, 4, 12)),
        reuse_max=draw.choice((0, 2, 100)),
        split=draw.choice(("cut", "castle")),
        order=draw.choice(("released", "released", "input")),
    )
    count = draw.choice((0, k - 1, 3 * k, 200, 700))
    stream = records(
        count,
        seed,
        persons=draw.choice((k, 2 * k, 40, 10**6)),
        values=draw.choice((1, 2, 5)),
        numeric_value=numeric_value,
    )
    numbers = np.random.default_rng(seed)
    if disjoint:
        site = stream.person % sites
    else:
        weights = numbers.dirichlet(np.full(sites, draw.choice((0.2, 1.0, 50.0))))
        site = numbers.choice(sites, count, p=weights)
    if draw.random() < 0.25 and not disjoint:
        # Each site has people of its own kind.
        site = np.argsort(np.argsort(stream.raw[:, 0])) * sites // max(1, count)
    if draw.random() < 0.25 and not disjoint and sites > 1:
        # The first site is silent in the second half.
        late = np.arange(count) > count // 2
        site = np.where(late & (site == 0), 1, site)
    names = [f"site-{number}" for number in range(1, sites + 1)]
    killed = draw.sample(names, min(len(names) - 1, draw.choice((0, 0, 0, 1, 2))))
    network = Network(
        latency_tuples=draw.choice((0, 0, 1, 5, 20, 100)),
        drop=draw.choice((0.0, 0.0, 0.1, 0.4)),
        duplicate=draw.choice((0.0, 0.0, 0.3)),
        kills=tuple(Kill(site=name, position=draw.randint(0, 60)) for name in killed),
    )
    return of, rules, dealt(stream, site, sites), network


def check_case(seed: int) -> RunResult:
    of, rules, stream, network = case(seed)
    result = run(of, rules, stream, network, seed)
    check(of, rules, stream, result)
    if not network.kills:
        check_complete(of, rules, stream, result)
    return result


@pytest.mark.parametrize("seed", QUICK)
def test_whatever_happens_every_class_has_k_and_l_and_no_deadline_is_missed(seed: int) -> None:
    check_case(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", MANY)
def test_whatever_happens_many_times_over(seed: int) -> None:
    check_case(seed)


def test_the_sample_settles_classes_of_several_sites() -> None:
    committed = sum(
        check_case(seed).details.get("relay: committed", 0) for seed in (0, 4, 7, 11, 12)
    )
    assert committed > 0


# --- one thing at a time


@pytest.mark.parametrize("sites", [1, 2, 3, 7, 12])
def test_any_number_of_sites_keeps_the_promises(sites: int) -> None:
    of, rules, stream = schema(), parameters(), records(600, sites)
    where = np.arange(600) % sites
    check_complete(
        of, rules, dealt(stream, where, sites), run(of, rules, dealt(stream, where, sites))
    )


@pytest.mark.parametrize("latency", [0, 1, 10, 100])
@pytest.mark.parametrize("disjoint", [False, True])
def test_few_persons_with_many_records_are_counted_once(latency: int, disjoint: bool) -> None:
    of = schema(disjoint=disjoint)
    committed = 0
    for seed, k in enumerate((5, 12, 25)):
        rules = parameters(k=k, delay_tuples=100)
        stream = records(900, seed, persons=60)
        site = stream.person % 4 if disjoint else np.arange(900) % 4
        result = run(of, rules, dealt(stream, site, 4), Network(latency_tuples=latency), seed)
        check_complete(of, rules, dealt(stream, site, 4), result)
        committed += result.details.get("relay: committed", 0)
    assert committed > 0


def test_a_site_that_counted_a_person_twice_would_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    # What hides behind numbers: a person of an earlier vote who is in a later one, too.
    monkeypatch.setattr("site_node.session.np.isin", lambda some, _: np.zeros(len(some), np.bool_))
    found = 0
    for seed in range(4):
        rules, stream = parameters(k=25, delay_tuples=100), records(900, seed, persons=60)
        of, where = schema(disjoint=True), stream.person % 2
        found += run(of, rules, dealt(stream, where, 2), seed=seed).violations_k
    assert found > 0


def test_a_relay_that_commits_one_person_short_would_be_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Everyone who could object has to be off by one: the ballot, the sites and the barrier.
    one_more = property(lambda ballot: ballot._union.persons + 1)
    monkeypatch.setattr(Ballot, "persons", one_more)
    publisher_init = Publisher.__init__

    def lenient(self: Publisher, *, k: int, **options: Any) -> None:
        publisher_init(self, k=k, **options)
        self._k = k - 1

    monkeypatch.setattr(Publisher, "__init__", lenient)
    of, rules = schema(person=None), parameters(k=12)
    stream = dealt(records(900, 1), np.arange(900) % 3, 3)
    assert run(of, rules, stream).violations_k > 0


def test_the_barrier_alone_holds_k_when_the_relay_miscounts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Ballot, "persons", property(lambda ballot: ballot._union.persons + 2))
    of, rules = schema(person=None), parameters(k=12)
    stream = dealt(records(900, 1), np.arange(900) % 3, 3)
    check_complete(of, rules, stream, run(of, rules, stream))


def test_a_numeric_sensitive_attribute_travels_as_tokens_and_is_diverse() -> None:
    of, rules = schema(numeric_value=True), parameters(k=8, l=3)
    stream = dealt(records(900, 4, numeric_value=True), np.arange(900) % 5, 5)
    result = run(of, rules, stream)
    check_complete(of, rules, stream, result)
    assert result.details["relay: committed"] > 0


@pytest.mark.parametrize(
    "network",
    [
        Network(drop=0.3),
        Network(duplicate=0.5),
        Network(drop=0.2, duplicate=0.2, latency_tuples=15),
    ],
)
def test_lost_and_repeated_frames_change_no_promise(network: Network) -> None:
    of, rules = schema(), parameters(delay_tuples=80)
    stream = dealt(records(600, 5, persons=200), np.arange(600) % 4, 4)
    check_complete(of, rules, stream, run(of, rules, stream, network))


def test_what_a_killed_site_promised_is_never_published_short() -> None:
    of, rules = schema(), parameters(k=10, delay_tuples=80)
    for seed in range(5):
        stream = dealt(records(600, seed, persons=150), np.arange(600) % 4, 4)
        kills = tuple(Kill(site=f"site-{n}", position=40 * n + seed) for n in (1, 3))
        result = run(of, rules, stream, Network(latency_tuples=8, kills=kills), seed)
        check(of, rules, stream, result)
        alive = np.isin(stream.site, (1, 3))
        assert set(np.flatnonzero(alive).tolist()) <= set(result.merged.record.tolist())


def test_sites_that_differ_by_value_keep_the_promises() -> None:
    of, rules, stream = schema(), parameters(), records(700, 6)
    where = np.argsort(np.argsort(stream.raw[:, 0])) * 5 // 700
    check_complete(of, rules, dealt(stream, where, 5), run(of, rules, dealt(stream, where, 5)))


def test_streams_that_end_early_and_sites_without_any_record_keep_the_promises() -> None:
    of, rules, stream = schema(), parameters(delay_tuples=40), records(600, 7)
    # Most at the last site; the first ends after a few records; the third never has one.
    where = np.where(np.arange(600) < 12, 0, np.where(np.arange(600) < 150, 1, 3))
    for latency in (0, 20):
        result = run(of, rules, dealt(stream, where, 4), Network(latency_tuples=latency))
        check_complete(of, rules, dealt(stream, where, 4), result)


@pytest.mark.parametrize("count", [0, 1, 4, 11])
def test_streams_with_fewer_records_than_k_come_out_suppressed(count: int) -> None:
    of, rules = schema(person=None), parameters(k=12)
    stream = dealt(records(count, 8), np.arange(count) % 3, 3)
    result = run(of, rules, stream, Network(latency_tuples=2))
    check_complete(of, rules, stream, result)
    assert result.suppressed == count


def test_too_few_records_at_each_site_are_enough_together() -> None:
    of, rules = schema(person=None), parameters(k=12, l=1)
    source = records(60, 9)
    source = replace(source, general=np.zeros(60, np.bool_))
    stream = dealt(source, np.arange(60) % 8, 8)
    together = run(of, rules, stream)
    check_complete(of, rules, stream, together)
    alone = simulate(project(of, rules), stream, mode="none", network=Network(), seed=1)
    assert alone.suppressed == 60
    assert together.suppressed < 60


def test_one_site_proposes_nothing_and_loses_no_more_than_castle() -> None:
    of, rules = schema(), parameters(k=8, delay_tuples=90)
    stream = dealt(records(1_500, 10, persons=400), np.zeros(1_500), 1)
    strict = run(of, rules, stream)
    check_complete(of, rules, stream, strict)
    none = simulate(project(of, rules), stream, mode="none", network=Network(), seed=1)
    assert strict.information_loss is not None
    assert none.information_loss is not None
    assert strict.information_loss <= 1.05 * none.information_loss
    assert strict.details.get("proposed", 0) == 0


def test_the_order_of_input_does_not_break_up_what_was_voted_for() -> None:
    of, rules = schema(), parameters(k=12, order="input")
    for seed in range(3):
        stream = dealt(records(600, seed), np.arange(600) % 4, 4)
        check_complete(of, rules, stream, run(of, rules, stream, Network(latency_tuples=5), seed))


def test_the_same_seed_gives_the_same_output_and_another_one_another() -> None:
    of, rules = schema(), parameters()
    stream = dealt(records(600, 11, persons=300), np.arange(600) % 4, 4)
    network = Network(latency_tuples=10, drop=0.2, duplicate=0.1)

    def bytes_of(result: RunResult) -> tuple[bytes, ...]:
        merged = result.merged
        parts = (merged.record, merged.row, merged.classes.class_id)
        ends = (merged.classes.low, merged.classes.high, merged.classes.node)
        return tuple(part.tobytes() for part in (*parts, *ends))

    first = run(of, rules, stream, network, 5)
    again = run(of, rules, stream, network, 5)
    assert bytes_of(first) == bytes_of(again)
    assert (first.messages, first.bytes_to_relay) == (again.messages, again.bytes_to_relay)
    assert bytes_of(first) != bytes_of(run(of, rules, stream, network, 6))


@pytest.mark.parametrize("sites", [2, 9])
def test_real_adult_keeps_the_promises(data_dir: Path, sites: int) -> None:
    source = resolve("adult", data_dir)
    overrides = {"privacy.k": 20, "privacy.l": 2, "privacy.delay_tuples": 200}
    adult = load_project(None, source, overrides)
    stream = deal(adult, source, Plan(sites=sites, rows=3_000), DeadLetters(None)).dealt
    for network in (Network(), Network(latency_tuples=40, drop=0.05, duplicate=0.05)):
        result = simulate(adult, stream, mode="strict", network=network, seed=3)
        check_complete(adult.schema, adult.parameters, stream, result)
        assert result.details["relay: committed"] > 0


# --- what leaves a site


class Ears:
    """Hears everything that sites say, as it is sent."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.heard: list[tuple[int, pb.SiteMessage]] = []
        say = Wire.say

        def overheard(wire: Wire, site: int, message: pb.SiteMessage) -> None:
            copy = pb.SiteMessage.FromString(message.SerializeToString())
            self.heard.append((site, copy))
            say(wire, site, message)

        monkeypatch.setattr(scripts.simulation.exchange.Wire, "say", overheard)


def secret_stream(count: int, *, numeric_value: bool) -> Records:
    """Codes of persons that cannot be in a message by chance."""
    source = records(count, 12, persons=150, numeric_value=numeric_value)
    numbers = np.random.default_rng(3).integers(10**17, 9 * 10**18, count)
    _, place = np.unique(source.person, return_inverse=True)
    return replace(source, person=numbers[place])


@pytest.mark.parametrize("numeric_value", [False, True])
def test_no_person_and_no_raw_value_leaves_a_site(
    monkeypatch: pytest.MonkeyPatch, numeric_value: bool
) -> None:
    ears = Ears(monkeypatch)
    of, rules = schema(numeric_value=numeric_value), parameters(k=10)
    source = secret_stream(800, numeric_value=numeric_value)
    stream = dealt(source, np.arange(800) % 4, 4)
    result = run(of, rules, stream)
    assert result.details["relay: committed"] > 5
    bounds = {
        float(end) for end in (*result.merged.classes.low.flat, *result.merged.classes.high.flat)
    }
    spoken = [message.SerializeToString() for _, message in ears.heard]
    everything = b"\0\0\0\0\0\0\0\0".join(spoken)
    for code in np.unique(source.person).tolist():
        assert code.to_bytes(8, "little") not in everything
        assert code.to_bytes(8, "big") not in everything
        assert str(code).encode() not in everything
    raw = {float(value) for value in source.raw.flat} - bounds
    assert len(raw) > 500
    for value in raw:
        # Few digits occur by chance; eight bytes do not.
        assert np.float64(value).tobytes() not in everything
    if numeric_value:
        for code in np.unique(source.value).tolist():
            assert code.to_bytes(8, "little", signed=True) not in everything


@pytest.mark.parametrize("seed", [117, 195, 413])
def test_neighbours_that_are_too_old_to_be_promised_leave_no_proposal_of_two_persons(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    told: dict[tuple[int, int], set[int]] = {}
    persons = Teller.persons

    def counted(teller: Teller, owner: int, codes: Any) -> pb.Persons:
        found = told.setdefault((id(teller), owner), set())
        found.update(codes.tolist())
        assert len(found) not in range(1, PERSONS_REVEALED_MIN)
        return persons(teller, owner, codes)

    monkeypatch.setattr(Teller, "persons", counted)
    check_case(seed)
    assert told


def test_a_raw_value_in_a_message_would_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    ears = Ears(monkeypatch)
    source = secret_stream(200, numeric_value=False)
    hello = Session.hello

    def leaking(session: Session) -> pb.SiteMessage:
        message = hello(session)
        message.hello.schema_fingerprint += source.raw[0, 0].tobytes()
        return message

    monkeypatch.setattr(Session, "hello", leaking)
    run(schema(), parameters(), dealt(source, np.arange(200) % 2, 2))
    spoken = b"".join(message.SerializeToString() for _, message in ears.heard)
    assert source.raw[0, 0].tobytes() in spoken


def test_tokens_of_the_same_persons_in_two_classes_do_not_match(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ears = Ears(monkeypatch)
    # The same twenty persons again and again: if keys were not fresh, sets would meet.
    rules, stream = parameters(k=8), records(600, 13, persons=20)
    run(schema(), rules, dealt(stream, np.arange(600) % 2, 2))
    bits = range_bits(rules.k)
    by_class: dict[int, set[int]] = {}
    for _, message in ears.heard:
        body = message.WhichOneof("body")
        said = getattr(message, body) if body in ("propose", "vote") else None
        if said is not None and said.tokens:
            tokens = decode_set(said.tokens, bits, 1 << bits).tolist()
            by_class.setdefault(said.settlement, set()).update(tokens)
        for part in message.publication.parts:
            if part.persons.tokens and not part.persons.salt:
                tokens = decode_set(part.persons.tokens, bits, 1 << bits).tolist()
                by_class.setdefault(part.class_id, set()).update(tokens)
    seen = Counter(token for tokens in by_class.values() for token in tokens)
    assert len(by_class) > 10
    pairs = sum(times * (times - 1) // 2 for times in seen.values())
    total = sum(map(len, by_class.values()))
    # By chance total**2 / 2 / 2**bits of them are equal; were keys the same, most would be.
    by_chance = total * total / 2 / (1 << bits)
    assert pairs < 2 * by_chance + 20
    assert by_chance < total


# --- sites that come and go, in a network where senders overtake each other


def pumped(seed: int, sites: int, count: int = 300, **options: Any) -> Pump:
    pump = Pump(schema(**options), parameters(k=8, delay_tuples=70), seed=seed)
    for number in range(sites):
        stream = records(count, 100 * seed + number, persons=250)
        if options.get("disjoint"):
            stream = replace(stream, person=stream.person * sites + number)
        pump.add(f"s{number}", stream, seed=number)
    return pump


def play(pump: Pump, names: list[str], turns: int, *, most: int = 40) -> None:
    """Sites go on at their own pace, messages at theirs."""
    for _ in range(turns):
        name = pump.random.choice(names)
        pump.offer(name, pump.random.randint(1, 12))
        pump.deliver(pump.random.randint(0, most))


@pytest.mark.parametrize("seed", range(6))
def test_senders_that_overtake_each_other_change_no_promise(seed: int) -> None:
    pump = pumped(seed, 4, disjoint=seed % 2 == 1)
    pump.deliver()
    play(pump, list(pump.sites), 150)
    for name in pump.sites:
        pump.end(name)
    pump.finish()
    pump.check()
    assert pump.hub.statistics()["committed"] > 0


@pytest.mark.parametrize("seed", range(4))
def test_a_site_that_joins_late_takes_part(seed: int) -> None:
    pump = pumped(seed, 3)
    pump.deliver()
    play(pump, list(pump.sites), 60)
    late = pump.add("late", records(300, 999 + seed), seed=9)
    play(pump, ["s0", "s1", "s2"], 5)
    pump.deliver()
    play(pump, list(pump.sites), 90)
    for name in pump.sites:
        pump.end(name)
    pump.finish()
    pump.check()
    assert late.accepted > 0
    assert any(message.WhichOneof("body") in ("vote", "propose") for message in late.said)


@pytest.mark.parametrize("seed", range(4))
def test_a_site_that_leaves_in_the_middle_leaves_nothing_short(seed: int) -> None:
    pump = pumped(seed, 4)
    pump.deliver()
    play(pump, list(pump.sites), 80)
    pump.leave("s3")
    pump.deliver()
    assert pump.hub.sites == 3
    play(pump, ["s0", "s1", "s2"], 60)
    for name in ("s0", "s1", "s2"):
        pump.end(name)
    pump.finish()
    pump.check(complete=False)
    for name in ("s0", "s1", "s2"):
        assert sorted(pump.outcomes(name)) == list(range(pump.sites[name].accepted))


def test_when_all_others_leave_the_last_site_goes_on_alone() -> None:
    pump = pumped(3, 3)
    pump.deliver()
    play(pump, list(pump.sites), 60)
    pump.leave("s1")
    pump.leave("s2")
    pump.deliver()
    pump.offer("s0", 300)
    pump.end("s0")
    pump.finish()
    pump.check(complete=False)
    assert sorted(pump.outcomes("s0")) == list(range(300))
