"""Settlements: a class of several sites, from the proposal to the commit or the abort.

    propose -> ask -> vote [-> more -> vote] -> commit | abort

A site proposes a box around a record that is due, with its own vote for it. Every other site
reserves its even share of k persons, nearest first and within a radius, and votes with the tokens
of the persons, how far they reach beyond the box and, where the proposer lacks them, their
sensitive values. If the union of the votes is short, those who have more within the radius are
asked for it, then everybody within a larger one. Once the union has k persons and l values it is
committed, and everybody publishes exactly what was voted with exactly that box and reach. Nothing
waits for a dead site.

The relay counts; it needs neither a schema nor the key of the tokens.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from core.exchange import IN_FLIGHT_MAX, PERSONS_REVEALED_MIN, RADIUS_ALL, SITES_MAX
from relay_server.ballot import Ballot
from relay_server.pb import exchange_pb2 as pb
from relay_server.refusal import MessageRefused, require
from relay_server.terms import Policy, Terms

# A site that does not answer is done without after so many of its usual times.
PATIENCE_TIMES: Final = 8
# When all together are short, the radius becomes so much wider, so many times, and then infinite;
# and a little more than what is missing is asked for.
WIDER: Final = 1.5
WIDENED_MAX: Final = 2
MORE: Final = 1.25
# And so much more from the beginning where a second round would take too long.
HURRIED: Final = 1.25


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
    radius: int
    hurry: bool
    spare: dict[int, int]  # sites that may have more within the radius, and how many
    ballot: Ballot
    since: int
    asked: dict[int, int] = field(default_factory=dict)  # persons, of those who did not answer
    sites: dict[int, None] = field(default_factory=dict)  # all that take part
    widened: int = 0  # how often the radius was


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
        self._ended: set[int] = set()
        self._exhausted = False
        self.statistics: Counter[str] = Counter()

    def join(self, site: int, policy: Policy) -> None:
        """A site takes part from now on."""
        self._policies[site] = policy
        self._exhausted = False

    def end(self, site: int) -> None:
        """A site's stream has ended: what it has to give only becomes less."""
        self._ended.add(site)

    def lose(self, site: int, now_ns: int) -> list[Effect]:
        """A site is gone: nothing waits for it, and what it proposed is over."""
        self._policies.pop(site, None)
        self._answer_ns.pop(site, None)
        self._ended.discard(site)
        effects: list[Effect] = []
        for each in list(self._open.values()):
            if site not in each.sites:
                continue
            effects += self._without(each, site, now_ns)
        return effects

    def propose(
        self, site: int, message: pb.Propose, others: list[int], now_ns: int
    ) -> list[Effect]:
        """Open a settlement and ask these other sites."""
        self._check(site, message)
        number, ballot = message.settlement, Ballot(self._terms)
        try:
            own = ballot.add(site, message.persons, message.tokens, message.reach, message.values)
        except ValueError as error:
            raise MessageRefused(pb.REASON_MALFORMED, str(error)) from error
        self._last[site] = number
        self._in_flight[site] += 1
        self.statistics["proposed"] += 1
        each = _Open(
            number=number,
            proposer=site,
            box=message.box,
            radius=message.radius,
            hurry=message.hurry,
            spare={site: message.spare},
            ballot=ballot,
            since=now_ns,
        )
        self._open[number] = each
        each.sites[site] = None
        if self._exhausted:
            return self._abort(each, pb.ABORT_REASON_EXHAUSTED)
        if not others:
            return self._go_on(each, now_ns)
        need = self._need([site, *others])
        values_wanted = ballot.values < need.l
        effects: list[Effect] = []
        wanted = round((need.k - own) * (HURRIED if message.hurry else 1))
        for other, persons in _shares(wanted, others).items():
            each.asked[other] = persons = max(persons, PERSONS_REVEALED_MIN)
            each.sites[other] = None
            ask = pb.Ask(
                settlement=number,
                box=each.box,
                radius=each.radius,
                persons=persons,
                values_wanted=values_wanted,
            )
            effects.append(Tell(other, pb.RelayMessage(ask=ask)))
        return effects

    def vote(self, site: int, message: pb.Vote, now_ns: int) -> list[Effect]:
        """A site says what it reserved."""
        each = self._open.get(message.settlement)
        if each is None or site not in each.asked:
            over = message.settlement <= self._last.get(message.settlement % SITES_MAX, -1)
            reason = pb.REASON_STALE if over else pb.REASON_UNKNOWN
            detail = f"settlement {message.settlement} does not wait for this vote"
            raise MessageRefused(reason, detail)
        asked = each.asked[site]
        require(
            message.short <= asked,
            pb.REASON_MALFORMED,
            f"{message.short} persons less than the {asked} that were asked for",
        )
        if message.short < asked or message.tokens or message.reach or message.values:
            try:
                given = asked - message.short
                each.ballot.add(site, given, message.tokens, message.reach, message.values)
            except ValueError as error:
                raise MessageRefused(pb.REASON_MALFORMED, str(error)) from error
        del each.asked[site]
        each.spare[site] = message.spare
        self._learn_pace(site, now_ns - each.since)
        return self._go_on(each, now_ns)

    def withdraw(self, site: int, message: pb.Withdraw, now_ns: int) -> list[Effect]:
        """A site decides alone; what that does to a committed class the publisher finds out."""
        each = self._open.get(message.settlement)
        if each is None or site not in each.sites:
            return []
        self.statistics["withdrawn"] += 1
        return self._without(each, site, now_ns)

    def tick(self, now_ns: int) -> list[Effect]:
        """Time has passed: go on without those who have had enough of it."""
        effects: list[Effect] = []
        for each in list(self._open.values()):
            usual = [self._answer_ns.get(site, 0) for site in each.asked]
            patience = max(self._patience_ns, PATIENCE_TIMES * max(usual, default=0))
            if now_ns - each.since > patience:
                effects += self._give_up_on(each, list(each.asked), now_ns)
        return effects

    # --- what follows from an answer

    def _give_up_on(self, each: _Open, silent: list[int], now_ns: int) -> list[Effect]:
        """A vote that comes too late must not be taken for the answer to a later question."""
        self.statistics["silent"] += len(silent)
        if each.proposer in silent:
            return self._abort(each, pb.ABORT_REASON_TIMEOUT)
        abort = pb.Abort(settlement=each.number, reason=pb.ABORT_REASON_TIMEOUT)
        effects: list[Effect] = []
        for site in silent:
            effects.append(Tell(site, pb.RelayMessage(abort=abort)))
            self._drop(each, site)
        return effects + self._go_on(each, now_ns)

    def _without(self, each: _Open, site: int, now_ns: int) -> list[Effect]:
        if site == each.proposer:
            return self._abort(each, pb.ABORT_REASON_TIMEOUT)
        self._drop(each, site)
        return self._go_on(each, now_ns)

    def _drop(self, each: _Open, site: int) -> None:
        del each.sites[site]
        each.asked.pop(site, None)
        each.spare.pop(site, None)
        each.ballot.drop(site)

    def _go_on(self, each: _Open, now_ns: int) -> list[Effect]:
        if each.asked:
            return []
        need = self._need(list(each.ballot.votes))
        missing = need.k - each.ballot.persons
        diverse = need.l <= 1 or each.ballot.values >= need.l
        if missing <= 0 and diverse:
            return self._commit(each)
        if diverse and not each.hurry and sum(each.spare.values()) >= missing:
            return self._refill(each, missing, now_ns)
        if each.radius < RADIUS_ALL:
            each.widened += 1
            last = each.hurry or each.widened > WIDENED_MAX
            each.radius = RADIUS_ALL if last else min(round(each.radius * WIDER), RADIUS_ALL)
            return self._widen(each, max(missing, 0), now_ns)
        # Nobody has more. If all streams have ended and nothing is held elsewhere, nobody will.
        ended = all(site in self._ended for site in self._policies)
        self._exhausted = ended and len(self._open) == 1
        exhausted, too_few = pb.ABORT_REASON_EXHAUSTED, pb.ABORT_REASON_TOO_FEW
        return self._abort(each, exhausted if self._exhausted else too_few)

    def _refill(self, each: _Open, missing: int, now_ns: int) -> list[Effect]:
        """Take the rest from those who have most to spare within the radius."""
        self.statistics["refilled"] += 1
        persons: dict[int, int] = {}
        for site in sorted(each.spare, key=lambda site: (-each.spare[site], site)):
            if missing <= 0:
                break
            persons[site] = min(each.spare[site], missing)
            missing -= persons[site]
        return self._ask_more(each, persons, now_ns)

    def _widen(self, each: _Open, missing: int, now_ns: int) -> list[Effect]:
        """Ask everybody within a larger radius, for a little more than is missing."""
        self.statistics["widened"] += 1
        return self._ask_more(each, _shares(round(missing * MORE), list(each.sites)), now_ns)

    def _ask_more(self, each: _Open, persons: dict[int, int], now_ns: int) -> list[Effect]:
        need = self._need(list(each.ballot.votes))
        wanted = need.l > 1 and each.ballot.values < need.l
        values = each.ballot.all_values() if wanted else b""
        each.since = now_ns
        effects: list[Effect] = []
        for site, number in persons.items():
            least = 0 if site in each.ballot.votes else PERSONS_REVEALED_MIN
            number = max(number, least)
            if not number and not wanted:
                continue
            each.asked[site] = number + wanted
            more = pb.More(
                settlement=each.number,
                radius=each.radius,
                persons=number,
                values_wanted=wanted,
                values=values,
            )
            effects.append(Tell(site, pb.RelayMessage(more=more)))
        return effects if effects else self._go_on(each, now_ns)

    def _commit(self, each: _Open) -> list[Effect]:
        self._forget(each)
        self.statistics["committed"] += 1
        self.statistics["persons committed"] += each.ballot.persons
        commit = pb.RelayMessage(
            commit=pb.Commit(
                settlement=each.number,
                box=each.box,
                reach=each.ballot.reach,
                persons=each.ballot.persons,
                values=each.ballot.values,
            )
        )
        # Those who gave nothing learn of a class that they may reuse.
        told = [Tell(site, commit) for site in self._policies]
        return [Committed(each.number, each.ballot.votes), *told]

    def _abort(self, each: _Open, reason: pb.AbortReason) -> list[Effect]:
        self._forget(each)
        self.statistics[f"aborted: {pb.AbortReason.Name(reason)[13:].lower()}"] += 1
        message = pb.RelayMessage(abort=pb.Abort(settlement=each.number, reason=reason))
        return [Tell(site, message) for site in each.sites if site in self._policies]

    def _forget(self, each: _Open) -> None:
        del self._open[each.number]
        self._in_flight[each.proposer] -= 1

    # --- small questions

    def _check(self, site: int, message: pb.Propose) -> None:
        number = message.settlement
        require(
            number > self._last.get(site, -1),
            pb.REASON_STALE,
            f"settlement {number} is over or under way",
        )
        require(
            number % SITES_MAX == site,
            pb.REASON_MALFORMED,
            f"settlement {number} is not an id of site {site}",
        )
        require(
            0 < message.radius <= RADIUS_ALL,
            pb.REASON_MALFORMED,
            f"a radius is 1 to {RADIUS_ALL}, not {message.radius}",
        )
        require(
            self._in_flight[site] < IN_FLIGHT_MAX,
            pb.REASON_FULL,
            f"{IN_FLIGHT_MAX} settlements of this site are under way",
        )

    def _need(self, sites: list[int]) -> Policy:
        """The strictest policy of those who take part."""
        policies = [self._policies[site] for site in sites if site in self._policies]
        policies.append(self._terms.policy)
        return Policy(max(each.k for each in policies), max(each.l for each in policies))

    def _learn_pace(self, site: int, elapsed_ns: int) -> None:
        usual = self._answer_ns.get(site, elapsed_ns)
        self._answer_ns[site] = (7 * usual + elapsed_ns) // 8


def _shares(persons: int, sites: list[int]) -> dict[int, int]:
    """Equal shares of so many persons."""
    shares, taken = {}, 0
    for place, site in enumerate(sites, start=1):
        upto = persons * place // len(sites)
        shares[site] = upto - taken
        taken = upto
    return shares
