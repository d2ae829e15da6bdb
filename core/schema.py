"""What the columns mean: roles, kinds, domains, hierarchies, and what to do with bad values.

A schema that exists is right; `core.config` is where one is checked.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from core.hierarchy import Hierarchy

# The column that a publication adds: which records are indistinguishable from each other.
CLASS_ID: Final = "class_id"


class Role(StrEnum):
    """What an attribute says about a person, and so what becomes of it."""

    QUASI_IDENTIFIER = "quasi-identifier"  # generalised
    SENSITIVE = "sensitive"  # published as it is, diverse within each class
    INSENSITIVE = "insensitive"  # published as it is
    IDENTIFIER = "identifier"  # dropped


class Kind(StrEnum):
    """How an attribute is generalised: to an interval, or to a node of its hierarchy."""

    NUMERIC = "numeric"
    CATEGORICAL = "categorical"


class Policy(StrEnum):
    """What happens to a record with a missing value or one outside the domain or hierarchy."""

    REJECT = "reject"  # the record goes to the dead-letter file with the reason
    CLAMP = "clamp"  # the value becomes the nearest one of the domain
    SUPPRESS = "suppress"  # the record is published at once with the most general values


@dataclass(frozen=True, slots=True, kw_only=True)
class Attribute:
    """One column. `domain` is both ends of a numeric attribute, both inclusive."""

    name: str
    role: Role
    kind: Kind
    domain: tuple[float, float] | None = None
    hierarchy: Hierarchy | None = None
    policy: Policy = Policy.REJECT


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """The columns, in the order of the configuration.

    `person` names the column that tells persons apart; None means each record is its own person.
    `persons_disjoint` promises that no person is at two sites.
    """

    attributes: tuple[Attribute, ...]
    person: str | None = None
    persons_disjoint: bool = False

    @property
    def quasi_identifiers(self) -> tuple[Attribute, ...]:
        """The attributes that get generalised."""
        return self._with_role(Role.QUASI_IDENTIFIER)

    @property
    def numeric(self) -> tuple[Attribute, ...]:
        """The quasi-identifiers that become intervals."""
        return tuple(a for a in self.quasi_identifiers if a.kind is Kind.NUMERIC)

    @property
    def categorical(self) -> tuple[Attribute, ...]:
        """The quasi-identifiers that become nodes of a hierarchy."""
        return tuple(a for a in self.quasi_identifiers if a.kind is Kind.CATEGORICAL)

    @property
    def sensitive(self) -> Attribute | None:
        """The attribute over which diversity is counted."""
        return next(iter(self._with_role(Role.SENSITIVE)), None)

    @property
    def insensitive(self) -> tuple[Attribute, ...]:
        """The attributes published untouched."""
        return self._with_role(Role.INSENSITIVE)

    @property
    def published(self) -> tuple[str, ...]:
        """Names of the published columns: quasi-identifiers, sensitive, insensitive, the class."""
        sensitive = self._with_role(Role.SENSITIVE)
        kept = (a.name for a in (*self.quasi_identifiers, *sensitive, *self.insensitive))
        return (*kept, CLASS_ID)

    @property
    def fingerprint(self) -> str:
        """SHA-256 (hex) over all that decides what a published value means.

        Two sites may exchange summaries only when theirs are equal. Codes are positions, so the
        order of attributes and of leaves is part of it; spelling and layout of the file are not.
        """
        meaning: dict[str, object] = {
            "format": "dcastle-schema-1",
            "person": self.person,
            "attributes": [_meaning(attribute) for attribute in self.attributes],
        }
        if self.persons_disjoint:
            meaning["persons_disjoint"] = True
        canonical = json.dumps(meaning, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode("ascii")).hexdigest()

    def _with_role(self, role: Role) -> tuple[Attribute, ...]:
        return tuple(a for a in self.attributes if a.role is role)


def _meaning(attribute: Attribute) -> dict[str, object]:
    # `policy` is left out: it decides which records are published, not what their values mean.
    tree = attribute.hierarchy
    return {
        "name": attribute.name,
        "role": attribute.role,
        "kind": attribute.kind,
        # Adding 0.0 turns -0.0 into 0.0: the same number must not give two fingerprints.
        "domain": attribute.domain and [end + 0.0 for end in attribute.domain],
        "hierarchy": tree and {"names": tree.names, "parents": tree.parents.tolist()},
    }
