"""How a generalisation is written: intervals as [lo,hi], nodes by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from core.events import Classes
from core.schema import CLASS_ID, Kind, Schema

# Pieces of text that columns are joined with. As scalars: arrow takes a Python string through a
# conversion that costs more than the join.
NOTHING: Final = pa.scalar("")
COMMA: Final = pa.scalar(",")
_OPEN: Final = pa.scalar("[")
_CLOSE: Final = pa.scalar("]")


@dataclass(frozen=True, slots=True)
class Rendered:
    """A class table as published columns; its last row is what suppressed records show."""

    columns: dict[str, pa.Array]
    class_id: pa.Array


class Renderer:
    """Writes class tables of one schema."""

    def __init__(self, schema: Schema, *, bounds: bool = False) -> None:
        self._schema = schema
        self._bounds = bounds

    @property
    def names(self) -> list[str]:
        """Names of the published columns, in order."""
        return [*self.generalised, *self.kept, CLASS_ID]

    @property
    def generalised(self) -> list[str]:
        """Names of the columns that show the quasi-identifiers."""
        names = []
        for attribute in self._schema.quasi_identifiers:
            if self._bounds and attribute.kind is Kind.NUMERIC:
                names += [f"{attribute.name}_min", f"{attribute.name}_max"]
            else:
                names.append(attribute.name)
        return names

    @property
    def kept(self) -> list[str]:
        """Names of the columns that are published as they came."""
        sensitive = self._schema.sensitive
        first = [sensitive.name] if sensitive else []
        return [*first, *(attribute.name for attribute in self._schema.insensitive)]

    def render(self, classes: Classes) -> Rendered:
        """The columns that show the classes, and one row more for suppressed records."""
        columns: dict[str, pa.Array] = {}
        numeric = {a.name: place for place, a in enumerate(self._schema.numeric)}
        categorical = {a.name: place for place, a in enumerate(self._schema.categorical)}
        for attribute in self._schema.quasi_identifiers:
            name = attribute.name
            if name in numeric:
                assert attribute.domain is not None
                low = _texts(np.append(classes.low[:, numeric[name]], attribute.domain[0]))
                high = _texts(np.append(classes.high[:, numeric[name]], attribute.domain[1]))
                if self._bounds:
                    columns |= {f"{name}_min": low, f"{name}_max": high}
                else:
                    columns[name] = pc.binary_join_element_wise(
                        _OPEN, low, COMMA, high, _CLOSE, NOTHING
                    )
            else:
                assert attribute.hierarchy is not None
                names = pa.array(attribute.hierarchy.names, pa.string())
                node = np.append(classes.node[:, categorical[name]], attribute.hierarchy.root)
                columns[name] = names.take(pa.array(node))
        padded = np.append(classes.class_id, 0)
        nobody = np.zeros(len(padded), np.bool_)
        nobody[-1] = True
        return Rendered(columns, pa.array(padded, pa.int64(), mask=nobody))


def _texts(numbers: NDArray[np.float64]) -> pa.Array:
    """Numbers as text: whole ones without a point, others in the shortest form that is exact."""
    if (numbers == np.rint(numbers)).all() and (np.abs(numbers) < 2**53).all():
        return pc.cast(pa.array(numbers.astype(np.int64)), pa.string())
    return pa.array([repr(int(n)) if n == int(n) else repr(n) for n in numbers.tolist()])
