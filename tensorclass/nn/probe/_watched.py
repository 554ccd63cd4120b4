"""Real tensors for runs that must show what fake ones show: a run that uses values, or takes long, is stopped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

import torch
from torch import Tensor

from ..parts._seeded import Seeded
from ._fake import SAME
from ._quiet import Assuming
from ._run import RealTensors

_LIGHT, _STEP = 1 << 27, 1 << 22
"""Multiplications, and those for each operation, below which real runs are faster than fake ones."""
_MOST = 1 << 20
"""Numbers in one input."""
_TAGS = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}
_DRAWS = torch.Tag.nondeterministic_seeded
_READERS = ("numpy", "tolist", "data_ptr", "storage", "untyped_storage", "__array__", "__dlpack__")
"""Methods that return values without an operation that a dispatch mode sees."""
_MASKS = (torch.bool, torch.uint8)


class Stopped(Exception):
    """Raised in a run that only fake tensors can judge."""


class _Functions(Assuming):
    """Stops a run that takes values out of a tensor."""

    def __init__(self, watch: Watch) -> None:
        super().__init__()
        self._watch = watch

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__name__", "") in _READERS and not self._watch.is_constant(args):
            self._watch.stop()
        return super().__torch_function__(func, types, args, kwargs)


class Watch(Seeded):
    """Stops a run if a result or its shape follows values, or if it takes long.

    Values that are computed from numbers in the code may be read: they are the same for every batch.
    """

    def __init__(self, generator: torch.Generator) -> None:
        super().__init__(generator)
        self.work = 0
        self.stopped = False
        self._constants: dict[int, Any] = {}
        """The storages of tensors that depend on neither inputs nor parameters; kept, so that no id is used again."""

    def stop(self) -> None:
        """End this run; `stopped` tells of it, since the callable may catch the exception."""
        self.stopped = True
        raise Stopped

    def is_constant(self, values: Any) -> bool:
        """Whether all tensors among some arguments are constants."""
        return all(key in self._constants for key, _ in _storages(values))

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        given = (*args, *(kwargs or {}).values())
        constant = name == "lift_fresh" or (self.is_constant(given) and _DRAWS not in func.tags)
        masked = name != "index" or any(place is not None and place.dtype in _MASKS for place in args[1])
        self.work += _work(name, args) - _STEP
        if self.work > _LIGHT or (masked and not constant and not _TAGS.isdisjoint(func.tags)):
            self.stop()
        made = super().__torch_dispatch__(func, types, args, kwargs)
        self.work += made.numel() if isinstance(made, Tensor) else 0
        if constant:
            self._constants.update(_storages((made,)))
        elif func._schema.is_mutable:  # a constant that is written to is none from now on
            for key, _ in _storages(given):
                self._constants.pop(key, None)
        return made


def _storages(values: Sequence[Any]) -> Iterator[tuple[int, Any]]:
    """The storages of the tensors among some values, by address; views share them."""
    for value in values:
        if isinstance(value, Tensor):
            storage = value.untyped_storage() if value.layout == torch.strided else None
            yield (0, None) if storage is None else (storage._cdata, storage)
        elif isinstance(value, (tuple, list)):
            yield from _storages(value)


def _work(name: str, args: Any) -> int:
    """The multiplications of a product, from its operands; 0 for other operations."""
    operands = [arg for arg in args if isinstance(arg, Tensor)]
    if name == "convolution":
        x, weight = operands[:2]
        return x.numel() // max(x.shape[1], 1) * weight.numel() // (1 if args[6] else prod(args[3]))
    if name not in SAME or operands[-1].ndim < 2:
        return 0
    return operands[-2].numel() * operands[-1].shape[-1]


class Watched(RealTensors):
    """Real tensors for the runs of a build that needs no fake ones."""

    def __init__(self, device: torch.device) -> None:
        super().__init__(device)
        self._drawing = self.watch = Watch(self._drawing.generator)
        self._assuming = _Functions(self.watch)

    def tensor(self, shape: Sequence[int], dtype: torch.dtype, device: torch.device) -> Tensor:
        """A real tensor of a shape."""
        if prod(shape) > _MOST:
            self.watch.stop()
        return super().tensor(shape, dtype, device)
