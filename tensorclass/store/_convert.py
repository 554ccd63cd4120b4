"""The conversions as functions: they make untyped containers; typed classes have the class methods instead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .._flags import flags
from ..core import TensorCollection
from ..core._device import Device
from ..errors import ArgumentError
from ._dict import TensorDict


def is_tensor_collection(datatype: object) -> bool:
    """Whether an object or a class is a container, typed or not.

    Args:
        datatype: the object or class.

    >>> from tensorclass import TensorDict, is_tensor_collection
    >>> is_tensor_collection(TensorDict), is_tensor_collection({"a": 0})
    (True, False)
    """
    return issubclass(datatype if isinstance(datatype, type) else type(datatype), TensorCollection)


@flags
def from_any(
    obj: Any, *, auto_batch_size: bool = False, batch_dims: int | None = None, device: Device = None,
    batch_size: Sequence[int] | int | None = None,
) -> Any:  # fmt: skip
    """A TensorDict from whatever nests; see `TensorDict.from_any`.

    >>> import torch
    >>> from tensorclass import from_any
    >>> sorted(from_any({"obs": torch.zeros(3), "pair": (torch.zeros(3), 1)})["pair"].keys())
    ['0', '1']
    """
    options: Any = {"auto_batch_size": auto_batch_size, "batch_dims": batch_dims, "batch_size": batch_size}
    return TensorDict.from_any(obj, device=device, **options)


@flags
def from_dict(
    d: Mapping[Any, Any] | TensorCollection, *, auto_batch_size: bool | None = None, batch_dims: int | None = None,
    device: Device = None, batch_size: Sequence[int] | int | None = None, names: Sequence[str | None] | None = None,
) -> TensorDict:  # fmt: skip
    """A TensorDict from a dict; see `TensorDict.from_dict`.

    >>> import torch
    >>> from tensorclass import from_dict
    >>> from_dict({"a": torch.zeros(3, 4)}, batch_size=[3], names=["n"]).names
    ['n']
    """
    options: Any = {"auto_batch_size": auto_batch_size, "batch_dims": batch_dims, "batch_size": batch_size}
    return TensorDict.from_dict(d, device=device, names=names, **options)


@flags
def from_namedtuple(
    named_tuple: Any, *, auto_batch_size: bool = False, batch_dims: int | None = None, device: Device = None,
    batch_size: Sequence[int] | int | None = None,
) -> TensorDict:  # fmt: skip
    """A TensorDict from a named tuple; see `TensorDict.from_namedtuple`.

    >>> import torch
    >>> from tensorclass import from_namedtuple
    >>> from_namedtuple(torch.tensor([[2, 0, 1]]).max(dim=1))["values"]
    tensor([2])
    """
    options: Any = {"auto_batch_size": auto_batch_size, "batch_dims": batch_dims, "batch_size": batch_size}
    return TensorDict.from_namedtuple(named_tuple, device=device, **options)


@flags
def from_tuple(
    obj: Sequence[Any], *, auto_batch_size: bool = False, batch_dims: int | None = None, device: Device = None,
    batch_size: Sequence[int] | int | None = None,
) -> TensorDict:  # fmt: skip
    """A TensorDict from a tuple; see `TensorDict.from_tuple`.

    >>> import torch
    >>> from tensorclass import from_tuple
    >>> list(from_tuple((torch.zeros(3), torch.ones(3))).keys())
    ['0', '1']
    """
    options: Any = {"auto_batch_size": auto_batch_size, "batch_dims": batch_dims, "batch_size": batch_size}
    return TensorDict.from_tuple(obj, device=device, **options)


@flags
def from_struct_array(
    struct_array: Any, *, auto_batch_size: bool = False, batch_dims: int | None = None, device: Device = None,
    batch_size: Sequence[int] | int | None = None,
) -> TensorDict:  # fmt: skip
    """A TensorDict from a structured numpy array; see `TensorDict.from_struct_array`.

    >>> import numpy as np
    >>> from tensorclass import from_struct_array
    >>> from_struct_array(np.array([(9, 81.0)], dtype=[("age", "i4"), ("weight", "f4")]))["weight"]
    tensor([81.])
    """
    options: Any = {"auto_batch_size": auto_batch_size, "batch_dims": batch_dims, "batch_size": batch_size}
    return TensorDict.from_struct_array(struct_array, device=device, **options)


@flags
def from_pytree(
    pytree: Any, *, batch_size: Sequence[int] | int | None = None, auto_batch_size: bool = False,
    batch_dims: int | None = None,
) -> Any:  # fmt: skip
    """A TensorDict from nested dicts, lists and tuples; see `TensorDict.from_pytree`.

    >>> import torch
    >>> from tensorclass import from_pytree
    >>> type(from_pytree({"a": (torch.zeros(2),)}).to_pytree()["a"]).__name__
    'tuple'
    """
    options: Any = {"auto_batch_size": auto_batch_size, "batch_dims": batch_dims}
    return TensorDict.from_pytree(pytree, batch_size=batch_size, **options)


@flags
def make_tensordict(
    input_dict: Mapping[Any, Any] | TensorCollection | None = None, batch_size: Sequence[int] | int | None = None,
    device: Device = None, auto_batch_size: bool | None = None, **kwargs: Any,
) -> TensorDict:  # fmt: skip
    """A TensorDict from a dict and keyword arguments together.

    Args:
        input_dict: entries.
        batch_size: the leading dims that all entries share.
        device: where the result lives.
        auto_batch_size: find the batch size.
        **kwargs: more entries.

    Raises:
        TypeError: for an entry that is given twice.

    >>> import torch
    >>> from tensorclass import make_tensordict
    >>> make_tensordict(a=torch.zeros(3, 4), b=torch.zeros(3), auto_batch_size=True).batch_size
    torch.Size([3])
    """
    given: Any = {} if input_dict is None else input_dict
    if kwargs:
        entries = dict(given._entries() if isinstance(given, TensorCollection) else given)
        twice = sorted(entries.keys() & kwargs.keys())
        if twice:
            raise ArgumentError(f"make_tensordict got the entry `{twice[0]}` twice: in the mapping and as a keyword")
        given = {**entries, **kwargs}
    return TensorDict.from_dict(given, batch_size=batch_size, device=device, auto_batch_size=auto_batch_size)
