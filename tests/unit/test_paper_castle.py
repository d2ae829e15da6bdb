"""CASTLE, rule by rule: each test is named after the lines of the pseudo-code that it holds.

Streams are a few tuples long and made by hand; the compiled machine runs them. Unless a test says
otherwise, a tuple is an age, each comes from another person, and the split is the paper's, where a
tuple expires exactly delay_tuples = 10 arrivals later. Tau is 0 until the first class is published,
so that at first every new age opens a cluster of its own, up to beta of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from core.config import Parameters, parse_project
from core.errors import ConfigurationError
from core.events import SUPPRESSED, Publish, Records, RecordsArrived, StreamEnded
from core.hierarchy import from_nested
from core.kernels.counts import below
from core.kernels.layout import CREDIT, GRID, RANDOM, REGISTERS
from core.loss import class_losses, total_loss
from core.machine import Machine
from core.schema import Attribute, Kind, Role, Schema

DELAY = 10
QI = Role.QUASI_IDENTIFIER
EDU, _ = from_nested(
    {"Any": {"School": ["Primary", "Secondary"], "University": ["Bachelor", "Master", "PhD"]}},
    file="",
    line=None,
    attribute="",
)
assert EDU is not None
STUDY = Attribute(name="edu", role=QI, kind=Kind.CATEGORICAL, hierarchy=EDU)
# A year is a whole number of grid steps. In the paper's examples ages go from 18 to 120.
AGE = Attribute(name="age", role=QI, kind=Kind.NUMERIC, domain=(0.0, 128.0))
PAPER_AGE = Attribute(name="age", role=QI, kind=Kind.NUMERIC, domain=(18.0, 120.0))
BY_AGE = Schema(attributes=(AGE,), person="pid")
PAPER = Schema(attributes=(PAPER_AGE, STUDY), person="pid")


@dataclass(frozen=True)
class T:
    """A tuple to arrive. Without a person it is someone who was never seen."""

    age: float
    edu: str = "Primary"
    person: int | None = None
    ill: int = 0
    general: bool = False


@dataclass(frozen=True)
class Out:
    """A tuple's outcome; `values` are an interval, and a node where there is one."""

    t: T
    position: int
    class_id: int
    values: tuple[object, ...]


class Site:
    """A machine that takes plain tuples and answers with plain outcomes."""

    def __init__(self, schema: Schema = BY_AGE, *, seed: int = 1, **parameters: Any) -> None:
        defaults = {"k": 2, "split": "castle", "beta": 10, "delay_tuples": DELAY}
        self.schema = schema
        self.machine = Machine(schema, Parameters(**{**defaults, **parameters}), seed=seed)
        self.effects: list[Publish] = []
        self.stream: list[T] = []

    def arrive(self, *tuples: T | float) -> list[Out]:
        rows = [t if isinstance(t, T) else T(t) for t in tuples]
        first = len(self.stream)
        self.stream += rows
        return self._step(RecordsArrived(self._encode(rows, first)))

    def wait(self, arrivals: int) -> list[Out]:
        """Let time pass: as many records come that are suppressed by policy at once."""
        return self.arrive(*[T(0, general=True)] * arrivals)

    def run(self, *tuples: T | float) -> list[Out]:
        """Let the tuples come at once, and then pass by as much as it takes to decide them all."""
        return [*self.arrive(*tuples), *self.wait(DELAY)]

    def end(self) -> list[Out]:
        return self._step(StreamEnded())

    def __getitem__(self, statistic: str) -> int:
        return self.machine.statistics()[statistic]

    @property
    def gamma(self) -> int:
        return self.machine.open_clusters

    def _step(self, event: RecordsArrived | StreamEnded) -> list[Out]:
        effects = self.machine.step(event)
        self.effects += effects
        outs = [out for effect in effects for out in self._outcomes(effect)]
        return [out for out in outs if not out.t.general]

    def _outcomes(self, effect: Publish) -> Iterable[Out]:
        table = effect.classes
        for position, row in zip(effect.position.tolist(), effect.row.tolist(), strict=True):
            class_id, values = SUPPRESSED, ()
            if row != SUPPRESSED:
                class_id = int(table.class_id[row])
                bounds = zip(table.low[row].tolist(), table.high[row].tolist(), strict=True)
                values = (*bounds, *(EDU.names[node] for node in table.node[row].tolist()))
            yield Out(self.stream[position], position, class_id, values)

    def _encode(self, rows: list[T], first: int) -> Records:
        low, high = self.schema.numeric[0].domain or (0.0, 0.0)
        raw = np.array([[row.age] for row in rows], np.float64)
        leaf = np.array([[EDU.names.index(row.edu)] for row in rows])
        columns = [np.rint((raw - low) / (high - low) * GRID), leaf]
        strangers = range(1_000 + first, 1_000 + first + len(rows))
        persons = [
            stranger if row.person is None else row.person
            for row, stranger in zip(rows, strangers, strict=True)
        ]
        return Records(
            code=np.hstack(columns[: len(self.schema.quasi_identifiers)]).astype(np.int32),
            raw=raw,
            person=np.array(persons, np.int64),
            value=np.array([row.ill for row in rows], np.int64),
            general=np.array([row.general for row in rows], np.bool_),
        )


def groups(outs: Iterable[Out]) -> list[list[float]]:
    """Ages by class, in the order of the classes' ids; suppressed tuples are left out."""
    classes: dict[int, list[float]] = {}
    for out in outs:
        if out.class_id != SUPPRESSED:
            classes.setdefault(out.class_id, []).append(out.t.age)
    return [sorted(classes[class_id]) for class_id in sorted(classes)]


def suppressed(outs: Iterable[Out]) -> list[float]:
    return [out.t.age for out in outs if out.class_id == SUPPRESSED]


def site_with_tau(years: float, **parameters: Any) -> Site:
    """No clusters, tau is `years`, and nothing to reuse: the first class is not below tau."""
    site = Site(**parameters)
    k = parameters.get("k", 2)
    assert groups(site.run(20, *[20 + years] * (k - 1))) == [[20, *[20 + years] * (k - 1)]]
    assert site.gamma == 0
    return site


def site_with_reusable(*classes: tuple[float, float], **parameters: Any) -> Site:
    """Tau was 10 years, and then these classes came, each below it."""
    site = site_with_tau(10, **parameters)
    k = parameters.get("k", 2)
    for low, high in classes:
        assert len(groups(site.run(low, *[high] * (k - 1)))) == 1
    return site


def seed_that_draws(*draws: tuple[int, int]) -> int:
    """A seed whose first random numbers below these bounds are these."""
    for seed in range(100_000):
        register = np.zeros(REGISTERS, np.int64)
        register[RANDOM] = seed
        if all(below(register, bound) == number for bound, number in draws):
            return seed
    raise AssertionError("no such seed")


# Section 2: definitions.


def test_definition_2_1_k_persons_not_k_tuples_make_a_class() -> None:
    site = Site(k=3)
    outs = site.run(*[T(30, person=p) for p in (1, 1, 1, 2, 2)])
    assert suppressed(outs) == [30] * 5


@pytest.mark.parametrize("order", ["released", "input"])
@pytest.mark.parametrize("split", ["cut", "castle"])
def test_definition_2_2_no_tuple_waits_for_more_than_delta_others(split: str, order: str) -> None:
    site = Site(k=2, delay_tuples=32, split=split, order=order)
    waits = [later - out.position for later in range(200) for out in site.arrive(later % 50)]
    assert len(waits) >= 200 - 32
    assert max(waits) <= 32


def test_definition_2_2_holds_even_when_nothing_is_paid_for_a_cluster_in_line() -> None:
    site = Site(delay_tuples=32, split="cut")
    # The first cluster expires after 30 tuples and cannot be paid for.
    site.machine._state.register[CREDIT] = -(10**12)
    waits = [later - out.position for later in range(200) for out in site.arrive(later % 50)]
    assert max(waits) == 32


def test_section_2_2_information_loss_is_the_mean_over_the_attributes() -> None:
    # Example 2: ([24, 28], University) loses 1/2 * (4/102 + 2/4).
    site = Site(PAPER)
    site.run(T(24, "Bachelor"), T(28, "Master"))
    assert class_losses(PAPER, site.effects[-1].classes) == pytest.approx([(4 / 102 + 2 / 4) / 2])


def test_section_2_2_a_leaf_and_a_point_lose_nothing() -> None:
    site = Site(PAPER)
    site.run(T(24, "Bachelor"), T(24, "Bachelor"))
    assert class_losses(PAPER, site.effects[-1].classes).tolist() == [0.0]


# Section 3: clusters.


def test_definition_3_1_a_further_tuple_of_a_person_does_not_add_to_the_size() -> None:
    # Example 1: after (pid1, 25, Bachelor) came again, the size is still three.
    site = Site(PAPER, k=4, beta=1)
    first = T(25, "Bachelor", person=1)
    outs = site.run(first, T(26, "Master", person=2), T(30, "PhD", person=3), first)
    assert len(suppressed(outs)) == 4


def test_definition_3_2_a_class_is_the_least_interval_and_the_lowest_common_ancestor() -> None:
    # Example 1.
    outs = Site(PAPER, k=3).run(T(25, "Bachelor"), T(26, "Master"), T(30, "PhD"))
    assert {out.values for out in outs} == {((25.0, 30.0), "University")}


def test_definition_3_4_a_tuple_goes_where_the_enlargement_is_least() -> None:
    # Example 2: C1([18, 22], School), C2([26, 28], University); (24, Bachelor) goes to C2.
    site = Site(PAPER, beta=2)
    outs = site.run(
        *(T(18, "Primary"), T(26, "Bachelor"), T(22, "Secondary"), T(28, "Master")),
        T(24, "Bachelor"),
    )
    assert groups(outs) == [[18, 22], [24, 26, 28]]


def test_footnote_4_between_two_tuples_the_enlargement_is_their_distance() -> None:
    assert groups(Site(beta=2).run(20, 50, 34, 50)) == [[20, 34], [50, 50]]


# Algorithm 1.


def test_algorithm_1_line_3_tau_starts_at_0() -> None:
    site = Site()
    site.arrive(30, 30.5)
    assert site.gamma == 2


def test_algorithm_1_line_10_pushes_the_tuple_into_the_selected_cluster() -> None:
    site = Site()
    site.arrive(30, 30)
    assert site.gamma == 1


@pytest.mark.parametrize(("arrivals", "decided"), [(DELAY - 1, 0), (DELAY, 2)])
def test_algorithm_1_lines_11_to_13_a_tuple_expires_at_the_delta_th_arrival_after_it(
    arrivals: int, decided: int
) -> None:
    site = Site()
    site.arrive(30, 30)
    assert len(site.wait(arrivals - 1)) == decided


def test_algorithm_1_line_12_a_tuple_that_was_output_does_not_expire_again() -> None:
    site = Site()
    assert len(site.run(30, 30)) == 2
    assert site.wait(3 * DELAY) == []


# best_selection.


def test_best_selection_line_9_a_loss_equal_to_tau_is_within_tau() -> None:
    site = site_with_tau(10)
    site.arrive(50, 60)
    assert site.gamma == 1


def test_best_selection_line_9_a_loss_above_tau_is_not() -> None:
    site = site_with_tau(10)
    site.arrive(50, 60.5)
    assert site.gamma == 2


def test_best_selection_line_8_is_about_the_loss_after_pushing() -> None:
    site = site_with_tau(10)
    # The cluster [50, 56] loses 6 and would be enlarged by 6: each is within tau, 12 is not.
    site.arrive(50, 56, 62)
    assert site.gamma == 2


def test_best_selection_line_7_asks_only_those_with_minimum_enlargement() -> None:
    site = site_with_tau(10)
    # [50, 60] would be enlarged by 2, beyond tau; {72} by 10, within tau, but not the least.
    site.arrive(50, 60, 72, 62)
    assert site.gamma == 3


def test_best_selection_line_13_returns_the_smallest_when_there_are_beta_clusters() -> None:
    # 30 is as far from the two at 20 as from the one at 40.
    assert groups(Site(beta=2).run(20, 40, 20, 30)) == [[20, 20], [30, 40]]


def test_best_selection_line_15_opens_a_cluster_while_there_are_fewer_than_beta() -> None:
    site = Site(beta=2)
    gamma = []
    for age in (20, 21, 22):
        site.arrive(age)
        gamma.append(site.gamma)
    assert gamma == [1, 2, 2]


def test_best_selection_line_17_returns_the_smallest_of_those_within_tau() -> None:
    site = site_with_tau(10)
    # 55.5 is as far from the two at 50 as from the one at 61.
    assert groups(site.run(50, 61, 50, 55.5)) == [[50, 50], [55.5, 61]]


# delay_constraint and merge_clusters.


def test_delay_constraint_lines_2_and_3_output_the_whole_cluster_with_its_youngest() -> None:
    site = Site()
    site.arrive(30)
    site.wait(DELAY - 1)
    assert groups(site.arrive(30)) == [[30, 30]]


def test_delay_constraint_line_2_needs_l_values_too() -> None:
    outs = Site(l=2).run(T(30, ill=0), T(30, ill=0), T(90, ill=1))
    assert groups(outs) == [[30, 30, 90]]


def test_delay_constraint_lines_5_to_8_reuse_a_class_that_contains_the_tuple() -> None:
    site = site_with_reusable((50, 52))
    (out,) = site.run(51)
    assert (out.class_id, out.values) == (1, ((50.0, 52.0),))


def test_delay_constraint_line_5_does_not_reuse_a_class_beside_the_tuple() -> None:
    assert suppressed(site_with_reusable((50, 52)).run(52.5)) == [52.5]


def test_delay_constraint_line_7_chooses_at_random_among_all_that_contain_the_tuple() -> None:
    sites = [site_with_reusable((50, 52), (49, 53), seed=seed) for seed in range(20)]
    assert {site.run(51)[0].class_id for site in sites} == {1, 2}


def test_delay_constraint_line_9_leaves_the_rest_of_the_cluster_where_it_is() -> None:
    site = site_with_reusable((50, 52), k=3)
    site.arrive(51)
    site.wait(3)
    site.arrive(51)
    assert [out.t.age for out in site.wait(DELAY - 4)] == [51]
    assert site.gamma == 1


def test_delay_constraint_lines_14_to_16_suppress_a_tuple_of_an_outlier_cluster() -> None:
    site = Site(k=3)
    assert suppressed(site.run(20, 40, 40, 60, 60)) == [20]
    assert site["suppressed_outliers"] == 1


def test_delay_constraint_line_14_smaller_than_exactly_half_is_no_outlier() -> None:
    assert groups(Site(k=3).run(20, 40, 40)) == [[20, 40, 40]]


def test_delay_constraint_line_12_compares_persons_not_tuples() -> None:
    one, other = T(40, person=1), T(60, person=2)
    site = Site(k=3)
    assert groups(site.run(20, one, one, other, other)) == [[20, 40, 40, 60, 60]]


def test_delay_constraint_lines_17_to_19_suppress_when_all_clusters_are_too_few() -> None:
    site = Site(k=3)
    assert suppressed(site.run(20, 40)) == [20, 40]
    assert site["suppressed_too_few"] == 2


def test_delay_constraint_line_17_counts_a_person_of_two_clusters_once() -> None:
    site = Site(k=3)
    assert len(suppressed(site.run(T(20, person=1), T(40, person=1), T(60, person=2)))) == 3


def test_delay_constraint_line_17_suppresses_when_l_values_cannot_be_reached() -> None:
    site = Site(l=2)
    assert suppressed(site.run(20, 20, 40)) == [20, 20, 40]
    assert site["suppressed_too_few"] == 3


def test_delay_constraint_lines_20_and_21_merge_and_output() -> None:
    site = Site()
    assert groups(site.run(20, 40)) == [[20, 40]]
    assert (site["merges"], site.gamma) == (1, 0)


def test_merge_clusters_merges_the_cluster_that_enlarges_least() -> None:
    assert groups(Site().run(20, 50, 30)) == [[20, 30]]


def test_merge_clusters_measures_the_next_from_the_merged_box() -> None:
    # From 50 alone 41 is nearer than 64, from [50, 58] it is not.
    assert groups(Site(k=3).run(50, 41, 64, 58)) == [[50, 58, 64]]


def test_merge_clusters_goes_on_until_there_are_k_persons_and_no_further() -> None:
    one = [T(30, person=1), T(30, person=1), T(30, person=1)]
    assert groups(Site(k=3).run(T(31, person=2), *one, 40, 90)) == [[30, 30, 30, 31, 40]]


def test_merge_clusters_goes_on_until_there_are_l_values() -> None:
    assert groups(Site(l=2).run(20, 22, T(60, ill=1), T(99, ill=2))) == [[20, 22, 60]]


# output_cluster.


@pytest.mark.parametrize(("persons", "classes"), [(5, 1), (6, 2)])
def test_output_cluster_line_1_splits_from_2k_persons_on(persons: int, classes: int) -> None:
    assert len(groups(Site(k=3).run(*[30] * persons))) == classes


def test_output_cluster_line_1_does_not_split_2k_tuples_of_fewer_persons() -> None:
    tuples = [T(30, person=p) for p in (1, 1, 2, 2, 3, 3)]
    assert groups(Site(k=2).run(*tuples)) == [[30] * 6]


def test_output_cluster_line_6_gives_all_tuples_of_a_class_its_generalisation() -> None:
    assert {out.values for out in Site(k=3).run(25, 26, 30)} == {((25.0, 30.0),)}


@pytest.mark.parametrize(("mu", "clusters"), [(2, 1), (1, 2)])
def test_output_cluster_line_7_tau_is_the_average_of_the_mu_latest(mu: int, clusters: int) -> None:
    # Losses of 10 and 2 years: 5 are within their average, and not within the last alone.
    site = site_with_tau(10, mu=mu)
    site.run(50, 52)
    site.arrive(70, 75)
    assert site.gamma == clusters


def test_output_cluster_line_8_keeps_only_classes_with_loss_below_tau() -> None:
    site = site_with_tau(10)
    assert suppressed(site.run(25)) == [25]


def test_output_cluster_line_8_compares_with_tau_after_line_7() -> None:
    # With mu = 1 tau is then the class's own loss: nothing is below it.
    site = site_with_reusable((50, 52), mu=1)
    assert suppressed(site.run(51)) == [51]


def test_output_cluster_line_12_deletes_the_cluster() -> None:
    site = Site()
    site.arrive(30, 30, 80)
    site.wait(DELAY - 2)
    assert site.gamma == 1


# split, for l = 1.


@pytest.mark.parametrize("seed", range(10))
def test_split_line_2_takes_one_tuple_of_a_person_at_a_time(seed: int) -> None:
    persons = (1, 1, 1, 1, 2, 2, 3, 4, 5)
    outs = Site(seed=seed).run(*[T(30, person=p) for p in persons])
    classes: dict[int, set[int | None]] = {}
    for out in outs:
        classes.setdefault(out.class_id, set()).add(out.t.person)
    assert len(classes) >= 2
    assert all(len(members) >= 2 for members in classes.values())


def test_split_line_3_makes_parts_while_k_persons_are_left() -> None:
    assert sorted(map(len, groups(Site(k=3).run(*[30] * 8)))) == [3, 5]


def test_split_line_4_begins_with_a_random_tuple() -> None:
    firsts = {tuple(groups(Site(k=2, beta=1, seed=s).run(20, 30, 40, 50))[0]) for s in range(30)}
    assert firsts > {(20, 30), (40, 50)}


@pytest.mark.parametrize("seed", range(10))
def test_split_lines_8_to_12_take_the_nearest(seed: int) -> None:
    site = Site(k=3, beta=1, seed=seed)
    assert sorted(groups(site.run(20, 90, 21, 91, 22, 92))) == [[20, 21, 22], [90, 91, 92]]


def test_split_line_10_measures_from_the_first_tuple_not_from_the_part() -> None:
    # 50 begins. 40 is nearer to [44, 50] than 57 is, but farther from 50.
    site = Site(k=3, beta=1, seed=seed_that_draws((6, 0)))
    assert groups(site.run(50, 44, 57, 40, 100, 101))[0] == [44, 50, 57]


def test_split_lines_21_to_23_add_the_remaining_to_the_nearest_part() -> None:
    # 20 begins the first part, 80 the second; 60 is left.
    site = Site(beta=1, seed=seed_that_draws((5, 0), (3, 0)))
    assert groups(site.run(20, 20, 80, 80, 60)) == [[20, 20], [60, 80, 80]]


def test_split_line_23_adds_all_remaining_tuples_of_a_person_to_one_part() -> None:
    # 20 begins the first part, 80 the second; a person is left who was at 60 and then at 21.
    site = Site(beta=1, seed=seed_that_draws((5, 0), (3, 0)))
    last = (T(60, person=1), T(21, person=1))
    assert groups(site.run(20, 20, 80, 80, *last)) == [[20, 20], [21, 60, 80, 80]]


# split-l, for l > 1.


def sick(*tuples: tuple[float, int]) -> list[T]:
    return [T(age, ill=ill) for age, ill in tuples]


def test_split_l_lines_2_and_3_keep_the_cluster_when_one_tuple_per_person_has_too_few_values() -> (
    None
):
    # The second value is in the second tuple of person 1 only.
    persons = [T(30, person=p) for p in (1, 2, 3, 4)]
    site = Site(l=2)
    assert groups(site.run(*persons, T(30, person=1, ill=1))) == [[30] * 5]
    assert site["splits"] == 1


def test_split_l_line_5_stops_when_fewer_than_l_values_are_left() -> None:
    assert groups(Site(l=2).run(*sick(*[(30, 0)] * 7, (30, 1)))) == [[30] * 8]


@pytest.mark.parametrize("seed", range(10))
def test_split_l_lines_10_to_15_give_every_part_a_share_of_every_value(seed: int) -> None:
    outs = Site(l=3, k=3, seed=seed).run(*sick(*[(30, ill) for ill in (0, 1, 2)] * 3))
    values: dict[int, set[int]] = {}
    for out in outs:
        values.setdefault(out.class_id, set()).add(out.t.ill)
    assert list(values.values()) == [{0, 1, 2}] * 2


# The first part begins at 20 with value 0, the second at 90 with value 0.
TWO_PLACES = sick((20, 0), (20, 0), (20, 1), (21, 1), (90, 0), (90, 0), (90, 1), (90, 1))
TWO_SEEDS = ((2, 0), (4, 0), (2, 0), (2, 0))


def test_split_l_lines_11_to_15_take_what_enlarges_the_part_least() -> None:
    site = Site(l=2, beta=1, seed=seed_that_draws(*TWO_SEEDS))
    assert groups(site.run(*TWO_PLACES))[1] == [90, 90, 90, 90]


@pytest.mark.parametrize("seed", range(10))
def test_split_l_line_14_share_is_rounded_up(seed: int) -> None:
    # Of 4 + 2 persons a part of k = 3 takes 2 + 1 beside its first: 2 are left, too few for more.
    # Rounded down there would be two parts.
    outs = Site(l=2, k=3, seed=seed).run(*sick(*[(30, 0)] * 4, *[(30, 1)] * 2))
    assert groups(outs) == [[30] * 6]


def test_split_l_lines_20_to_23_add_the_remaining_to_the_nearest_part() -> None:
    site = Site(l=2, beta=1, seed=seed_that_draws(*TWO_SEEDS))
    assert groups(site.run(*TWO_PLACES))[0] == [20, 20, 20, 21]


@pytest.mark.parametrize("seed", range(10))
def test_split_l_lines_25_to_30_keep_the_tuples_of_a_person_together(seed: int) -> None:
    site = Site(l=2, beta=1, seed=seed)
    twice = (T(20, person=1), T(95, person=1, ill=1))
    outs = site.run(twice[0], *TWO_PLACES, twice[1])
    assert len(groups(outs)) >= 2
    assert len({out.class_id for out in outs if out.t.person == 1}) == 1


# Section 4.3 and section 5.3.


def test_theorem_3_reordered_output_has_the_order_of_the_input_and_the_same_classes() -> None:
    ages = [20, 90, 20, 50, 90, 20, 50, 70]
    released, reordered = (Site(order=order).run(*ages) for order in ("released", "input"))
    assert [out.position for out in reordered] == list(range(8))
    assert reordered == sorted(released, key=lambda out: out.position) != released


def test_section_5_3_the_end_of_the_stream_leaves_nothing_behind() -> None:
    site = Site(k=3)
    site.arrive(20, 20, 20, 55, 60, 90)
    assert groups(site.end()) == [[20, 20, 20], [55, 60, 90]]
    assert (site.gamma, site.end()) == (0, [])


def test_section_5_3_the_end_of_the_stream_expires_in_arrival_order() -> None:
    site = Site()
    site.arrive(90, 20, 90, 20)
    assert [out.t.age for out in site.end()] == [90, 90, 20, 20]


def test_section_5_3_the_end_of_the_stream_reuses_classes() -> None:
    site = site_with_reusable((50, 52))
    site.arrive(51)
    assert [out.class_id for out in site.end()] == [1]


# What the papers leave open (docs/architecture.md).


def test_a_cluster_emptied_by_suppression_is_gone_at_once_so_that_beta_holds() -> None:
    site = Site(k=3, beta=1)
    site.arrive(20)
    assert suppressed(site.wait(DELAY)) == [20]
    assert site.gamma == 0
    site.arrive(90)
    assert (site.gamma, site["clusters_opened"]) == (1, 2)


def test_a_cluster_emptied_by_reuse_is_gone_at_once() -> None:
    site = site_with_reusable((50, 52))
    site.run(51)
    assert (site["reused"], site.gamma) == (1, 0)


def test_with_reuse_max_0_nothing_is_reused() -> None:
    assert suppressed(site_with_reusable((50, 52), reuse_max=0).run(51)) == [51]


def test_with_reuse_max_1_only_the_latest_class_is_reused() -> None:
    site = site_with_reusable((50, 52), (60, 61), reuse_max=1)
    assert suppressed(site.run(51)) == [51]
    assert [out.class_id for out in site.run(60.5)] == [2]


def test_a_suppressed_tuple_loses_everything_and_has_no_class() -> None:
    site = Site()
    site.arrive(20)
    site.end()
    (effect,) = site.effects
    assert (effect.row.tolist(), len(effect.classes)) == ([SUPPRESSED], 0)
    assert total_loss(BY_AGE, effect) == 1.0


@pytest.mark.parametrize("seed", range(10))
def test_with_l_1_the_split_does_not_look_at_the_values(seed: int) -> None:
    site = Site(beta=1, seed=seed)
    assert sorted(groups(site.run(*sick((20, 0), (20, 0), (90, 1), (90, 1))))) == [
        [20, 20],
        [90, 90],
    ]


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("split", ["cut", "castle"])
def test_no_part_of_a_split_is_short_of_persons_or_values(split: str, seed: int) -> None:
    site = Site(k=3, l=2, beta=1, split=split, seed=seed)
    outs = site.run(*[T(20 + p, person=p % 7, ill=p % 5 // 4) for p in range(10)])
    members = [[out.t for out in outs if out.class_id == c] for c in range(site["classes"])]
    assert all(len({t.person for t in each}) >= 3 for each in members)
    assert all(len({t.ill for t in each}) >= 2 for each in members)


def test_l_beyond_the_values_of_the_sensitive_attribute_is_refused_by_the_configuration() -> None:
    text = """
        [privacy]
        k = 5
        l = 3
        delay_tuples = 100
        [[attribute]]
        name = "age"
        role = "quasi-identifier"
        kind = "numeric"
        domain = [0, 128]
        [[attribute]]
        name = "ill"
        role = "sensitive"
        kind = "categorical"
        hierarchy = { any = ["yes", "no"] }
    """
    with pytest.raises(ConfigurationError, match="l is 3, but 'ill' has 2 values"):
        parse_project(text, file="dcastle.toml", read_file=lambda _: "")
