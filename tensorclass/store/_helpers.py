"""Small functions over containers: groups, duplicates, merging, broadcasting to the right, comparison in tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

import torch
from torch import Tensor

from .._flags import flags
from ..core import Key, Path, TensorCollection, join_path, over_events, store_of, unravel_key_to_tuple
from ..errors import ArgumentError, BatchDimError, BatchSizeError, MissingKeyError, StructureError, did_you_mean
from ..ops._by_row import ranks
from ..ops._compare import is_object
from ..ops._join import JoinOps
from ..ops._objects import where_same
from ._dict import TensorDict

C = TypeVar("C", bound=TensorCollection)
DeviceType: TypeAlias = torch.device | str | int
"""The types that name a device."""
IndexType: TypeAlias = int | slice | str | Tensor | list | tuple | None  # type: ignore[type-arg]  # for `isinstance`
"""The types that index a container."""


def expand_right(tensor: Tensor, shape: Sequence[int]) -> Tensor:
    """Broadcast a tensor to a shape, new dims on the right.

    Args:
        tensor: its dims equal the leading dims of `shape`, or have size one.
        shape: the shape of the result.

    Raises:
        BatchSizeError: if the leading dims don't fit.

    >>> import torch
    >>> from tensorclass import expand_right
    >>> expand_right(torch.arange(3), (3, 2)).tolist()
    [[0, 0], [1, 1], [2, 2]]
    """
    head = tuple(shape)[: tensor.ndim]
    if len(head) < tensor.ndim or any(own not in (1, size) for own, size in zip(tensor.shape, head, strict=True)):
        raise BatchSizeError(
            f"expand_right: shape {list(tensor.shape)} does not lead {list(shape)}; dims are aligned from the first"
        )
    return over_events(tensor, len(shape) - tensor.ndim).expand(tuple(shape))


def expand_as_right(tensor: Any, dest: Any) -> Any:
    """Broadcast a tensor, or the batch of a container, to the shape of another, new dims on the right.

    >>> import torch
    >>> from tensorclass import expand_as_right
    >>> expand_as_right(torch.arange(3), torch.zeros(3, 2)).shape
    torch.Size([3, 2])
    """
    if isinstance(tensor, Tensor):
        return expand_right(tensor, dest.shape)
    expand_right(torch.empty(tensor.batch_size, device="meta"), dest.shape)
    for _ in range(len(dest.shape) - tensor.ndim):
        tensor = tensor.unsqueeze(-1)
    return tensor.expand(*dest.shape)


def group_by(tensordict: C, key: Key) -> tuple[Any, tuple[C, ...]]:
    """Group the rows of a container by the values of an entry.

    Args:
        tensordict: a container with a batch dim; its rows are along the first.
        key: a tensor, compared row by row, or Python objects that can be sorted.

    Returns:
        The sorted distinct values (a tensor, or a list of objects), and a container for each value.

    Raises:
        MissingKeyError: for an absent key.
        TypeError: for a container, or objects that can't be sorted.

    >>> import torch
    >>> from tensorclass import TensorDict, group_by
    >>> values, groups = group_by(TensorDict(uid=torch.tensor([2, 0, 2]), x=torch.arange(3), batch_size=[3]), "uid")
    >>> values, [group["x"].tolist() for group in groups]
    (tensor([0, 2]), [[1], [0, 2]])
    """
    source: Any = tensordict
    if not source.ndim:
        raise BatchDimError("group_by groups the rows along the first batch dim, and there is none")
    path = unravel_key_to_tuple(key)
    value = source._read(path)
    found, which, _ = ranks(source, path, "group_by")
    sizes = torch.bincount(which, minlength=len(found)).tolist()
    values = torch.tensor(found, dtype=value.dtype, device=value.device) if isinstance(value, Tensor) else found
    return values, source[which.argsort(stable=True)].split(sizes)


def merge_tensordicts(
    *tensordicts: Any, callback_exist: Callable[..., Any] | Mapping[Key, Callable[..., Any]] | None = None
) -> Any:
    """Merge containers: the first batch size, and the entries of all; for a common key, the first value wins.

    Args:
        *tensordicts: at least two containers.
        callback_exist: a function of the values of a tensor that all containers have; or such a function for each key.

    Raises:
        StructureError: for fewer than two arguments, and for anything but containers.

    >>> from tensorclass import TensorDict, merge_tensordicts
    >>> merged = merge_tensordicts(TensorDict(a=1, c=1), TensorDict(b=2, c=2), callback_exist=lambda x, y: x + y)
    >>> sorted(merged.keys()), merged["c"]
    (['a', 'b', 'c'], tensor(3))
    """
    if len(tensordicts) < 2 or not all(isinstance(item, TensorCollection) for item in tensordicts):
        kinds = [type(item).__name__ for item in tensordicts]
        raise StructureError(f"merge_tensordicts takes at least two containers, got {kinds}")
    result: Any = TensorDict(batch_size=tensordicts[0].batch_size, device=tensordicts[0].device)
    plain = [item.to_tensordict() if hasattr(item, "_store") else item for item in tensordicts]
    for item in (*plain, *plain[-2::-1]):  # forwards for the order of the keys, then back: the first value wins
        result.update(item)
    for path, combine in _callbacks(callback_exist, tensordicts).items():
        values = [item.get(path) for item in tensordicts]
        if all(isinstance(value, Tensor) for value in values):
            result.set(path, combine(*values))
    return result


def _callbacks(callback: Any, items: Sequence[Any]) -> dict[Path, Callable[..., Any]]:
    if callback is None:
        return {}
    if isinstance(callback, Mapping):
        return {unravel_key_to_tuple(key): combine for key, combine in callback.items()}
    return {unravel_key_to_tuple(key): callback for key in items[0].keys(True, True)}


def fromkeys(keys: Sequence[Key], value: Any = 0) -> TensorDict:
    """A TensorDict with one value under every key.

    >>> from tensorclass import fromkeys
    >>> fromkeys(["a", ("b", "c")], 1)["b", "c"]
    tensor(1)
    """
    return TensorDict.fromkeys(keys, value)


def _slices(source: Any, key: Key, dim: int, op: str) -> Tensor:
    """The entry with `dim` first and all other dims flattened."""
    path = unravel_key_to_tuple(key)
    value = source._read(path)
    if not isinstance(value, Tensor):
        raise MissingKeyError(f"{op}: `{join_path(path)}` is a {type(value).__name__}, not a tensor")
    at = source._dim(dim, op)
    return value.movedim(at, 0).flatten(1) if value.ndim > 1 else value[:, None]


def isin(input: TensorCollection, reference: TensorCollection, key: Key, dim: int = 0) -> Tensor:
    """Which elements along a batch dim have a value that also occurs in the reference.

    Args:
        input: the container to test.
        reference: the container to search, with as many batch dims.
        key: the tensor to compare, slice by slice.
        dim: the batch dim.

    Returns:
        Bool tensor [input.batch_size[dim]].

    >>> import torch
    >>> from tensorclass import TensorDict, isin
    >>> data = TensorDict(x=torch.tensor([[1, 2], [3, 4], [1, 2]]), batch_size=[3])
    >>> isin(data, data[:1], "x")
    tensor([ True, False,  True])
    """
    mine, theirs = _slices(input, key, dim, "isin"), _slices(reference, key, dim, "isin")
    if input.ndim != reference.ndim or mine.shape[1:] != theirs.shape[1:]:
        raise BatchSizeError(
            f"isin: slices of `{join_path(unravel_key_to_tuple(key))}` differ in size ({mine.shape[1]} and "
            f"{theirs.shape[1]} elements) or the containers in batch dims ({input.ndim} and {reference.ndim})"
        )
    _, which = torch.unique(torch.cat([mine, theirs]), dim=0, return_inverse=True)
    return torch.isin(which[: len(mine)], which[len(mine) :])


@flags
def remove_duplicates(input: TensorCollection, key: Key, dim: int = 0, *, return_indices: bool = False) -> Any:
    """Keep the first element for each value of an entry, sorted by that value.

    Args:
        input: the container.
        key: the tensor to compare, slice by slice.
        dim: the batch dim.
        return_indices: also return the position of each element's value in the result.

    >>> import torch
    >>> from tensorclass import TensorDict, remove_duplicates
    >>> data = TensorDict(x=torch.tensor([7, 1, 7, 3]), y=torch.arange(4), batch_size=[4])
    >>> remove_duplicates(data, "x")["y"]
    tensor([1, 3, 0])
    """
    source: Any = input
    found, which = torch.unique(_slices(source, key, dim, "remove_duplicates"), dim=0, return_inverse=True)
    places = torch.arange(len(which), device=which.device)
    first = places.new_full((len(found),), len(which)).scatter_reduce(0, which, places, "amin")
    at = source._dim(dim, "remove_duplicates")
    result = source[(slice(None),) * at + (first,)]
    return (result, which) if return_indices else result


@flags
def assert_close(
    actual: Any,
    expected: Any,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = True,
    intersection: bool = False,
    msg: str = "",
    prefix: Key = (),
) -> bool:
    """Assert that two containers have the same keys, close tensors and the same Python objects.

    Args:
        actual: the container to check.
        expected: the container with the expected values.
        rtol: relative tolerance; by default that of `torch.testing.assert_close` for the dtype.
        atol: absolute tolerance; same default.
        equal_nan: whether nan equals nan.
        intersection: compare only keys that both have.
        msg: a text that is appended to the message.
        prefix: a key prefix for the message.

    Raises:
        TypeError: for anything but containers.
        MissingKeyError: for keys that differ.
        AssertionError: for tensors, lengths of ragged entries and objects that differ; names the key.

    >>> import torch
    >>> from tensorclass import TensorDict, assert_close
    >>> assert_close(TensorDict(x=torch.zeros(3)), TensorDict(x=torch.full((3,), 0.01)), atol=0.1, rtol=0)
    True
    """
    if not isinstance(actual, TensorCollection) or not isinstance(expected, TensorCollection):
        kinds = f"{type(actual).__name__} and {type(expected).__name__}"
        raise ArgumentError(
            f"assert_close compares two containers, got {kinds}; torch.testing.assert_close takes tensors"
        )
    path = unravel_key_to_tuple(prefix) if prefix else ()
    options: Any = {"rtol": rtol, "atol": atol, "equal_nan": equal_nan}
    for position, (a, b) in enumerate(uneven_pairs(actual, expected)):
        assert_close(a, b, rtol, atol, equal_nan, intersection, msg, (*path, f"[{position}]"))
    if is_uneven(actual) or is_uneven(expected):
        return True
    mine, theirs = actual._entries(), expected._entries()
    odd = sorted(mine.keys() ^ theirs.keys())
    if odd and not intersection:
        near = did_you_mean(odd[0], theirs if odd[0] in mine else mine)
        raise MissingKeyError(f"assert_close: only one of the two has `{join_path((*path, odd[0]))}`{near}")
    for key in mine.keys() & theirs.keys():
        a, b, here = _tensor_of(mine[key]), _tensor_of(theirs[key]), (*path, key)
        if isinstance(a, TensorCollection) and isinstance(b, TensorCollection):
            assert_close(a, b, rtol, atol, equal_nan, intersection, msg, here)
        elif not (is_object(a) and is_object(b)):
            _require_close(a, b, join_path(here), msg, options)
        elif not bool(where_same(a, b, actual, expected).all()):
            tail = f"\n{msg}" if msg else ""
            raise AssertionError(f"`{join_path(here)}` does not match: {a!r:.60} and {b!r:.60}{tail}")
    return True


def _require_close(a: Any, b: Any, path: str, msg: str, options: dict[str, Any]) -> None:
    """Refuse two tensors or entry nodes that differ by more than the options of torch's `assert_close` say."""
    if type(a) is not type(b) and not (isinstance(a, Tensor) and isinstance(b, Tensor)):
        raise AssertionError(f"`{path}` is a {type(a).__name__} and a {type(b).__name__}")
    head, tail = f"`{path}` does not match: ", f"\n{msg}" if msg else ""

    def close(x: Tensor, y: Tensor) -> bool:
        torch.testing.assert_close(x, y, **options, msg=lambda text: f"{head}{text}{tail}")
        return True

    if not (close(a, b) if isinstance(a, Tensor) else a._same_node(b, close)):
        raise AssertionError(f"{head}the lengths of the elements or the dtypes differ{tail}")


def is_uneven(collection: Any) -> bool:
    """Whether a container is a lazy stack whose members differ in keys, shapes or sizes, so that it can't be dense."""
    if not collection._stacked:
        return False
    try:
        collection._solid()
    except (StructureError, BatchSizeError):
        return True
    return False


def uneven_pairs(actual: Any, expected: Any) -> list[tuple[Any, Any]]:
    """The elements of two containers along the stack dim, if one of them can't be dense; else no pairs.

    Raises:
        AssertionError: if one has more elements.
    """
    stack = next((store_of(each) for each in (actual, expected) if is_uneven(each)), None)
    if stack is None:
        return []
    sizes, at = [list(each._batch_size) for each in (actual, expected)], stack.stack_dim
    if len(sizes[0]) != len(sizes[1]) or sizes[0][at] != sizes[1][at]:
        raise AssertionError(f"the batch sizes {sizes[0]} and {sizes[1]} differ")
    return list(zip(JoinOps.unbind(actual, at), JoinOps.unbind(expected, at), strict=True))


def _tensor_of(value: Any) -> Any:
    return getattr(value, "tensor", value) if not isinstance(value, (Tensor, TensorCollection)) else value


assert_allclose_td = assert_close
