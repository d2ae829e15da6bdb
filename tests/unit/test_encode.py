"""Columns to codes: what becomes of good values, and of every kind of bad one."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from core.encode import FOREIGN_MAX, Encoded, Encoder, Reason, RowFault
from core.hierarchy import flat
from core.kernels.layout import GRID
from core.schema import Attribute, Kind, Policy, Role, Schema

AGE, JOB, ILL, NOTE, PID = "age", "job", "ill", "note", "pid"
GOOD = {
    AGE: ["20", "30", "40"],
    JOB: ["nurse", "cook", "nurse"],
    ILL: ["flu", "gout", "flu"],
    NOTE: ["x", "y", "z"],
    PID: ["ann", "bob", "ann"],
}


def schema(
    *,
    policy: Policy = Policy.REJECT,
    leaves: tuple[str, ...] = ("nurse", "cook"),
    sensitive: Attribute | None = None,
    person: str | None = PID,
) -> Schema:
    role, only_numbers = Role.QUASI_IDENTIFIER, policy is Policy.CLAMP
    job_policy = Policy.REJECT if only_numbers else policy
    return Schema(
        attributes=(
            Attribute(name=AGE, role=role, kind=Kind.NUMERIC, domain=(0.0, 100.0), policy=policy),
            Attribute(
                name=JOB,
                role=role,
                kind=Kind.CATEGORICAL,
                hierarchy=flat(leaves),
                policy=job_policy,
            ),
            sensitive or Attribute(name=ILL, role=Role.SENSITIVE, kind=Kind.CATEGORICAL),
            Attribute(name=NOTE, role=Role.INSENSITIVE, kind=Kind.CATEGORICAL),
        ),
        person=person,
    )


def encode(
    columns: dict[str, object] | None = None,
    of: Schema | None = None,
    missing: tuple[str, ...] = ("", "?"),
) -> Encoded:
    """Encode up to three good records, with the columns given here in place of theirs."""
    rows = len(next(iter((columns or GOOD).values())))
    good = {name: values[:rows] for name, values in GOOD.items()}
    arrays = {
        name: values if isinstance(values, pa.Array) else pa.array(values)
        for name, values in (good | (columns or {})).items()
    }
    return Encoder(of or schema(), missing).encode(arrays, rows)


def test_good_records_are_all_accepted_without_a_fault() -> None:
    encoded = encode()
    assert encoded.accepted.tolist() == [0, 1, 2]
    assert encoded.faults == []
    assert not encoded.records.general.any()


def test_a_number_becomes_its_place_between_the_ends_of_the_domain() -> None:
    encoded = encode({AGE: ["0", "50", "100"]})
    assert encoded.records.code[:, 0].tolist() == [0, GRID // 2, GRID]
    assert encoded.records.raw[:, 0].tolist() == [0.0, 50.0, 100.0]


def test_a_leaf_becomes_its_place_in_the_hierarchy() -> None:
    encoded = encode()
    leaves = flat(("nurse", "cook")).leaves
    assert encoded.records.code[:, 1].tolist() == [leaves.index(job) for job in GOOD[JOB]]


@pytest.mark.parametrize("name", [ILL, PID])
def test_equal_texts_have_equal_codes_and_different_ones_do_not(name: str) -> None:
    encoded = encode({name: ["a", "b", "a"]})
    code = encoded.records.value if name == ILL else encoded.records.person
    assert code[0] == code[2]
    assert code[0] != code[1]


@pytest.mark.parametrize("name", [ILL, PID])
def test_blanks_around_a_text_do_not_make_it_another(name: str) -> None:
    encoded = encode({name: [" a", "a", "a\t"]})
    code = encoded.records.value if name == ILL else encoded.records.person
    assert len(set(code.tolist())) == 1


def test_the_code_of_a_text_is_the_same_in_another_batch_and_as_bytes() -> None:
    whole = encode({PID: ["ann", "bob", "eve"]}).records.person
    part = encode({PID: pa.array(["x", "bob", "eve", "ann"])[1:]}).records.person
    as_bytes = encode({PID: pa.array([b"ann", b"bob", b"eve"])}).records.person
    assert part.tolist() == [whole[1], whole[2], whole[0]]
    assert as_bytes.tolist() == whole.tolist()


def test_persons_are_not_looked_at_without_a_person_column() -> None:
    encoded = encode({PID: ["", None, "?"]}, schema(person=None))
    assert encoded.accepted.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("text", "number"),
    [("5", 5.0), ("5.0", 5.0), (" 5 ", 5.0), ("+5", 5.0), ("5.", 5.0), (".5", 0.5), ("1e1", 10.0)],
)
def test_plain_decimal_notation_is_a_number(text: str, number: float) -> None:
    assert encode({AGE: [text]}).records.raw[0, 0] == number


@pytest.mark.parametrize(
    "text", ["abc", "nan", "inf", "-inf", "1_0", "0x1", "1,5", "5 5", "\uff11", "1e999", "--5"]
)
def test_other_text_is_no_number(text: str) -> None:
    assert encode({AGE: [text]}).faults == [RowFault(0, AGE, Reason.NOT_A_NUMBER, text)]


@pytest.mark.parametrize(
    ("name", "bad", "reason"),
    [
        (AGE, "", Reason.MISSING),
        (AGE, " ? ", Reason.MISSING),
        (AGE, "old", Reason.NOT_A_NUMBER),
        (AGE, "100.5", Reason.OUTSIDE_DOMAIN),
        (AGE, "-1", Reason.OUTSIDE_DOMAIN),
        (JOB, "?", Reason.MISSING),
        (JOB, "pilot", Reason.NOT_IN_HIERARCHY),
        (JOB, "*", Reason.NOT_IN_HIERARCHY),
        (ILL, "?", Reason.MISSING),
        (PID, "", Reason.MISSING),
        (PID, " ", Reason.MISSING),
    ],
)
def test_reject_keeps_the_record_out_and_says_why(name: str, bad: str, reason: Reason) -> None:
    encoded = encode({name: [GOOD[name][0], bad, GOOD[name][2]]})
    assert encoded.faults == [RowFault(1, name, reason, bad)]
    assert encoded.accepted.tolist() == [0, 2]
    assert len(encoded.records) == 2


@pytest.mark.parametrize(
    ("name", "bad", "reason"),
    [
        (AGE, "", Reason.MISSING),
        (AGE, "old", Reason.NOT_A_NUMBER),
        (AGE, "101", Reason.OUTSIDE_DOMAIN),
        (JOB, "", Reason.MISSING),
        (JOB, "pilot", Reason.NOT_IN_HIERARCHY),
    ],
)
def test_suppress_accepts_the_record_in_its_most_general_form(
    name: str, bad: str, reason: Reason
) -> None:
    encoded = encode({name: [GOOD[name][0], bad, GOOD[name][2]]}, schema(policy=Policy.SUPPRESS))
    assert encoded.faults == []
    assert encoded.records.general.tolist() == [False, True, False]
    assert encoded.suppressed == Counter({(name, reason): 1})


def test_suppress_does_not_save_a_record_without_a_person() -> None:
    columns = {AGE: ["", "20", "20"], PID: ["", "bob", "eve"]}
    encoded = encode(columns, schema(policy=Policy.SUPPRESS))
    assert encoded.faults == [RowFault(0, PID, Reason.MISSING, "")]
    assert encoded.accepted.tolist() == [1, 2]


def test_clamp_moves_a_number_to_the_nearer_end_and_counts_it() -> None:
    encoded = encode({AGE: ["-5", "30", "1000"]}, schema(policy=Policy.CLAMP))
    assert encoded.records.raw[:, 0].tolist() == [0.0, 30.0, 100.0]
    assert encoded.records.code[:, 0].tolist()[::2] == [0, GRID]
    assert encoded.clamped == Counter({AGE: 2})
    assert not encoded.records.general.any()


@pytest.mark.parametrize(("bad", "reason"), [("", Reason.MISSING), ("x", Reason.NOT_A_NUMBER)])
def test_clamp_rejects_what_is_no_number_at_all(bad: str, reason: Reason) -> None:
    encoded = encode({AGE: ["20", bad, "20"]}, schema(policy=Policy.CLAMP))
    assert encoded.faults == [RowFault(1, AGE, reason, bad)]
    assert not encoded.clamped


def test_a_record_with_several_faults_is_reported_once_with_the_first() -> None:
    encoded = encode({AGE: ["old"], JOB: ["pilot"], ILL: [""], NOTE: ["n"], PID: [""]})
    assert encoded.faults == [RowFault(0, AGE, Reason.NOT_A_NUMBER, "old")]


def test_faults_come_in_the_order_of_the_rows() -> None:
    encoded = encode({JOB: ["pilot", "nurse", "pilot"], AGE: ["20", "old", "20"]})
    assert [fault.row for fault in encoded.faults] == [0, 1, 2]


def test_a_leaf_named_like_a_missing_marker_is_a_value() -> None:
    encoded = encode({JOB: ["?", "cook", ""]}, schema(leaves=("?", "cook")))
    assert encoded.faults == [RowFault(2, JOB, Reason.MISSING, "")]


def test_without_markers_an_empty_text_is_a_value() -> None:
    encoded = encode({PID: ["", "bob", ""], ILL: ["", "", ""]}, missing=())
    assert encoded.faults == []
    assert encoded.records.person[0] == encoded.records.person[2]


@pytest.mark.parametrize("name", [AGE, JOB, ILL, NOTE, PID])
def test_bytes_that_are_no_text_are_rejected_and_shown_escaped(name: str) -> None:
    column = pa.array([value.encode() for value in GOOD[name][:2]] + [b"a\xff"], pa.binary())
    (fault,) = encode({name: column}).faults
    assert (fault.row, fault.attribute, fault.value) == (2, name, "a\\xff")
    assert fault.reason is (Reason.NOT_A_NUMBER if name == AGE else Reason.NOT_UTF8)


@pytest.mark.parametrize("name", [AGE, JOB, ILL, PID])
def test_a_null_is_a_missing_value(name: str) -> None:
    encoded = encode({name: pa.array([*GOOD[name][:2], None])})
    assert encoded.faults == [RowFault(2, name, Reason.MISSING, "")]


def test_a_null_in_an_insensitive_column_is_no_fault() -> None:
    assert encode({NOTE: pa.array(["x", None, "z"])}).faults == []


@pytest.mark.parametrize("name", list(GOOD))
def test_a_dictionary_column_gives_the_codes_of_the_plain_one(name: str) -> None:
    plain, dictionary = encode(), encode({name: pa.array(GOOD[name]).dictionary_encode()})
    assert dictionary.records.code.tolist() == plain.records.code.tolist()
    assert dictionary.records.value.tolist() == plain.records.value.tolist()
    assert dictionary.records.person.tolist() == plain.records.person.tolist()


@pytest.mark.parametrize(
    "column",
    [
        pa.array([20, 30, 40]),
        pa.array([20, 30, 40], pa.uint8()),
        pa.array([20, 30, 40], pa.float32()),
        pa.array([20, 30, 40]).cast(pa.decimal128(21, 1)),
        pa.array(["20", "30", "40"], pa.large_string()),
    ],
    ids=str,
)
def test_numbers_of_any_type_are_numbers(column: pa.Array) -> None:
    assert encode({AGE: column}).records.raw[:, 0].tolist() == [20.0, 30.0, 40.0]


def test_a_number_too_large_for_a_float_is_outside_the_domain() -> None:
    (fault,) = encode({AGE: pa.array([1, 2**60 + 1, 3])}).faults
    assert (fault.row, fault.reason, fault.value) == (1, Reason.OUTSIDE_DOMAIN, str(2**60 + 1))


@pytest.mark.parametrize("kind", [pa.bool_(), pa.date32()])
def test_values_that_are_no_numbers_are_rejected_whatever_their_type(kind: pa.DataType) -> None:
    encoded = encode({AGE: pa.array([1, 0, 1], pa.int32()).cast(kind)})
    assert [fault.reason for fault in encoded.faults] == [Reason.NOT_A_NUMBER] * 3


def numeric_sensitive(domain: tuple[float, float] | None = None) -> Schema:
    attribute = Attribute(name=ILL, role=Role.SENSITIVE, kind=Kind.NUMERIC, domain=domain)
    return schema(sensitive=attribute)


def test_numeric_sensitive_values_are_equal_when_their_numbers_are() -> None:
    value = encode({ILL: ["5", "5.0", "6"]}, numeric_sensitive()).records.value
    assert value[0] == value[1] != value[2]
    zero = encode({ILL: ["0", "-0.0", "1"]}, numeric_sensitive()).records.value
    assert zero[0] == zero[1]


def test_a_numeric_sensitive_value_outside_its_domain_is_rejected() -> None:
    encoded = encode({ILL: ["5", "11", "x"]}, numeric_sensitive((0.0, 10.0)))
    assert [(f.row, f.reason) for f in encoded.faults] == [
        (1, Reason.OUTSIDE_DOMAIN),
        (2, Reason.NOT_A_NUMBER),
    ]


def test_a_sensitive_value_outside_its_hierarchy_is_rejected() -> None:
    attribute = Attribute(
        name=ILL, role=Role.SENSITIVE, kind=Kind.CATEGORICAL, hierarchy=flat(["flu", "gout"])
    )
    (fault,) = encode({ILL: ["flu", "gout", "cold"]}, schema(sensitive=attribute)).faults
    assert (fault.row, fault.reason) == (2, Reason.NOT_IN_HIERARCHY)


def test_values_outside_the_hierarchy_are_named_up_to_a_limit() -> None:
    jobs = [f"job {n}" for n in range(FOREIGN_MAX + 5)]
    columns = {name: [values[0]] * len(jobs) for name, values in GOOD.items()} | {JOB: jobs}
    assert encode(columns).foreign[JOB] == jobs[:FOREIGN_MAX]


def test_an_empty_batch_gives_no_records() -> None:
    encoded = encode({name: pa.array([], pa.string()) for name in GOOD})
    assert len(encoded.records) == 0
    assert encoded.records.code.shape == (0, 2)
    assert encoded.accepted.dtype == np.int64
