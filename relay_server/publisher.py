"""The barrier in front of the merged output. It alone holds the promise of k and l there.

Sites decide, the network loses and delays, processes die: what a settlement agreed on may arrive in
part or not at all. The publisher believes none of it. A class is shown once what has *arrived* of
it has k distinct persons and l distinct values, and until then it is held back. What can no longer
get there comes out suppressed, so that every record comes out exactly once.

Pure: no clock and no I/O. All of its state is in dicts and lists of numbers and bytes; the unions
can be counted again from the parts that are held.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

from core.config_attributes import QUASI_IDENTIFIERS_MAX
from core.errors import PrivacyBreachError
from core.tokens import range_bits
from relay_server.counting import Union
from relay_server.pb import exchange_pb2 as pb

# Held back at most; beyond that the class that is held for longest comes out suppressed.
CLASSES_HELD_MAX: Final = 65_536
HELD_BYTES_MAX: Final = 1 << 28
# Committed classes with votes that have not arrived; beyond that the oldest one's are forgotten.
JOINT_CLASSES_MAX: Final = 65_536
# Classes whose fate is known. One that is forgotten has to prove k and l once more.
FATES_MAX: Final = 262_144

# The ends of as many numeric attributes as there may be.
BOUNDS_BYTES_MAX: Final = 16 * QUASI_IDENTIFIERS_MAX

# What a part takes besides its payload and tokens.
_PART_BYTES: Final = 256
_VISIBLE: Final = True
_SUPPRESSED: Final = False


@dataclass(frozen=True, slots=True)
class Visible:
    """Show these records now. `class_id` None: suppressed, with the most general values."""

    class_id: int | None
    bounds: bytes
    site: int
    records: int
    payload: bytes


@dataclass(frozen=True, slots=True)
class VisibleAgain:
    """Show these records now, each with a class that was shown before."""

    class_ids: tuple[int, ...]
    site: int
    payload: bytes


@dataclass(frozen=True, slots=True)
class RefusedPart:
    """Tell the site that a part was malformed; its records, if any, come out suppressed."""

    site: int
    reason: str


Effect = Visible | VisibleAgain | RefusedPart


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """What is held back now, and what has come out since the beginning."""

    held_records: int
    held_classes: int
    visible_classes: int
    visible_records: int
    suppressed_by_sites: int  # records
    suppressed_here: int  # records of a class that did not get there, or of a refused part
    refused_parts: int


class Told(NamedTuple):
    """Persons and values of a part or a vote, as they came."""

    persons: int
    tokens: bytes
    values: bytes
    salt: int = 0


class Held(NamedTuple):
    """A part that waits for the rest of its class."""

    site: int
    records: int
    payload: bytes
    told: Told


class Joint(NamedTuple):
    """A committed class: its bounds, if known, and the votes of sites whose part is to come."""

    bounds: bytes | None
    votes: dict[int, Told]


class Publisher:
    """Holds parts of classes back until they may be shown.

    Persons are tokens of range_bits(k) bits, values (if not a bitmap) tokens of range_bits(l) bits.
    With l = 1 values need not be told: every record has one.
    """

    def __init__(self, *, k: int, l: int, disjoint: bool, values_as_tokens: bool) -> None:
        if k < 1 or l < 1:
            raise ValueError(f"k={k} and l={l} must be at least 1")
        self._k = k
        self._l = l
        self._disjoint = disjoint
        self._values_as_tokens = values_as_tokens
        self._person_bits = range_bits(k)
        self._value_bits = range_bits(l)
        # By class id and then by bounds, oldest first; and what each has so far.
        self._held: dict[int, dict[bytes, list[Held]]] = {}
        self._unions: dict[tuple[int, bytes], Union] = {}
        self._joint: dict[int, Joint] = {}
        # Bounds of the classes that were shown, and records that reuse one that was not yet.
        self._shown: dict[int, bytes] = {}
        self._reusing: dict[int, list[Held]] = {}
        # Bounds None: of all bounds that are not named. The most recently used is last.
        self._fates: dict[tuple[int, bytes | None], bool] = {}
        self._held_records = 0
        self._held_bytes = 0
        self._visible_classes = 0
        self._visible_records = 0
        self._suppressed_by_sites = 0
        self._suppressed_here = 0
        self._refused_parts = 0

    @property
    def statistics(self) -> Statistics:
        """What is held back now, and what has come out since the beginning."""
        return Statistics(
            held_records=self._held_records,
            held_classes=len(self._unions),
            visible_classes=self._visible_classes,
            visible_records=self._visible_records,
            suppressed_by_sites=self._suppressed_by_sites,
            suppressed_here=self._suppressed_here,
            refused_parts=self._refused_parts,
        )

    # --- what happens

    def expect(
        self, class_id: int, bounds: bytes | None, votes: Mapping[int, tuple[pb.Persons, bytes]]
    ) -> None:
        """A settlement was committed: these sites voted so, and their parts will follow.

        A part with `voted` then counts as its site's vote. `bounds` None: what the sites say.
        ValueError, and nothing changed, when that cannot be.
        """
        if class_id in self._joint:
            raise ValueError(f"class {class_id} is expected already")
        if not votes:
            raise ValueError(f"class {class_id} is expected of no site")
        for persons, values in votes.values():
            self._union().add(persons, values)
        told = {s: Told(p.count, p.tokens, values, p.salt) for s, (p, values) in votes.items()}
        self._joint[class_id] = Joint(bounds, told)
        if len(self._joint) > JOINT_CLASSES_MAX:
            del self._joint[next(iter(self._joint))]

    def withdraw(self, class_id: int, site: int) -> list[Visible]:
        """The site decided alone: its vote for this class will never arrive."""
        joint = self._joint.get(class_id)
        if joint is None or joint.votes.pop(site, None) is None:
            return []
        return self._close_if_over(class_id)

    def lost(self, site: int) -> list[Visible]:
        """The site is gone for ever, and with it all of its votes that have not arrived."""
        shown: list[Visible] = []
        for class_id in list(self._joint):
            shown += self.withdraw(class_id, site)
        return shown

    def step(self, site: int, publication: pb.Publication) -> list[Effect]:
        """Take in what a site published; returns what may be shown now, in order.

        PrivacyBreachError when the recount in front of the output disagrees: then halt.
        """
        effects: list[Effect] = []
        for part in publication.parts:
            effects += self._take(site, part)
        return effects

    def finish(self) -> list[Visible]:
        """Nothing more will come: what is held back comes out suppressed."""
        self._joint.clear()
        shown: list[Visible] = []
        while self._held:
            shown += self._suppress_oldest()
        for class_id in list(self._reusing):
            shown += self._come_along(class_id, b"", _SUPPRESSED)
        return shown

    # --- one part

    def _take(self, site: int, part: pb.Part) -> Sequence[Effect]:
        if part.reused:
            return self._take_reused(site, part)
        try:
            told = self._read(site, part)
        except ValueError as error:
            return self._refuse(site, part, str(error))
        if part.suppressed:
            self._suppressed_by_sites += part.records
            return [Visible(None, b"", site, part.records, part.payload)]
        class_id, bounds = part.class_id, part.bounds
        held = Held(site, part.records, part.payload, told)
        shown = self._pass_or_hold(class_id, bounds, held)
        if part.voted:
            del self._joint[class_id].votes[site]
            shown += self._close_if_over(class_id)
        while len(self._unions) > CLASSES_HELD_MAX or self._held_bytes > HELD_BYTES_MAX:
            shown += self._suppress_oldest()
        return shown

    def _take_reused(self, site: int, part: pb.Part) -> Sequence[Effect]:
        """Records of classes that were published before: they follow what becomes of these."""
        size = len(part.payload) // max(1, part.records)
        alone = part == pb.Part(reused=part.reused, records=part.records, payload=part.payload)
        if (
            not alone
            or part.records != len(part.reused)
            or size * part.records != len(part.payload)
        ):
            return self._refuse(site, part, "a part of reused classes that is also something else")
        if self._shown.keys() >= set(part.reused):
            self._visible_records += part.records
            return [VisibleAgain(tuple(part.reused), site, part.payload)]
        effects: list[Effect] = []
        for place, class_id in enumerate(part.reused):
            payload = part.payload[place * size : (place + 1) * size]
            one = Held(site, 1, payload, Told(0, b"", b""))
            effects += self._reuse(class_id, one)
        return effects

    def _reuse(self, class_id: int, part: Held) -> list[Visible]:
        bounds = self._shown.get(class_id)
        if bounds is not None:
            return self._come_out(class_id, bounds, [part], _VISIBLE)
        if self._fates.get((class_id, None)) is _SUPPRESSED:
            return self._come_out(class_id, b"", [part], _SUPPRESSED)
        self._reusing.setdefault(class_id, []).append(part)
        self._held_records += part.records
        self._held_bytes += _size(part)
        shown: list[Visible] = []
        while len(self._reusing) > CLASSES_HELD_MAX:
            shown += self._come_along(next(iter(self._reusing)), b"", _SUPPRESSED)
        return shown

    def _come_along(self, class_id: int, bounds: bytes, fate: bool) -> list[Visible]:
        """Records that reuse a class whose fate is known now."""
        parts = self._reusing.pop(class_id, [])
        self._held_records -= sum(part.records for part in parts)
        self._held_bytes -= sum(_size(part) for part in parts)
        return self._come_out(class_id, bounds, parts, fate)

    def _read(self, site: int, part: pb.Part) -> Told:
        """The persons and values of a part; ValueError unless the part is well-formed."""
        if part.records == 0:
            raise ValueError("a part without records")
        if part.suppressed:
            if part.class_id or part.bounds or part.voted:
                raise ValueError(f"a part that is suppressed and in class {part.class_id}")
            return Told(0, b"", b"")
        # Without bounds, different classes of two sites would be counted as one.
        if not 0 < len(part.bounds) <= BOUNDS_BYTES_MAX:
            raise ValueError(
                f"a part of class {part.class_id} with {len(part.bounds)} bytes of bounds"
            )
        persons = part.persons
        told = Told(persons.count, persons.tokens, part.values, persons.salt)
        if part.voted:
            if told != Told(0, b"", b""):
                raise ValueError(f"a voted part of class {part.class_id} with persons of its own")
            # What was voted has been read before; but fewer records cannot hold all of it.
            told = self._vote(site, part)
            if told.persons > part.records:
                raise ValueError(
                    f"{told.persons} persons were voted for class {part.class_id}, and "
                    f"{part.records} records came"
                )
            return told
        alone = self._union()
        alone.add(_persons(told), told.values)
        if max(alone.persons, alone.values) > part.records:
            raise ValueError(
                f"{alone.persons} persons and {alone.values} values in {part.records} records "
                f"of class {part.class_id}"
            )
        return told

    def _vote(self, site: int, part: pb.Part) -> Told:
        joint = self._joint.get(part.class_id)
        if joint is None or site not in joint.votes:
            raise ValueError(f"a voted part of class {part.class_id}, where no vote is expected")
        if joint.bounds is not None and joint.bounds != part.bounds:
            raise ValueError(f"a voted part of class {part.class_id} with other bounds than agreed")
        return joint.votes[site]

    def _refuse(self, site: int, part: pb.Part, reason: str) -> list[Effect]:
        self._refused_parts += 1
        effects: list[Effect] = [RefusedPart(site, reason)]
        if part.records:
            self._suppressed_here += part.records
            effects.append(Visible(None, b"", site, part.records, part.payload))
        return effects

    # --- one class

    def _pass_or_hold(self, class_id: int, bounds: bytes, part: Held) -> list[Visible]:
        fate = self._fate(class_id, bounds)
        if fate is not None:
            return self._come_out(class_id, bounds, [part], fate)
        self._held.setdefault(class_id, {}).setdefault(bounds, []).append(part)
        self._held_records += part.records
        self._held_bytes += _size(part)
        union = self._unions.setdefault((class_id, bounds), self._union())
        union.add(_persons(part.told), part.told.values, part.site)
        if union.persons < self._k or (self._l > 1 and union.values < self._l):
            return []
        self._check_again(class_id, bounds, union)
        self._visible_classes += 1
        shown = self._let_go(class_id, bounds, _VISIBLE)
        if class_id not in self._shown:
            self._shown[class_id] = bounds
            shown += self._come_along(class_id, bounds, _VISIBLE)
            if len(self._shown) > FATES_MAX:
                del self._shown[next(iter(self._shown))]
        return shown

    def _close_if_over(self, class_id: int) -> list[Visible]:
        """Suppress what is held of a joint class once no vote for it is to come any more."""
        if self._joint[class_id].votes:
            return []
        del self._joint[class_id]
        shown: list[Visible] = []
        for bounds in list(self._held.get(class_id, ())):
            shown += self._let_go(class_id, bounds, _SUPPRESSED)
        self._remember(class_id, None, _SUPPRESSED)
        if class_id not in self._shown:
            shown += self._come_along(class_id, b"", _SUPPRESSED)
        return shown

    def _suppress_oldest(self) -> list[Visible]:
        class_id = next(iter(self._held))
        return self._let_go(class_id, next(iter(self._held[class_id])), _SUPPRESSED)

    def _let_go(self, class_id: int, bounds: bytes, fate: bool) -> list[Visible]:
        """All that is held of a class comes out, in the order of arrival."""
        parts = self._held[class_id].pop(bounds)
        if not self._held[class_id]:
            del self._held[class_id]
        del self._unions[class_id, bounds]
        self._held_records -= sum(part.records for part in parts)
        self._held_bytes -= sum(_size(part) for part in parts)
        self._remember(class_id, bounds, fate)
        return self._come_out(class_id, bounds, parts, fate)

    def _come_out(
        self, class_id: int, bounds: bytes, parts: Sequence[Held], fate: bool
    ) -> list[Visible]:
        records = sum(part.records for part in parts)
        if fate is _VISIBLE:
            self._visible_records += records
            return [Visible(class_id, bounds, p.site, p.records, p.payload) for p in parts]
        self._suppressed_here += records
        return [Visible(None, b"", p.site, p.records, p.payload) for p in parts]

    def _fate(self, class_id: int, bounds: bytes) -> bool | None:
        """Visible, suppressed, or None: not decided."""
        for key in ((class_id, bounds), (class_id, None)):
            fate = self._fates.pop(key, None)
            if fate is not None:
                self._fates[key] = fate
                return fate
        return None

    def _remember(self, class_id: int, bounds: bytes | None, fate: bool) -> None:
        self._fates[class_id, bounds] = fate
        if len(self._fates) > FATES_MAX:
            del self._fates[next(iter(self._fates))]

    # --- counting

    def _union(self) -> Union:
        return Union(self._disjoint, self._values_as_tokens, self._person_bits, self._value_bits)

    def _check_again(self, class_id: int, bounds: bytes, union: Union) -> None:
        """Count what is about to be shown once more, from the parts and by other code.

        Nothing of `Union` or of the compiled decoder takes part in it.
        """
        parts = self._held[class_id][bounds]
        try:
            persons = _persons_of(parts, self._disjoint)
            values = _values_of(parts, self._values_as_tokens)
        except (IndexError, ValueError) as error:
            raise PrivacyBreachError(f"class {class_id} cannot be counted again") from error
        if (persons, values) != (union.persons, union.values):
            raise PrivacyBreachError(
                f"class {class_id} was counted as {union.persons} persons and {union.values} "
                f"values, and again as {persons} and {values}"
            )
        if persons < self._k or (self._l > 1 and values < self._l):
            raise PrivacyBreachError(
                f"class {class_id} has {persons} of k={self._k} persons and {values} of "
                f"l={self._l} values"
            )


def _size(part: Held) -> int:
    """The bytes that a part takes, nearly."""
    return _PART_BYTES + len(part.payload) + len(part.told.tokens) + len(part.told.values)


def _persons(told: Told) -> pb.Persons:
    return pb.Persons(count=told.persons, tokens=told.tokens, salt=told.salt)


def _persons_of(parts: Sequence[Held], disjoint: bool) -> int:
    if not disjoint:
        salts = sorted(part.told.salt for part in parts)
        return max(
            _distinct(
                token
                for part in parts
                if part.told.salt == salt
                for token in _plain_set(part.told.tokens)
            )
            for salt in salts
        )
    # A site's parts may be about the same persons.
    largest = {
        site: count for count, site in sorted((part.told.persons, part.site) for part in parts)
    }
    return sum(largest.values())


def _values_of(parts: Sequence[Held], as_tokens: bool) -> int:
    read = _plain_set if as_tokens else _plain_bitmap
    return _distinct(value for part in parts for value in read(part.told.values))


def _distinct(numbers: Iterator[int]) -> int:
    ordered = sorted(numbers)
    return len(ordered[:1]) + sum(before != after for before, after in pairwise(ordered))


def _plain_set(data: bytes) -> Iterator[int]:
    """The tokens that core.tokens.encode_set wrote, by a plain reading of its format."""
    if not data:
        return
    head = next((i for i, byte in enumerate(data) if byte < 0x80), len(data))
    count = sum((byte & 0x7F) << 7 * i for i, byte in enumerate(data[: head + 1]))
    rice, stream = data[head + 1], data[head + 2 :]
    bits = f"{int.from_bytes(stream, 'little'):0{8 * len(stream)}b}"[::-1]
    token, start = -1, 0
    for _ in range(count):
        one = bits.index("1", start)
        low = bits[one + 1 : one + 1 + rice]
        token += 1 + ((one - start) << rice) + int(low[::-1] or "0", 2)
        start = one + 1 + rice
        yield token


def _plain_bitmap(data: bytes) -> Iterator[int]:
    return (8 * i + bit for i, byte in enumerate(data) for bit in range(8) if byte >> bit & 1)
