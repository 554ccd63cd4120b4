"""Writes to a temporary that shares nothing with its source, as in `data.reshape(3)["a"] = x`: they are lost."""

from __future__ import annotations

import ast
import linecache
import sys
import warnings
from collections.abc import Callable, Iterator
from functools import wraps
from types import FrameType
from typing import Any, Final, NamedTuple

from torch.compiler import is_dynamo_compiling

from .._flags import flag
from .._operations import IN_PLACE
from ..core import TensorCollection, is_key, store_of
from ..errors import MigrationWarning
from ._dict import TensorDict

_SHAPE_METHODS: Final = frozenset(
    ["exclude", "moveaxis", "movedim", "permute", "reshape", "select", "squeeze", "swapaxes", "swapdims", "to"]
) | {"transpose", "view"}
"""The methods whose results write through in tensordict, at the top level or below it."""
_KEY_METHODS: Final = frozenset(
    ["clear", "del_", "pop", "popitem", "rename_key_", "set", "set_non_tensor", "setdefault", "update"]
)
"""The methods that write entries."""
_VALUE_METHODS: Final = frozenset(
    ["copy_", "copy_at_", "fill_", "set_", "set_at_", "update_", "update_at_", "zero_"]
) | frozenset(name for name in IN_PLACE if not name.startswith("__"))
"""The methods that write into memory."""
_VERBS: Final = {ast.Assign: "set", ast.AugAssign: "set", ast.Delete: "del"}
"""The statements that write, and the word in the names of the methods that they call."""
_SUBSCRIPTS: Final = {"__setitem__", "__delitem__", "__setattr__", "__delattr__"}
_OWN: Final = __name__.partition(".")[0]


class LostWrite(NamedTuple):
    """A statement that may write to a temporary.

    Args:
        line: its line.
        end: its last line.
        method: the method that writes.
        temporary: the expression of the temporary.
        in_memory: whether it writes into memory, which views share; else it replaces entries.
        sure: whether the text of the program shows it; else the expression may be an entry or an item of a list.
    """

    line: int
    end: int
    method: str
    temporary: ast.expr
    in_memory: bool
    sure: bool

    @property
    def text(self) -> str:
        """What to do about it."""
        shown = ast.unparse(self.temporary)
        return f"`{shown:.60}` is a new container: what is written to it is lost; write to `{_source_of(self):.60}`"


def find_lost_writes(tree: ast.AST) -> Iterator[LostWrite]:
    """The statements of a program that may write to a temporary.

    >>> [found.text for found in find_lost_writes(ast.parse("data.view(3)['a'] = x"))]
    ['`data.view(3)` is a new container: what is written to it is lost; write to `data`']
    """
    for node in ast.walk(tree):
        for method, temporary in _writes(node):
            step = _first_step(temporary)
            if step is not None:
                in_memory = method in _VALUE_METHODS or isinstance(node, ast.AugAssign)
                sure = _is_sure(step, method, in_memory)
                yield LostWrite(node.lineno, node.end_lineno or node.lineno, method, temporary, in_memory, sure)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]  # a statement


def _writes(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """The method that a statement calls, and the expression on which it does."""
    verb = _VERBS.get(type(node), "")
    outer: list[ast.expr] = getattr(node, "targets", [getattr(node, "target", None)]) if verb else []
    for target in [inner for one in outer for inner in getattr(one, "elts", [one])]:
        if isinstance(target, ast.Subscript) and not _is_index(target.slice):
            yield f"__{verb}item__", target.value
        elif isinstance(target, ast.Attribute):
            yield f"__{verb}attr__", target.value
    call = node.value if isinstance(node, ast.Expr) else None
    method = call.func if isinstance(call, ast.Call) else None
    if isinstance(method, ast.Attribute) and method.attr in _KEY_METHODS | _VALUE_METHODS:
        yield method.attr, method.value


def _first_step(node: ast.expr) -> ast.expr | None:
    """The call or the index in an expression whose result is a new container; None without one."""
    if isinstance(node, ast.Call):
        method = node.func
        if not isinstance(method, ast.Attribute):
            return None
        if method.attr == "get" and node.args and _is_constant_key(node.args[0]):
            return _first_step(method.value)
        return node if method.attr in _SHAPE_METHODS else None
    if isinstance(node, ast.Subscript):
        return _first_step(node.value) if _is_constant_key(node.slice) else node
    return None


def _is_constant_key(node: ast.expr) -> bool:
    parts = node.elts if isinstance(node, ast.Tuple) and node.elts else [node]
    return all([isinstance(part, ast.Constant) and isinstance(part.value, str) for part in parts])


def _is_index(node: ast.expr) -> bool:
    """Whether a subscript is an index in any case, and no key."""
    constant = isinstance(node, ast.Constant | ast.UnaryOp) and not _is_constant_key(node)
    sliced = isinstance(node, ast.Tuple) and any([isinstance(part, ast.Slice) for part in node.elts])
    return constant or sliced or isinstance(node, ast.Slice | ast.Compare | ast.List)


def _is_sure(step: ast.expr, method: str, in_memory: bool) -> bool:
    if isinstance(step, ast.Call):
        return not in_memory
    index: ast.expr = step.slice  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]  # a subscript
    if in_memory:  # a slice shares memory; a subscript of `+=` may be a key
        views = _is_position(index) or isinstance(index, ast.Slice | ast.Tuple | ast.Constant)
        return not views and (method in _VALUE_METHODS or _is_index(index))
    return _is_index(index) and (method in ("__setitem__", "__delitem__") or not _is_position(index))


def _is_position(index: ast.expr) -> bool:
    """Whether an index is a number, which items of lists have as well."""
    inner = index.operand if isinstance(index, ast.UnaryOp) else index
    return isinstance(inner, ast.Constant) and isinstance(inner.value, int)


def _source_of(found: LostWrite) -> str:
    """The expression that holds the container which was meant."""
    step = _first_step(found.temporary)
    source: ast.expr = step.func.value if isinstance(step, ast.Call) else step.value  # type: ignore[attr-defined, union-attr]  # pyright: ignore[reportAttributeAccessIssue, reportOptionalMemberAccess]  # a method call or a subscript
    return ast.unparse(source)


# ---- while a program runs --------------------------------------------------------------------------------------------


def migration_warnings(mode: bool = True) -> None:
    """Warn once for each line of a program that writes to a temporary container, from now on.

    `data.reshape(3)["a"] = x` writes to a new container, which nobody holds. Such writes reach the source in
    tensordict where the operation has no effect, or where the source is a lazy stack or a file, and are lost here.

    Args:
        mode: False stops the warnings; without them a write costs what it costs before the first call.

    >>> import torch
    >>> from tensorclass import TensorDict, migration_warnings
    >>> migration_warnings(True)
    >>> TensorDict(a=torch.zeros(3), batch_size=[3])[:2].update(a=torch.ones(2))["a"]
    tensor([1., 1.])
    >>> migration_warnings(False)
    """
    flag(mode=mode)
    _unhook()
    _SEEN.clear()
    if mode:
        for cls in {TensorCollection, *_subclasses(TensorCollection)}:
            for name in [*_SUBSCRIPTS, *_KEY_METHODS, *_VALUE_METHODS]:
                method = vars(cls).get(name)
                if callable(method):
                    _HOOKED.append((cls, name, method))
                    setattr(cls, name, _watch_method(method, name))


_HOOKED: list[tuple[type, str, Any]] = []
_SEEN: dict[str, dict[int, list[LostWrite]]] = {}
"""By file and line, the statements that have not been reported yet."""


def _unhook() -> None:
    while _HOOKED:
        cls, name, method = _HOOKED.pop()
        setattr(cls, name, method)


def _subclasses(cls: Any) -> Iterator[type]:
    inner: type
    for inner in cls.__subclasses__():
        yield inner
        yield from _subclasses(inner)


def _watch_method(method: Callable[..., Any], name: str) -> Callable[..., Any]:
    @wraps(method)
    def write(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not is_dynamo_compiling():
            caller = sys._getframe(1)
            if caller.f_globals.get("__name__", "").partition(".")[0] != _OWN:
                _report(self, name, args, caller)
        return method(self, *args, **kwargs)

    return write


def _report(written: Any, method: str, args: tuple[Any, ...], caller: FrameType) -> None:
    """Warn if the statement that runs in a frame loses what it writes."""
    file = caller.f_code.co_filename
    if file not in _SEEN:
        _SEEN[file] = _by_line(file, caller)
    here = _SEEN[file].get(caller.f_lineno, [])
    for found in here:
        if found.method == method and (method != "__setitem__" or is_key(args[0])) and _is_lost(found, written, caller):
            here.remove(found)
            warnings.warn(found.text, MigrationWarning, stacklevel=3)
            return


def _by_line(file: str, caller: FrameType) -> dict[int, list[LostWrite]]:
    try:
        tree = ast.parse("".join(linecache.getlines(file, caller.f_globals)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    lines: dict[int, list[LostWrite]] = {}
    for found in find_lost_writes(tree):
        for line in range(found.line, found.end + 1):
            lines.setdefault(line, []).append(found)
    return lines


def _is_lost(found: LostWrite, written: Any, caller: FrameType) -> bool:
    """Whether the temporary shares with its source neither entries nor memory; False if that can't be told."""
    step = _first_step(found.temporary)
    if isinstance(step, ast.Call):
        return not found.in_memory
    source, index = _value_of(step.value, caller), _value_of(step.slice, caller)  # type: ignore[union-attr]  # pyright: ignore[reportOptionalMemberAccess, reportAttributeAccessIssue]  # a subscript
    if not isinstance(source, TensorCollection) or index is _UNKNOWN or is_key(index):
        return False
    if source._stacked and any([written is member for member in source.tensordicts]):  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]  # a lazy stack
        return False
    parts = index if isinstance(index, tuple) else (index,)
    views = all([isinstance(part, int | slice) or part is None or part is ... for part in parts])
    stacked = source._stacked and found.method in _VALUE_METHODS  # `+=` reads an entry, which stacks those of members
    loaded = stacked or isinstance(store_of(source), TensorDict)
    return not (found.in_memory and views and loaded)


_UNKNOWN: Final = object()


def _value_of(node: ast.expr, caller: FrameType) -> Any:
    """The value of a name, of an attribute or entry of one, or of an index, without running the program."""
    if isinstance(node, ast.Name):
        return caller.f_locals.get(node.id, caller.f_globals.get(node.id, _UNKNOWN))
    if isinstance(node, ast.Attribute):
        holder = _value_of(node.value, caller)
        return getattr(holder, "__dict__", {}).get(node.attr, _UNKNOWN) if holder is not _UNKNOWN else _UNKNOWN
    if isinstance(node, ast.Subscript) and _is_constant_key(node.slice):
        holder = _value_of(node.value, caller)
        inside = isinstance(holder, TensorDict)
        return holder.get(ast.literal_eval(node.slice), _UNKNOWN) if inside else _UNKNOWN
    if isinstance(node, ast.Slice):
        return slice(None)
    if isinstance(node, ast.Tuple) and any([isinstance(part, ast.Slice) for part in node.elts]):
        return tuple([_value_of(part, caller) for part in node.elts])
    if isinstance(node, ast.Compare | ast.List) or isinstance(
        getattr(node, "op", None), ast.Invert | ast.BitAnd | ast.BitOr
    ):
        return []  # a mask or positions
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError):
        return _UNKNOWN
