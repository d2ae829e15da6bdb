"""The auditor's figures against values computed by hand and against plain, slow twins."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.verify import audit
from core.verify_metrics import equal_distances, ordered_distances, tally
from core.verify_rules import Categorical, Numeric, Rules, grow_tree

# Li, Li and Venkatasubramanian, "t-Closeness", ICDE 2007, section 4: nine salaries in thousands.
SALARIES = [3, 4, 5, 6, 7, 8, 9, 10, 11]


def column(values: Sequence[str | None]) -> pa.Array:
    return pa.array(values, pa.string())


def age_rules(*, k: int = 1, numeric: bool = True) -> Rules:
    return Rules(
        k=k,
        l=1,
        quasi_identifiers=(Numeric(name="age", domain=(0.0, 10.0)),),
        sensitive="salary",
        sensitive_is_numeric=numeric,
    )


def test_t_of_a_numeric_attribute_is_the_papers_ordered_distance() -> None:
    classes = [0, 0, 0, 1, 2, 1, 2, 2, 1]
    output = pa.table(
        {
            "age": column(["[0,10]"] * 9),
            "salary": column([str(salary) for salary in SALARIES]),
            "class_id": column([str(place) for place in classes]),
        }
    )
    groups, values = np.array(classes, np.int32), np.arange(9, dtype=np.int32)
    distances = ordered_distances(tally(groups, values, 3), np.ones(9, np.int64))

    assert distances[0] == pytest.approx(0.375)
    assert distances[1] == pytest.approx(0.167, abs=0.0005)
    assert audit(age_rules(), output).t == pytest.approx(0.375)


def test_t_counts_suppressed_rows_in_the_whole() -> None:
    output = pa.table(
        {
            "age": column(["[0,5]", "[0,10]"]),
            "salary": column(["1", "2"]),
            "class_id": column(["0", None]),
        }
    )

    assert audit(age_rules(), output).t == pytest.approx(0.5)
    assert audit(age_rules(numeric=False), output).t == pytest.approx(0.5)


def test_one_sensitive_value_everywhere_gives_no_distance() -> None:
    output = pa.table(
        {"age": column(["[0,5]"]), "salary": column(["1"]), "class_id": column(["0"])}
    )

    assert audit(age_rules(), output).t == 0.0


def test_numbers_written_in_two_ways_are_one_sensitive_value() -> None:
    output = pa.table(
        {
            "age": column(["[0,5]"] * 2),
            "salary": column(["5", "5.0"]),
            "class_id": column(["0"] * 2),
        }
    )

    assert audit(age_rules(), output).l == 1


def test_a_sensitive_number_that_is_none_is_a_breach() -> None:
    output = pa.table(
        {"age": column(["[0,5]"]), "salary": column(["much"]), "class_id": column(["0"])}
    )
    result = audit(age_rules(), output)

    assert [breach.message for breach in result.breaches] == [
        "salary 'much' is no number",
        "class 0 has 0 of l=1 values of 'salary'",
    ]


def test_classes_that_show_the_same_are_one_group_by_values() -> None:
    output = pa.table(
        {
            "age": column(["[0,5]"] * 4 + ["[1,5]"] * 3),
            "salary": column(["1", "2", "1", "3", "1", "2", "2"]),
            "class_id": column(["0", "0", "1", "1", "2", "2", "2"]),
        }
    )
    result = audit(age_rules(), output)

    assert (result.k, result.k_by_values) == (2, 3)
    assert (result.l, result.l_by_values) == (2, 2)


def test_a_domain_or_hierarchy_of_one_value_loses_nothing_unless_suppressed() -> None:
    rules = Rules(
        k=1,
        l=1,
        quasi_identifiers=(
            Numeric(name="age", domain=(3.0, 3.0)),
            Categorical(name="job", tree=grow_tree([("nurse", "*")])),
        ),
    )
    output = pa.table(
        {
            "age": column(["[3,3]"] * 2),
            "job": column(["nurse", "*"]),
            "class_id": column(["0", None]),
        }
    )
    result = audit(rules, output)

    assert result.passed
    assert (result.information_loss, result.information_loss_published) == (0.5, 0.0)
    assert (result.l, result.t, result.l_by_values) == (None, None, None)


def plain_distance(group: list[int], whole: list[int], ordered: bool) -> float:
    values = sorted(set(whole))
    p, q = Counter(whole), Counter(group)
    gaps = [q[value] / len(group) - p[value] / len(whole) for value in values]
    if not ordered:
        return sum(abs(gap) for gap in gaps) / 2
    return sum(abs(sum(gaps[: at + 1])) for at in range(len(values))) / max(len(values) - 1, 1)


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 9)), min_size=1))
def test_distances_equal_those_of_their_plain_twins(rows: list[tuple[int, int]]) -> None:
    group_names, groups = np.unique([group for group, _ in rows], return_inverse=True)
    _, values = np.unique([value for _, value in rows], return_inverse=True)
    counted = tally(groups.astype(np.int32), values.astype(np.int32), len(group_names))
    whole = np.bincount(values)

    for ordered, distances in [(True, ordered_distances), (False, equal_distances)]:
        plain = [
            plain_distance(values[groups == place].tolist(), values.tolist(), ordered)
            for place in range(len(group_names))
        ]
        assert distances(counted, whole) == pytest.approx(plain)
