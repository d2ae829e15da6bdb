"""A site in the exchange: what it says, and what it does when it is told something.

CASTLE runs here as it would alone (core.joint). In front of its deadline a record that fits no
reusable class opens a settlement: the box of its nearest neighbours is proposed to the other sites,
and a class is formed with them (relay_server.settlement tells the whole story). What is not settled
by the deadline is decided by this site alone, so that no record ever waits for the network.

Pure: events in, effects out. The relay's part in it is to count; this side checks what it says.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from core.boxes import Box, BoxCodec
from core.config import Parameters
from core.errors import PrivacyBreachError
from core.events import Publish, RecordsArrived, StreamEnded, Ticked
from core.exchange import PERSONS_REVEALED_MIN, PROTOCOL_VERSION, RADIUS_ALL
from core.joint import Due, Held, JointMachine
from core.schema import Schema
from core.tokens import TokenKey
from relay_server.pb import exchange_pb2 as pb
from site_node.exchange_events import Accept, Received, Send, SessionEffect, SessionEvent
from site_node.publication import Publications
from site_node.summaries import Summaries
from site_node.telling import Teller

# Settlements are slow when they take this part of the delay.
SLOW: Final = 32
# Settlements of this site that are under way at most.
UNDER_WAY_MAX: Final = 16
# How often a record is proposed.
TRIES_MAX: Final = 3
# A record comes due this many times the usual time of a settlement before its deadline.
LEAD_TIMES: Final = 2

Longs = NDArray[np.int64]
NO_SLOTS: Final = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tactics:
    """What a site may choose freely; docs/protocol.md says what each is worth.

    growth_steps  in how many steps the proposed box grows around the record
    radius_first  the radius to begin with: within it the proposer has so many times its share
    radius_slow   the same where settlements take long
    share_news    whether cluster summaries are sent
    """

    growth_steps: int = 2
    radius_first: float = 1.5
    radius_slow: float = 3.0
    share_news: bool = True


@dataclass(slots=True, eq=False)
class _Settling:
    """A settlement that this site takes part in."""

    number: int
    wire: bytes  # the box as it travels
    box: Box
    promised: Longs  # slots that are held for it
    values_wanted: bool
    first: int | None  # position of the record that it is for, if this site proposed it
    since: int  # position of the stream when it began
    since_ns: int


@dataclass(slots=True)
class _Pace:
    """How long settlements take, in records of this site."""

    recent: deque[int] = field(default_factory=lambda: deque(maxlen=16))

    @property
    def usual(self) -> int:
        """How long a settlement takes when it takes long."""
        return max(self.recent, default=0)

    @property
    def lead(self) -> int | None:
        """How long before its deadline a record should come due; None: not known yet."""
        return LEAD_TIMES * self.usual + 2 if self.recent else None


class Session:
    """One site of a `strict` exchange."""

    def __init__(
        self,
        schema: Schema,
        parameters: Parameters,
        *,
        site: str,
        key: bytes,
        seed: int,
        patience_ns: int,
        own_k: int = 0,
        own_l: int = 0,
        tactics: Tactics | None = None,
    ) -> None:
        self._site = site
        self._schema = schema
        self._parameters = parameters
        self._own_policy = own_k, own_l
        # What was voted for is published as a whole and at once: another order would break it.
        own = replace(
            parameters,
            k=max(parameters.k, own_k),
            l=max(parameters.l, own_l),
            order="released",
        )
        self._patience_ns = patience_ns
        self._tactics = tactics or Tactics()
        self._machine = JointMachine(schema, own, seed=seed)
        self._need = own.k, own.l  # of every class that records of this site are published in
        self._codec = BoxCodec(schema)
        self._teller = Teller(schema, k=parameters.k, l=parameters.l, key=TokenKey(key))
        self._publications = Publications(self._teller)
        self._summaries = Summaries(schema, self._machine, self._codec, self._teller, parameters.k)
        self._sites = 0
        self._open: dict[int, _Settling] = {}
        self._due: deque[int] = deque()
        self._tries: Counter[int] = Counter()
        self._proved: dict[int, None] = {}  # classes that need no proof from us any more
        self._pace = _Pace()
        self._ended = False
        self._exhausted = False  # the relay knows that no class can be formed any more
        self._own_open = 0
        self._futile: int | None = None  # free records here when all sites had too few
        self._now_ns = 0
        self.open_clusters_max = 0
        self._counters: Counter[str] = Counter()

    def hello(self) -> pb.SiteMessage:
        """What this site introduces itself with."""
        parameters, (own_k, own_l) = self._parameters, self._own_policy
        return pb.SiteMessage(
            hello=pb.Hello(
                protocol_version=PROTOCOL_VERSION,
                site=self._site,
                schema_fingerprint=bytes.fromhex(self._schema.fingerprint),
                k=parameters.k,
                l=parameters.l,
                exchange="strict",
                persons_disjoint=self._teller.disjoint,
                values_as_tokens=self._teller.values_as_tokens,
                own_k=own_k,
                own_l=own_l,
                numeric=len(self._schema.numeric),
                categorical=len(self._schema.categorical),
            )
        )

    @property
    def finished(self) -> bool:
        """The stream has ended and every record has its outcome."""
        return self._ended and not self._open and not self._machine.has_undecided

    @property
    def position(self) -> int:
        """Position of the next record to arrive."""
        return self._machine.position

    def statistics(self) -> dict[str, int]:
        """What became of records, clusters and settlements."""
        return self._machine.statistics() | dict(self._counters)

    def step(self, event: SessionEvent) -> list[SessionEffect]:
        """Take in one event. PrivacyBreachError halts the session: it cannot be trusted."""
        effects: list[SessionEffect] = []
        match event:
            case RecordsArrived():
                effects += self._offer(event)
            case Received(message):
                effects += self._told(message)
            case Ticked(now_ns):
                self._now_ns = max(self._now_ns, now_ns)
                effects += self._pass_time(now_ns)
                effects += self._lose_patience()
            case StreamEnded():
                self._ended = True
                effects += self._publish(self._machine.empty_line())
                self._due = deque(self._machine.undecided())
                effects.append(Send(pb.SiteMessage(ended=pb.Ended())))
        effects += self._settle_due()
        self.open_clusters_max = max(self.open_clusters_max, self._machine.open_clusters)
        return effects

    # --- the stream

    def _offer(self, event: RecordsArrived) -> list[SessionEffect]:
        if self._sites == 0:
            return [Accept(0)]
        self._now_ns = max(self._now_ns, event.now_ns)
        accepted, published = self._machine.offer(event.records, event.now_ns)
        effects: list[SessionEffect] = [Accept(accepted), *self._publish(published)]
        due = self._machine.due
        if due is not None:
            effects += self._face(due)
        if self._sites > 1 and self._tactics.share_news:
            effects += [Send(message) for message in self._summaries.news(self._sites)]
        return effects

    def _pass_time(self, now_ns: int) -> list[SessionEffect]:
        nothing = RecordsArrived(self._machine.no_records, now_ns)
        effects = self._offer(nothing)[1:]
        # By the clock many records can be overdue at once.
        while (due := self._machine.due) is not None and due.overdue:
            effects += self._offer(nothing)[1:]
        return effects

    def _face(self, due: Due) -> list[SessionEffect]:
        if due.overdue:
            return self._decide_now(due.position)
        self._due.append(due.position)
        return []

    def _settle_due(self) -> list[SessionEffect]:
        effects: list[SessionEffect] = []
        while self._due and self._own_open < self._under_way_max:
            if self._is_futile() and not self._ended:
                break  # they wait for more records, up to their deadline
            position = self._due.popleft()
            if self._machine.is_free(position):
                effects += self._settle(position)
        return effects

    @property
    def _under_way_max(self) -> int:
        """Settlements of our own at a time: what is held for one is missing for another.

        A site has to propose one class for every k records; a settlement takes its time.
        """
        if self._ended:
            return 1
        return min(UNDER_WAY_MAX, 2 + 2 * self._pace.usual // self._parameters.k)

    def _decide_now(self, position: int) -> list[SessionEffect]:
        """The deadline is here: decide alone, and take back what was promised."""
        effects: list[SessionEffect] = []
        if self._machine.is_held(position):
            slot = int(self._machine.slots(np.array([position]))[0])
            each = next(each for each in self._open.values() if slot in each.promised)
            effects += self._withdraw(each)
        return effects + self._decide(position)

    def _withdraw(self, each: _Settling) -> list[SessionEffect]:
        self._counters["withdrawn"] += 1
        self._give_up(each)
        self._requeue(each.promised, but=each.first)
        return [Send(pb.SiteMessage(withdraw=pb.Withdraw(settlement=each.number)))]

    def _decide(self, position: int) -> list[SessionEffect]:
        self._counters["decided alone"] += 1
        self._tries.pop(position, None)
        published = self._machine.decide(position)
        if self._ended:
            published += self._machine.empty_line()
        return self._publish(published)

    # --- a settlement of our own

    def _settle(self, position: int) -> list[SessionEffect]:
        """Propose a class around the record, or decide it alone where that is of no use."""
        machine, tactics = self._machine, self._tactics
        alone = self._sites < 2 or self._exhausted or self._is_futile()
        if alone or self._tries[position] >= TRIES_MAX or self._too_late(position):
            return self._decide(position)
        share = max(PERSONS_REVEALED_MIN, -(-self._parameters.k // self._sites))
        grown, persons = machine.box_around(position, share, tactics.growth_steps)
        if persons < PERSONS_REVEALED_MIN:
            return self._decide(position)
        wire = self._codec.encode(grown)
        box = self._codec.decode(wire)
        # Also the first time, when nobody knows how long it takes.
        known = bool(self._pace.recent)
        hurry = not known or self._pace.usual * SLOW > self._parameters.delay_tuples
        reach = tactics.radius_slow if hurry else tactics.radius_first
        held, radius = machine.hold_around(
            box, position, least=self._least(), persons=share, reach=reach
        )
        if held.persons < PERSONS_REVEALED_MIN:
            # Its neighbours are too old to be promised.
            machine.let_go(held.slots)
            return self._decide(position)
        slots, stray, reached = machine.reach(held.slots, box)
        machine.let_go(stray)
        number = machine.next_id()
        told = self._teller.persons(number, machine.persons(slots))
        self._tries[position] += 1
        self._counters["proposed"] += 1
        self._begin(number, wire, box, slots, values_wanted=True, first=position)
        propose = pb.Propose(
            settlement=number,
            box=wire,
            radius=radius,
            persons=told.count if self._teller.disjoint else 0,
            tokens=told.tokens,
            reach=reached,
            values=self._teller.values(number, machine.values(slots)),
            spare=held.spare,
            hurry=hurry,
        )
        return [Send(pb.SiteMessage(propose=propose))]

    def _begin(
        self,
        number: int,
        wire: bytes,
        box: Box,
        slots: Longs,
        *,
        values_wanted: bool,
        first: int | None,
    ) -> None:
        self._own_open += first is not None
        self._open[number] = _Settling(
            number=number,
            wire=wire,
            box=box,
            promised=slots,
            values_wanted=values_wanted,
            first=first,
            since=self._machine.position,
            since_ns=self._now_ns,
        )

    def _is_futile(self) -> bool:
        """Whether all sites together had too few the last time, and this one has no more since."""
        if self._futile is None:
            return False
        if self._machine.free_records > self._futile:
            self._futile = None
            return False
        return True

    def _too_late(self, position: int) -> bool:
        lead = self._pace.lead
        if self._ended or lead is None:
            return False
        late = self._machine.deadline(position) <= lead // LEAD_TIMES
        if late and self._own_open == 0:
            # What once took long need not for ever: forget it bit by bit, and try again.
            self._pace.recent.popleft()
        return late

    # --- what the relay says

    def _told(self, message: pb.RelayMessage) -> list[SessionEffect]:
        kind = message.WhichOneof("body")
        try:
            match kind:
                case "welcome":
                    self._machine.join(message.welcome.site_index, message.welcome.last_id)
                    self._meet(message.welcome.sites)
                case "members":
                    self._meet(message.members.sites)
                case "ask":
                    return self._asked(message.ask)
                case "more":
                    return self._asked_for_more(message.more)
                case "commit":
                    return self._committed(message.commit)
                case "abort":
                    return self._aborted(message.abort)
                case "release":
                    self._learn(message.release)
                case "refused":
                    self._counters[f"refused by the relay: {message.refused.message}"] += 1
                case _:
                    raise ValueError(f"a message of kind {kind}")
        except ValueError:
            # A relay of another mind, or a broken one: what it said changes nothing.
            self._counters["refused"] += 1
        return []

    def _meet(self, sites: int) -> None:
        """So many sites take part now. Alone, no record has to come due early."""
        self._exhausted &= sites <= self._sites
        self._sites = max(1, sites)
        if self._sites == 1:
            self._machine.lead = 1
        elif self._pace.lead is None:
            self._machine.lead = self._parameters.delay_tuples // 2

    def _asked(self, ask: pb.Ask) -> list[SessionEffect]:
        if ask.settlement in self._open:
            raise ValueError(f"settlement {ask.settlement} is under way")
        box = self._codec.decode(ask.box)
        radius = min(ask.radius, RADIUS_ALL)
        held = self._machine.hold_nearest(
            box, least=self._least(), radius=radius, persons=ask.persons
        )
        if held.persons < PERSONS_REVEALED_MIN:
            self._machine.let_go(held.slots)
            held = Held(NO_SLOTS, 0, 0)
        self._begin(
            ask.settlement, ask.box, box, NO_SLOTS, values_wanted=ask.values_wanted, first=None
        )
        return self._vote(self._open[ask.settlement], held.slots, ask.persons, held.spare)

    def _asked_for_more(self, more: pb.More) -> list[SessionEffect]:
        each = self._open.get(more.settlement)
        if each is None:
            raise ValueError(f"settlement {more.settlement} is not under way here")
        least, radius = self._least(), min(more.radius, RADIUS_ALL)
        # Read first: what is malformed must not leave anything held.
        known = self._teller.known_values(more.settlement, more.values)
        held = self._machine.hold_nearest(
            each.box, least=least, radius=radius, persons=more.persons
        )
        slots = held.slots
        if not len(each.promised) and held.persons < PERSONS_REVEALED_MIN:
            self._machine.let_go(slots)
            slots = NO_SLOTS
        elif more.values_wanted:
            other = self._machine.hold_new_value(
                each.box, least=least, radius=radius, other_than=known
            )
            slots = np.concatenate([slots, other.slots])
        each.values_wanted |= more.values_wanted
        return self._vote(each, slots, more.persons + more.values_wanted, held.spare)

    def _vote(self, each: _Settling, slots: Longs, asked: int, spare: int) -> list[SessionEffect]:
        """Promise these tuples for good."""
        machine = self._machine
        covered, stray, reach = machine.reach(slots, each.box)
        machine.let_go(stray)
        # A person with records in an earlier vote has been counted.
        persons = machine.persons(covered)
        new = ~np.isin(persons, machine.persons(each.promised))
        told = self._teller.persons(each.number, persons[new])
        each.promised = np.concatenate([each.promised, covered])
        vote = pb.Vote(
            settlement=each.number,
            short=max(0, asked - told.count),
            tokens=told.tokens,
            reach=reach,
            spare=spare,
        )
        if each.values_wanted and len(covered):
            vote.values = self._teller.values(each.number, machine.values(covered))
        return [Send(pb.SiteMessage(vote=vote))]

    def _least(self) -> int:
        """The oldest position that may be promised: it must not expire before the commit."""
        lead = self._pace.lead if self._pace.lead is not None else self._machine.lead
        if self._ended:
            return 0
        return self._machine.position - self._parameters.delay_tuples - 1 + lead // LEAD_TIMES + 1

    def _committed(self, commit: pb.Commit) -> list[SessionEffect]:
        each = self._open.get(commit.settlement)
        box = self._codec.decode(commit.box) if each is None else each.box
        made = self._machine.joint_class(commit.settlement, box, commit.reach)
        if each is None or not len(each.promised):
            self._open.pop(commit.settlement, None)
            if self._is_proof(commit):
                # A class of others: it may be reused.
                self._prove(commit.settlement)
                self._machine.publish(made, NO_SLOTS)
            return []
        self._check_proof(each, commit)
        self._prove(commit.settlement)
        self._close(each)
        if each.first is not None:
            self._tries.pop(each.first, None)
        return self._publish(self._machine.publish(made, each.promised), voted=True)

    def _is_proof(self, commit: pb.Commit) -> bool:
        k, l = self._need
        return commit.persons >= k and (l <= 1 or commit.values >= l)

    def _check_proof(self, each: _Settling, commit: pb.Commit) -> None:
        """Nothing is published on a commit that does not prove k and l, or is of another box."""
        k, l = self._need
        if not self._is_proof(commit):
            raise PrivacyBreachError(
                f"site {self._site!r}: class {commit.settlement} was committed with "
                f"{commit.persons} of k={k} persons and {commit.values} of l={l} values"
            )
        if commit.box != each.wire:
            raise PrivacyBreachError(
                f"site {self._site!r}: class {commit.settlement} was committed with another box "
                "than was voted for"
            )

    def _aborted(self, abort: pb.Abort) -> list[SessionEffect]:
        self._exhausted |= abort.reason == pb.ABORT_REASON_EXHAUSTED
        each = self._open.get(abort.settlement)
        if each is None:
            return []
        self._give_up(each)
        self._requeue(each.promised, but=each.first)
        if each.first is None or not self._machine.is_free(each.first):
            return []
        if abort.reason != pb.ABORT_REASON_TIMEOUT:
            self._futile = self._machine.free_records
        self._due.appendleft(each.first)
        return []

    def _close(self, each: _Settling) -> None:
        """The settlement is over; how long it took tells when to start the next ones."""
        del self._open[each.number]
        if each.first is None:
            return
        self._own_open -= 1
        if not self._ended:
            self._pace.recent.append(self._machine.position - each.since)
            self._machine.lead = self._pace.lead or 0

    def _give_up(self, each: _Settling) -> None:
        """Let go of all that is held for the settlement."""
        self._close(each)
        self._machine.let_go(each.promised)

    def _requeue(self, slots: Longs, but: int | None = None) -> None:
        """Records whose turn came while they were held are due now."""
        for position in self._machine.past_due(slots, all_of_them=self._ended):
            if position != but:
                self._due.append(position)

    def _learn(self, release: pb.Release) -> None:
        if self._need != (self._parameters.k, self._parameters.l):
            return  # others prove no more than what all have agreed on
        for each in release.classes:
            self._machine.learn(each.id, each.bounds)
            self._prove(each.id)

    def _lose_patience(self) -> list[SessionEffect]:
        """The relay is silent: what was not promised for good is given back."""
        effects: list[SessionEffect] = []
        for each in list(self._open.values()):
            if self._now_ns - each.since_ns > self._patience_ns:
                self._counters["timed out"] += 1
                effects += self._withdraw(each)
                if each.first is not None and self._machine.is_free(each.first):
                    effects += self._decide(each.first)
        return effects

    # --- publishing

    def _publish(self, effects: Iterable[Publish], *, voted: bool = False) -> list[SessionEffect]:
        out: list[SessionEffect] = []
        for effect in effects:
            out.append(effect)
            slots = self._machine.slots(effect.position)
            persons, values = self._machine.persons(slots), self._machine.values(slots)
            message = self._publications.of(
                effect, persons, values, proved=self._proved, voted=voted
            )
            out.append(Send(message))
            fresh = [n for n in effect.classes.class_id.tolist() if n not in self._proved]
            for number in fresh:
                self._prove(number)
            if fresh and self._sites > 1 and self._tactics.share_news:
                out += [Send(message) for message in self._summaries.released(effect, fresh)]
        return out

    def _prove(self, number: int) -> None:
        """Remember a class that is proved, and forget the oldest ones."""
        self._proved[number] = None
        if len(self._proved) > 4 * max(1, self._parameters.reuse_max):
            del self._proved[next(iter(self._proved))]
