"""Batch sizes in pytrees: how `torch.vmap`, `torch.func` and `tree_map` have changed the dims of a container's entries.

A flattened container is rebuilt around other children. The number of their batch dims follows from the original shapes
(`Seen`), and from the dim that vmap has removed or inserted. Entries that don't begin with the batch size are an error.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from types import FrameType
from typing import Any, Final, NamedTuple

import torch
import torch.utils._pytree as pytree
from torch import Tensor

from ..errors import UnsupportedOperationError
from ._base import BATCHED, VALUES, Names, TensorCollection
from ._entry import Entry, TensorEntry, has_lengths, is_shared

_functorch: Final[Any] = torch._C._functorch  # pyright: ignore[reportAttributeAccessIssue]  # torch's stubs leave it out
_VMAP: Final = (
    "_process_batched_inputs",
    "_unwrap_batched",
    "_chunked_vmap",
    "_flatten_chunks_output",
    "_concat_chunked_outputs",
)
"""The functions of torch, or their replacements, in which vmap flattens arguments and results."""
_BETWEEN: Final = (f"{__name__.partition('.')[0]}.", pytree.__name__)


DIRECTIONS: Final = "directions of torch.func.jacfwd"
"""The name of the batch dim over which `torch.func.jacfwd` maps, while it runs."""


class Placed(NamedTuple):
    """The memory layout of a tensor inside vmap, from which the dim that vmap inserts is found."""

    shape: list[int]
    stride: list[int]
    dim: int | None
    """The mapped dim in memory; None for a tensor that doesn't depend on it."""


class Outside:
    """Marks a container that was outside vmap when compiled code, whose sizes are symbols, flattened it.

    It is not compared when contexts are compared.
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return other is None or isinstance(other, Outside)

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return "..."


class Seen(Outside):
    """The state of a container when it was flattened.

    Attributes:
        jacobian: a function transform has put a dim of directions in front.
        container: the child whose dims tell the size is a container.
        level: the number of function transforms around.
        placed: where vmap has put its dim in that child; None outside of vmap.
    """

    __slots__ = ("batch_size", "container", "jacobian", "level", "ndim", "placed")

    def __init__(self, batch_size: torch.Size, sizer: Any, names: Names) -> None:
        self.jacobian = names is not None and names[0] is DIRECTIONS
        self.batch_size = batch_size[1:] if self.jacobian else batch_size
        self.ndim: int = sizer.ndim - self.jacobian
        self.container = type(sizer) is not Tensor and isinstance(sizer, TensorCollection)
        self.level: int = _functorch.maybe_current_level() or 0
        self.placed = _place_of(_leaf(sizer), self.level) if self.level else None


class Resized(NamedTuple):
    """The batch size and names of a container around other children."""

    batch_size: torch.Size
    names: Names
    added: int | None = None
    """The batch dim that vmap inserted."""
    typed: bool = True
    """Whether entries still fit the declaration of a class."""


OUTSIDE: Final = Outside()


def seen(batch_size: torch.Size, sizer: Any, names: Names) -> Seen | Outside | None:
    """A record of the batch dims."""
    if torch.compiler.is_compiling():
        return None if any([_functorch.is_batchedtensor(leaf) for leaf in tensors_of(sizer)]) else OUTSIDE
    return Seen(batch_size, sizer, names)


def resized(cls: type, values: Mapping[str, Any], sizer: Any, before: Seen, names: Names) -> Resized:
    """The new batch size of a container whose child `sizer` was recorded before."""
    shape, dims = sizer.shape, len(before.batch_size)
    names = names[1:] if before.jacobian and names is not None else names
    if (type(sizer) is not Tensor and isinstance(sizer, TensorCollection)) is not before.container:
        return _general(values, shape, before, names, True)
    if len(shape) == before.ndim:
        return Resized(shape[:dims], names)
    if len(shape) == before.ndim - 1 and _functorch.peek_interpreter_stack() is not None:
        leaves = [value if type(value) is Tensor else _leaf(value) for value in values.values()]
        mapped = [_mapped_dim(leaf, before.level) for leaf in leaves]
        dim = mapped[0]
        if dim is not None and dim < dims and mapped.count(dim) == len(mapped):  # the common case
            return Resized(shape[: dims - 1], names and (*names[:dim], *names[dim + 1 :]))
        if mapped.count(None) < len(mapped):
            return _size_inside_vmap(cls, values, dict(zip(values, mapped, strict=True)), before, shape, names)
    if len(shape) == before.ndim + 1 and before.placed is not None:
        leaf = _leaf(sizer)
        added = None if _mapped_dim(leaf, before.level - 1) is not None else _added_dim(leaf, before.placed)
        if added is not None:
            return _size_outside_vmap(cls, values, added, before, shape, names)
    return _general(values, shape, before, names, before.jacobian or (len(shape) > before.ndim and _in_jacobian()))


def following(value: Any, size: torch.Size, added: int) -> Any:
    """A ragged entry, with the batch dim that vmap inserted into the other entries."""
    [spans] = value._leaves(BATCHED)
    wide = spans.unsqueeze(added).expand(*size, *spans.shape[len(size) - 1 :])
    return value._make([wide], size, None, BATCHED)


def _general(values: Mapping[str, Any], shape: torch.Size, before: Seen, names: Names, behind: bool) -> Resized:
    """New leading dims are batch dims, if that fits all entries; new trailing dims (`behind`) are not."""
    front = shape[: max(0, len(shape) - before.ndim + len(before.batch_size))]
    for size in (before.batch_size, front) if behind else (front, before.batch_size):
        if not size or all([_begins(value, size) for value in values.values()]):
            return Resized(size, _fitting(names, size), None, not behind)
    return Resized(torch.Size([]), None, None, not behind)


def _size_inside_vmap(
    cls: type,
    values: Mapping[str, Any],
    mapped: Mapping[str, int | None],
    before: Seen,
    shape: torch.Size,
    names: Names,
) -> Resized:
    """Inside vmap: one batch dim less, the same for all entries that hold tensors."""
    size, found = before.batch_size, {key: dim for key, dim in mapped.items() if dim is not None}
    for key, dim in found.items():
        if dim >= len(size) and (size or _declares(cls, key)):
            raise UnsupportedOperationError(
                f"vmap: in_dims would map dim {dim} of `{key}` in a {cls.__name__}, which is not a batch dim: the "
                f"batch size is {list(size)}. {_choice(len(size))}; a negative dim counts from the end of each tensor"
            )
    left_out = (
        []
        if len(found) == len(mapped)
        else [key for key in mapped if key not in found and _leaf(values[key]) is not None]
    )
    if size and (left_out or len(set(found.values())) > 1):
        raise UnsupportedOperationError(
            f"vmap: in_dims maps other dims of `{(left_out or list(found))[-1]}` than of `{next(iter(found))}` in a "
            f"{cls.__name__} of batch size {list(size)}; give one dim for the whole container, and pass the rest "
            "as an argument of its own"
        )
    if not size:
        return Resized(size, names)
    dim = next(iter(found.values()))
    return Resized(shape[: len(size) - 1], names and (*names[:dim], *names[dim + 1 :]))


def _size_outside_vmap(
    cls: type, values: Mapping[str, Any], added: int, before: Seen, shape: torch.Size, names: Names
) -> Resized:
    """Outside vmap again: one batch dim more, the same for all entries."""
    dims = len(before.batch_size)
    size = shape[: dims + 1]
    if added <= dims and all([_begins(value, size, added) for value in values.values()]):
        if _in_directions():
            return Resized(size, (DIRECTIONS, *(names or (None,) * dims)), added)
        return Resized(size, names and (*names[:added], None, *names[added:]), added)
    if not dims and not any([_declares(cls, key) for key in values]):
        return Resized(before.batch_size, names)
    raise UnsupportedOperationError(
        f"vmap: out_dims puts the mapped dim behind the batch dims of a {cls.__name__}: inside of vmap its batch size "
        f"is {list(before.batch_size)}, so give out_dims from 0 to {dims}; a negative dim counts from the end of each "
        "tensor"
    )


def _choice(dims: int) -> str:
    if not dims:
        return "Give it batch dims, or map a tensor"
    return f"Give in_dims from 0 to {dims - 1}" if dims > 1 else "Give in_dims=0"


def _declares(cls: type, key: str) -> bool:
    """Whether a class declares the event dims of a field."""
    schema: Any = getattr(cls, "__tensorclass_schema__", None)
    return schema is not None and key in schema.fields and schema.fields[key].dims is not None


def _begins(value: Any, size: torch.Size, added: int | None = None) -> bool:
    """Whether the dims of an entry begin with a batch size; entries that vmap didn't map get the new dim later."""
    if type(value) is Tensor:
        return value.shape[: len(size)] == size
    shape = getattr(value, "shape", None)
    if not isinstance(shape, torch.Size) or is_shared(value):
        return True
    if added is not None and has_lengths(value):
        return True
    return shape[: len(size)] == size


def _fitting(names: Names, size: torch.Size) -> Names:
    return names if names is not None and len(names) == len(size) else None


# ---- what vmap does to tensors ---------------------------------------------------------------------------------------


def _leaf(value: Any) -> Tensor | None:
    """A tensor of an entry that has the batch dims."""
    if isinstance(value, TensorCollection):
        if value._stacked:
            leaves: Any = ()
        elif value._plain:
            leaves = list(value._live().values())
        else:
            leaves = value._leaves(BATCHED)
    else:
        leaves = value._leaves(BATCHED) if isinstance(value, Entry) else (value,)
    leaf = next(iter(leaves), None)
    return leaf if isinstance(leaf, Tensor) else None  # vmap puts ints into nodes


def _mapped_dim(leaf: Tensor | None, level: int) -> int | None:
    """The dim that a vmap inside `level` maps."""
    if leaf is None or _functorch.maybe_get_level(leaf) <= level:
        return None
    dim = _functorch.maybe_get_bdim(leaf)
    return dim if dim >= 0 else None  # negative for other wrappers


def _place_of(leaf: Tensor | None, level: int) -> Placed | None:
    if leaf is None or leaf.layout is not torch.strided or leaf.is_nested:
        return None
    dim = _mapped_dim(leaf, level - 1)
    inner = leaf if dim is None else _functorch.get_unwrapped(leaf)
    return Placed(list(inner.shape), list(inner.stride()), dim)


def _added_dim(leaf: Tensor | None, placed: Placed) -> int | None:
    """The position of the mapped dim: the first one that gives the tensor its memory layout."""
    if leaf is None or leaf.layout is not torch.strided:
        return None
    shape, stride, given, steps = list(placed.shape), list(placed.stride), list(leaf.shape), list(leaf.stride())
    new = None if placed.dim is None else (shape.pop(placed.dim), stride.pop(placed.dim))
    for at in range(len(given)):
        size, step = (given[at], 0) if new is None else new
        if given == [*shape[:at], size, *shape[at:]] and steps == [*stride[:at], step, *stride[at:]]:
            return at
    return None


# ---- callers ---------------------------------------------------------------------------------------------------------


def _calling_frame(most: int = sys.maxsize) -> FrameType:
    """The frame that called pytree's functions, if it is not further away than `most` frames."""
    frame = sys._getframe(1)
    while frame.f_back is not None and most and frame.f_globals.get("__name__", "").startswith(_BETWEEN):
        frame, most = frame.f_back, most - 1
    return frame


def _in_jacobian() -> bool:
    """Whether `torch.func` assembles a Jacobian: new dims are those of outputs and inputs, not batch dims."""
    frame = _calling_frame()
    if frame.f_globals.get("__name__") != "torch._functorch.eager_transforms":
        return False
    result = frame.f_code.co_name == "wrapper_fn" and "output_spec" in frame.f_locals
    return result or frame.f_code.co_name in ("<genexpr>", "<listcomp>")  # else it is a basis, over which vmap maps


def _in_directions() -> bool:
    """Whether vmap runs for `torch.func.jacfwd` itself, not for the differentiated function."""
    frame: FrameType | None = _calling_frame()
    while frame is not None and frame.f_code.co_name != "push_jvp":
        if frame.f_code.co_name == "wrapper_fn":
            return "push_jvp" in frame.f_locals
        frame = frame.f_back
    return False


class Aside:
    """An entry that vmap does not map: vmap gets a bool tensor with the batch dims instead.

    A tensor without batch dims is the same inside vmap. A ragged tensor can't be mapped, and gets the new dim when a
    function returns it.
    """

    __slots__ = ("key", "level", "node", "size")

    def __init__(self, key: str, node: Any, size: torch.Size) -> None:
        self.key, self.node, self.size = key, node, size
        self.level: int = _functorch.maybe_current_level() or 0


def set_aside(children: dict[str, Any], size: torch.Size) -> dict[str, Any]:
    """The children of a container; for vmap, entries with their own dims are replaced by `Aside`."""
    own = [key for key, value in children.items() if _has_own_dims(value)]
    if own and torch.compiler.is_compiling():
        refuse_compiled(children)
        return children
    if not own or not by_vmap():
        return children
    if _calling_frame().f_code.co_name == "_unwrap_batched":
        for key in own:
            _require_shared(key, children[key])
    return {key: Aside(key, value, size) if key in own else value for key, value in children.items()}


def refuse_compiled(children: Mapping[str, Any]) -> None:
    """Refuse entries with their own dims under vmap in compiled code, which can't detect vmap."""
    if _functorch.peek_interpreter_stack() is None:
        return
    own = [key for key, value in children.items() if _has_own_dims(value)]
    if own and any([_functorch.is_batchedtensor(leaf) for value in children.values() for leaf in tensors_of(value)]):
        raise UnsupportedOperationError(
            f"vmap: in compiled code `{own[0]}`, which does not have the batch dims of its container, would be mapped "
            "over its own dims; give vmap the container without it (`exclude`), or call vmap outside of `torch.compile`"
        )


def refuse_event_dims(cls: type, children: Mapping[str, Any], sizer: Any, event_ndim: int) -> None:
    """Refuse an event dim that vmap maps in compiled code, if the declaration of a class shows it."""
    schema: Any = getattr(cls, "__tensorclass_schema__", None)
    fields: Any = {} if schema is None else schema.fields
    for key, value in children.items():
        if type(value) is not Tensor or key not in fields or not _functorch.is_batchedtensor(value):
            continue
        texts = str(fields[key].dims or "...").split()
        after = [n + 1 for n, text in enumerate(texts) if text.startswith(("*", "..."))]
        ends = texts[after[-1] if after else 0 :]
        sizes = value.shape[max(0, value.ndim - len(ends)) :]
        lacks = len(sizes) < len(ends) or (value is sizer and value.ndim < event_ndim)
        if lacks or any([e.isdigit() and int(e) != n for e, n in zip(ends, sizes, strict=True)]):
            raise UnsupportedOperationError(
                f"vmap: in_dims would map a dim of `{key}` in a {cls.__name__} that is not a batch dim: inside its "
                f"event shape would be {list(sizes)}, declared '{' '.join(texts)}'. Give in_dims of a batch dim"
            )


def tensors_of(value: Any) -> list[Tensor]:
    if isinstance(value, Tensor):
        leaves = [value]
    elif isinstance(value, (TensorCollection, Entry)):
        leaves = value._leaves(VALUES)
    else:
        leaves = []
    return [leaf for leaf in leaves if isinstance(leaf, Tensor)]  # vmap puts ints into nodes


def in_transform() -> bool:
    """Whether `vmap`, `grad` or another transform of functorch is running."""
    return _functorch.peek_interpreter_stack() is not None


def by_vmap(most: int = sys.maxsize) -> bool:
    """Whether vmap flattens a container, or rebuilds results, at most so many frames up; unknown in compiled code."""
    return _calling_frame(most).f_code.co_name in _VMAP


def stand_in(size: torch.Size) -> Tensor:
    """A tensor for vmap if no tensor has the batch size; for results, one that it can insert a dim into."""
    made = torch.zeros((), dtype=torch.bool, device="cpu")
    if _calling_frame().f_code.co_name != "_unwrap_batched":
        return made.expand(size)
    count = _functorch.CVmapInterpreterPtr(_functorch.peek_interpreter_stack()).batchSize()
    level = _functorch.maybe_current_level()
    return _functorch._add_batch_dim(made.expand(count, *size), 0, level)  # type: ignore[no-any-return]  # a tensor


def _has_own_dims(value: Any) -> bool:
    if not isinstance(value, TensorEntry):
        return False
    return has_lengths(value) or getattr(value, "_batch_shape", ()) is None  # vmap puts ints into nodes: no shape then


def _require_shared(key: str, node: Any) -> None:
    """Refuse a tensor without batch dims that differs between mapped elements."""
    level = (_functorch.maybe_current_level() or 0) - 1
    if any([_mapped_dim(leaf, level) is not None for leaf in node._leaves(VALUES)]):
        raise UnsupportedOperationError(
            f"vmap: `{key}` has no batch dims and differs between the mapped elements, so that it can't be one tensor "
            "for all of them; put it under a field with batch dims"
        )


def _flatten_aside(entry: Aside) -> tuple[list[Any], Any]:
    return [stand_in(entry.size)], entry


def _unflatten_aside(children: Iterable[Any], entry: Any) -> Any:
    child = next(iter(children))
    if has_lengths(entry.node) and isinstance(child, Tensor) and _mapped_dim(child, entry.level) is not None:
        raise UnsupportedOperationError(
            f"vmap: `{entry.key}` has a length for each element, and vmap runs a function once for tensors of one "
            "shape; give it the padded tensor and the lengths, or leave the entry out with `exclude`"
        )
    return entry.node


pytree.register_pytree_node(Aside, _flatten_aside, _unflatten_aside, serialized_type_name="tensorclass.Aside")
