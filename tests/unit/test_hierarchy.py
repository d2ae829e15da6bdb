"""Hierarchies: what is read becomes the right tree, and what is no tree is explained."""

from __future__ import annotations

import csv
import io
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import Fault
from core.hierarchy import Hierarchy, flat, from_arx, from_nested

DATA = Path(os.environ.get("DCASTLE_DATA", Path(__file__).parents[3] / "shared" / "data"))
ADULT_FILES = sorted((DATA / "adult").glob("hierarchies-*/*"))


def arx(text: str) -> Hierarchy:
    tree, faults = from_arx(text, file="h.csv", attribute="a")
    assert not faults
    assert tree is not None
    return tree


def nested(table: dict[str, object]) -> Hierarchy:
    tree, faults = from_nested(table, file="dcastle.toml", line=7, attribute="a")
    assert not faults
    assert tree is not None
    return tree


def arx_faults(text: str) -> list[Fault]:
    tree, faults = from_arx(text, file="h.csv", attribute="a")
    assert tree is None
    return faults


def nested_faults(table: dict[str, object]) -> list[Fault]:
    tree, faults = from_nested(table, file="dcastle.toml", line=7, attribute="a")
    assert tree is None
    return faults


def path_of(tree: Hierarchy, node: int) -> list[str]:
    path = []
    while node >= 0:
        path.append(tree.names[node])
        node = int(tree.parents[node])
    return path


def paths_of(tree: Hierarchy) -> list[list[str]]:
    return [path_of(tree, leaf) for leaf in range(tree.leaf_count)]


def assert_codes_are_right(tree: Hierarchy) -> None:
    """Check each promise about codes by climbing from every leaf."""
    below: dict[int, list[int]] = {node: [] for node in range(len(tree.names))}
    for leaf in range(tree.leaf_count):
        node = leaf
        while node >= 0:
            below[node].append(leaf)
            node = int(tree.parents[node])
    for node, leaves in below.items():
        assert leaves == list(range(tree.first_leaf[node], tree.last_leaf[node] + 1))
        assert node == tree.root or tree.parents[node] > node
    assert tree.parents[tree.root] == -1
    assert len(below[tree.root]) == tree.leaf_count
    assert len(set(tree.names)) == len(tree.names)


# A tree as the parent of each node but the root: node n + 1 hangs under one of the nodes 0..n.
tree_shapes = st.lists(st.integers(0, 10**6), max_size=30).map(
    lambda picks: [pick % (child + 1) for child, pick in enumerate(picks)]
)


@st.composite
def shuffled_paths(draw: st.DrawFn) -> list[list[str]]:
    """The leaf-to-root paths of some tree with unpleasant names, in any order."""
    parents = draw(tree_shapes)
    letters = st.text('ab ;,"\n\u00fc', max_size=4)
    # The digits make the names distinct and keep them from being blank at the ends.
    names = [f"{node}{draw(letters)}{node}" for node in range(len(parents) + 1)]
    leaves = [node for node in range(len(names)) if node not in parents]
    paths = []
    for node in draw(st.permutations(leaves)):
        path = [names[node]]
        while node:
            node = parents[node - 1]
            path.append(names[node])
        paths.append(path)
    return paths


def as_arx(paths: list[list[str]], delimiter: str) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, delimiter=delimiter, quoting=csv.QUOTE_ALL).writerows(paths)
    return buffer.getvalue()


def as_table(paths: list[list[str]]) -> dict[str, object]:
    table: dict[str, object] = {}
    for path in paths:
        level = table
        for label in reversed(path):
            below = level.setdefault(label, {})
            assert isinstance(below, dict)
            level = below
    return table


@given(shuffled_paths(), st.sampled_from(";,"))
def test_any_tree_written_as_arx_comes_back_with_contiguous_leaves(
    paths: list[list[str]], delimiter: str
) -> None:
    # A tree of one node has no delimiter to detect, and needs none.
    tree = arx(as_arx(paths, delimiter))
    assert sorted(paths_of(tree)) == sorted(paths)
    assert_codes_are_right(tree)


@given(shuffled_paths())
def test_any_tree_is_the_same_from_a_file_and_from_a_nested_table(paths: list[list[str]]) -> None:
    from_file, from_table = arx(as_arx(paths, ";")), nested(as_table(paths))
    assert from_file.names == from_table.names
    assert from_file.parents.tolist() == from_table.parents.tolist()


@given(shuffled_paths())
def test_the_loss_of_a_node_is_its_share_of_the_leaves(paths: list[list[str]]) -> None:
    tree = arx(as_arx(paths, ";"))
    for node, loss in enumerate(tree.loss()):
        covered = sum(tree.names[node] in path for path in paths)
        expected = (covered - 1) / (len(paths) - 1) if len(paths) > 1 else 0
        assert loss == pytest.approx(expected)


@given(st.text('ab;,"\n\r *', max_size=60))
def test_any_text_gives_either_a_tree_or_faults(text: str) -> None:
    tree, faults = from_arx(text, file="h.csv", attribute="a")
    assert (tree is None) == bool(faults)


def test_leaves_come_first_and_in_depth_first_order_though_the_file_interleaves() -> None:
    tree = arx("a1;a;*\nb1;b;*\na2;a;*\nb2;b;*\n")
    assert tree.names == ("a1", "a2", "b1", "b2", "a", "b", "*")
    assert tree.parents.tolist() == [4, 4, 5, 5, 6, 6, -1]
    assert tree.first_leaf.tolist() == [0, 1, 2, 3, 0, 2, 0]
    assert tree.last_leaf.tolist() == [0, 1, 2, 3, 1, 3, 3]
    assert (tree.leaf_count, tree.root) == (4, 6)
    assert tree.leaves == ("a1", "a2", "b1", "b2")


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("a;*\nb;*", [["a", "*"], ["b", "*"]]),
        ("a,*\nb,*", [["a", "*"], ["b", "*"]]),
        ("\ufeffa;*\r\nb;*\r\n", [["a", "*"], ["b", "*"]]),
        ("a;*\rb;*\r", [["a", "*"], ["b", "*"]]),
        ("\n  \na;*\n\n", [["a", "*"]]),
        (" a ;\t* \n", [["a", "*"]]),
        ('"a;1"; "x ""y"""\n', [["a;1", 'x "y"']]),
        ("Doe, J;*\nRoe, R;*\n", [["Doe, J", "*"], ["Roe, R", "*"]]),
        ("a,*\nb;2,*\nc,*\n", [["a", "*"], ["b;2", "*"], ["c", "*"]]),
        ("a;a;a;*\nb;B;B;*\n", [["a", "*"], ["b", "B", "*"]]),
        ("a;*\nb;B;BB;*\n", [["a", "*"], ["b", "B", "BB", "*"]]),
        ("a;*\na;*\n", [["a", "*"]]),
        ("*\n", [["*"]]),
    ],
)
def test_arx_files_are_read_in_all_their_forms(text: str, paths: list[list[str]]) -> None:
    assert paths_of(arx(text)) == paths


@pytest.mark.parametrize(
    ("table", "paths"),
    [
        ({"*": ["a", "b"]}, [["a", "*"], ["b", "*"]]),
        ({"*": {"A": ["a"], "b": [], "c": {}}}, [["a", "A", "*"], ["b", "*"], ["c", "*"]]),
        ({"*": [1, 2.5]}, [["1", "*"], ["2.5", "*"]]),
        ({"*": []}, [["*"]]),
    ],
)
def test_nested_tables_are_read_in_all_their_forms(
    table: dict[str, object], paths: list[list[str]]
) -> None:
    assert paths_of(nested(table)) == paths


def test_a_nested_table_may_be_deeper_than_the_stack() -> None:
    table: dict[str, object] = {"leaf": []}
    for depth in range(3000):
        table = {str(depth): table}
    assert nested(table).leaf_count == 1


def test_a_flat_hierarchy_has_its_values_under_a_star() -> None:
    tree = flat(["x", "y", "z"])
    assert tree.names == ("x", "y", "z", "*")
    assert tree.loss().tolist() == [0, 0, 0, 1]


def test_a_single_leaf_loses_nothing_even_at_the_root() -> None:
    assert flat(["x"]).loss().tolist() == [0, 0]


def test_the_arrays_cannot_be_written_to() -> None:
    with pytest.raises(ValueError, match="read-only"):
        flat(["x"]).parents[0] = 5


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("", None, "the hierarchy is empty"),
        ("\n \n", None, "the hierarchy is empty"),
        ("a;;*\n", 1, "label 2 of the path 'a;;*' is empty"),
        ("a;*;\n", 1, "label 3 of the path 'a;*;' is empty"),
        (
            "x;a;b;*\ny;a;c;*\n",
            2,
            "'a' has two parents, 'b' (line 1) and 'c' (line 2)",
        ),
        (
            "x;a;*\n\nx;b;*\n",
            3,
            "leaf 'x' is listed twice with different paths, x > a > * (line 1) and "
            "x > b > * (line 3)",
        ),
        ("x;*\ny;x;*\n", 1, "'x' is a leaf (line 1) and an inner node (line 2)"),
        ("x;*\ny;Any\n", 2, "two roots: '*' (line 1) and 'Any' (line 2)"),
        ("x;a\ny;b\nz;c", 2, "3 roots: 'a' (line 1), 'b' (line 2) and 'c' (line 3)"),
        ("x;a;b;a;*\n", 1, "the path x > a > b > a > * is a cycle"),
        ("x;a;b\ny;b;a\n", 1, "cycle: a (line 1) > b (line 2) > a"),
        ('x;*\n"y;*\n', 2, "cannot be read as CSV: unexpected end of data"),
    ],
)
def test_a_file_that_is_no_tree_is_told_where_and_why(
    text: str, line: int | None, message: str
) -> None:
    found = [(fault.line, fault.message) for fault in arx_faults(text)]
    assert (line, message) in found
    assert all(fault.file == "h.csv" and fault.attribute == "a" for fault in arx_faults(text))


def test_all_faults_of_a_file_are_found_in_one_pass() -> None:
    text = "a;A;*\nb;;*\na;B;*\nc;C;A;*\nd;C;*\nA;*\ne;Any\n"
    messages = "\n".join(fault.message for fault in arx_faults(text))
    for part in ("is empty", "listed twice", "has two parents", "is a leaf", "two roots"):
        assert part in messages


def test_a_file_without_any_delimiter_names_twenty_roots_and_counts_the_rest() -> None:
    (fault,) = arx_faults("\n".join(f"v{n}" for n in range(1000)))
    assert fault.message.startswith("1,000 roots: 'v0' (line 1), ")
    assert fault.message.endswith(" and 980 more")


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({}, "the hierarchy is empty"),
        ({"*": ["a"], "Any": ["b"]}, "two roots: '*' and 'Any'"),
        ({"*": {"A": ["x"], "B": ["x"]}}, "leaf 'x' is listed twice with different paths"),
        ({"*": {"A": {"x": ["1"]}, "B": {"x": ["2"]}}}, "'x' has two parents, 'A' and 'B'"),
        ({"*": {"x": ["y"], "B": ["x"]}}, "'x' is a leaf and an inner node"),
        ({"*": {"A": ["*"]}}, "the path * > A > * is a cycle"),
        ({"*": ["a", ""]}, "a label of the hierarchy is empty"),
        ({"*": ["a", True]}, "True under '*' is no value"),
        ({"*": {"A": "x"}}, "'x' under 'A' is no value"),
    ],
)
def test_a_nested_table_that_is_no_tree_is_told_why(table: dict[str, object], message: str) -> None:
    faults = nested_faults(table)
    assert any(message in fault.message for fault in faults)
    assert all(fault.line == 7 and fault.attribute == "a" for fault in faults)


@pytest.mark.skipif(not ADULT_FILES, reason=f"no Adult hierarchies under {DATA}")
def test_every_adult_hierarchy_loads() -> None:
    for file in ADULT_FILES:
        tree = arx(file.read_text())
        lines = [line for line in file.read_text().splitlines() if line]
        assert tree.leaf_count == len(lines), file
        assert_codes_are_right(tree)
        assert np.all((tree.loss() >= 0) & (tree.loss() <= 1))


@pytest.mark.skipif(not ADULT_FILES, reason=f"no Adult hierarchies under {DATA}")
def test_oddities_of_the_arx_files_are_kept_as_they_are() -> None:
    folder = DATA / "adult" / "hierarchies-arx"
    ages = arx((folder / "adult_hierarchy_age.csv").read_text())
    countries = arx((folder / "adult_hierarchy_native-country.csv").read_text())
    assert path_of(ages, ages.names.index("20"))[1] == "15-19"
    assert path_of(countries, countries.names.index("South"))[1] == "Africa"
