"""dCASTLE's procedures at one site (sections 4.4 to 4.9), without events and messages' envelopes.

A reproduction that does not keep k in the merged output; see site_node.paper.

Where the paper leaves something open, this is what it is taken to mean:

* The loss that is compared with tau, and with that of the hosting cluster in case 1, is the loss
  with the tuple inside. Of equally good clusters the first of Gamma is taken.
* Other sites are told only of clusters that they know. A cluster is known once it was sent.
* An own, known cluster that has lost its last tuple is deleted, and *remove* is sent.
* A cluster that is put out because another site said so is not announced again, split or not.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from core.config import Parameters
from core.exchange import SITES_MAX
from site_node.paper_boxes import BoxSpace, Extent
from site_node.paper_clusters import Cluster, OpenClusters, one_less, one_more
from site_node.paper_dice import Dice
from site_node.paper_messages import Summaries, Summary
from site_node.paper_outbox import Outbox
from site_node.paper_reuse import Published, ReusableClasses, Tau, published
from site_node.paper_split import split_cluster
from site_node.paper_values import NO_VALUES, SensitiveValues
from site_node.paper_window import Window


class PaperSite:
    """Gamma, Omega and tau of one site, and what becomes of its tuples."""

    def __init__(
        self,
        parameters: Parameters,
        *,
        space: BoxSpace,
        values: SensitiveValues,
        summaries: Summaries,
        window: Window,
        outbox: Outbox,
        statistics: Counter[str],
        seed: int,
    ) -> None:
        self._k, self._l, self._beta = parameters.k, parameters.l, parameters.beta
        self._space = space
        self._values = values
        self._summaries = summaries
        self._window = window
        self._outbox = outbox
        self._statistics = statistics
        self._dice = Dice(seed)
        self.gamma = OpenClusters(space, values, k=parameters.k)
        self._omega = ReusableClasses(space, parameters.reuse_max)
        self._tau = Tau(parameters.mu)
        # Undecided tuples in the order of arrival, with their hosts; their persons and values.
        self._host: dict[int, Cluster] = {}
        self._all_persons: dict[int, int] = {}
        self._all_values: dict[int, int] = {}
        self._site_index, self._sites, self._made = 0, 1, 0
        # Own clusters that are large enough to be sent at the next arrival.
        self._due: dict[Cluster, None] = {}

    @property
    def undecided(self) -> int:
        """How many tuples have no outcome yet."""
        return len(self._host)

    def waiting(self, position: int) -> list[int]:
        """The undecided tuples before this position, in the order of arrival."""
        return [each for each in self._host if each < position]

    def waits(self, position: int) -> bool:
        """Whether the tuple has no outcome yet."""
        return position in self._host

    # --- the number of sites, and ids (section 4.2: "a site ID and a sequential identifier")

    def join(self, site_index: int, sites: int) -> None:
        """The relay said which site this is; clusters that nobody knows get ids that say so."""
        if site_index != self._site_index:
            self._site_index = site_index
            for cluster in self.gamma:
                if cluster.own and not cluster.known:
                    counter = cluster.id // SITES_MAX
                    self.gamma.rename(cluster, counter * SITES_MAX + site_index)
        self.set_sites(sites)

    def set_sites(self, sites: int) -> None:
        """So many take part now."""
        self._sites = sites
        self._due = {c: None for c in self.gamma if self._is_due(c)}

    def is_own_id(self, cluster_id: int) -> bool:
        """Whether an id is one that this site would make up."""
        return cluster_id % SITES_MAX == self._site_index

    def _new_id(self) -> int:
        self._made += 1
        return self._made * SITES_MAX + self._site_index

    def _is_due(self, cluster: Cluster) -> bool:
        """Whether it is a local cluster, not sent before, of size >= ceil(k/n)."""
        threshold = -(-self._k // self._sites)
        alone = self._sites < 2
        return cluster.own and not cluster.known and not alone and cluster.local_size >= threshold

    # --- 4.3: the steps when a new tuple arrives

    def send_recent(self) -> None:
        """Send the "recent (not sent before) local clusters with size >= ceil(k/n) if any"."""
        if not self._due:
            return
        messages = []
        for cluster in self._due:
            if self.gamma.holds(cluster) and self._is_due(cluster):
                box = self.gamma.box(cluster)
                message, _ = self._summaries.encode(
                    cluster.id, cluster.local_size, box, cluster.values, NO_VALUES
                )
                cluster.known = True
                messages.append(message)
        self._due = {}
        if messages:
            self._outbox.share(messages)

    def insert(self, position: int, person: int, value: int) -> None:
        """Select the best cluster for a tuple and insert it there, or into a new one."""
        t = self._window.tuple(position)
        cluster, growth = self._best_selection(t)
        if cluster is None:
            cluster = Cluster(self._new_id(), own=True)
            self.gamma.add(cluster, t)
            self._statistics["clusters_opened"] += 1
        elif growth > 0:
            self.gamma.enlarge(cluster, t)
        else:
            self.gamma.touch(cluster, t)
        self.gamma.put(cluster, position, person, value)
        self._host[position] = cluster
        one_more(self._all_persons, person)
        one_more(self._all_values, value)
        if cluster.own and not cluster.known and self._is_due(cluster):
            self._due[cluster] = None

    # --- 4.5 dBestSelection, Algorithm 1

    def _best_selection(self, t: Extent) -> tuple[Cluster | None, float]:
        """The cluster to insert t into, or None to create one; and how much t enlarges it."""
        gamma = self.gamma
        if not len(gamma):
            return None, 0.0
        wider = gamma.enlargements(t)
        least = float(wider.min())
        nearest = np.flatnonzero(wider == least)
        if len(nearest) > 1:
            nearest = nearest[np.argsort(gamma.size[nearest], kind="stable")]
        # "then select those whose IL <= tau and then return the cluster with minimum size";
        # "if no cluster with IL <= tau and size <= k".
        for row in nearest.tolist():
            if gamma.size[row] > self._k:
                break
            if self._tau.reaches(float(gamma.loss[row]) + least):
                return gamma[row], least
        if len(gamma) < self._beta:
            return None, 0.0
        return gamma[int(nearest[0])], least

    # --- 4.6 dDelayConstraint

    def expire(self, position: int) -> None:
        """Give the tuple its outcome, by the first of the five cases that applies."""
        cluster, t = self._host[position], self._window.tuple(position)
        better = self._better_cluster(cluster, t)
        if better is not None:
            self._statistics["case_1"] += 1
            self._move(position, better, t)
            self._output_cluster(better, tell=True)
        elif self.gamma.ready[cluster.slot]:
            self._statistics["case_2"] += 1
            self._output_cluster(cluster, tell=True)
        elif (reused := self._reusable_class(position)) is not None:
            self._statistics["case_3"] += 1
            self._output_alone(position, reused)
        elif self._is_outlier(cluster):
            self._statistics["case_4"] += 1
            self._output_alone(position, None)
        elif self._can_merge():
            self._statistics["case_5"] += 1
            self._merge_clusters(cluster)
            self._output_cluster(cluster, tell=True)
        else:
            self._statistics["too_few"] += 1
            self._output_alone(position, None)

    def _better_cluster(self, cluster: Cluster, t: Extent) -> Cluster | None:
        """Case 1: a ready cluster that would lose less with t than the hosting one does."""
        rows = np.flatnonzero(self.gamma.ready)
        if not len(rows) or (len(rows) == 1 and rows[0] == cluster.slot):
            return None
        loss = self.gamma.loss
        after = (loss + self.gamma.enlargements(t))[rows]
        after[rows == cluster.slot] = np.inf
        best = int(after.argmin())
        return self.gamma[int(rows[best])] if after[best] < loss[cluster.slot] else None

    def _reusable_class(self, position: int) -> Published | None:
        """Case 3: "find clusters in Omega that contain t and randomly select C'"."""
        if not len(self._omega):
            return None
        places = self._omega.containing(self._window.point(position))
        return self._omega[int(places[self._dice.below(len(places))])] if len(places) else None

    def _is_outlier(self, cluster: Cluster) -> bool:
        """Case 4: "smaller in size than the majority of other clusters"."""
        larger = int(np.count_nonzero(self.gamma.size > cluster.size))
        return 2 * larger > len(self.gamma) - 1

    def _can_merge(self) -> bool:
        """Case 5: whether all clusters together have size >= k and diversity >= l."""
        size, shared = len(self._all_persons), NO_VALUES
        for cluster in self.gamma:
            size += cluster.shared_size
            shared = self._values.joined(shared, cluster.shared_values)
        return size >= self._k and self._values.diverse(self._all_values, shared)

    # --- 4.7 dMergeClusters, Algorithm 2

    def _merge_clusters(self, cluster: Cluster) -> None:
        """Merge in the cluster that enlarges this one least, until size >= k, diversity >= l."""
        while not self.gamma.ready[cluster.slot]:
            nearest = self.gamma[int(self.gamma.merge_enlargements(cluster).argmin())]
            for position in nearest.members:
                self._host[position] = cluster
            self.gamma.absorb(cluster, nearest)
            if nearest.known:
                self._outbox.remove(nearest.id)

    # --- 4.8 dOutputCluster, Algorithm 3

    def _output_cluster(self, cluster: Cluster, *, tell: bool) -> None:
        """Publish the tuples of a cluster, split if it is large; `tell` the other sites."""
        self._statistics["clusters_released"] += 1
        members = list(cluster.members)
        classes = self._split(cluster, members)
        if classes:
            self._statistics["splits"] += 1
            if tell and cluster.known:
                self._outbox.remove(cluster.id)
        else:
            box = self.gamma.box(cluster)
            if tell and cluster.known:
                message, box = self._summaries.encode(
                    cluster.id, cluster.size, box, cluster.values, cluster.shared_values
                )
                self._outbox.release(message)
            whole = published(self._space, cluster.id, box)
            classes = [(whole, self._space.loss(box), members)]
        self.gamma.delete(cluster)
        for formed, loss, positions in classes:
            for position in positions:
                self._decide(position, formed)
            self._tau.add(loss)
        for formed, loss, _ in classes:
            if self._tau.above(loss):
                self._omega.add(formed)

    def _split(
        self, cluster: Cluster, members: list[int]
    ) -> list[tuple[Published, float, list[int]]]:
        """The parts of a cluster with 2k local persons and l local values; [] where none are."""
        diverse = self._l <= 1 or len(cluster.values) >= self._l
        if cluster.local_size < 2 * self._k or not diverse:
            return []
        positions = np.array(members, np.int64)
        tuples = self._window.tuples(positions)
        person = self._window.person(positions).tolist()
        value = self._window.value(positions).tolist()
        classes = []
        for rows in split_cluster(
            self._space, tuples, person, value, k=self._k, l=self._l, below=self._dice.below
        ):
            box = self._space.hull(tuples.some(rows))
            formed = published(self._space, self._new_id(), box)
            classes.append((formed, self._space.loss(box), [members[row] for row in rows]))
        return classes

    # --- 4.4 dUpdateClusters

    def add_shared(self, summary: Summary) -> None:
        """Type 1: a newly shared cluster is added to Gamma."""
        cluster = Cluster(summary.id, own=False, known=True)
        cluster.shared_size, cluster.shared_values = summary.size, summary.values
        self.gamma.add(cluster, summary.box)

    def release_shared(self, cluster: Cluster, summary: Summary) -> None:
        """Type 2: "the cluster is updated and procedure dOutputCluster(C) is called"."""
        self.gamma.enlarge(cluster, summary.box)
        self.gamma.set_shared(cluster, summary.size, summary.values)
        self._output_cluster(cluster, tell=False)

    def remove_shared(self, cluster: Cluster) -> None:
        """Type 3: "shared size is set to zero. However, local tuples are kept"."""
        self.gamma.set_shared(cluster, 0, NO_VALUES)
        if not cluster.members:
            self.gamma.delete(cluster)

    # --- tuples

    def _move(self, position: int, cluster: Cluster, t: Extent) -> None:
        person, value = self._leave(position)
        self.gamma.enlarge(cluster, t)
        self.gamma.put(cluster, position, person, value)
        self._host[position] = cluster

    def _output_alone(self, position: int, outcome: Published | None) -> None:
        self._leave(position)
        self._decide(position, outcome)

    def _leave(self, position: int) -> tuple[int, int]:
        """Take the tuple out of its cluster; an emptied cluster is deleted at once."""
        cluster = self._host[position]
        person, value = self._window.person_at(position), self._window.value_at(position)
        self.gamma.take(cluster, position, person, value)
        if not cluster.members and not cluster.shared_size:
            self.gamma.delete(cluster)
            if cluster.own and cluster.known:
                self._outbox.remove(cluster.id)
        return person, value

    def _decide(self, position: int, outcome: Published | None) -> None:
        del self._host[position]
        one_less(self._all_persons, self._window.person_at(position))
        one_less(self._all_values, self._window.value_at(position))
        self._outbox.decide(position, outcome)
