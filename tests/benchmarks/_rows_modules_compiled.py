"""Rows: sequences of modules compiled by inductor and warm, where all that is left of a sequence is its containers."""

from ._row import Group
from ._rows_modules import add

COMPILED_MODULES = Group("Sequences of modules, compiled")

add(COMPILED_MODULES, "5 x Linear, compiled", "linear", 1, 1.25, compiled=True)
add(COMPILED_MODULES, "20 x Linear, compiled", "20 linear", 1, 1.25, compiled=True)
