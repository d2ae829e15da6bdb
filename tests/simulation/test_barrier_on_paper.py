"""The barrier holds P2 alone: fed with what `paper` publishes, nothing short comes out."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

from core.config import Parameters
from core.events import Records
from core.schema import Schema
from relay_server.pb import exchange_pb2 as pb
from relay_server.publisher import Publisher, RefusedPart, VisibleAgain
from tests.exchange_pump import encloses, parameters, records, schema
from tests.paper_sites import Relayed

SITES = 4
COUNT = 800


@dataclass
class Shown:
    """What came out of the barrier."""

    classes: dict[bytes, list[int]] = field(default_factory=dict)
    suppressed: list[int] = field(default_factory=list)


def publications(of: Schema, rules: Parameters, stream: Records, seed: int) -> Relayed:
    relayed = Relayed(of, rules, SITES, seed=seed)
    relayed.deal(stream)
    return relayed


def through_the_barrier(of: Schema, rules: Parameters, relayed: Relayed) -> Shown:
    publisher = Publisher(
        k=rules.k,
        l=rules.l,
        disjoint=of.person is None or of.persons_disjoint,
        values_as_tokens=of.sensitive is not None and of.sensitive.hierarchy is None,
    )
    shown = Shown()
    effects = []
    for site, data in relayed.transcript:
        message = pb.SiteMessage.FromString(data)
        if message.WhichOneof("body") == "publication":
            effects += publisher.step(site, message.publication)
    effects += publisher.finish()
    for effect in effects:
        assert not isinstance(effect, RefusedPart | VisibleAgain)
        places = [p * SITES + effect.site for p in np.frombuffer(effect.payload, "<i8").tolist()]
        if effect.class_id is None:
            shown.suppressed += places
        else:
            shown.classes.setdefault(effect.bounds, []).extend(places)
    return shown


def short_of(of: Schema, rules: Parameters, stream: Records, classes: list[list[int]]) -> int:
    """How many classes have too few persons or values."""
    short = 0
    for members in classes:
        own = of.person is None
        persons = len(members) if own else len(set(stream.person[members].tolist()))
        values = len(set(stream.value[members].tolist()))
        short += persons < rules.k or (rules.l > 1 and values < rules.l)
    return short


CASES = [
    (schema(), parameters(k=8, l=2), 300),
    (schema(person=None), parameters(k=12, l=1), 10**6),
    (schema(numeric_value=True), parameters(k=6, l=3), 10**6),
]


@pytest.mark.parametrize(("of", "rules", "persons"), CASES)
@pytest.mark.parametrize("seed", [1, 2])
def test_of_what_paper_publishes_nothing_short_comes_out_and_everything_does_once(
    of: Schema, rules: Parameters, persons: int, seed: int
) -> None:
    tokens = of.sensitive is not None and of.sensitive.hierarchy is None
    stream = records(COUNT, seed, persons=persons, numeric_value=tokens)
    relayed = publications(of, rules, stream, seed)
    published, _ = relayed.merged()
    assert short_of(of, rules, stream, list(published.values())) > 0, "paper keeps k: no test"
    shown = through_the_barrier(of, rules, relayed)
    assert short_of(of, rules, stream, list(shown.classes.values())) == 0
    assert shown.classes, "the barrier lets pass what is right"
    out = [place for members in shown.classes.values() for place in members] + shown.suppressed
    assert sorted(out) == list(range(COUNT))
    for bounds, members in shown.classes.items():
        assert all(encloses(bounds, stream, place, of) for place in members)


def test_a_barrier_that_is_off_by_one_would_be_found() -> None:
    of, rules, persons = CASES[1]
    found = 0
    for seed in range(8):
        stream = records(COUNT, seed, persons=persons)
        relayed = publications(of, rules, stream, seed)
        shown = through_the_barrier(of, parameters(k=rules.k - 1, l=1), relayed)
        found += short_of(of, rules, stream, list(shown.classes.values()))
    assert found > 0
