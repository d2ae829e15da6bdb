"""The hub: who takes part, who hears what, and what is refused.

A site introduces itself and is welcomed or refused. From then on summaries are passed on to the
other sites, settlements go to relay_server.settlement and publications to the barrier. A message
that cannot be right changes nothing: its sender is told why.

Pure: a step takes one message of one site and returns what to do, in order.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final

from google.protobuf.message import DecodeError

from core.exchange import ATTRIBUTES_MAX, PERSONS_REVEALED_MIN, PROTOCOL_VERSION, SITES_MAX
from relay_server.directory import ASKED_MAX, Directory
from relay_server.pb import exchange_pb2 as pb
from relay_server.publisher import Publisher, RefusedPart, Visible, VisibleAgain
from relay_server.refusal import MessageRefused, require
from relay_server.settlement import Committed, Settlement, Tell
from relay_server.settlement import Effect as SettlementEffect
from relay_server.terms import Policy, Terms

STRICT: Final = "strict"
PAPER: Final = "paper"
EXCHANGES: Final = (STRICT, PAPER)

MESSAGE_BYTES_MAX: Final = 4 * 2**20
NAME_BYTES_MAX: Final = 128
CLUSTERS_PER_MESSAGE_MAX: Final = 4_096


@dataclass(frozen=True, slots=True, eq=False)
class Show:
    """These records go to the merged output."""

    visible: Visible | VisibleAgain


Effect = Tell | Show


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """What the relay requires of every site; the first hello fills in what is None."""

    exchange: str
    k: int
    l: int
    schema_fingerprint: bytes | None = None


@dataclass(frozen=True, slots=True, eq=False)
class _Running:
    """What there is once the first site has said hello."""

    terms: Terms
    settlement: Settlement
    directory: Directory
    publisher: Publisher


class Hub:
    """Membership, fan-out, and the way of every message."""

    def __init__(self, agreement: Agreement, *, patience_ns: int) -> None:
        self._agreement = agreement
        self._patience_ns = patience_ns
        self._names: dict[str, int] = {}  # every site that ever was; an index is never reused
        self._present: dict[int, str] = {}
        self._last_id: dict[int, int] = {}  # the largest id of a site's that was seen
        self._running: _Running | None = None
        self.refused: Counter[str] = Counter()

    @property
    def sites(self) -> int:
        """How many take part now."""
        return len(self._present)

    def statistics(self) -> dict[str, int]:
        """Counters of the settlements and of what was refused."""
        counters = Counter({f"refused: {why}": times for why, times in self.refused.items()})
        if self._running is not None:
            counters.update(self._running.settlement.statistics)
        return dict(counters)

    def index_of(self, site: str) -> int | None:
        """The index of a site that takes part."""
        index = self._names.get(site)
        return index if index in self._present else None

    def receive(self, sender: int | None, data: bytes, now_ns: int) -> list[Effect]:
        """One message as it came off the wire. `sender` is None until it was welcomed."""
        try:
            require(
                len(data) <= MESSAGE_BYTES_MAX,
                pb.REASON_OVERSIZED,
                f"{len(data)} bytes, at most {MESSAGE_BYTES_MAX} are taken",
            )
            message = pb.SiteMessage.FromString(data)
        except MessageRefused as refusal:
            return self._refuse(sender, refusal, "message")
        except DecodeError as error:
            malformed = MessageRefused(pb.REASON_MALFORMED, f"not a message: {error}")
            return self._refuse(sender, malformed, "message")
        return self.step(sender, message, now_ns)

    def step(self, sender: int | None, message: pb.SiteMessage, now_ns: int) -> list[Effect]:
        """Take in one message; a refusal is an answer to the sender."""
        kind = message.WhichOneof("body") or "message"
        try:
            if kind == "hello":
                again = sender is not None and sender in self._present
                require(not again, pb.REASON_NAME, "a site says hello once")
                return self._hello(message.hello)
            require(
                sender is not None and sender in self._present,
                pb.REASON_NO_HELLO,
                "a site says hello before anything else",
            )
            assert sender is not None
            return self._take(sender, kind, message, now_ns)
        except MessageRefused as refusal:
            return [*self._refuse(sender, refusal, kind), *_give_back(sender, kind, message)]

    def tick(self, now_ns: int) -> list[Effect]:
        """Time has passed."""
        return self._done(self._running.settlement.tick(now_ns)) if self._running else []

    def lose(self, site: int, now_ns: int, *, for_ever: bool = False) -> list[Effect]:
        """A site is gone; for ever means that what it owes will never come."""
        if self._present.pop(site, None) is None:
            return []
        self._run.directory.lose(site)
        effects = self._done(self._run.settlement.lose(site, now_ns))
        if for_ever:
            effects += [Show(visible) for visible in self._run.publisher.lost(site)]
        return effects + self._tell_members()

    def finish(self) -> list[Effect]:
        """The exchange is over: what the barrier still holds comes out suppressed."""
        shown = self._running.publisher.finish() if self._running else []
        return [Show(visible) for visible in shown]

    @property
    def _run(self) -> _Running:
        """A site takes part, so there has been a hello."""
        assert self._running is not None
        return self._running

    # --- hello

    def _hello(self, hello: pb.Hello) -> list[Effect]:
        self._check_hello(hello)
        index = self._names.setdefault(hello.site, len(self._names))
        if self._running is None:
            self._begin(hello)
        self._present[index] = hello.site
        self._run.directory.join(index)
        policy = Policy(max(hello.k, hello.own_k), max(hello.l, hello.own_l))
        self._run.settlement.join(index, policy)
        welcome = pb.Welcome(
            site_index=index, sites=len(self._present), last_id=self._last_id.get(index, 0)
        )
        return [Tell(index, pb.RelayMessage(welcome=welcome)), *self._tell_members(but=index)]

    def _check_hello(self, hello: pb.Hello) -> None:
        agreed = self._agreement
        require(
            hello.protocol_version == PROTOCOL_VERSION,
            pb.REASON_PROTOCOL_VERSION,
            f"the site speaks version {hello.protocol_version}, the relay {PROTOCOL_VERSION}",
        )
        fingerprint = agreed.schema_fingerprint
        require(
            fingerprint is None or hello.schema_fingerprint == fingerprint,
            pb.REASON_SCHEMA,
            f"the site has schema {hello.schema_fingerprint.hex()[:12]}, "
            f"the relay {(fingerprint or b'').hex()[:12]}",
        )
        require(
            hello.exchange == agreed.exchange,
            pb.REASON_EXCHANGE,
            f"the site runs {hello.exchange!r}, the relay {agreed.exchange!r}",
        )
        for name, own, theirs in (("k", agreed.k, hello.k), ("l", agreed.l, hello.l)):
            require(
                own == theirs,
                pb.REASON_POLICY,
                f"the site has {name}={theirs}, the relay {name}={own}",
            )
        for name, own, stricter in (("k", agreed.k, hello.own_k), ("l", agreed.l, hello.own_l)):
            require(
                stricter == 0 or stricter >= own,
                pb.REASON_POLICY,
                f"the site's own policy {name}={stricter} is weaker than {name}={own}",
            )
        attributes = hello.numeric + hello.categorical
        require(
            0 < attributes <= ATTRIBUTES_MAX,
            pb.REASON_SCHEMA,
            f"{attributes} quasi-identifiers, 1 to {ATTRIBUTES_MAX} are possible",
        )
        named = 0 < len(hello.site.encode()) <= NAME_BYTES_MAX and hello.site.isprintable()
        require(named, pb.REASON_NAME, f"a site's name has 1 to {NAME_BYTES_MAX} printable bytes")
        taken = self.index_of(hello.site) is not None
        require(not taken, pb.REASON_NAME, f"a site {hello.site!r} takes part already")
        full = hello.site not in self._names and len(self._names) >= SITES_MAX
        require(not full, pb.REASON_FULL, f"{SITES_MAX} sites take part, which is the most")
        if self._running is not None:
            require(_terms(hello) == self._running.terms, pb.REASON_SCHEMA, "the schema differs")

    def _begin(self, hello: pb.Hello) -> None:
        """The first site fixes what the relay was not told."""
        agreed = self._agreement
        self._agreement = Agreement(
            exchange=agreed.exchange,
            k=agreed.k,
            l=agreed.l,
            schema_fingerprint=hello.schema_fingerprint,
        )
        terms = _terms(hello)
        self._running = _Running(
            terms,
            Settlement(terms, patience_ns=self._patience_ns),
            Directory(terms.box_bytes),
            Publisher(
                k=terms.policy.k,
                l=terms.policy.l,
                disjoint=terms.disjoint,
                values_as_tokens=terms.values_as_tokens,
            ),
        )

    # --- everything else

    def _take(self, sender: int, kind: str, message: pb.SiteMessage, now_ns: int) -> list[Effect]:
        match kind:
            case "share":
                return self._share(sender, message.share)
            case "remove":
                return self._remove(sender, message.remove)
            case "release":
                return self._release(sender, message.release)
            case "propose":
                self._check_box(message.propose.box)
                # Nobody is asked for so few that it would reveal too much.
                most = min(ASKED_MAX, max(1, self._run.terms.policy.k // PERSONS_REVEALED_MIN))
                self._saw(sender, message.propose.settlement)
                asked = self._run.directory.whom_to_ask(sender, message.propose.box, most)
                return self._done(
                    self._run.settlement.propose(sender, message.propose, asked, now_ns)
                )
            case "vote":
                return self._done(self._run.settlement.vote(sender, message.vote, now_ns))
            case "withdraw":
                return self._withdraw(sender, message.withdraw, now_ns)
            case "publication":
                return self._publish(sender, message.publication)
            case "ended":
                self._run.settlement.end(sender)
                return []
            case "goodbye":
                return self.lose(sender, now_ns)
        raise MessageRefused(pb.REASON_UNKNOWN, "the relay knows no such message")

    def _share(self, sender: int, share: pb.Share) -> list[Effect]:
        self._check_clusters(list(share.clusters))
        if self._agreement.exchange == STRICT:
            for cluster in share.clusters:
                self._run.directory.share(sender, cluster.id, cluster.size, cluster.box)
            # In strict mode it is the relay that uses them: it asks those who have something.
            return []
        return self._pass_on(sender, pb.RelayMessage(share=share))

    def _remove(self, sender: int, remove: pb.Remove) -> list[Effect]:
        if self._agreement.exchange == STRICT:
            known = self._run.directory.knows(sender, remove.ids)
            require(known, pb.REASON_UNKNOWN, "a cluster that was never shared is removed")
            for cluster in remove.ids:
                self._run.directory.remove(sender, cluster)
            return []
        return self._pass_on(sender, pb.RelayMessage(remove=remove))

    def _release(self, sender: int, release: pb.Release) -> list[Effect]:
        self._check_clusters(list(release.clusters))
        if self._agreement.exchange == STRICT:
            for cluster in release.clusters:
                self._run.directory.remove(sender, cluster.id)
        return self._pass_on(sender, pb.RelayMessage(release=release))

    def _check_clusters(self, clusters: list[pb.Cluster]) -> None:
        require(
            len(clusters) <= CLUSTERS_PER_MESSAGE_MAX,
            pb.REASON_OVERSIZED,
            f"{len(clusters)} clusters in one message, at most {CLUSTERS_PER_MESSAGE_MAX}",
        )
        for cluster in clusters:
            self._check_box(cluster.box)

    def _check_box(self, box: bytes) -> None:
        size = self._run.terms.box_bytes
        require(
            len(box) == size
            and all(low <= high for low, high in zip(box[::2], box[1::2], strict=True)),
            pb.REASON_MALFORMED,
            f"a box has {size} bytes here, two rising ones for each attribute",
        )

    def _withdraw(self, sender: int, withdraw: pb.Withdraw, now_ns: int) -> list[Effect]:
        effects = self._done(self._run.settlement.withdraw(sender, withdraw, now_ns))
        shown = self._run.publisher.withdraw(withdraw.settlement, sender)
        return effects + [Show(visible) for visible in shown]

    def _publish(self, sender: int, publication: pb.Publication) -> list[Effect]:
        for part in publication.parts:
            self._saw(sender, part.class_id)
        if self._agreement.exchange == PAPER:
            return [Show(visible) for visible in _unchecked(sender, publication)]
        effects: list[Effect] = []
        for effect in self._run.publisher.step(sender, publication):
            if isinstance(effect, RefusedPart):
                refusal = MessageRefused(pb.REASON_MALFORMED, effect.reason)
                effects += self._refuse(sender, refusal, "publication")
            else:
                effects.append(Show(effect))
        return effects

    def _saw(self, sender: int, number: int) -> None:
        """Remember the ids that a site has used, for the case that it forgets them."""
        if number % SITES_MAX == sender:
            self._last_id[sender] = max(number, self._last_id.get(sender, 0))

    def _done(self, effects: list[SettlementEffect]) -> list[Effect]:
        """Tell the barrier of commits before anybody can publish because of them."""
        told: list[Effect] = []
        for effect in effects:
            if isinstance(effect, Committed):
                self._run.publisher.expect(effect.class_id, None, effect.votes)
            else:
                told.append(effect)
        return told

    def _pass_on(self, sender: int, message: pb.RelayMessage) -> list[Effect]:
        return [Tell(site, message) for site in self._present if site != sender]

    def _tell_members(self, but: int | None = None) -> list[Effect]:
        message = pb.RelayMessage(members=pb.Members(sites=len(self._present)))
        return [Tell(site, message) for site in self._present if site != but]

    def _refuse(self, sender: int | None, refusal: MessageRefused, kind: str) -> list[Effect]:
        self.refused[pb.Reason.Name(refusal.reason)[7:].lower()] += 1
        answer = pb.Refused(reason=refusal.reason, detail=refusal.detail, message=kind)
        return [Tell(-1 if sender is None else sender, pb.RelayMessage(refused=answer))]


def _terms(hello: pb.Hello) -> Terms:
    return Terms(
        policy=Policy(hello.k, hello.l),
        disjoint=hello.persons_disjoint,
        values_as_tokens=hello.values_as_tokens,
        numeric=hello.numeric,
        categorical=hello.categorical,
    )


def _give_back(sender: int | None, kind: str, message: pb.SiteMessage) -> list[Effect]:
    """A site whose proposal or vote came to nothing holds tuples for it: it may let go of them."""
    if sender is None or kind not in ("propose", "vote"):
        return []
    proposed = kind == "propose"
    number = message.propose.settlement if proposed else message.vote.settlement
    abort = pb.Abort(settlement=number, reason=pb.ABORT_REASON_TIMEOUT)
    return [Tell(sender, pb.RelayMessage(abort=abort))]


def _unchecked(sender: int, publication: pb.Publication) -> list[Visible]:
    """`paper`: what sites publish is shown as it comes, short of k or not."""
    return [
        Visible(
            None if part.suppressed else part.class_id,
            part.bounds,
            sender,
            part.records,
            part.payload,
        )
        for part in publication.parts
    ]
