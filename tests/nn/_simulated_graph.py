"""A CUDA graph on the CPU: the operations of a recording, run again on the memory that they were recorded with."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from tensorclass.nn import CudaGraphModule


class Tape(TorchDispatchMode):
    """Takes down every operation, and undoes at the end what it wrote, since a capture runs no kernel."""

    def __init__(self) -> None:
        super().__init__()
        self.operations: list[tuple[Any, Any, Any, Any]] = []
        self.before: dict[int, tuple[Tensor, Tensor]] = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func._schema.is_mutable:
            for tensor in tree_leaves((args, kwargs)):
                if isinstance(tensor, Tensor):
                    self.before.setdefault(tensor.data_ptr(), (tensor, tensor.clone()))
        result = func(*args, **(kwargs or {}))
        self.operations.append((func, args, kwargs or {}, result))
        return result

    def undo(self) -> None:
        """Put back what was there."""
        with torch.no_grad():
            for tensor, value in self.before.values():
                tensor.data.copy_(value)

    def replay(self) -> None:
        """Run the operations again; results land in the recorded tensors."""
        with torch.no_grad():
            for func, args, kwargs, result in self.operations:
                again = tree_leaves(func(*args, **kwargs))
                for old, new in zip(tree_leaves(result), again, strict=True):
                    if isinstance(old, Tensor) and old.data_ptr() != new.data_ptr():
                        old.data.copy_(new)


class SimulatedGraphModule(CudaGraphModule):
    """`CudaGraphModule` as on a GPU, with tapes for graphs."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "CudaGraphModule: there is no CUDA device")
            super().__init__(*args, **kwargs)
        self._device = torch.device("cpu")

    def _run_on_side_stream(self, run: Callable[[], Any]) -> Any:
        return run()

    def _capture(self, run: Callable[[], Any]) -> tuple[Callable[[], None], Any]:
        with Tape() as tape:
            result = run()
        tape.undo()
        return tape.replay, result
