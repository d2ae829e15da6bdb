"""The `paper` session beside its algorithm: what it sends, what it refuses, how it ends.

Also its vectorised parts against plain ones.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from core.config import Parameters
from core.events import Records, RecordsArrived, StreamEnded, Ticked
from core.exchange import PROTOCOL_VERSION, SITES_MAX
from core.hierarchy import from_nested
from core.kernels.layout import GRID
from core.schema import Attribute, Kind, Role, Schema
from core.tokens import TokenKey, decode_set, range_bits
from relay_server.pb import exchange_pb2 as pb
from site_node.exchange_events import Received, Send
from site_node.paper import PaperSession
from site_node.paper_boxes import BoxSpace
from site_node.paper_dice import Dice
from site_node.paper_split import split_cluster
from tests import oracle
from tests.paper_sites import AGE, BY_AGE, DELAY, KEY, Site, T, cluster, groups

THEIRS = 7 * SITES_MAX + 3

TREE, _ = from_nested(
    {"Any": {"A": {"AA": ["a", "b", "c"], "AB": ["d"]}, "B": ["e", "f"], "g": []}},
    file="",
    line=None,
    attribute="",
)
assert TREE is not None
LEAF = Attribute(name="leaf", role=Role.QUASI_IDENTIFIER, kind=Kind.CATEGORICAL, hierarchy=TREE)
TOWN = Attribute(name="town", role=Role.SENSITIVE, kind=Kind.CATEGORICAL)
MIXED = Schema(attributes=(AGE, replace(AGE, name="more"), LEAF, replace(LEAF, name="other")))
# The sensitive attribute has no list of values, and persons may be at two sites.
BY_TOKEN = Schema(attributes=(AGE, TOWN), person="pid")


def records(count: int, seed: int, *, persons: int = 1_000, values: int = 4) -> Records:
    """Random records of MIXED."""
    random = np.random.default_rng(seed)
    raw = random.integers(0, 129, (count, 2)).astype(np.float64)
    leaf = random.integers(0, TREE.leaf_count, (count, 2))
    return Records(
        code=np.hstack([raw / 128 * GRID, leaf]).astype(np.int32),
        raw=raw,
        person=random.integers(0, persons, count),
        value=random.integers(0, values, count),
        general=np.zeros(count, np.bool_),
    )


# --- what it says


def test_the_hello_says_what_must_be_the_same_everywhere() -> None:
    hello = Site(k=7, l=2).session.hello().hello
    assert hello.protocol_version == PROTOCOL_VERSION
    assert (hello.exchange, hello.site, hello.k, hello.l) == ("paper", "s", 7, 2)
    assert hello.schema_fingerprint == bytes.fromhex(BY_AGE.fingerprint)
    assert not hello.persons_disjoint
    assert not hello.values_as_tokens
    assert (hello.numeric, hello.categorical) == (1, 0)
    assert Site(schema=replace(BY_AGE, person=None)).session.hello().hello.persons_disjoint
    assert Site(schema=BY_TOKEN).session.hello().hello.values_as_tokens


def test_a_publication_has_a_part_per_class_and_one_for_what_is_suppressed() -> None:
    site = Site(delay_tuples=3)
    site.arrive(20, T(20, "flu"), 99, T(0, general=True), T(0, general=True))
    effect, publication = site.published[-1]
    alone, part = publication.parts
    assert (alone.suppressed, alone.records, alone.class_id) == (True, 2, 0)
    assert np.frombuffer(alone.payload, "<i8").tolist() == [3, 4]
    assert part.class_id == effect.classes.class_id[0]
    assert np.frombuffer(part.bounds, "<f8").tolist() == [20.0, 20.0]
    assert (part.records, part.persons.count, part.values) == (2, 2, bytes([0b1001]))
    assert len(part.persons.tokens) > 0
    assert np.frombuffer(part.payload, "<i8").tolist() == [0, 1]


def test_values_without_a_hierarchy_are_sent_as_tokens_under_the_id_of_the_cluster() -> None:
    site = Site(sites=2, k=4, l=2, schema=BY_TOKEN, beta=1)
    site.arrive(T(20, "burn"), T(20, "flu"), T(20, "burn"))
    (shared,) = site.shared
    bits = range_bits(2)
    expected = TokenKey(KEY).values(shared.id, np.array([1, 3]), bits)
    assert decode_set(shared.values, bits, 10).tolist() == expected.tolist()


@pytest.mark.parametrize(("ill", "diverse"), [("flu", True), ("ache", False)])
def test_tokens_of_another_site_are_compared_with_the_own_ones(ill: str, diverse: bool) -> None:
    there = Site(index=3, sites=2, k=3, l=2, schema=BY_TOKEN, beta=1)
    there.arrive(20, 20, 20)
    here = Site(index=0, sites=2, k=3, l=2, schema=BY_TOKEN, beta=1)
    here.hear_share(*there.shared)
    assert (groups(here.run(T(20, ill))) == [[20]]) is diverse


def test_values_of_a_merged_cluster_under_another_id_are_counted() -> None:
    there = Site(index=3, sites=2, k=3, l=2, schema=BY_TOKEN, beta=1)
    there.arrive(T(50, "flu"), T(50, "flu"), 50)
    here = Site(index=0, sites=2, k=3, l=2, schema=BY_TOKEN)
    here.arrive(20, 90)
    here.hear_share(*there.shared)
    assert groups(here.wait(DELAY - 1)) == [[20]]
    assert here["case_5"] == 1


# --- what it refuses: never an error, always counted


@pytest.mark.parametrize(
    "change",
    [
        {"box": b""},
        {"box": b"\x01\x02\x03"},
        {"box": b"\x09\x01"},
        {"values": b"\xff"},
        {"values": b"\x01\x00"},
        {"size": 0},
        {"id": 0},
        {"id": 2**64 - 1},
    ],
)
def test_a_malformed_cluster_is_ignored_and_counted(change: dict[str, object]) -> None:
    site = Site(sites=2)
    wrong = cluster(THEIRS, 2, 20, 30)
    for name, value in change.items():
        setattr(wrong, name, value)
    site.hear_share(wrong, cluster(THEIRS + SITES_MAX, 2, 20, 30))
    assert site.gamma == 1
    assert site["refused"] == 1
    site.hear_release(wrong)
    assert site["refused"] == 2


def test_a_shared_cluster_with_an_id_of_this_site_is_refused() -> None:
    site = Site(sites=2, index=3)
    site.hear_share(cluster(THEIRS, 2, 20, 30))
    assert (site.gamma, site["refused"]) == (0, 1)


def test_unknown_clusters_in_a_remove_or_a_release_are_ignored_and_counted() -> None:
    site = Site(sites=2)
    site.hear_remove(THEIRS, THEIRS + SITES_MAX)
    assert site.hear_release(cluster(THEIRS, 2, 20, 30)) == []
    assert site["refused"] == 3


def test_a_cluster_that_was_never_sent_is_unknown_to_others() -> None:
    site = Site(sites=2, k=6)
    site.arrive(20)
    own = 1 * SITES_MAX
    site.hear_remove(own)
    assert site.hear_release(cluster(own, 6, 20, 30)) == []
    assert (site.gamma, site["refused"]) == (1, 2)


@pytest.mark.parametrize(
    "message",
    [
        pb.RelayMessage(),
        pb.RelayMessage(ask=pb.Ask(settlement=1)),
        pb.RelayMessage(refused=pb.Refused(detail="no")),
        pb.RelayMessage(welcome=pb.Welcome(site_index=SITES_MAX, sites=2)),
        pb.RelayMessage(welcome=pb.Welcome(site_index=1)),
        pb.RelayMessage(members=pb.Members()),
    ],
)
def test_a_message_that_has_no_meaning_here_is_ignored_and_counted(
    message: pb.RelayMessage,
) -> None:
    site = Site()
    assert site.session.step(Received(message)) == []
    assert site["refused"] == 1


# --- how records end


def test_general_records_are_suppressed_at_once() -> None:
    site = Site()
    site.wait(3)
    assert [len(effect) for effect, _ in site.published] == [3]
    assert site["suppressed"] == 3


def test_at_the_end_of_the_stream_the_remaining_tuples_expire_in_arrival_order() -> None:
    site = Site(k=3)
    site.arrive(20, 60, 20, 60, 20, 90)
    outs = site.end()
    assert groups(outs) == [[20, 20, 20], [60, 60, 90]]
    assert [out.position for out in outs] == [0, 2, 4, 1, 3, 5]
    assert site.session.finished


def test_after_the_end_messages_are_still_taken() -> None:
    site = Site(sites=2)
    site.hear_share(cluster(THEIRS, 2, 20, 30))
    site.end()
    assert site.session.finished
    assert site.hear_release(cluster(THEIRS, 2, 20, 30)) == []
    assert site["refused"] == 0
    assert site.gamma == 0
    site.hear_release(cluster(THEIRS, 2, 20, 30))
    assert site["refused"] == 1


def test_what_has_waited_for_delay_seconds_expires() -> None:
    """Not in the paper; promised for every exchange."""
    site = Site(delay_seconds=2.0)
    site.arrive(20, 20)
    assert len(site.session.step(Ticked(1_999_999_999))) == 0
    assert len(site.session.step(Ticked(2_000_000_000))) == 2
    assert site["case_2"] == 1


def test_published_bounds_hold_values_between_two_points_of_the_grid() -> None:
    tiny = 128 / GRID / 3
    outs = Site(k=3).run(20, 20 + tiny, 20 - tiny)
    assert {(out.low, out.high) for out in outs} == {(20 - tiny, 20 + tiny)}
    # With bounds that came over the wire; Site checks that each age is within the published ones.
    site = Site(sites=2, k=4, beta=1)
    assert len(site.run(20, 20 + tiny, 20 - tiny, 41, 128 - tiny)) == 5
    assert len(site.shared) == 1


def test_a_large_batch_gives_the_outcomes_of_single_records() -> None:
    everything = records(5_000, seed=3)
    parameters = Parameters(k=5, l=2, delay_tuples=300, beta=20)
    outcomes = []
    for size in (1, 7, 5_000):
        session = PaperSession(MIXED, parameters, site="s", key=KEY, seed=1)
        effects = []
        for start in range(0, len(everything), size):
            rows = slice(start, start + size)
            batch = Records(
                code=everything.code[rows],
                raw=everything.raw[rows],
                person=everything.person[rows],
                value=everything.value[rows],
                general=everything.general[rows],
            )
            effects += session.step(RecordsArrived(batch))
        effects += session.step(StreamEnded())
        assert session.finished
        parts = [p for e in effects if isinstance(e, Send) for p in e.message.publication.parts]
        outcomes.append(
            sorted(
                (position, part.class_id, part.bounds)
                for part in parts
                for position in np.frombuffer(part.payload, "<i8").tolist()
            )
        )
        assert session.statistics()["delay_max"] == 300
    assert outcomes[0] == outcomes[1] == outcomes[2]
    assert [position for position, _, _ in outcomes[0]] == list(range(5_000))


# --- vectorised parts against plain ones


def test_boxes_agree_with_the_plain_twin_of_the_core() -> None:
    space = BoxSpace(MIXED)
    twin = oracle.Oracle(MIXED, Parameters(k=2, delay_tuples=2), below=lambda n: 0)
    some = records(60, seed=1)
    tuples = space.of_records(some)
    plain = [
        oracle.Box(tuple(code[:2]), tuple(code[:2]), tuple(code[2:])) for code in some.code.tolist()
    ]
    rng = np.random.default_rng(2)
    for _ in range(200):
        group = rng.choice(60, rng.integers(1, 5), replace=False).tolist()
        box, slow = space.hull(tuples.some(group)), plain[group[0]]
        for row in group[1:]:
            slow = twin.join(slow, plain[row])
        assert space.loss(box) == twin.loss(slow)
        assert tuple(space.nodes(box.path).tolist()) == slow.node
        assert space.enlargements_by(box, tuples).tolist() == [
            twin.enlargement(slow, each) for each in plain
        ]
        around = tuples.some(group)
        node_loss = np.array([space.node_loss(path) for path in around.path])
        assert space.enlargements_of(around, node_loss, box).tolist() == [
            twin.enlargement(plain[row], slow) for row in group
        ]


@pytest.mark.parametrize("l", [1, 2, 3])
@pytest.mark.parametrize("seed", range(10))
def test_every_part_of_a_split_has_k_persons_and_l_values(l: int, seed: int) -> None:
    some = records(200, seed=seed, persons=100, values=4)
    person, value = some.person.tolist(), some.value.tolist()
    space = BoxSpace(MIXED)
    parts = split_cluster(
        space, space.of_records(some), person, value, k=10, l=l, below=Dice(seed).below
    )
    assert len(parts) > 1
    assert sorted(row for part in parts for row in part) == list(range(200))
    homes = [{person[row] for row in part} for part in parts]
    assert min(map(len, homes)) >= 10
    assert sum(map(len, homes)) == len(set(person))
    assert min(len({value[row] for row in part}) for part in parts) >= l


def test_dice_are_fair_and_repeatable() -> None:
    thrown = [Dice(5).below(6) for _ in range(3)]
    assert len(set(thrown)) == 1
    dice = Dice(5)
    counts = np.bincount([dice.below(6) for _ in range(6_000)], minlength=6)
    assert counts.min() > 900
