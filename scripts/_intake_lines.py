"""What became of the input's rows, for people: dropped columns, clamped values, rejected rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from core.errors import DataError
from site_node.summary import Summary


def lines(result: Mapping[str, Any]) -> Iterator[str]:
    """One line each from a summary's numbers (`Summary.as_dict`) and its `dead_letter`."""
    if result["dropped_columns"]:
        dropped = ", ".join(map(repr, result["dropped_columns"]))
        yield f"dropped columns (identifiers, or not in the schema): {dropped}"
    for item in result["suppressed_by_policy"]:
        yield f"  suppressed {item['rows']:,}: column '{item['attribute']}': {item['reason']}"
    for name, count in result["clamped"].items():
        yield f"  clamped {count:,}: column '{name}'"
    for item in result["rejected_by"]:
        where = f"column '{item['attribute']}': " if item["attribute"] else ""
        yield f"  rejected {item['rows']:,}: {where}{item['reason']}"
    for name, values in result["not_in_hierarchy"].items():
        yield f"  not in the hierarchy of '{name}': {', '.join(map(repr, values))}"
    if result["dead_letter"]:
        yield f"  rejected rows are in {result['dead_letter']}"


def nothing_usable(summary: Summary, letters: str) -> DataError:
    """The complaint when not one row was accepted."""
    (attribute, reason), rows = summary.rejected.most_common(1)[0]
    where = f"column '{attribute}': {reason}" if attribute else reason
    return DataError(
        f"none of the {summary.rows:,} rows could be used; "
        f"most often ({rows:,}): {where}; every row is in {letters} with its reason"
    )
