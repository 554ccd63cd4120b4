"""Groups of methods that the tables give, by name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ._reduce_table import REDUCTIONS
from ._table import ROWS, Row


def _forms(rows: Iterable[Row]) -> frozenset[str]:
    """The methods of rows, and their operators."""
    return frozenset({name for row in rows for name in (row.name, row.forward, row.reflected) if name})


IN_PLACE: Final = frozenset({f"{row.name}_" for row in ROWS if row.in_place} | {row.augmented for row in ROWS} - {""})
"""The methods that write to the leaves."""
FLOATING: Final = _forms(row for row in ROWS if row.result == "floating").union(
    row.name for row in REDUCTIONS if row.floating
)
"""The methods that give floats, or an error, for integers."""
SCALED: Final = _forms(row for row in ROWS if row.family in ("binary", "clamp") and row.result == "promoted") - _forms(
    row for row in ROWS if row.domain == "int"
)
"""The methods that give floats for integers if an operand is floating."""
COMBINING: Final = _forms(row for row in ROWS if row.arity) | {
    name for row in ROWS if row.arity for name in (row.augmented, f"{row.name}_" if row.in_place else "") if name
}
"""The methods whose operands may be containers."""
BY_FIELD: Final = {
    "sort_by": "*keys: {keys}, descending: bool = ...) -> _Self",
    "group_by": "*keys: {keys}) -> dict[_Any, _Self]",
    "unique_by": '*keys: {keys}, keep: _Literal["first", "last"] = ...) -> _Self',
}
"""The methods of rows that take names of fields, with their parameters and results in stubs."""
