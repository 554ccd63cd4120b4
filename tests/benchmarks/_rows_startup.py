"""Rows: class creation. `dataclasses.dataclass` stands for raw code; it checks nothing."""

from ._row import FLAT, Group

STARTUP = Group("Class creation")
STARTUP.add(
    "declare a class",
    "declare(decorator, annotations)",
    "declare(decorator, annotations)",
    dicts=None,
    samples=FLAT,
    floor=None,
    levels=False,
    comparable=False,
)
