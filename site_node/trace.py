"""Private files of a run: the trace for auditors, and the records that were rejected."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from site_node.render import COMMA, NOTHING
from site_node.sink import AtomicFile, Pipe, content, open_target, quoted

REJECTED: Final = "rejected"
# The outcome ends the line.
_PUBLISHED: Final = pa.scalar("published\n")
_SUPPRESSED: Final = pa.scalar("suppressed\n")
_HEADER: Final = b"row,site,position,class_id,outcome\n"


class Trace:
    """`row,site,position,class_id,outcome` for every input row, as outcomes are decided.

    The position is that in the site's own stream.
    """

    def __init__(self, name: str) -> None:
        self._file = open_target(name)
        self._file.stream.write(_HEADER)

    def decided(
        self,
        row: NDArray[np.int64],
        site: str | pa.Array,
        position: NDArray[np.int64],
        class_id: pa.Array,
    ) -> None:
        """Note published and suppressed records; a suppressed one has no class.

        `site` is where they all are, or where each is.
        """
        outcome = pc.if_else(class_id.is_null(), _SUPPRESSED, _PUBLISHED)
        lines = pc.binary_join_element_wise(
            pc.cast(pa.array(row), pa.string()),
            quoted(pa.array([site]))[0] if isinstance(site, str) else quoted(site),
            pc.cast(pa.array(position), pa.string()),
            pc.cast(class_id, pa.string()).fill_null(NOTHING),
            outcome,
            COMMA,
        )
        self._file.stream.write(content(lines))

    def rejected(self, rows: Sequence[int], site: Sequence[str | None]) -> None:
        """Note rejected rows and where each was; None when nobody can tell."""
        names = quoted(pa.array(site, pa.string())).to_pylist()
        lines = (f"{row},{name},,,{REJECTED}\n" for row, name in zip(rows, names, strict=True))
        self._file.stream.write("".join(lines).encode())

    def commit(self) -> None:
        """Give the file its name."""
        self._file.commit()

    def discard(self) -> None:
        """Leave nothing behind."""
        self._file.discard()


class DeadLetters:
    """Rejected records, one JSON object a line. The file is made for the first of them."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._file: AtomicFile | Pipe | None = None

    def add(self, row: int, attribute: str, reason: str, value: str, record: object) -> None:
        """Keep one record with where it was, why it was rejected and what it said."""
        if self._file is None:
            self._file = open_target(self.name)
        letter = {"row": row, "attribute": attribute, "reason": reason, "value": value}
        text = json.dumps(letter | {"record": record}, ensure_ascii=False)
        self._file.stream.write(text.encode(errors="backslashreplace") + b"\n")

    def commit(self) -> None:
        """Give the file its name, if there is one."""
        if self._file is not None:
            self._file.commit()

    def discard(self) -> None:
        """Leave nothing behind."""
        if self._file is not None:
            self._file.discard()
