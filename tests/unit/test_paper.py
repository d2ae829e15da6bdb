"""dCASTLE, sentence by sentence: each test is named after a sentence of section 4 of the paper.

M. Mohamed, S. Ghanem, M. Nagi: "Privacy-Preserving for Distributed Data Streams: Towards
l-Diversity", 2020. A docstring says where the sentence is. A tuple is an age and an ill, each from
another person unless the test says otherwise; see tests.paper_sites.
"""

from __future__ import annotations

import pytest

from core.events import SUPPRESSED
from core.exchange import SITES_MAX
from tests.paper_sites import DELAY, Out, Site, T, ages_of, cluster, groups, suppressed

# The id of a cluster that site 3 made up.
THEIRS = 7 * SITES_MAX + 3


def site_with_tau(years: float, **rules: object) -> Site:
    """No open clusters, tau is `years`, and nothing to reuse: the first class is not below tau."""
    site = Site(**{"beta": 1, **rules})  # type: ignore[arg-type]
    assert groups(site.run(20, 20 + years)) == [[20, 20 + years]]
    assert site.gamma == 0
    return site


# --- 4.2 messages


def test_a_cluster_id_is_a_concatenation_of_a_site_id_and_a_sequential_identifier() -> None:
    """Section 4.2, first item."""
    site = Site(index=5, sites=2)
    site.arrive(20, 40, 60)
    ids = [each.id for each in site.shared]
    assert [number % SITES_MAX for number in ids] == [5, 5]
    assert ids[1] // SITES_MAX == ids[0] // SITES_MAX + 1


def test_the_cluster_size_is_at_least_ceil_k_over_n_for_a_newly_shared_cluster() -> None:
    """Section 4.2, second item: ceil(5/2) = 3."""
    site = Site(sites=2, k=5)
    site.arrive(20, 20, 40)
    assert site.shared == []
    site.arrive(20, 40)
    assert [each.size for each in site.shared] == [3]


def test_the_cluster_size_is_at_least_k_for_a_released_cluster() -> None:
    """Section 4.2, second item."""
    site = Site(sites=2, k=3)
    site.run(20, 20, 20)
    assert [each.size for each in site.released] == [3]


def test_the_message_contains_the_qi_generalized_values() -> None:
    """Section 4.2, third item. On the wire they are on a grid, rounded outward."""
    site = Site(sites=2, k=4, beta=1)
    site.arrive(20, 41, 30)
    low, high = ages_of(site.shared[0])
    assert 19 < low <= 20
    assert 41 <= high < 42


def test_the_array_has_an_entry_for_each_leaf_that_exists_in_the_cluster() -> None:
    """Section 4.2, fourth item: the leaves are ache, burn, cold, flu."""
    site = Site(sites=2, k=4, beta=1)
    site.arrive(T(20, "burn"), T(20, "flu"), T(20, "burn"))
    assert site.shared[0].values == bytes([0b1010])


def test_the_size_is_the_sum_of_the_local_size_and_the_shared_size() -> None:
    """Section 4.2: two persons there and one here make k = 3."""
    site = Site(sites=2, k=3, beta=1)
    site.hear_share(cluster(THEIRS, 2, 20, 30))
    outs = site.run(25)
    assert site["case_2"] == 1
    assert groups(outs) == [[25]]
    assert [(each.id, each.size) for each in site.released] == [(THEIRS, 3)]


@pytest.mark.parametrize(("ours", "diverse"), [("burn", True), ("ache", False)])
def test_the_diversity_is_the_count_of_distinct_values_in_local_tuples_and_in_the_shared_array(
    ours: str, diverse: bool
) -> None:
    """Section 4.2: `ache` there and another one here make l = 2."""
    site = Site(sites=2, k=3, l=2, beta=1)
    site.hear_share(cluster(THEIRS, 2, 20, 30, ["ache"]))
    outs = site.run(T(25, ours))
    assert (groups(outs) == [[25]]) is diverse
    assert (suppressed(outs) == [25]) is not diverse


def test_a_size_uses_a_shared_cluster_from_only_one_other_site() -> None:
    """Section 4.2: a second message about the cluster does not add to it."""
    site = Site(sites=3, k=3, beta=1)
    site.hear_share(cluster(THEIRS, 1, 20, 30))
    site.hear_share(cluster(THEIRS, 1, 20, 30))
    assert suppressed(site.run(25)) == [25]
    assert site["refused"] == 1


# --- 4.3 main algorithm


def test_when_a_new_tuple_arrives_it_sends_the_recent_clusters_that_are_large_enough() -> None:
    """Section 4.3, first step: at the next arrival, whatever that is, and all of them at once."""
    site = Site(sites=2, k=4)
    site.arrive(20, 40, 20, 40)
    assert len(site.shared) == 1
    site.wait(1)
    assert [ages_of(each)[0] for each in site.shared] == pytest.approx([20, 40], abs=0.5)
    site = Site(sites=2, k=4)
    site.hear(members={"sites": 1})
    site.arrive(20, 40, 20, 40)
    site.hear(members={"sites": 2})
    assert site.said == []
    site.wait(1)
    assert len(site.said) == 1
    assert len(site.shared) == 2


def test_a_cluster_that_was_sent_before_is_not_sent_again() -> None:
    """Section 4.3, first step: "recent (not sent before)"."""
    site = Site(sites=2, k=4, beta=1)
    site.arrive(20, 20, 20)
    assert len(site.shared) == 1
    site.arrive(20, 20)
    site.wait(3)
    assert len(site.shared) == 1


def test_only_local_clusters_are_sent() -> None:
    """Section 4.3, first step."""
    site = Site(sites=2, k=4, beta=1)
    site.hear_share(cluster(THEIRS, 2, 20, 30))
    site.arrive(25, 25, 25, 25)
    assert site.shared == []


def test_a_site_that_is_alone_shares_nothing() -> None:
    """Before the welcome n is 1."""
    site = Site()
    site.arrive(20, 20, 20)
    site.hear(welcome={"site_index": 4, "sites": 1})
    site.wait(2)
    assert site.said == []


def test_clusters_of_before_the_welcome_get_the_id_of_the_site() -> None:
    """Section 4.2, first item, for a site that starts before it knows who it is."""
    site = Site()
    site.arrive(20)
    site.hear(welcome={"site_index": 4, "sites": 2})
    site.wait(1)
    assert [each.id % SITES_MAX for each in site.shared] == [4]


def test_a_released_cluster_is_published_everywhere_with_the_box_that_was_sent() -> None:
    """The wire rounds outward; in the paper sites that enlarge nothing publish equal bounds."""
    here, there = Site(index=0, sites=2, k=4, beta=1), Site(index=1, sites=2, k=4, beta=1)
    here.arrive(20, 41, 30)
    there.hear_share(*here.shared)
    there.arrive(25)
    outs = here.arrive(30)
    outs += here.wait(DELAY)
    elsewhere = there.hear_release(*here.released)
    assert {(out.low, out.high) for out in outs} == {(out.low, out.high) for out in elsewhere}


def test_if_the_procedure_returns_null_it_creates_a_new_cluster() -> None:
    """Section 4.3, third step."""
    site = Site()
    site.arrive(20, 40)
    assert site.gamma == 2
    assert site["clusters_opened"] == 2


def test_no_new_local_cluster_will_be_created_if_gamma_reaches_beta() -> None:
    """Section 4.3: shared clusters count, too."""
    site = Site(sites=2, beta=2, k=5)
    site.hear_share(cluster(THEIRS, 3, 20, 30))
    site.arrive(50, 90, 120)
    assert site["clusters_opened"] == 1
    assert site.gamma == 2


def test_due_to_exchange_the_maximum_size_of_gamma_could_be_larger() -> None:
    """Section 4.3: beta+."""
    site = Site(sites=2, beta=2, k=5)
    site.arrive(50, 90)
    site.hear_share(*[cluster(THEIRS + n * SITES_MAX, 3, 20, 30) for n in range(100)])
    site.hear_remove(*[THEIRS + n * SITES_MAX for n in range(100)])
    assert site.gamma == 2
    assert site.session.open_clusters_max == 102


def test_the_arrival_of_t_makes_a_tuple_with_position_p_minus_delta_expire() -> None:
    """Section 4.3, last step."""
    site = Site(k=5)
    assert site.arrive(20) == []
    assert site.wait(DELAY - 1) == []
    assert site.wait(1) == [Out(20, 0, SUPPRESSED)]
    assert site["delay_max"] == DELAY


# --- 4.4 dUpdateClusters


def test_type_1_newly_shared_clusters_are_added_to_gamma() -> None:
    """Section 4.4."""
    site = Site(sites=2)
    site.hear_share(cluster(THEIRS, 2, 20, 30), cluster(THEIRS + SITES_MAX, 2, 40, 50))
    assert site.gamma == 2


def test_type_2_the_cluster_is_updated_and_output() -> None:
    """Section 4.4: with the union of both boxes."""
    site = Site(sites=2, k=5, beta=1)
    site.hear_share(cluster(THEIRS, 3, 20, 30))
    site.arrive(25, 33)
    outs = site.hear_release(cluster(THEIRS, 5, 16, 32))
    assert groups(outs) == [[25, 33]]
    assert {out.class_id for out in outs} == {THEIRS}
    assert outs[0].low == pytest.approx(16, abs=0.5)
    assert outs[0].high == 33
    assert site.gamma == 0


def test_type_2_is_not_answered() -> None:
    """Section 4.4: or the sites would tell each other for ever."""
    site = Site(sites=2, k=2, beta=1)
    site.hear_share(cluster(THEIRS, 3, 20, 30))
    site.arrive(21, 22, 28, 29)
    assert len(groups(site.hear_release(cluster(THEIRS, 5, 20, 30)))) == 2
    assert site.said == []


def test_type_3_the_shared_size_is_set_to_zero_however_local_tuples_are_kept() -> None:
    """Section 4.4."""
    site = Site(sites=2, k=3, beta=1)
    site.hear_share(cluster(THEIRS, 2, 20, 30))
    site.arrive(25)
    site.hear_remove(THEIRS)
    assert site.gamma == 1
    assert suppressed(site.wait(DELAY)) == [25]


def test_type_3_a_cluster_with_neither_is_deleted() -> None:
    """Section 4.4, and what follows from it."""
    site = Site(sites=2)
    site.hear_share(cluster(THEIRS, 2, 20, 30))
    site.hear_remove(THEIRS)
    assert site.gamma == 0


# --- 4.5 dBestSelection


def test_the_clusters_requiring_the_minimum_enlargement_are_selected() -> None:
    """Section 4.5, Algorithm 1."""
    site = Site(beta=2)
    site.arrive(20, 60)
    assert groups(site.run(45)) == [[45, 60]]


def test_then_those_whose_information_loss_is_at_most_tau() -> None:
    """Section 4.5, Algorithm 1: the loss that the cluster would have."""
    site = site_with_tau(10, beta=10)
    site.arrive(50, 60, 71)
    assert site.gamma == 2


def test_and_then_the_cluster_with_minimum_size_is_returned() -> None:
    """Section 4.5, Algorithm 1: 25 is as far from 20 as from 30."""
    site = Site(beta=2, k=3)
    site.arrive(20, 20, 30)
    assert groups(site.run(25, 31)) == [[25, 30, 31]]


def test_if_no_cluster_has_size_at_most_k_a_new_one_is_created() -> None:
    """Section 4.5, Algorithm 1: "no cluster with IL <= tau and size <= k"."""
    site = Site(k=2)
    site.arrive(20, 20, 20)
    assert site.gamma == 1
    site.arrive(20)
    assert site.gamma == 2


def test_else_return_the_minimum_size_cluster_among_those_requiring_the_minimum_enlargement() -> (
    None
):
    """Section 4.5, Algorithm 1, when |Gamma| is beta."""
    site = Site(beta=2, k=2)
    site.arrive(20, 20, 20, 40)
    site.arrive(30)
    outs = site.wait(DELAY)
    assert groups(outs) == [[20, 20, 20], [30, 40]]


# --- 4.6 dDelayConstraint


def test_case_1_the_tuple_is_moved_to_a_better_cluster_which_is_output() -> None:
    """Section 4.6: 55 is in [20, 55]; [80, 81] would become [55, 81], which loses less."""
    site = Site(beta=2)
    site.arrive(55, 80, 20, 81)
    outs = site.wait(DELAY - 3)
    assert site["case_1"] == 1
    assert groups(outs) == [[55, 80, 81]]
    assert (outs[0].low, outs[0].high) == (55, 81)
    assert site.gamma == 1


def test_case_1_the_better_cluster_has_size_at_least_k_and_diversity_at_least_l() -> None:
    """Section 4.6: [80, 81] has one value only."""
    site = Site(beta=2, l=2)
    site.arrive(55, 80, T(20, "flu"), 81)
    assert groups(site.wait(DELAY - 3)) == [[20, 55]]
    assert site["case_1"] == 0


def test_case_1_a_cluster_that_loses_as_much_is_not_better() -> None:
    """Section 4.6: "has less IL"; [50, 80] and [20, 50] are as long."""
    site = Site(beta=2)
    site.arrive(50, 80, 20, 80)
    assert groups(site.wait(DELAY - 3)) == [[20, 50]]
    assert site["case_1"] == 0


def test_case_1_if_more_than_one_cluster_exists_the_minimum_loss_cluster_is_chosen() -> None:
    """Section 4.6."""
    site = Site(beta=3)
    site.arrive(55, 80, 90, 20, 81, 91)
    assert groups(site.wait(DELAY - 5)) == [[55, 80, 81]]
    assert site["case_1"] == 1


def test_case_2_the_tuple_is_output_with_its_hosting_cluster() -> None:
    """Section 4.6."""
    site = Site()
    assert groups(site.run(20, 20, 20)) == [[20, 20, 20]]
    assert site["case_2"] == 1


def test_case_2_a_person_counts_once() -> None:
    """Section 3.6: C.size is the number of distinct persons."""
    site = Site()
    assert suppressed(site.run(T(20, person=1), T(20, person=1))) == [20, 20]


def test_case_3_the_tuple_is_output_with_a_cluster_of_omega_that_contains_it() -> None:
    """Section 4.6."""
    site = site_with_tau(10)
    first = site.run(50, 52)
    outs = site.run(51)
    assert site["case_3"] == 1
    assert [(out.class_id, out.low, out.high) for out in outs] == [(first[0].class_id, 50, 52)]


def test_case_3_the_cluster_is_selected_randomly() -> None:
    """Section 4.6: of two, each by some seed."""
    chosen = set()
    for seed in range(20):
        site = site_with_tau(10, seed=seed)
        for ages in ((50, 52), (51, 53)):
            site.run(*ages)
        chosen |= {out.low for out in site.run(51.5)}
    assert chosen == {50, 51}


def test_case_3_omega_is_bounded() -> None:
    """Section 5.1: N_c is the maximum number of clusters in Omega."""
    site = site_with_tau(10, reuse_max=1)
    site.run(50, 52)
    site.run(90, 91)
    assert suppressed(site.run(51)) == [51]
    assert suppressed(site.run(90.5)) == []


def test_case_4_a_tuple_in_an_outlier_cluster_is_suppressed() -> None:
    """Section 4.6: "smaller in size than the majority of other clusters"."""
    site = Site(k=5)
    site.arrive(20, 60, 90, 60, 90)
    assert suppressed(site.wait(DELAY - 4)) == [20]
    assert site["case_4"] == 1


def test_case_4_half_of_the_other_clusters_is_not_the_majority() -> None:
    """Section 4.6."""
    site = Site(k=4)
    site.arrive(20, 60, 90, 90)
    assert groups(site.wait(DELAY - 3)) == [[20, 60, 90, 90]]
    assert site["case_4"] == 0


def test_case_5_clusters_are_merged_if_that_is_enough() -> None:
    """Section 4.6."""
    site = Site(k=3)
    site.arrive(20, 60, 90)
    assert groups(site.wait(DELAY - 2)) == [[20, 60, 90]]
    assert site["case_5"] == 1


def test_case_5_else_the_tuple_is_suppressed() -> None:
    """Section 4.6: too few persons, or too few values."""
    site = Site(k=4)
    site.arrive(20, 60, 90)
    assert suppressed(site.wait(DELAY - 2)) == [20]
    site = Site(k=3, l=2)
    site.arrive(20, 60, 90)
    assert suppressed(site.wait(DELAY - 2)) == [20]
    assert site["too_few"] == 1


# --- 4.7 dMergeClusters


def test_the_cluster_which_brings_the_minimum_enlargement_is_merged() -> None:
    """Section 4.7, Algorithm 2: until size >= k and no further."""
    site = Site()
    site.arrive(40, 20, 65)
    assert groups(site.wait(DELAY - 2)) == [[20, 40]]
    assert site.gamma == 1


def test_a_message_triggers_the_removal_of_each_merged_cluster_at_other_sites() -> None:
    """Section 4.7, Algorithm 2: own clusters that were shared, and other sites' ones."""
    site = Site(sites=2, k=6, index=1)
    site.arrive(20, 40, 40, 40, 60)
    site.hear_share(cluster(THEIRS, 1, 80, 90))
    outs = site.wait(DELAY - 4)
    assert suppressed(outs) == []
    own = [each.id for each in site.shared]
    assert len(own) == 1
    assert site.removed == [own[0], THEIRS]


def test_a_merge_adds_the_shared_sizes_of_tuples_that_are_never_output_with_it() -> None:
    """Section 4.7, Algorithm 2: one of the reasons why k does not hold in the merged output."""
    site = Site(sites=2, k=3)
    site.arrive(20, 90)
    site.hear_share(cluster(THEIRS, 3, 22, 26))
    outs = site.wait(DELAY - 1)
    assert groups(outs) == [[20]]
    assert site.removed == [THEIRS]


# --- 4.8 dOutputCluster


def test_a_cluster_of_local_size_2k_and_local_diversity_l_is_split() -> None:
    """Section 4.8, Algorithm 3."""
    site = Site(beta=1)
    outs = site.run(20, 21, 80, 81)
    assert groups(outs) == [[20, 21], [80, 81]]
    assert site["splits"] == 1


def test_a_cluster_is_not_split_for_the_size_that_other_sites_have() -> None:
    """Section 4.8, Algorithm 3: the local size decides."""
    site = Site(sites=2, beta=1)
    site.hear_share(cluster(THEIRS, 9, 20, 30))
    outs = site.run(20, 21, 29)
    assert groups(outs) == [[20, 21, 29]]
    assert site["splits"] == 0


def test_a_cluster_is_not_split_for_values_that_other_sites_have() -> None:
    """Section 4.8, Algorithm 3: the local diversity decides."""
    site = Site(sites=2, beta=1, l=2)
    site.hear_share(cluster(THEIRS, 9, 20, 30, ["flu"]))
    assert groups(site.run(20, 21, 28, 29)) == [[20, 21, 28, 29]]


def test_tau_is_the_average_loss_of_the_mu_most_recent_clusters() -> None:
    """Sections 4.5 and 4.8: of 10, 20 and 6 years the last two count."""
    site = site_with_tau(10, mu=2, beta=10, reuse_max=0)
    site.arrive(20, 40, 60)  # apart, as 20 > 10; merged when 20 expires
    assert groups(site.wait(DELAY)) == [[20, 40]]
    site.run(50, 56)
    site.arrive(70, 83)  # (20 + 6) / 2 = 13
    assert site.gamma == 1
    site.arrive(100, 114)
    assert site.gamma == 3


def test_a_cluster_is_added_to_omega_if_its_loss_is_less_than_tau() -> None:
    """Section 4.8, Algorithm 3: 10 is not less than 10, and 2 is less than 6."""
    site = site_with_tau(10)
    assert suppressed(site.run(25)) == [25]
    site.run(50, 52)
    assert suppressed(site.run(51)) == []


def test_a_cluster_that_another_site_output_is_added_to_omega() -> None:
    """Sections 4.4 and 4.8: even one that holds no local tuple."""
    site = site_with_tau(100)
    site.hear(welcome={"site_index": 0, "sites": 2})
    site.hear_share(cluster(THEIRS, 3, 20, 30))
    assert site.hear_release(cluster(THEIRS, 4, 20, 30)) == []
    outs = site.run(25)
    assert [out.class_id for out in outs] == [THEIRS]
    assert site["case_3"] == 1


def test_the_cluster_is_deleted_from_gamma() -> None:
    """Section 4.8, Algorithm 3."""
    site = Site()
    site.run(20, 20)
    assert site.gamma == 0


def test_if_it_was_not_split_a_message_triggers_other_sites_to_output_it() -> None:
    """Section 4.8, Algorithm 3: with all that is known of it."""
    site = Site(sites=2, k=3, beta=1)
    site.hear_share(cluster(THEIRS, 2, 20, 30, ["flu"]))
    site.run(T(35, "burn"))
    (message,) = site.released
    assert (message.id, message.size, message.values) == (THEIRS, 3, bytes([0b1010]))
    assert ages_of(message)[0] <= 20
    assert ages_of(message)[1] >= 35


def test_nobody_is_told_of_a_cluster_that_nobody_knows() -> None:
    """Section 4.2: a message is about new clusters, or updates one. This one was never shared."""
    site = Site(sites=2, k=3)
    site.hear(members={"sites": 1})
    site.run(20, 20, 20)
    site.run(20, 50, 90)
    assert site["case_5"] == 1
    assert site.said == []


def test_other_sites_are_told_when_a_shared_cluster_has_lost_its_last_tuple() -> None:
    """An emptied cluster is deleted at once; the paper does not say what becomes of it."""
    site = Site(sites=2, k=6)
    site.arrive(20, 20, 20)
    assert suppressed(site.wait(DELAY)) == [20, 20, 20]
    assert site.gamma == 0
    assert site.removed == [site.shared[0].id]


# --- 4.9 dSplitCluster


def test_if_there_are_fewer_than_l_buckets_the_cluster_is_returned() -> None:
    """Section 4.9: a person has one tuple in the buckets, and so one value."""
    site = Site(sites=2, beta=1, l=2)
    persons = [T(20, person=1), T(21, person=2), T(80, person=3), T(81, person=4)]
    outs = site.run(*persons, T(81, "flu", person=4))
    assert groups(outs) == [[20, 21, 80, 81, 81]]
    assert len(site.released) == 1


@pytest.mark.parametrize("seed", range(5))
def test_each_subcluster_takes_tuples_of_each_bucket(seed: int) -> None:
    """Section 4.9, Algorithm 4."""
    site = Site(beta=1, l=2, seed=seed)
    ills = ["flu", "ache"] * 5
    ages = [20, 21, 80, 22, 81, 82, 23, 24, 83, 84]
    outs = site.run(*[T(age, ill) for age, ill in zip(ages, ills, strict=True)])
    parts: dict[int, list[Out]] = {}
    for out in outs:
        parts.setdefault(out.class_id, []).append(out)
    assert len(outs) == 10
    assert len(parts) > 1
    for part in parts.values():
        assert len(part) >= 2
        assert {site.stream[out.position].ill for out in part} == {"flu", "ache"}


def test_remaining_tuples_are_pushed_into_the_cluster_that_requires_the_minimum_enlargement() -> (
    None
):
    """Section 4.9, Algorithm 4. With this seed no part begins with 95."""
    site = Site(beta=1, seed=1)
    assert groups(site.run(20, 21, 80, 81, 95)) == [[20, 21], [80, 81, 95]]


def test_tuples_that_were_not_selected_follow_their_person() -> None:
    """Section 4.9, Algorithm 4."""
    site = Site(beta=1)
    persons = [T(20, person=1), T(21, person=2), T(80, person=3), T(81, person=4)]
    outs = site.run(*persons, T(90, person=1))
    assert groups(outs) == [[20, 21, 90], [80, 81]]


def test_a_message_triggers_the_removal_of_a_split_cluster_at_other_sites() -> None:
    """Section 4.9, Algorithm 4: and none to output it."""
    site = Site(sites=2, beta=1)
    outs = site.run(20, 21, 80, 81)
    assert site.removed == [site.shared[0].id]
    assert site.released == []
    assert site.shared[0].id not in {out.class_id for out in outs}
