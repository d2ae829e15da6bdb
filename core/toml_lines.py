"""Which line of a TOML document says what: tomllib gives the values but not their places.

A key path is the way to a value from the top: `("privacy", "k")`, `("attribute", 2, "domain")`; a
number is the position in an array. Only documents that tomllib accepts may be scanned, so there is
nothing to check here and the scanner stays small.
"""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_left
from collections.abc import Mapping

KeyPath = tuple[str | int, ...]

_STRING = re.compile(
    r'"""(?:\\.|[^\\])*?"{3,5}'  # up to two quotes may stand right before the closing three
    r"|'''.*?'{3,5}"
    r'|"(?:\\.|[^"\\])*"'
    r"|'[^']*'",
    re.DOTALL,
)
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_SCALAR = re.compile(r"[^,\]}#\n]+")
_SPACE = re.compile(r"[ \t]*")
_SPACE_LINES_COMMENTS = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")


def key_lines(document: str) -> dict[KeyPath, int]:
    """Find the line (from 1) on which each table, key and array element first appears."""
    return _Scanner(document).scan()


def line_of(lines: Mapping[KeyPath, int], path: KeyPath) -> int | None:
    """Return the line of `path`, or of the closest thing around it that has one."""
    while path and path not in lines:
        path = path[:-1]
    return lines.get(path)


class _Scanner:
    def __init__(self, document: str) -> None:
        self.text = document
        self.place = 0
        self.newlines = [match.start() for match in re.finditer("\n", document)]
        self.lines: dict[KeyPath, int] = {}
        # How many elements each array of tables has so far: `[a.b]` means the last `[[a]]`.
        self.elements: dict[KeyPath, int] = {}

    def scan(self) -> dict[KeyPath, int]:
        table: KeyPath = ()
        self.take(_SPACE_LINES_COMMENTS)
        while self.place < len(self.text):
            if self.text[self.place] == "[":
                table = self.header()
            else:
                self.pair(table)
            self.take(_SPACE_LINES_COMMENTS)
        return self.lines

    def header(self) -> KeyPath:
        """Read `[table]` or `[[array]]`; returns the path that the next keys belong to."""
        start = self.place
        is_array = self.text.startswith("[[", self.place)
        self.place += 2 if is_array else 1
        path: KeyPath = ()
        keys = self.dotted_key()
        for depth, key in enumerate(keys):
            path = (*path, key)
            self.note(path, start)
            if is_array and depth == len(keys) - 1:
                self.elements[path] = self.elements.get(path, 0) + 1
            if path in self.elements:
                path = (*path, self.elements[path] - 1)
        self.note(path, start)
        self.place += 2 if is_array else 1
        return path

    def pair(self, table: KeyPath) -> None:
        """Read `key = value`."""
        start = self.place
        path = table
        for key in self.dotted_key():
            path = (*path, key)
            self.note(path, start)
        self.place += 1
        self.take(_SPACE)
        self.value(path)

    def dotted_key(self) -> list[str]:
        """Read `a . "b c" . 'd'` and the space after it."""
        keys = []
        while True:
            self.take(_SPACE)
            bare = self.take(_BARE_KEY)
            # tomllib itself decodes a quoted key, so its escapes need not be known here.
            keys.append(bare or tomllib.loads(f"key = {self.take(_STRING)}")["key"])
            self.take(_SPACE)
            if self.text[self.place] != ".":
                return keys
            self.place += 1

    def value(self, path: KeyPath) -> None:
        if self.text[self.place] == "[":
            self.array(path)
        elif self.text[self.place] == "{":
            self.inline_table(path)
        elif not self.take(_STRING):
            self.take(_SCALAR)

    def array(self, path: KeyPath) -> None:
        position = 0
        while self.next_item("]"):
            self.note((*path, position), self.place)
            self.value((*path, position))
            position += 1

    def inline_table(self, path: KeyPath) -> None:
        while self.next_item("}"):
            self.pair(path)

    def next_item(self, closing: str) -> bool:
        """Step over the opening bracket or a comma; False when that leads past `closing`."""
        self.take(_SPACE_LINES_COMMENTS)
        if self.text[self.place] != closing:
            self.place += 1
            self.take(_SPACE_LINES_COMMENTS)
        if self.text[self.place] != closing:
            return True
        self.place += 1
        return False

    def take(self, pattern: re.Pattern[str]) -> str:
        """Move past `pattern` if it matches here; what it matched, or ''."""
        match = pattern.match(self.text, self.place)
        if match is None:
            return ""
        self.place = match.end()
        return match.group()

    def note(self, path: KeyPath, place: int) -> None:
        self.lines.setdefault(path, bisect_left(self.newlines, place) + 1)
