"""Objects as they are sent to another process: their tensors as one block of memory, and a pickle of the rest."""

from __future__ import annotations

import io
import pickle
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..errors import ArgumentError, TensorClassError
from ..ops._one_block import Shape, block_length, block_views

_NOT_COPIED = {getattr(torch, f"{sign}int{bits}", None) for sign in ("", "u") for bits in range(1, 8)}
"""dtypes that torch can't copy. It can't unpickle tensors of uint16 and others, so all that it copies is taken out."""


class Parcel(NamedTuple):
    """The parts of an object."""

    pickled: bytes
    shapes: list[Shape]
    tensors: list[Tensor]
    """The original tensors; empty for a receiver."""

    @property
    def size(self) -> int:
        """The bytes of the block."""
        return block_length(self.shapes) if self.shapes else 0

    def fill(self, block: Tensor) -> None:
        """Copy the tensors into a block: uint8 `[size]`."""
        with torch.no_grad():
            torch._foreach_copy_(block_views(block, self.shapes), self.tensors)  # pyright: ignore[reportPrivateImportUsage]  # torch offers it under this name only

    def block(self) -> Tensor:
        """A new block with the tensors."""
        found = torch.empty(self.size, dtype=torch.uint8, device="cpu")
        self.fill(found)
        return found

    def rebuilt(self, block: Tensor) -> Any:
        """The object, with tensors that are views of a block."""
        if not self.shapes:
            return pickle.loads(self.pickled)
        unpickler = _Rebuilding(io.BytesIO(self.pickled))
        unpickler.tensors = block_views(block, self.shapes)
        return unpickler.load()


class _Rebuilding(pickle.Unpickler):
    """Reads a pickle whose tensors are elsewhere. A method, because Python 3.13.0 lets no instance have its own."""

    tensors: list[Tensor]

    def persistent_load(self, pid: int) -> Tensor:
        """The tensor with this number."""
        return self.tensors[pid]


def take_apart(value: object, pickler: Any = pickle.Pickler) -> Parcel:
    """Split an object into tensors and the rest. Tensors that require grad arrive without their graph.

    Args:
        value: containers, tensors, modules, or any other picklable object.
        pickler: the class that pickles the rest.

    Raises:
        ArgumentError: for an object that can't be pickled.
    """
    buffer = io.BytesIO()
    taking: Any = _taking(pickler)(buffer, protocol=5)
    taking.found, taking.places = [], {}
    try:
        taking.dump(value)
    except TensorClassError:
        raise
    except Exception as error:  # whatever the classes of the objects raise
        raise ArgumentError(unpicklable(value, error)) from error
    once = dict[Shape, Shape]()  # pickle writes an object again, but not the same object
    shapes = [once.setdefault(shape, shape) for shape in [(tensor.dtype, tensor.shape) for tensor in taking.found]]
    return Parcel(buffer.getvalue(), shapes, taking.found)


@lru_cache(maxsize=4)
def _taking(pickler: Any) -> type[pickle.Pickler]:
    """A pickler that leaves tensors out and keeps them in a list."""

    class Taking(pickler):  # type: ignore[misc]  # the class is an argument
        found: list[Tensor]
        places: dict[int, int]

        def persistent_id(self, obj: Any) -> int | None:
            if type(obj) is not Tensor or obj.layout is not torch.strided or obj.is_nested or obj.is_quantized:
                return None
            if obj.dtype in _NOT_COPIED:
                return None
            place = self.places.setdefault(id(obj), len(self.found))
            if place == len(self.found):
                self.found.append(obj)
            return place

    return Taking


def unpicklable(value: object, error: BaseException) -> str:
    """The reason why an object can't be sent to another process."""
    value = getattr(value, "fn", value)  # the function of a job
    name = getattr(value, "__qualname__", type(value).__name__)
    return (
        f"`{name:.80}` can't be sent to another process ({type(error).__name__}: {error!s:.300}): define classes and "
        'functions at the top level of a module, or stay in this process with engine="threads"'
    )
