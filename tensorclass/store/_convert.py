"""Conversions as functions, which make untyped containers; typed classes have class methods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from .._flags import flags
from ..core import Device, TensorCollection
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


from_any: Final = TensorDict.from_any
from_namedtuple: Final = TensorDict.from_namedtuple
from_pytree: Final = TensorDict.from_pytree
from_struct_array: Final = TensorDict.from_struct_array
from_tuple: Final = TensorDict.from_tuple


@flags
def from_dict(
    d: Mapping[Any, Any] | TensorCollection,
    *,
    auto_batch_size: bool | None = None,
    batch_dims: int | None = None,
    device: Device = None,
    batch_size: Sequence[int] | int | None = None,
    names: Sequence[str | None] | None = None,
) -> TensorDict:
    """A TensorDict from a dict; see `TensorDict.from_dict`.

    >>> import torch
    >>> from tensorclass import from_dict
    >>> from_dict({"a": torch.zeros(3, 4)}, batch_size=[3], names=["n"]).names
    ['n']
    """
    options: Any = {"auto_batch_size": auto_batch_size, "batch_dims": batch_dims, "batch_size": batch_size}
    return TensorDict.from_dict(d, device=device, names=names, **options)


@flags
def make_tensordict(
    input_dict: Mapping[Any, Any] | TensorCollection | None = None,
    batch_size: Sequence[int] | int | None = None,
    device: Device = None,
    auto_batch_size: bool | None = None,
    **kwargs: Any,
) -> TensorDict:
    """A TensorDict from a dict and keyword arguments together.

    Args:
        input_dict: entries.
        batch_size: the leading dims that all entries share.
        device: the device of the result.
        auto_batch_size: use the longest leading shape that all entries share.
        **kwargs: further entries.

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
