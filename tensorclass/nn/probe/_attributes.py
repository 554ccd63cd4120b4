"""Which attributes some code writes: those of classes and modules outlive a run, since copies share them."""

from __future__ import annotations

import dis
import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

WRITERS = frozenset((
    "add", "append", "appendleft", "extend", "extendleft", "insert", "update", "setdefault", "pop", "popitem",
    "popleft", "remove", "discard", "clear", "sort", "reverse", "rotate", "fill", "put", "itemset", "resize",
    "partition", "setfield", "subtract", "move_to_end", "__setitem__", "__delitem__", "__setattr__",
))  # fmt: skip
"""Methods that change a container or an array."""
_AUGMENTED, _DOUBLED = ("SWAP", "ROT_TWO"), ("COPY", "DUP_TOP")
_NAMED = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT")
_ATTRIBUTES = ("LOAD_ATTR", "LOAD_METHOD")
ITEMS = ("STORE_SUBSCR", "DELETE_SUBSCR", "STORE_SLICE", "DELETE_SLICE")


@dataclass
class Stores:
    """What some code writes to.

    `shared` describes a write to a class or module, "" for none. `through` has the names of attributes to whose own
    attributes it writes, `into` those of attributes whose items it writes.
    """

    shared: str = ""
    through: set[str] = field(default_factory=set)
    into: set[str] = field(default_factory=set)
    attributes: set[str] = field(default_factory=set)
    """The names of all attributes that are written outside of constructors."""
    rebound: set[str] = field(default_factory=set)
    """The globals and closure variables that are assigned."""

    def read(self, code: types.CodeType, space: Mapping[str, Any]) -> None:
        """Add what a code object writes, without the code objects inside of it."""
        steps = [step for step in dis.get_instructions(code) if step.opname not in ("CACHE", "EXTENDED_ARG", "NOP")]
        for place, step in enumerate(steps):
            if step.opname in ("STORE_ATTR", "DELETE_ATTR"):
                self._note_owner(code, steps, place, space)
                self.attributes |= {str(step.argval)} if code.co_name != "__init__" else set()
            elif step.opname in ("STORE_GLOBAL", "STORE_DEREF"):
                self.rebound.add(str(step.argval))
        self.into |= set(_attributes_with_written_items(steps))
        if {"setattr", "delattr"} & set(code.co_names) and _sees_class(code, space):
            self.shared = self.shared or "`setattr` of a class"

    def _note_owner(
        self, code: types.CodeType, steps: Sequence[dis.Instruction], place: int, space: Mapping[str, Any]
    ) -> None:
        """Note which object has the attribute that is written: for `model.layer.x = 1`, `layer` of `model`."""
        name, at = steps[place].argval, _owner(steps, place)
        if at < 0:
            return
        path: list[str] = []
        while at > 0 and steps[at].opname in _ATTRIBUTES:  # from the last name to the first
            path.insert(0, str(steps[at].argval))
            at -= 1
        if path:
            self.through.add(path[-1])
        if _is_shared(code, steps[at], path, space):
            self.shared = self.shared or f"`{name}` of a class or module"


def _owner(steps: Sequence[dis.Instruction], place: int) -> int:
    """Where the object is loaded whose attribute is written; -1 if unknown."""
    if steps[place - 1].opname not in _AUGMENTED:
        return place - 1
    for at in range(place - 2, 0, -1):  # `owner.name += 1` loads the owner, doubles it, and reads the attribute
        if steps[at].opname in _DOUBLED and steps[at + 1].argval == steps[place].argval:
            return at - 1
    return -1


def _is_shared(code: types.CodeType, load: dis.Instruction, path: list[str], space: Mapping[str, Any]) -> bool:
    """Whether an object whose attribute is written may belong to other instances: a class, a module, a global."""
    if "__class__" in path[-1:]:
        return True
    if load.opname.startswith(_NAMED):
        value = space.get(str(load.argval))
        for name in path:
            value = getattr(value, name, None)
        return isinstance(value, (type, types.ModuleType))
    if path:
        return False
    if not load.opname.startswith("LOAD_FAST"):
        return "type" in code.co_names  # a result: `type(self).count += 1`
    name = load.argval[-1] if isinstance(load.argval, tuple) else load.argval
    first = code.co_varnames[:1] if code.co_argcount else ()
    return name == "cls" or (name not in first and bool({"type", "__class__"} & set(code.co_names)))


def _attributes_with_written_items(steps: Sequence[dis.Instruction]) -> Iterator[str]:
    """The names of attributes whose items are written: `x.items[0] = ...`, `x.items.append(...)`."""
    line: list[str] = []
    for place, step in enumerate(steps):
        line = [] if step.starts_line else line
        if step.opname in _ATTRIBUTES:
            if step.argval in WRITERS and steps[place - 1].opname in _ATTRIBUTES:
                yield str(steps[place - 1].argval)
            line.append(str(step.argval))
        elif step.opname in ITEMS:
            yield from line


def _sees_class(code: types.CodeType, space: Mapping[str, Any]) -> bool:
    if {"type", "__class__"} & set(code.co_names):
        return True
    return any(isinstance(space.get(name), (type, types.ModuleType)) for name in code.co_names)
