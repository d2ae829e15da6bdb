"""Settlements: a class of several sites, from the proposal to the commit or the abort.

    propose -> ask -> count -> prepare -> vote -> commit | abort

A site proposes a box around a tuple that is due. The others hold what they have near it and say how
many persons that is at each radius. The smallest radius that suffices is prepared: each site
reserves its share and votes with the tokens of the persons, their values and how far they reach
beyond the box. If the union of the votes has k persons and l values it is committed, and everybody
publishes exactly what was voted with exactly that box. Nothing waits for a dead site.

The relay counts; it needs neither a schema nor the key of the tokens.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from core.boxes import pack_sparse, unpack_sparse
from core.exchange import IN_FLIGHT_MAX, RADII_MAX, SITES_MAX
from core.tokens import range_bits
from core.varint import decode_numbers
from relay_server.counting import Union
from relay_server.pb import exchange_pb2 as pb
from relay_server.quota import share_out
from relay_server.refusal import MessageRefused, require

# A site holds at most this many times its even share.
HOLD_SHARES: Final = 2
# Persons wanted beyond k: to begin with, at most, and how fast that follows what is seen.
SLACK_FIRST: Final = 1.02
SLACK_MAX: Final = 1.5
SLACK_RISE: Final = 1.1
SLACK_FALL: Final = 0.995
# A site that does not answer is done without after so many of its usual times.
PATIENCE_TIMES: Final = 8
PERSONS_MAX: Final = 1 << 31


@dataclass(frozen=True, slots=True)
class Terms:
    """What all sites of an exchange have in common."""

    k: int
    l: int
    disjoint: bool
    values_as_tokens: bool
    numeric: int
    categorical: int

    @property
    def box_bytes(self) -> int:
        """Bytes of a box."""
        return 2 * (self.numeric + self.categorical)

    @property
    def reach_length(self) -> int:
        """Numbers of a reach."""
        return 2 * self.numeric + self.categorical

    def union(self) -> Union:
        """An empty union of votes."""
        return Union(self.disjoint, self.values_as_tokens, range_bits(self.k), range_bits(self.l))


@dataclass(frozen=True, slots=True)
class Policy:
    """What a site asks of every class it takes part in."""

    k: int
    l: int


@dataclass(frozen=True, slots=True, eq=False)
class Tell:
    """Say this to a site."""

    site: int
    message: pb.RelayMessage


@dataclass(frozen=True, slots=True, eq=False)
class Committed:
    """The class holds; these are the votes that prove it."""

    class_id: int
    votes: dict[int, tuple[pb.Persons, bytes]]


Effect = Tell | Committed


@dataclass(slots=True, eq=False)
class _Open:
    """A settlement that is under way."""

    number: int
    proposer: int
    box: bytes
    radii: list[int]
    hold: int
    values_wanted: bool
    waiting: list[int]  # sites whose answer is missing
    since: int
    counts: dict[int, list[int]] = field(default_factory=dict)
    values: dict[int, bytes] = field(default_factory=dict)
    radius: int | None = None  # set once it is prepared
    quota: dict[int, int] = field(default_factory=dict)
    votes: dict[int, pb.Vote] = field(default_factory=dict)


class Settlement:
    """All settlements of one exchange. Each call is one step; effects are to be done in order."""

    def __init__(self, terms: Terms, *, patience_ns: int) -> None:
        self._terms = terms
        self._patience_ns = patience_ns
        self._policies: dict[int, Policy] = {}
        self._open: dict[int, _Open] = {}
        self._last: dict[int, int] = {}  # per site, its latest settlement
        self._in_flight: Counter[int] = Counter()
        self._answer_ns: dict[int, int] = {}  # per site, its usual time to answer
        self._slack = SLACK_FIRST
        self.statistics: Counter[str] = Counter()

    def join(self, site: int, policy: Policy) -> None:
        """A site takes part from now on."""
        self._policies[site] = policy

    def lose(self, site: int, now_ns: int) -> list[Effect]:
        """A site is gone: nothing waits for it, and what it proposed is over."""
        self._policies.pop(site, None)
        self._answer_ns.pop(site, None)
        effects: list[Effect] = []
        for each in list(self._open.values()):
            if each.proposer == site and each.radius is None:
                effects += self._abort(each, pb.ABORT_REASON_TIMEOUT)
            elif site in each.waiting:
                each.waiting.remove(site)
                effects += self._go_on(each, now_ns)
        return effects

    def propose(
        self, site: int, message: pb.Propose, asked: list[int], now_ns: int
    ) -> list[Effect]:
        """Open a settlement and ask these other sites."""
        number, radii = message.settlement, list(message.radii)
        known = number <= self._last.get(site, -1)
        require(not known, pb.REASON_STALE, f"settlement {number} is over or under way")
        require(
            number % SITES_MAX == site,
            pb.REASON_MALFORMED,
            f"settlement {number} is not an id of site {site}",
        )
        require(
            len(message.box) == self._terms.box_bytes,
            pb.REASON_MALFORMED,
            f"a box has {self._terms.box_bytes} bytes, not {len(message.box)}",
        )
        require(
            0 < len(radii) <= RADII_MAX and radii[0] > 0 and sorted(set(radii)) == radii,
            pb.REASON_MALFORMED,
            f"radii must be 1 to {RADII_MAX} rising numbers",
        )
        require(
            self._in_flight[site] < IN_FLIGHT_MAX,
            pb.REASON_FULL,
            f"{IN_FLIGHT_MAX} settlements of this site are under way",
        )
        counts = self._cumulative(message.counts, len(radii))
        self._last[site] = number
        self._in_flight[site] += 1
        self.statistics["proposed"] += 1
        each = _Open(
            number=number,
            proposer=site,
            box=message.box,
            radii=radii,
            hold=self._hold(len(asked) + 1),
            values_wanted=message.values_wanted,
            waiting=list(asked),
            since=now_ns,
        )
        self._open[number] = each
        each.counts[site] = counts
        each.values[site] = message.values
        ask = pb.RelayMessage(
            ask=pb.Ask(
                settlement=number,
                box=each.box,
                radii=radii,
                hold=each.hold,
                values_wanted=each.values_wanted,
            )
        )
        return [*(Tell(other, ask) for other in asked), *self._go_on(each, now_ns)]

    def count(self, site: int, message: pb.Count, now_ns: int) -> list[Effect]:
        """A site says what it holds."""
        each = self._awaited(site, message.settlement, prepared=False)
        each.counts[site] = self._cumulative(message.counts, len(each.radii))
        each.values[site] = message.values
        each.waiting.remove(site)
        self._learn_pace(site, now_ns - each.since)
        return self._go_on(each, now_ns)

    def vote(self, site: int, message: pb.Vote, now_ns: int) -> list[Effect]:
        """A site says what it reserved."""
        each = self._awaited(site, message.settlement, prepared=True)
        try:
            unpack_sparse(message.reach, self._terms.reach_length)
            self._terms.union().add(message.persons, message.values)
        except ValueError as error:
            raise MessageRefused(pb.REASON_MALFORMED, str(error)) from error
        each.votes[site] = message
        each.waiting.remove(site)
        self._learn_pace(site, now_ns - each.since)
        return self._go_on(each, now_ns)

    def withdraw(self, site: int, message: pb.Withdraw, now_ns: int) -> list[Effect]:
        """A site decides alone; whether that breaks a class is for the publisher to find out."""
        each = self._open.get(message.settlement)
        if each is None:
            return []
        self.statistics["withdrawn"] += 1
        if each.proposer == site and each.radius is None:
            return self._abort(each, pb.ABORT_REASON_TIMEOUT)
        each.counts.pop(site, None)
        each.votes.pop(site, None)
        each.quota.pop(site, None)
        if site in each.waiting:
            each.waiting.remove(site)
        return self._go_on(each, now_ns)

    def tick(self, now_ns: int) -> list[Effect]:
        """Time has passed: go on without those who have had enough of it."""
        effects: list[Effect] = []
        for each in list(self._open.values()):
            patience = max(
                [self._patience_ns]
                + [PATIENCE_TIMES * self._answer_ns.get(site, 0) for site in each.waiting]
            )
            if now_ns - each.since > patience:
                self.statistics["silent"] += len(each.waiting)
                each.waiting.clear()
                effects += self._go_on(each, now_ns)
        return effects

    # --- what follows from an answer

    def _go_on(self, each: _Open, now_ns: int) -> list[Effect]:
        if each.waiting:
            return []
        return self._prepare(each, now_ns) if each.radius is None else self._close(each)

    def _prepare(self, each: _Open, now_ns: int) -> list[Effect]:
        need = self._need(list(each.counts))
        want = max(need.k, round(need.k * self._slack))
        quotas = share_out(each.counts, want, each.hold)
        total = sum(quotas.persons.values())
        few = total < need.k or quotas.persons[each.proposer] == 0
        if few or (each.values_wanted and not self._diverse(each, need.l)):
            return self._abort(each, pb.ABORT_REASON_TOO_FEW)
        each.radius = quotas.radius
        each.quota = quotas.persons
        each.waiting = [site for site, persons in quotas.persons.items() if persons]
        each.since = now_ns
        return [
            Tell(
                site,
                pb.RelayMessage(
                    prepare=pb.Prepare(settlement=each.number, radius=each.radius, persons=persons)
                ),
            )
            for site, persons in quotas.persons.items()
            if each.counts[site][-1]  # others hold nothing
        ]

    def _diverse(self, each: _Open, l: int) -> bool:
        """Whether all that is held together has l values."""
        union = self._terms.union()
        for values in each.values.values():
            try:
                union.add(pb.Persons(), values)
            except ValueError:
                continue
        return union.values >= l

    def _close(self, each: _Open) -> list[Effect]:
        need, union = self._need(list(each.votes)), self._terms.union()
        for vote in each.votes.values():
            union.add(vote.persons, vote.values)
        # Follow what is seen: persons that were promised and did not come, or came twice.
        promised = sum(each.quota.values())
        short = union.persons < need.k
        factor = SLACK_RISE if short and promised >= need.k else SLACK_FALL
        self._slack = min(max(1.0, self._slack * factor), SLACK_MAX)
        if short or union.values < need.l:
            return self._abort(each, pb.ABORT_REASON_SHORT)
        self._forget(each)
        self.statistics["committed"] += 1
        self.statistics["persons"] += union.persons
        reach = np.zeros(self._terms.reach_length, np.uint8)
        for vote in each.votes.values():
            np.maximum(reach, unpack_sparse(vote.reach, len(reach)), out=reach)
        assert each.radius is not None
        commit = pb.RelayMessage(
            commit=pb.Commit(
                settlement=each.number,
                box=each.box,
                radius=each.radii[each.radius],
                reach=pack_sparse(reach),
                persons=union.persons,
                values=union.values,
            )
        )
        votes = {site: (vote.persons, vote.values) for site, vote in each.votes.items()}
        # Those who gave nothing learn of a class that they may reuse.
        return [
            Committed(each.number, votes),
            *(Tell(site, commit) for site in self._policies),
        ]

    def _abort(self, each: _Open, reason: pb.AbortReason) -> list[Effect]:
        self._forget(each)
        self.statistics[f"aborted: {pb.AbortReason.Name(reason)[13:].lower()}"] += 1
        message = pb.RelayMessage(abort=pb.Abort(settlement=each.number, reason=reason))
        sites = dict.fromkeys([each.proposer, *each.counts, *each.waiting])
        return [Tell(site, message) for site in sites if site in self._policies]

    def _forget(self, each: _Open) -> None:
        del self._open[each.number]
        self._in_flight[each.proposer] -= 1

    # --- small questions

    def _awaited(self, site: int, number: int, *, prepared: bool) -> _Open:
        each = self._open.get(number)
        if each is not None and site in each.waiting and (each.radius is not None) == prepared:
            return each
        over = number <= self._last.get(number % SITES_MAX, -1)
        reason = pb.REASON_STALE if over else pb.REASON_UNKNOWN
        raise MessageRefused(reason, f"settlement {number} does not wait for this")

    def _cumulative(self, counts: bytes, radii: int) -> list[int]:
        try:
            numbers = decode_numbers(counts, radii, PERSONS_MAX)
        except ValueError as error:
            raise MessageRefused(pb.REASON_MALFORMED, str(error)) from error
        numbers += [0] * (radii - len(numbers))
        return list(np.cumsum(numbers, dtype=np.int64).tolist())

    def _need(self, sites: list[int]) -> Policy:
        """The strictest policy of those who take part."""
        policies = [self._policies[site] for site in sites if site in self._policies]
        return Policy(
            max([self._terms.k, *(policy.k for policy in policies)]),
            max([self._terms.l, *(policy.l for policy in policies)]),
        )

    def _hold(self, sites: int) -> int:
        return max(3, -(-HOLD_SHARES * round(self._terms.k * SLACK_MAX) // sites))

    def _learn_pace(self, site: int, elapsed_ns: int) -> None:
        usual = self._answer_ns.get(site, elapsed_ns)
        self._answer_ns[site] = (7 * usual + elapsed_ns) // 8
