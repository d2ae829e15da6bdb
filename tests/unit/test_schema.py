"""Schemas: views by role, and a fingerprint of what published values mean."""

from __future__ import annotations

from dataclasses import replace

import pytest

from core.hierarchy import flat, from_arx, from_nested
from core.schema import Attribute, Kind, Policy, Role, Schema

AGE = Attribute(name="age", role=Role.QUASI_IDENTIFIER, kind=Kind.NUMERIC, domain=(0.0, 120.0))
SEX = Attribute(
    name="sex", role=Role.QUASI_IDENTIFIER, kind=Kind.CATEGORICAL, hierarchy=flat(["f", "m"])
)
ZIP = Attribute(name="zip", role=Role.QUASI_IDENTIFIER, kind=Kind.NUMERIC, domain=(0.0, 99999.0))
NOTE = Attribute(name="note", role=Role.INSENSITIVE, kind=Kind.CATEGORICAL)
ILLNESS = Attribute(name="illness", role=Role.SENSITIVE, kind=Kind.CATEGORICAL)
SSN = Attribute(name="ssn", role=Role.IDENTIFIER, kind=Kind.CATEGORICAL)

SCHEMA = Schema(attributes=(SSN, AGE, NOTE, SEX, ILLNESS, ZIP), person="ssn")


def test_the_views_by_role_keep_the_order_of_the_schema() -> None:
    assert SCHEMA.quasi_identifiers == (AGE, SEX, ZIP)
    assert SCHEMA.numeric == (AGE, ZIP)
    assert SCHEMA.categorical == (SEX,)
    assert SCHEMA.sensitive is ILLNESS
    assert SCHEMA.insensitive == (NOTE,)


def test_identifiers_are_not_published_and_the_class_is() -> None:
    assert SCHEMA.published == ("age", "sex", "zip", "illness", "note", "class_id")


def test_a_schema_need_not_have_a_sensitive_attribute() -> None:
    assert Schema(attributes=(AGE,)).sensitive is None


def test_the_fingerprint_is_a_sha256_in_hex_and_the_same_each_time() -> None:
    assert len(SCHEMA.fingerprint) == 64
    assert int(SCHEMA.fingerprint, 16) > 0
    assert SCHEMA.fingerprint == replace(SCHEMA).fingerprint


def test_the_fingerprint_of_a_known_schema_never_changes() -> None:
    # Sites of different versions compare fingerprints: a new value here is a new wire format.
    assert SCHEMA.fingerprint == (
        "212c372faa6441c34410347ac6f21857b189a566a066aa282876bc0558b381fa"
    )


@pytest.mark.parametrize(
    "other",
    [
        replace(SCHEMA, person=None),
        replace(SCHEMA, attributes=(AGE, SSN, NOTE, SEX, ILLNESS, ZIP)),
        replace(SCHEMA, attributes=(SSN, AGE, NOTE, SEX, ILLNESS)),
        replace(SCHEMA, attributes=(SSN, replace(AGE, name="Age"), NOTE, SEX, ILLNESS, ZIP)),
        replace(SCHEMA, attributes=(SSN, AGE, NOTE, SEX, replace(ILLNESS, role=Role.INSENSITIVE))),
        replace(SCHEMA, attributes=(SSN, AGE, NOTE, SEX, replace(ILLNESS, kind=Kind.NUMERIC), ZIP)),
        replace(
            SCHEMA, attributes=(SSN, replace(AGE, domain=(0.0, 121.0)), NOTE, SEX, ILLNESS, ZIP)
        ),
        replace(
            SCHEMA,
            attributes=(SSN, AGE, NOTE, replace(SEX, hierarchy=flat(["m", "f"])), ILLNESS, ZIP),
        ),
    ],
    ids=["person", "order", "fewer", "name", "role", "kind", "domain", "hierarchy"],
)
def test_the_fingerprint_changes_with_the_meaning(other: Schema) -> None:
    assert other.fingerprint != SCHEMA.fingerprint


def test_the_fingerprint_does_not_depend_on_how_a_hierarchy_was_written() -> None:
    semicolons, _ = from_arx("a;A;*\nb;B;*\nc;A;*\n", file="", attribute="")
    commas, _ = from_arx('\ufeff a, A, A, *\r\n\r\n"c", A, *\r\nb, B, *', file="", attribute="")
    inline, _ = from_nested({"*": {"A": ["a", "c"], "B": ["b"]}}, file="", line=1, attribute="")
    prints = {
        Schema(attributes=(replace(SEX, hierarchy=tree),)).fingerprint
        for tree in (semicolons, commas, inline)
    }
    assert len(prints) == 1


def test_the_fingerprint_does_not_depend_on_policy_or_the_sign_of_zero() -> None:
    lenient = replace(AGE, policy=Policy.CLAMP, domain=(-0.0, 120.0))
    assert Schema(attributes=(lenient,)).fingerprint == Schema(attributes=(AGE,)).fingerprint
