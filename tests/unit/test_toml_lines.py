"""The scanner of lines: it finds every key of any document that tomllib accepts."""

from __future__ import annotations

import json
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.toml_lines import KeyPath, key_lines, line_of

DOCUMENT = '''\
# [not.a.table] k = 1
top = "a # b" # c
[privacy]           # k = 3
k = 5
text = """
[fake]
k = 6
say ""twice"" \\""" """
literal = \'\'\'
it\'s [[fake]]\'\'\'
ends = """two quotes"""""
array = [ 1, # ] not the end
  "]", [
  ], { a = 1, b = { c.d = 2 } },
]
when = 1979-05-27 07:32:00
[[attribute]]
name = "age"
[[ attribute ]]
"name" = \'sex\'
\'quoted " key\' . "esc\\u0061ped" = true
[attribute.hierarchy]
Any = [
  "m", "f",
]
[attribute."hierarchy"."x]"]
[[attribute.more]]
n = 1
[[attribute.more]]
n = 2
[[attribute]]
hierarchy.Any.Some = []
'''


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (("top",), 2),
        (("privacy",), 3),
        (("privacy", "k"), 4),
        (("privacy", "text"), 5),
        (("privacy", "literal"), 9),
        (("privacy", "ends"), 11),
        (("privacy", "array"), 12),
        (("privacy", "array", 0), 12),
        (("privacy", "array", 1), 13),
        (("privacy", "array", 2), 13),
        (("privacy", "array", 3), 14),
        (("privacy", "array", 3, "b", "c", "d"), 14),
        (("privacy", "when"), 16),
        (("attribute",), 17),
        (("attribute", 0), 17),
        (("attribute", 0, "name"), 18),
        (("attribute", 1), 19),
        (("attribute", 1, "name"), 20),
        (("attribute", 1, 'quoted " key', "escaped"), 21),
        (("attribute", 1, "hierarchy"), 22),
        (("attribute", 1, "hierarchy", "Any"), 23),
        (("attribute", 1, "hierarchy", "Any", 1), 24),
        (("attribute", 1, "hierarchy", "x]"), 26),
        (("attribute", 1, "more", 0, "n"), 28),
        (("attribute", 1, "more", 1, "n"), 30),
        (("attribute", 2), 31),
        (("attribute", 2, "hierarchy", "Any", "Some"), 32),
    ],
)
def test_each_key_of_a_document_is_found_on_its_line(path: KeyPath, line: int) -> None:
    assert key_lines(DOCUMENT)[path] == line


def test_nothing_is_found_that_is_not_there() -> None:
    assert set(key_lines(DOCUMENT)) == set(paths_of(tomllib.loads(DOCUMENT)))


def test_line_ends_of_windows_count_once() -> None:
    lines = key_lines('a = """\r\n"""\r\n\r\n[t] # c\r\nb = [\r\n1]\r\n')
    assert lines == {("a",): 1, ("t",): 4, ("t", "b"): 5, ("t", "b", 0): 6}


def test_an_unknown_path_has_the_line_of_what_is_around_it() -> None:
    lines = key_lines(DOCUMENT)
    assert line_of(lines, ("attribute", 1, "domain")) == 19
    assert line_of(lines, ("privacy", "l")) == 3
    assert line_of(lines, ("output", "order")) is None


def test_an_empty_document_has_no_lines() -> None:
    assert key_lines("") == {}


def paths_of(value: object, path: KeyPath = ()) -> list[KeyPath]:
    """All paths into what tomllib read: the slow twin, without lines."""
    below: list[tuple[str | int, object]] = []
    if isinstance(value, dict):
        below = list(value.items())
    if isinstance(value, list):
        below = list(enumerate(value))
    found = [path] if path else []
    for key, child in below:
        found.extend(paths_of(child, (*path, key)))
    return found


keys = st.text("ab-_ .\"'[]{}=#,\u00fc", max_size=4)
gaps = st.sampled_from(["", "\n", "\n\n# [x]\n", "  # k = 1\n", "\n# 'it\n"])
spaces = st.sampled_from(["", " ", "\t "])
scalars = st.one_of(
    st.integers(-99, 99).map(str),
    st.sampled_from(["true", "1.5e3", "inf", "1979-05-27T07:32:00Z", "07:32:00"]),
    st.text('ab"\\]}#,\n', max_size=6).map(json.dumps),
    st.text('ab"\\]}#,', max_size=6).map(lambda text: f"'{text}'"),
    st.text("ab]}#,\n[=", max_size=9).map(lambda text: f'"""{text}"""'),
    st.text('ab"\\]}#,\n[=', max_size=9).map(lambda text: f"'''{text}'''"),
)


class Writer:
    """Writes a document and remembers the line of each key as it goes."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.text = ""
        self.lines: dict[KeyPath, int] = {}

    def put(self, text: str) -> None:
        self.text += text

    def put_gap(self) -> None:
        self.put(self.draw(spaces) + self.draw(gaps) + self.draw(spaces))

    def mark(self, path: KeyPath) -> None:
        self.lines.setdefault(path, self.text.count("\n") + 1)

    def pairs(self, path: KeyPath, *, inline: bool, depth: int) -> None:
        for position, key in enumerate(self.draw(st.lists(keys, unique=True, max_size=3))):
            if inline and position:
                self.put("," + self.draw(spaces))
            self.mark((*path, key))
            self.put(json.dumps(key) + self.draw(spaces) + "=" + self.draw(spaces))
            self.value((*path, key), inline=inline, depth=depth)
            if not inline:
                self.put(self.draw(spaces) + "# \u00e9\n")

    def value(self, path: KeyPath, *, inline: bool, depth: int) -> None:
        shape = self.draw(st.sampled_from(["scalar", "array", "table"])) if depth else "scalar"
        if shape == "scalar":
            self.put(self.draw(scalars))
        elif shape == "array":
            self.put("[")
            for position in range(self.draw(st.integers(0, 3))):
                self.put_gap()
                self.mark((*path, position))
                self.value((*path, position), inline=inline, depth=depth - 1)
                self.put_gap()
                self.put(",")
            self.put_gap()
            self.put("]")
        else:
            self.put("{" + self.draw(spaces))
            self.pairs(path, inline=True, depth=depth - 1)
            self.put(self.draw(spaces) + "}")

    def document(self) -> None:
        self.put_gap()
        self.pairs((), inline=False, depth=2)
        # Names with a digit keep the tables apart from the keys above them.
        for name in self.draw(st.lists(keys.map("1".__add__), unique=True, max_size=2)):
            for position in range(self.draw(st.integers(1, 2))):
                self.put_gap()
                self.mark((name,))
                self.mark((name, position))
                self.put(f"[[ {json.dumps(name)} ]]\n")
                self.pairs((name, position), inline=False, depth=1)
                self.mark((name, position, "2sub"))
                self.put(f"[{json.dumps(name)}.2sub]\n")
                self.pairs((name, position, "2sub"), inline=False, depth=1)


@st.composite
def documents(draw: st.DrawFn) -> tuple[str, dict[KeyPath, int]]:
    writer = Writer(draw)
    writer.document()
    return writer.text, writer.lines


@given(documents())
def test_every_key_of_any_document_is_found_on_its_line(
    document: tuple[str, dict[KeyPath, int]],
) -> None:
    text, lines = document
    tomllib.loads(text)
    assert key_lines(text) == lines
