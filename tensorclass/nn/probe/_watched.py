"""Real tensors for runs that must show what fake ones show: a run that uses values, or takes long, is stopped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import prod
from typing import Any

import torch
from torch import Tensor

from ..parts._seeded import Seeded
from ._fake import work_of
from ._quiet import Assuming
from ._run import RealTensors

LIGHT = 1 << 27
"""Multiplications of one sweep below which real runs are faster than fake ones; all sweeps may take twice as many."""
_MOST = 1 << 20
"""Numbers in one input."""
_TAGS = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}
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
        if getattr(func, "__name__", "") in _READERS:
            self._watch.stop()
        return super().__torch_function__(func, types, args, kwargs)


class Watch(Seeded):
    """Counts the work of operations. It stops a run if a result or its shape follows values, or at a limit of work."""

    def __init__(self, generator: torch.Generator) -> None:
        super().__init__(generator)
        self.work = 0
        self.stopped = False

    def stop(self) -> None:
        """End this run; `stopped` tells of it, since the callable may catch the exception."""
        self.stopped = True
        raise Stopped

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        if _TAGS.isdisjoint(func.tags) or (name == "index" and not _is_masked(args[1])):
            self.work += work_of(name, args)
            if self.work < 2 * LIGHT:
                made = super().__torch_dispatch__(func, types, args, kwargs)
                self.work += made.numel() if isinstance(made, Tensor) else 0
                return made
        return self.stop()


def _is_masked(places: Sequence[Tensor | None]) -> bool:
    return any(place is not None and place.dtype in _MASKS for place in places)


class Watched(RealTensors):
    """Real tensors for the runs of a build that needs no fake ones."""

    def __init__(self, device: torch.device) -> None:
        super().__init__(device)
        self._drawing: Watch = Watch(self._drawing.generator)

    @property
    def stopped(self) -> bool:
        """Whether only fake tensors can judge one of the runs."""
        return self._drawing.stopped

    def tensor(self, shape: Sequence[int], dtype: torch.dtype, device: torch.device) -> Tensor:
        """A real tensor of a shape."""
        if prod(shape) > _MOST:
            self._drawing.stop()
        return super().tensor(shape, dtype, device)

    @contextmanager
    def running(self) -> Iterator[None]:
        """A block in which operations draw from a separate generator, and are watched."""
        with _Functions(self._drawing), super().running():
            yield
