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
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from core.boxes import RADIUS_SHIFT, Box, BoxCodec
from core.config import Parameters
from core.errors import PrivacyBreachError
from core.events import Publish, RecordsArrived, StreamEnded, Ticked
from core.exchange import PERSONS_REVEALED_MIN, PROTOCOL_VERSION
from core.kernels.layout import GRID
from core.loss import class_losses
from core.joint import Due, Held, JointClass, JointMachine
from core.schema import Schema
from core.tokens import TokenKey
from core.varint import encode_numbers
from relay_server.pb import exchange_pb2 as pb
from site_node.exchange_events import Accept, Received, Send, SessionEffect, SessionEvent
from site_node.publication import Publications
from site_node.summaries import Summaries
from site_node.telling import Teller

# Radii of a proposal: within these multiples of its own share the proposer has so many persons.
LADDER: Final = (1.25, 1.5, 1.75, 2.0, 2.25, 2.5, 3.0)
# The last radius takes in everything.
RADIUS_ALL: Final = (1 << 31 >> RADIUS_SHIFT) - 1
# A proposer holds this many times its share.
HOLD_SHARES: Final = 3
# Settlements of this site that are under way at most; once the stream has ended, one at a time.
UNDER_WAY_MAX: Final = 16
# How often a record is proposed.
TRIES_MAX: Final = 3
# A record comes due this many times the usual time of a settlement before its deadline.
LEAD_TIMES: Final = 2
# What a settlement must promise to lose less than, of what this site would lose alone.
WORTH_IT: Final = 0.95
# What a cluster published alone is taken to lose at first, and how slowly that follows experience.
ALONE_FIRST: Final = 1.5
PATIENT: Final = 16

Longs = NDArray[np.int64]


@dataclass(slots=True, eq=False)
class _Settling:
    """A settlement that this site takes part in."""

    number: int
    box: Box
    radii: list[int]
    held: Held
    values_wanted: bool
    first: int | None  # position of the record that it is for, if this site proposed it
    since: int  # position of the stream when it began
    since_ns: int
    radius: int = 0
    voted: Longs | None = None  # slots that were promised for good

    @property
    def promised(self) -> Longs:
        """All slots that are held for it."""
        return self.held.slots if self.voted is None else self.voted


@dataclass(slots=True)
class _Pace:
    """How long settlements take, in records of this site."""

    recent: deque[int] = field(default_factory=lambda: deque(maxlen=16))

    @property
    def lead(self) -> int | None:
        """How long before its deadline a record should come due; None: not known yet."""
        return LEAD_TIMES * max(self.recent) + 2 if self.recent else None


@dataclass(slots=True)
class _Expected:
    """How much more a class loses than the box of neighbours that was looked at for it.

    A settled class stretches beyond the box that was proposed. A cluster that is published alone
    is split as a whole, and its parts are worse than the best one around the record.
    """

    joint: float = 1.0
    alone: float = ALONE_FIRST
    around: int = 0  # loss of the box of k neighbours that was looked at last

    def learn_joint(self, loss: int, box: int) -> None:
        """A settlement came to this."""
        if box:
            self.joint += (loss / box - self.joint) / PATIENT

    def learn_alone(self, loss: float) -> None:
        """A cluster that was published alone came to this."""
        if self.around:
            self.alone += (loss / self.around - self.alone) / PATIENT
            self.around = 0


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
    ) -> None:
        self._site = site
        self._schema = schema
        self._parameters = parameters
        self._own_policy = own_k, own_l
        self._patience_ns = patience_ns
        self._machine = JointMachine(schema, parameters, seed=seed)
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
        self._now_ns = 0
        self._expected = _Expected()
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
                effects += self._offer(RecordsArrived(self._machine.no_records, now_ns))[1:]
                effects += self._lose_patience()
            case StreamEnded():
                self._ended = True
                self._due = deque(self._machine.undecided())
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
        if self._sites > 1:
            effects += [Send(message) for message in self._summaries.news(self._sites)]
        return effects

    def _face(self, due: Due) -> list[SessionEffect]:
        if due.overdue:
            return self._decide_now(due.position)
        self._due.append(due.position)
        return []

    def _settle_due(self) -> list[SessionEffect]:
        effects: list[SessionEffect] = []
        most = 1 if self._ended else UNDER_WAY_MAX
        while self._due and sum(each.first is not None for each in self._open.values()) < most:
            position = self._due.popleft()
            if self._machine.is_free(position):
                effects += self._settle(position)
        return effects

    def _decide_now(self, position: int) -> list[SessionEffect]:
        """The deadline is here: decide alone, and take back what was promised."""
        effects: list[SessionEffect] = []
        if self._machine.is_held(position):
            slot = int(self._machine.slots(np.array([position]))[0])
            each = next(each for each in self._open.values() if slot in each.promised)
            effects += self._take_back(each, slot)
        return effects + self._decide(position)

    def _take_back(self, each: _Settling, slot: int) -> list[SessionEffect]:
        if each.voted is None and each.first is None:
            # Counts are no promise: the others may still be given.
            keep = each.held.slots != slot
            each.held = Held(each.held.slots[keep], each.held.distances[keep])
            self._machine.let_go(np.array([slot]))
            return []
        self._counters["withdrawn"] += 1
        self._give_up(each)
        return [Send(pb.SiteMessage(withdraw=pb.Withdraw(settlement=each.number)))]

    def _decide(self, position: int) -> list[SessionEffect]:
        self._counters["decided alone"] += 1
        self._tries.pop(position, None)
        published = self._machine.decide(position)
        for effect in published:
            if len(effect.classes):
                losses = class_losses(self._schema, effect.classes)
                attributes = len(self._schema.quasi_identifiers)
                self._expected.learn_alone(float(losses.mean()) * attributes * GRID)
        return self._publish(published)

    # --- a settlement of our own

    def _settle(self, position: int) -> list[SessionEffect]:
        """Propose a class around the record, or decide it alone where that is of no use."""
        k, sites = self._parameters.k, self._sites
        if sites < 2 or self._tries[position] >= TRIES_MAX or self._too_late(position):
            return self._decide(position)
        share = max(PERSONS_REVEALED_MIN, -(-k // sites))
        grown, persons = self._machine.box_around(position, share)
        if persons < PERSONS_REVEALED_MIN or not self._worth_it(position, grown):
            return self._decide(position)
        wire = self._codec.encode(grown)
        box = self._codec.decode(wire)
        held = self._machine.hold_nearest(
            box, first=position, least=0, radius=RADIUS_ALL, persons=HOLD_SHARES * share
        )
        radii = _radii(self._distances_by_person(held), share)
        counts = self._counts(held, radii)
        near = held.slots[: min(share, len(held.slots))]
        secured = len(np.unique(self._machine.values(near))) >= self._parameters.l
        number = self._machine.next_id()
        self._tries[position] += 1
        self._counters["proposed"] += 1
        self._open[number] = _Settling(
            number=number,
            box=box,
            radii=radii,
            held=held,
            values_wanted=not secured,
            first=position,
            since=self._machine.position,
            since_ns=self._now_ns,
        )
        propose = pb.Propose(
            settlement=number, box=wire, radii=radii, counts=counts, values_wanted=not secured
        )
        if not secured:
            propose.values = self._teller.values(number, self._machine.values(held.slots))
        return [Send(pb.SiteMessage(propose=propose))]

    def _too_late(self, position: int) -> bool:
        lead = self._pace.lead
        if self._ended or lead is None:
            return False
        return self._machine.deadline(position) <= lead // LEAD_TIMES

    def _worth_it(self, position: int, box: Box) -> bool:
        """Whether a settlement promises less loss than publishing the record's cluster alone."""
        if not self._machine.is_ready(position):
            return True
        around, _ = self._machine.box_around(position, self._parameters.k)
        alone, joint = self._machine.loss(around), self._machine.loss(box)
        self._expected.around = alone
        return joint * self._expected.joint < WORTH_IT * alone * self._expected.alone

    def _distances_by_person(self, held: Held) -> list[int]:
        """The distance of each person's nearest tuple, ascending."""
        _, first = np.unique(self._machine.persons(held.slots), return_index=True)
        return sorted(held.distances[first].tolist())

    def _counts(self, held: Held, radii: list[int]) -> bytes:
        """Persons within each radius, as increments; nothing where that would reveal too few."""
        distances = np.array(self._distances_by_person(held))
        limits = np.array(radii, np.int64) << RADIUS_SHIFT
        within = np.searchsorted(distances, limits, side="right")
        within[within < PERSONS_REVEALED_MIN] = 0
        increments = np.diff(within, prepend=0).tolist()
        while increments and increments[-1] == 0:
            increments.pop()
        return encode_numbers(increments)

    # --- what the relay says

    def _told(self, message: pb.RelayMessage) -> list[SessionEffect]:
        kind = message.WhichOneof("body")
        try:
            match kind:
                case "welcome":
                    self._machine.join(message.welcome.site_index)
                    self._sites = message.welcome.sites
                case "members":
                    self._sites = max(1, message.members.sites)
                case "ask":
                    return self._asked(message.ask)
                case "prepare":
                    return self._prepare(message.prepare)
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

    def _asked(self, ask: pb.Ask) -> list[SessionEffect]:
        box, radii = self._codec.decode(ask.box), list(ask.radii)
        if ask.settlement in self._open or not radii or sorted(set(radii)) != radii:
            raise ValueError(f"settlement {ask.settlement} cannot be asked for")
        held = self._machine.hold_nearest(
            box, first=None, least=self._least(), radius=radii[-1], persons=ask.hold
        )
        counts = self._counts(held, radii)
        answer = pb.Count(settlement=ask.settlement, counts=counts)
        if not counts:
            self._machine.let_go(held.slots)
            return [Send(pb.SiteMessage(count=answer))]
        if ask.values_wanted:
            values = self._machine.values(held.slots)
            answer.values = self._teller.values(ask.settlement, values)
        self._open[ask.settlement] = _Settling(
            number=ask.settlement,
            box=box,
            radii=radii,
            held=held,
            values_wanted=ask.values_wanted,
            first=None,
            since=self._machine.position,
            since_ns=self._now_ns,
        )
        return [Send(pb.SiteMessage(count=answer))]

    def _least(self) -> int:
        """The oldest position that may be promised: it must not expire before the commit."""
        lead = self._pace.lead if self._pace.lead is not None else self._machine.lead
        if self._ended:
            return 0
        return self._machine.position - self._parameters.delay_tuples - 1 + lead // LEAD_TIMES + 1

    def _prepare(self, prepare: pb.Prepare) -> list[SessionEffect]:
        each = self._open.get(prepare.settlement)
        if each is None or each.voted is not None or prepare.radius >= len(each.radii):
            raise ValueError(f"settlement {prepare.settlement} cannot be prepared")
        if prepare.persons == 0:
            self._give_up(each)
            return self._again(each) if each.first is not None else []
        each.radius = each.radii[prepare.radius]
        each.voted = self._reserve(each, prepare.persons)
        each.voted, reach = self._machine.reach(each.voted, each.box, each.radius)
        self._machine.let_go(np.setdiff1d(each.held.slots, each.voted))
        vote = pb.Vote(
            settlement=each.number,
            persons=self._teller.persons(each.number, self._machine.persons(each.voted)),
            reach=reach,
        )
        if each.values_wanted or each.first is not None:
            values = self._machine.values(each.voted)
            vote.values = self._teller.values(each.number, values)
        return [Send(pb.SiteMessage(vote=vote)), *self._requeue(each.held.slots)]

    def _reserve(self, each: _Settling, persons: int) -> Longs:
        """The tuples of so many persons, nearest first, and of l values if that is asked for."""
        within = each.held.distances <= each.radius << RADIUS_SHIFT
        slots = each.held.slots[within]
        _, first, who = np.unique(
            self._machine.persons(slots), return_index=True, return_inverse=True
        )
        rank = np.argsort(np.argsort(first))  # a person's place by its nearest tuple
        chosen = rank[who] < persons
        if each.values_wanted:
            values = self._machine.values(slots)
            for value in dict.fromkeys(values.tolist()):
                if len(np.unique(values[chosen])) >= self._parameters.l:
                    break
                if value not in values[chosen]:
                    chosen[int(np.argmax(values == value))] = True
        more = persons - len(first)
        if more > 0:
            extra = self._machine.hold_nearest(
                each.box, first=None, least=self._least(), radius=each.radius, persons=more
            )
            each.held = Held(
                np.concatenate([each.held.slots, extra.slots]),
                np.concatenate([each.held.distances, extra.distances]),
            )
            return np.concatenate([slots[chosen], extra.slots])
        return slots[chosen]

    def _committed(self, commit: pb.Commit) -> list[SessionEffect]:
        each = self._open.get(commit.settlement)
        box = self._codec.decode(commit.box)
        made = self._machine.joint_class(commit.settlement, box, commit.radius, commit.reach)
        self._prove(commit.settlement)
        if each is None or each.voted is None:
            # A class of others: it may be reused.
            self._machine.publish(made, np.zeros(0, np.int64))
            return self._drop(each) if each is not None else []
        self._check_proof(each, commit, box)
        del self._open[each.number]
        self._learn_pace(each)
        if each.first is not None:
            self._expected.learn_joint(made.loss, self._machine.loss(each.box))
        published = self._machine.publish(made, each.voted)
        return self._publish(published, voted=made)

    def _drop(self, each: _Settling) -> list[SessionEffect]:
        self._give_up(each)
        return self._requeue(each.promised)

    def _check_proof(self, each: _Settling, commit: pb.Commit, box: Box) -> None:
        """Nothing is published on a commit that does not prove k and l, or is of another box."""
        (own_k, own_l), parameters = self._own_policy, self._parameters
        k, l = max(parameters.k, own_k), max(parameters.l, own_l)
        if commit.persons < k or (l > 1 and commit.values < l):
            raise PrivacyBreachError(
                f"site {self._site!r}: class {commit.settlement} was committed with "
                f"{commit.persons} of k={k} persons and {commit.values} of l={l} values"
            )
        same = (box.low == each.box.low).all() and (box.high == each.box.high).all()
        if not same or commit.radius != each.radius:
            raise PrivacyBreachError(
                f"site {self._site!r}: class {commit.settlement} was committed with another box "
                "than was voted for"
            )

    def _aborted(self, abort: pb.Abort) -> list[SessionEffect]:
        each = self._open.get(abort.settlement)
        if each is None:
            return []
        self._give_up(each)
        if each.first is None:
            return self._requeue(each.promised)
        self._learn_pace(each)
        effects = self._requeue(each.promised, but=each.first)
        if not self._machine.is_free(each.first):
            return effects
        if abort.reason == pb.ABORT_REASON_TOO_FEW:
            return effects + self._decide(each.first)
        return effects + self._again(each)

    def _again(self, each: _Settling) -> list[SessionEffect]:
        assert each.first is not None
        self._due.appendleft(each.first)
        return []

    def _give_up(self, each: _Settling) -> None:
        """Let go of all that is held for the settlement."""
        del self._open[each.number]
        self._machine.let_go(each.promised)

    def _requeue(self, slots: Longs, but: int | None = None) -> list[SessionEffect]:
        """Records whose turn came while they were held are due now."""
        for position in self._machine.positions(slots).tolist():
            passed = self._ended or self._machine.is_past_due(position)
            if position != but and passed and self._machine.is_free(position):
                self._due.append(position)
        return []

    def _learn(self, release: pb.Release) -> None:
        for each in release.classes:
            self._machine.learn(each.id, each.bounds)
            self._prove(each.id)

    def _learn_pace(self, each: _Settling) -> None:
        if each.first is not None and not self._ended:
            self._pace.recent.append(self._machine.position - each.since)
            lead = self._pace.lead
            assert lead is not None
            self._machine.lead = lead

    def _lose_patience(self) -> list[SessionEffect]:
        """The relay is silent: what was not promised for good is given back."""
        effects: list[SessionEffect] = []
        for each in list(self._open.values()):
            if self._now_ns - each.since_ns > self._patience_ns:
                self._counters["timed out"] += 1
                self._give_up(each)
                effects.append(Send(pb.SiteMessage(withdraw=pb.Withdraw(settlement=each.number))))
                effects += self._requeue(each.promised, but=each.first)
                if each.first is not None and self._machine.is_free(each.first):
                    effects += self._decide(each.first)
        return effects

    # --- publishing

    def _publish(
        self, effects: Iterable[Publish], voted: JointClass | None = None
    ) -> list[SessionEffect]:
        out: list[SessionEffect] = []
        for effect in effects:
            out.append(effect)
            slots = self._machine.slots(effect.position)
            persons, values = self._machine.persons(slots), self._machine.values(slots)
            message = self._publications.of(
                effect, persons, values, proved=self._proved, voted=voted is not None
            )
            out.append(Send(message))
            fresh = [n for n in effect.classes.class_id.tolist() if n not in self._proved]
            for number in fresh:
                self._prove(number)
            if fresh and self._sites > 1:
                out += [Send(message) for message in self._summaries.released(effect, fresh)]
        return out

    def _prove(self, number: int) -> None:
        """Remember a class that is proved, and forget the oldest ones."""
        self._proved[number] = None
        if len(self._proved) > 4 * max(1, self._parameters.reuse_max):
            del self._proved[next(iter(self._proved))]


def _radii(distances: list[int], share: int) -> list[int]:
    """Rising radii, the last of which takes in everything."""
    ranks = [min(len(distances), max(1, round(times * share))) for times in LADDER]
    chosen = [(distances[rank - 1] >> RADIUS_SHIFT) + 1 for rank in ranks]
    radii = [1, *(after for before, after in pairwise([1, *sorted(chosen)]) if after > before)]
    return [*radii, RADIUS_ALL]
