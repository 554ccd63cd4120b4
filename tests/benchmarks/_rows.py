"""All rows, in the order of the table."""

from __future__ import annotations

from ._row import Row
from ._rows_build import BUILD
from ._rows_compiled import COMPILED
from ._rows_containers import SHAPES, VALUES, WRITES
from ._rows_dictionary import DICTIONARY
from ._rows_fields import FIELDS
from ._rows_functional import FUNCTIONAL
from ._rows_json import JSON
from ._rows_modules import MODULES
from ._rows_modules_compiled import COMPILED_MODULES
from ._rows_program_calls import PROGRAM_CALLS
from ._rows_startup import STARTUP
from ._rows_store import REDUCTIONS, STORE

GROUPS = (
    FIELDS, SHAPES, VALUES, WRITES, REDUCTIONS, DICTIONARY, STORE, PROGRAM_CALLS, MODULES, BUILD, FUNCTIONAL, JSON,
    STARTUP, COMPILED_MODULES, COMPILED,
)  # fmt: skip


def rows(pattern: str = "") -> list[Row]:
    """Rows whose section or name contains a pattern, in any case."""
    wanted = pattern.lower()
    found = [row for group in GROUPS for row in group.rows]
    return [row for row in found if wanted in row.name.lower() or wanted in row.group.lower()]
