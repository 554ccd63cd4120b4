"""The few functions that implement every pointwise operation, on the leaves of any container."""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial as partial_of
from types import FunctionType
from typing import Any, Final, TypeAlias, TypeVar

import torch
from torch import Tensor, nn
from torch.compiler import is_compiling

from .._deferred import any_dtensor
from .._operations import BITWISE, COMPARISONS, ROWS, UNSUPPORTED, Numbers, Row
from ..core import VALUES, Step, TensorCollection, publish, relock
from ..errors import ArgumentError, StructureError, UnsupportedOperationError
from ._alike import in_one_form
from ._at_once import FEW, FEW_PAIRS, at_once, interpreters, over_lists
from ._distributed import reason_of_mixture, reason_of_placement
from ._lengths import gather_rows, take_back
from ._lerp import lerp
from ._objects import EXCLUSIVE, answer, meet_objects
from ._operands import (
    OPERANDS,
    Default,
    Layout,
    Pointwise,
    Right,
    as_large,
    merge_operands,
    operand,
    operation,
    pair_leaves,
    partial,
    show,
)
from ._steps import foreach_is_safe, without_overlap
from ._writable import misshapen, rank, takes_gradients, tracks_integers, unwritable

Function: TypeAlias = Callable[..., Any]
C = TypeVar("C", bound="Pointwise")

PLAIN_FLOATS: Final = frozenset({torch.float32, torch.float64})  # every operation supports them and keeps the dtype
WITH_INT64: Final = PLAIN_FLOATS | {torch.int64}


@dataclass(frozen=True)
class Kernel:
    """A row of the table with its torch functions.

    Args:
        name: the operation, for messages.
        function: the function of one leaf and its operands.
        lists: the same for lists of leaves, by a loop or in one call, whichever is faster.
        foreach: the same in one call.
        write: the in-place function of one leaf; None for operations that torch does not have in place.
        foreach_write: the same for lists of leaves.
        numbers: which operands of `function` may be Python numbers.
        foreach_numbers: whether `foreach` accepts a number instead of an operand list.
        checked: whether a typed class must accept the result.
        swap: whether the operand is the first argument of `foreach`.
        meets: whether it also combines the Python objects of two containers.
        equality: True for `==`, False for `!=`, else None.
        floats: whether `foreach` supports only floating dtypes.
        whole: whether results of integers are integers of the same dtype.
    """

    name: str
    function: Function
    lists: Function
    foreach: Function | None = None
    write: Function | None = None
    foreach_write: Function | None = None
    numbers: Numbers = "yes"
    foreach_numbers: bool = False
    checked: bool = True
    swap: bool = False
    meets: bool = False
    equality: bool | None = None
    floats: bool = False
    whole: bool = False


def _kernel(row: Row) -> Kernel:
    function = getattr(Tensor if row in COMPARISONS else torch, row.torch_name)  # whichever is faster
    foreach = getattr(torch, f"_foreach_{row.foreach}") if row.foreach else None
    few = FEW_PAIRS if row.arity else FEW
    return Kernel(
        row.name,
        function,
        over_lists(function, None if row.swap else foreach, few),
        foreach,
        getattr(Tensor, f"{row.torch_name}_", None) if row.in_place else None,
        getattr(torch, f"_foreach_{row.foreach}_") if row.in_place and row.foreach else None,
        row.numbers,
        row.numbers == "yes" and not row.swap,
        row.result != "bool",
        row.swap,
        row in (*BITWISE, *COMPARISONS),
        EQUALITY.get(row.name),
        whole=row.result == "promoted",
    )


def _reflected_kernel(row: Row) -> Kernel:
    function = getattr(operator, row.swapped)
    foreach = getattr(torch, f"_foreach_{row.foreach}") if row.foreach else None

    def swapped(leaf: Tensor, other: Any) -> Any:
        return function(other, leaf)

    lists = over_lists(swapped, None, FEW)
    return Kernel(row.reflected, swapped, lists, foreach, foreach_numbers=row.name == "pow", swap=True)


_ALONE: Final = object()
_LERP: Final = torch._foreach_lerp  # pyright: ignore[reportPrivateImportUsage]  # torch offers it under this name only
_LERP_: Final = torch._foreach_lerp_  # pyright: ignore[reportPrivateImportUsage]  # as above
EQUALITY: Final = {"eq": True, "ne": False}
KERNELS: Final[Mapping[str, Kernel]] = {row.name: _kernel(row) for row in ROWS} | {
    "lerp": Kernel("lerp", lerp, over_lists(lerp, None, FEW), _LERP, None, _LERP_, numbers="last", floats=True)
}
REFLECTED: Final[Mapping[str, Kernel]] = {row.name: _reflected_kernel(row) for row in ROWS if row.swapped}


# ---- the operations --------------------------------------------------------------------------------------------------


def _quick(self: C, kernel: Kernel, other: Any = _ALONE, options: dict[str, Any] | None = None) -> C | None:
    """Compute on all leaves at once; None for the general path, which also explains errors of torch."""
    run, partner = kernel.lists, None
    if type(other) is type(self) and not options:
        partner = other
    elif type(other) in (int, float, bool):
        run = partial_of(_run, kernel, options or {}, (other,))  # pyright: ignore[reportArgumentType]  # a number
    elif other is not _ALONE:
        return None
    checked = 2 if type(other) is float or options or not kernel.whole else 1
    # with all arguments: compiled code asks whether defaults are the same
    result = at_once(self, run, partner, False, None, checked if kernel.checked else 0)
    if result is None:
        return None
    if kernel.meets and partner is not None and not result._plain:
        if kernel.name in EXCLUSIVE:
            return None
        answer(result, kernel.equality) if kernel.equality is not None else None
    if (kernel.checked or other is _ALONE) and self._owners() is not None:
        return _lock_result(result)  # type: ignore[no-any-return]  # of the class of self
    return result  # type: ignore[no-any-return]  # as above


def unary(self: C, kernel: Kernel) -> C:
    """Apply a function to every leaf."""
    result = _quick(self, kernel)
    if result is not None:
        return result
    leaves: list[Tensor] = []
    result = _combine_into(self._open(leaves, VALUES), leaves, (), None, kernel, {})
    return _lock_result(result) if self._owners() is not None else result


def binary(self: C, other: Any, kernel: Kernel, alpha: complex | None = None, default: Default = None) -> C:
    """Combine every leaf with a container, a tensor over the batch, or a number."""
    options = {} if alpha is None else {"alpha": alpha}
    twin = _quick(self, kernel, other, options)
    return _binary_of_all_containers(self, other, kernel, options, default) if twin is None else twin


def _binary_of_all_containers(
    self: C, other: Any, kernel: Kernel, options: dict[str, Any], default: Default = None
) -> C:
    """As `binary`, for every container and operand."""
    locked = kernel.checked and self._owners() is not None
    leaves: list[Tensor] = []
    right: Right
    met = isinstance(other, TensorCollection)
    if met and not kernel.checked:
        self, other = in_one_form(self, other)
    large, other = as_large(self, other, kernel.name, kernel.meets) if met else (self, other)
    if met and default is not None:
        (template, leaves), right = merge_operands(large, other, kernel.name, default)
    else:
        template = large._open(leaves := [], VALUES)
        right = operand(template, leaves, other, kernel.name)
    result = _combine_into(template, leaves, (right,), other, kernel, options)
    if met and kernel.meets:
        meet_objects(large, result, other, kernel.name, default is not None)
    return _lock_result(result) if locked else result  # type: ignore[return-value]  # pyright: ignore[reportReturnType]  # a twin of self


def _combine_into(
    twin: C, leaves: list[Tensor], rights: tuple[Right, ...], other: Any, kernel: Kernel, options: dict[str, Any]
) -> C:
    """A twin refilled with the results of an operation on its leaves and operands."""
    try:
        new = _run(kernel, options, rights, leaves)
    except RuntimeError as error:
        if not isinstance(error, CLEAR):
            _explain(twin, kernel, leaves, rights, options, error)
        raise
    if kernel.checked:
        twin._accept(leaves, new, kernel.name, other)
    return twin._refill(new, twin._batch_size, twin._names, VALUES)


def _lock_result(result: C) -> C:
    """Lock the result of arithmetic on a locked container."""
    relock(result)
    return result


def dunder(self: C, other: object, kernel: Kernel) -> C:
    """The operator form; returns NotImplemented for a foreign operand."""
    same_type = type(other) is type(self)
    if not (same_type or type(other) in (int, float) or isinstance(other, OPERANDS)):
        return NotImplemented  # type: ignore[no-any-return]  # the operator protocol
    result: Any = _quick(self, kernel, other)
    if kernel.equality is None:
        return _binary_of_all_containers(self, other, kernel, {}) if result is None else result
    size = there = self._batch_size
    if result is None and isinstance(other, TensorCollection):
        there = other._batch_size
        if (not same_type and not self._may_meet(other)) or (size != there and _of_owners()):
            return NotImplemented  # type: ignore[no-any-return]  # instances of two classes differ
        if size != there:
            self, matched = in_one_form(self, other)
            other, size, there = matched, self._batch_size, matched._batch_size
    result = _binary_of_all_containers(self, other, kernel, {}) if result is None else result
    if same_type or not isinstance(other, Tensor):
        (result._store if result._layered else result)._equality = kernel.equality if there == size else None
    return result  # type: ignore[no-any-return]  # of the class of self


def _of_owners() -> bool:
    """Whether `==` compares objects that hold containers, such as dataclasses, and so must return a bool."""
    return not is_compiling() and sys._getframe(3).f_code.co_name in ("__eq__", "__ne__")


def ternary(self: C, first: Any, second: Any, kernel: Kernel, value: complex | None = None) -> C:
    """Combine every leaf with two operands."""
    leaves: list[Tensor] = []
    twin = self._open(leaves, VALUES)
    rights = operand(twin, leaves, first, kernel.name), operand(twin, leaves, second, kernel.name)
    result = _combine_into(twin, leaves, rights, ..., kernel, {} if value is None else {"value": value})
    return _lock_result(result) if self._owners() is not None else result


def clamp(self: C, low: Any, high: Any, out: Any, in_place: bool = False) -> C:
    """Limit every leaf to a range with one or two ends."""
    if low is None and high is None:
        raise ArgumentError("clamp: give `min`, `max` or both, got neither")
    if low is None:
        name = "clamp_max"
    elif high is None:
        name = "clamp_min"
    else:
        name = "clamp"
    given = [end for end in (low, high) if end is not None]
    if in_place:
        return write(self, KERNELS[name], *given)
    result = ternary(self, low, high, KERNELS[name]) if len(given) == 2 else binary(self, given[0], KERNELS[name])
    if out is None:
        return result
    out.copy_(result)
    return out  # type: ignore[no-any-return]  # the container of the caller


def write(self: C, kernel: Kernel, *operands: Any, default: Default = None, **given: complex | None) -> C:
    """The in-place form: every leaf is checked before the first is written."""
    self._refuse_frozen(f"{kernel.name}_")
    leaves: list[Tensor] = []
    paths: Layout | None = None
    rights: tuple[Right, ...]
    apart_: list[tuple[Any, Tensor]] = []
    twin = len(operands) == 1 and type(operands[0]) is type(self)
    right: list[Tensor] = []
    own: Any = pair_leaves(self, operands[0], leaves := [], right) if twin else None
    if own is not None:
        rights = (right,)
    elif default is not None and isinstance(operands[0], TensorCollection):
        own = self._open(leaves := [], VALUES)
        apart_ = gather_rows(own, leaves, f"{kernel.name}_")
        paths, leaves, rights = partial(own, leaves, operands[0], kernel.name, default)
    else:
        own, paths = _container_to_write(self, operands, leaves := [])
        apart_ = gather_rows(own, leaves, f"{kernel.name}_")
        rights = tuple([operand(own, leaves, other, kernel.name, paths) for other in operands])
    options = {key: value for key, value in given.items() if value is not None}
    surely = _surely_writable(leaves, (*rights, *options.values()))
    if not surely:
        _require_writable(own, kernel, leaves, _columns(kernel, leaves, rights), options, paths)
    rights = tuple(
        [without_overlap(leaves, right) if type(right) is list else _clear(leaves, right) for right in rights]
    )
    listable = kernel.foreach_write is not None and _listable(kernel, leaves, rights, options, surely)
    if kernel.foreach_write is None or not listable or (not surely and tracks_integers(leaves)):
        publish([*_write_steps(kernel, leaves, _columns(kernel, leaves, rights), options), *take_back(apart_)])
    elif apart_:
        publish([partial_of(kernel.foreach_write, leaves, *rights, **options), *take_back(apart_)])
    else:
        kernel.foreach_write(leaves, *rights, **options)
    return self


def _write_steps(kernel: Kernel, leaves: list[Tensor], columns: list[list[Any]], options: dict[str, Any]) -> list[Step]:
    """The writes to each leaf; results that torch can't compute in place are all computed first."""
    rows = zip(leaves, *columns, strict=True)
    if kernel.write is not None:
        return [partial_of(kernel.write, *row, **options) for row in rows]
    new = [_castable(kernel.function(*row, **options), row[0]) for row in rows]
    return [partial_of(leaf.copy_, value) for leaf, value in zip(leaves, new, strict=True)]


def _castable(new: Tensor, leaf: Tensor) -> Tensor:
    """Refuse a result that `copy_` would cast silently to a lower kind of dtype."""
    if rank(new) > rank(leaf):
        raise ArgumentError(f"result type {new.dtype} can't be cast to {leaf.dtype}")
    return new


def _clear(leaves: list[Tensor], right: Right) -> Right:
    """An operand for all leaves that no write to a leaf changes."""
    return without_overlap(leaves, [right], own=False)[0] if isinstance(right, Tensor) else right


def _container_to_write(self: C, operands: tuple[Any, ...], leaves: list[Tensor]) -> tuple[C, Layout | None]:
    """The container whose keys an in-place operation reads, its leaves, and their layout if known."""
    if not any([isinstance(other, (Tensor, TensorCollection)) for other in operands]):
        leaves += self._leaves(VALUES)
        return self, None
    table = None if isinstance(operands[0], Tensor) or len(operands) > 1 else self._tensors_by_key()
    if table is None:
        return self._open(leaves, VALUES), None
    leaves += table.values()
    return self, tuple(table)


def write_dunder(self: C, other: object, kernel: Kernel) -> C:
    """The augmented operator."""
    if not isinstance(other, OPERANDS):
        return NotImplemented  # type: ignore[no-any-return]  # the operator protocol
    return write(self, kernel, other)


def _run(kernel: Kernel, options: dict[str, Any], rights: tuple[Right, ...], leaves: list[Tensor]) -> Sequence[Tensor]:
    single = len(rights) == 1 and not (options or is_compiling()) and kernel.name in SCALAR_FREE
    repeated = False
    if single and isinstance(rights[0], (int, float)):
        numbers, plain = _repeat_number(leaves, rights[0])
        rights, repeated = (numbers,), plain
    if len(leaves) > FEW and (repeated or _listable(kernel, leaves, rights, options)):
        try:
            return kernel.foreach(*((*rights, leaves) if kernel.swap else (leaves, *rights)), **options)  # type: ignore[misc,no-any-return]  # listable: not None
        except RuntimeError:  # its autograd refuses integers mixed with tracked leaves; the loop finds other errors
            pass
    function = partial_of(kernel.function, **options) if options else kernel.function
    return [*map(function, leaves, *_columns(kernel, leaves, rights))]


SCALAR_FREE: Final = frozenset({"add", "sub", "mul", "div"})
"""Operations with identical results for a number and for a 0-d tensor of the leaf's dtype."""
OWN_CLASSES: Final = frozenset({Tensor, nn.Parameter})


def _repeat_number(leaves: list[Tensor], number: float) -> tuple[Right, bool]:
    """A number as one 0-d tensor for each dtype, which makes foreach twice as fast; else the number itself.

    Also whether all leaves are of torch's own classes, so that foreach takes this operand.
    """
    if not leaves or not leaves[0].is_cpu or interpreters() is not None:
        return number, False
    whole = type(number) is int and abs(number) < 2**63
    known = WITH_INT64 if whole else PLAIN_FLOATS
    kinds: set[Any] = {leaf.dtype if type(leaf) in OWN_CLASSES and leaf.dim() else None for leaf in leaves}
    plain = kinds <= known
    if not plain:
        kinds = {leaf.dtype if leaf.dim() else None for leaf in leaves}
        if not kinds <= known:
            return number, False
    made = {dtype: torch.scalar_tensor(number, dtype=dtype) for dtype in kinds}
    return [*made.values()] * len(leaves) if len(made) == 1 else [made[leaf.dtype] for leaf in leaves], plain


def _listable(
    kernel: Kernel, leaves: list[Tensor], rights: tuple[Right, ...], options: dict[str, Any], plain: bool = False
) -> bool:
    """Whether foreach gives the same results as the loop: it has no batching rule, and accepts no empty list.

    With `plain`, none of the leaves is a DTensor.
    """
    if kernel.foreach is None or not leaves or (kernel.floats and not all(map(takes_gradients, leaves))):
        return False
    for i, right in enumerate(rights):
        if type(right) is not list:
            last = kernel.numbers == "last" and i == len(rights) - 1
            if isinstance(right, Tensor) or options or not (kernel.foreach_numbers or last):
                return False
    return foreach_is_safe(() if plain else leaves)


def _columns(kernel: Kernel, leaves: list[Tensor], rights: tuple[Right, ...]) -> list[list[Any]]:
    """Each operand as one value per leaf; a number becomes a tensor if torch doesn't accept numbers."""
    plain = [not isinstance(right, (list, Tensor)) for right in rights]
    columns: list[list[Any]] = []
    for i, right in enumerate(rights):
        if isinstance(right, list):
            columns.append(right)
            continue
        kept = kernel.numbers == "yes" or (kernel.numbers == "together" and all(plain))
        if not plain[i] or kept or (kernel.numbers == "last" and i == len(rights) - 1):
            columns.append([right] * len(leaves))
        else:
            columns.append([_scalar(leaf, right) for leaf in leaves])
    return columns


def _scalar(leaf: Tensor, number: Any) -> Tensor:
    """A number as a 0-d tensor with the same type promotion as the number."""
    return torch.as_tensor(number, dtype=leaf.dtype if rank(leaf) >= rank(number) else None, device=leaf.device)


# ---- what can go wrong -----------------------------------------------------------------------------------------------


def _surely_writable(leaves: list[Tensor], rights: tuple[Right, ...]) -> bool:
    """Whether the common case holds: plain float tensors of one dtype, none tracked by autograd."""
    if not leaves or is_compiling() or any_dtensor(leaves):
        return False
    dtype, device, views = leaves[0].dtype, leaves[0].device, torch.is_grad_enabled()
    for leaf in leaves:
        if leaf.requires_grad or leaf.dtype is not dtype or not leaf.is_contiguous() or leaf.is_inference():
            return False
        if leaf.device != device or (views and leaf._is_view()):
            return False
    if dtype not in PLAIN_FLOATS:
        return False
    for right in rights:
        if isinstance(right, list):
            if [leaf.shape for leaf in leaves] != [other.shape for other in right]:
                return False
            if not all(other.dtype is dtype and other.device == device for other in right):
                return False
        elif isinstance(right, Tensor | complex | bool):
            return False
    return True


def _require_writable(
    self: Pointwise,
    kernel: Kernel,
    leaves: list[Tensor],
    columns: list[list[Any]],
    options: dict[str, Any],
    paths: Layout | None,
) -> None:
    """Refuse an in-place operation that would fail or lose data in any leaf."""
    tracked = torch.is_grad_enabled()
    probed: list[Any] = []
    for i, row in enumerate(zip(leaves, *columns, strict=True)):
        problem = unwritable(row[0], tracked) or reason_of_mixture(row[0], row[1:]) or misshapen(row)
        problem = problem or reason_of_placement(row[0], row[1:], partial_of(kernel.function, *row, **options))
        if not problem and not _plain((*row, *options.values())):
            kind = [(x.dtype, x.device, x.ndim > 0) if isinstance(x, Tensor) else x for x in row]
            if kind not in probed:
                problem = _reason_of_refusal(kernel, row, options)
                probed.append(kind)
        if problem:
            where = show((paths or self._layout())[i])
            kind_of = UnsupportedOperationError if "shape" not in problem else StructureError
            raise kind_of(f"{kernel.name}_: `{where}` {problem}; nothing was written")


def _plain(row: Sequence[Any]) -> bool:
    """Whether all operands have the same dtype, which every operation supports and keeps."""
    dtype, device = row[0].dtype, row[0].device
    if dtype not in PLAIN_FLOATS:
        return False
    for other in row[1:]:
        if isinstance(other, Tensor):
            if other.dtype is not dtype or other.device != device:
                return False
        elif isinstance(other, complex | bool):
            return False
    return True


def _reason_of_refusal(kernel: Kernel, row: Sequence[Any], options: dict[str, Any]) -> str:
    """The reason why torch refuses these dtypes in place, found by a call on tensors without elements."""
    probes = [x.new_zeros((0,) * (x.ndim > 0)) if isinstance(x, Tensor) else x for x in row]
    try:
        with torch.no_grad():
            publish(_write_steps(kernel, probes[:1], [[other] for other in probes[1:]], options))
    except RuntimeError as error:
        return f"of {row[0].dtype} can't take the result in place ({error}); use `{kernel.name}`"
    return ""


CLEAR = (torch.OutOfMemoryError, StructureError, UnsupportedOperationError)
"""Errors that no leaf has to explain."""


def _explain(
    self: Pointwise,
    kernel: Kernel,
    leaves: list[Tensor],
    rights: tuple[Right, ...],
    options: dict[str, Any],
    error: RuntimeError,
) -> None:
    """Raise an error that names the leaf on which torch failed; return if no single leaf fails."""
    columns = _columns(kernel, leaves, rights)
    for path, row in zip(self._layout(), zip(leaves, *columns, strict=True), strict=True):
        tensors = [x for x in row if isinstance(x, Tensor)]
        given = ", ".join(f"{list(x.shape)} of {x.dtype}" for x in tensors)
        try:
            kernel.function(*row, **options)
        except RuntimeError as cause:
            try:
                torch.broadcast_shapes(*[x.shape for x in tensors if not x.is_nested])
            except RuntimeError:
                text = f"{kernel.name}: the shapes at `{show(path)}` do not broadcast: {given}"
                raise StructureError(text) from error
            reason = reason_of_mixture(row[0], row[1:]) or f"(operands {given}): {cause}"
            raise UnsupportedOperationError(f"{kernel.name}: `{show(path)}` {reason}") from error


# ---- torch functions -------------------------------------------------------------------------------------------------


def torch_handlers() -> tuple[dict[Any, Function], dict[str, Function]]:
    """Handlers of torch functions, by function for builtins, else by name.

    They handle `torch.sin(batch)`, `torch.add(batch, 1)` and `tensor - batch`.
    """
    builtins: dict[Any, Function] = {}
    named: dict[str, Function] = {
        "pow": _handler(next(row for row in ROWS if row.name == "pow"))
    }  # a wrapper on Tensor
    for row in ROWS:
        for name in filter(None, (row.torch_name, *row.aliases, row.forward)):
            for function in {getattr(owner, name) for owner in (torch, Tensor) if hasattr(owner, name)}:
                if isinstance(function, FunctionType):
                    named[name] = _handler(row)
                else:
                    builtins[function] = _handler(row)
        # dynamo traces `batch - tensor` as `Tensor.__rsub__(tensor, batch)`
        if row.swapped or row.name == "sub":
            mirrored = [row.forward.replace("__", "__r", 1), *(["__rdiv__"] if row.name == "div" else [])]
            named.update({name: _operator_handler(row.forward) for name in mirrored})
    for item in UNSUPPORTED:
        found: Any = torch
        for part in item.name.split("."):
            found = getattr(found, part, None)
        if found is not None:
            builtins[found] = _refusal(item.name, item.instead)
    return builtins, named


def _operator_handler(forward: str) -> Function:
    return lambda tensor, batch: getattr(batch, forward)(tensor)


MIRRORED: Final = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le", "sub": "rsub", "rsub": "sub"}


def _handler(row: Row) -> Function:
    def handle(input: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(input, TensorCollection):
            return operation(input, row.name)(input, *args, **kwargs)
        other = args[0] if args else kwargs.pop("other", None)
        if row.arity != 1 or not isinstance(other, TensorCollection) or (kwargs and row.name not in ("sub", "rsub")):
            raise UnsupportedOperationError(
                f"torch.{row.torch_name}: the first argument is the container, got {type(input).__name__}"
            )
        if row.name in REFLECTED:
            return dunder(other, input, REFLECTED[row.name])  # type: ignore[type-var]  # containers have them
        return operation(other, MIRRORED.get(row.name, row.name))(other, input, *args[1:], **kwargs)

    return handle


def _refusal(name: str, instead: str) -> Function:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise UnsupportedOperationError(f"torch.{name} is not defined on containers: {instead}")

    return refuse


def register_torch_functions() -> None:
    """Fill the tables that `__torch_function__` reads."""
    builtins, named = torch_handlers()
    TensorCollection._torch_functions.update(builtins)
    Pointwise._operators.update(named)


register_torch_functions()
