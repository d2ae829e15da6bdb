"""The way from CSV to CSV against what arrow alone needs to read and write the same files."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv

from core.config import Project
from scripts.anonymize import FileOptions, anonymise_files
from scripts.datasets.registry import resolve
from scripts.datasets.tables import repeated_order


def run(project: Project, table: pa.Table, rows: int, *, repeat: int, seed: int) -> dict[str, Any]:
    """Anonymise a CSV of `rows` rows; ours and the floor take turns, the fastest of each counts."""
    with tempfile.TemporaryDirectory(prefix="dcastle-bench-") as folder:
        source, output, copy = (str(Path(folder) / name) for name in ("in.csv", "out.csv", "copy"))
        order = pa.array(repeated_order(table.num_rows, rows, seed))
        pyarrow.csv.write_csv(table.take(order), source)
        data, options = resolve(source), FileOptions(output=output)
        anonymise_files(project, data, 1, options)
        published = pyarrow.csv.read_csv(output)

        def ours() -> None:
            anonymise_files(project, data, 1, options)

        def floor() -> None:
            pyarrow.csv.read_csv(source)
            pyarrow.csv.write_csv(published, copy)

        times = [(_seconds(ours), _seconds(floor)) for _ in range(repeat)]
        seconds, floor_seconds = (min(column) for column in zip(*times, strict=True))
        return {
            "name": "csv to csv",
            "tuples": rows,
            "input_bytes": Path(source).stat().st_size,
            "output_bytes": Path(output).stat().st_size,
            "seconds": seconds,
            "floor_seconds": floor_seconds,
            "ratio": seconds / floor_seconds,
            "tuples_per_second": rows / seconds,
        }


def _seconds(action: Callable[[], None]) -> float:
    started = time.perf_counter()
    action()
    return time.perf_counter() - started
