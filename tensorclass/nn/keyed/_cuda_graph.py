"""`CudaGraphModule`: records a function or a module as a CUDA graph, and replays it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils._pytree import TreeSpec, tree_flatten, tree_unflatten

from ..._flags import flags
from ...core import Turn, in_turn
from ...errors import ModuleError
from ..distributions._interaction import composite_lp_aggregate, interaction_type
from ..parts._dispatch import dispatch
from ..parts._keyed_base import DROPPED, Keys, as_keys
from ..parts._skipping import skip_existing, skip_mode

Run = Callable[[], Any]


@flags
class CudaGraphModule:
    """Record the kernels of a call once as a CUDA graph, and then replay them: one launch from the CPU instead of many.

    Use it if a call consists of many small kernels, and the CPU can't launch them fast enough. Call number `warmup` is
    recorded. Earlier calls run normally on a side stream, so that libraries initialize and allocators settle. Later
    calls copy their inputs over the recorded ones and launch the graph. Results are cloned out of the graph: the next
    call does not change them. Arguments and results may be tensors, typed batches, `TensorDict`s and pytrees of them. A
    module with `in_keys` is called with a container, or with tensors as under `dispatch`, and a container that it fills
    in place is filled here too. On a machine without CUDA nothing is recorded: a warning says so once, and calls go
    through.

    A replay repeats the recorded kernels; the Python code does not run. Every state that may select other kernels has
    its own recording: training or evaluation mode of each submodule, autocast, gradient mode, the interaction type and
    the other modes of this library. Branches on tensor values are not seen. Waiting for the device (`.item()`) is an
    error of CUDA. Create an optimizer whose step is recorded with `capturable=True`. The class does not derive from
    `nn.Module`: pass the parameters of the wrapped module to an optimizer.
    Threads may share it: their calls run in turns.

    Args:
        module: a function, a module, or a keyed or typed one. A result that requires grad is refused, since a replay
            has no autograd graph: run the backward pass inside, or call it under `torch.no_grad()`.
        warmup: the number of the call to record, from 1. For a compiled function, leave enough calls for the
            compilation.
        in_keys: for a function over a container, the keys that it reads; `[]` for all of them.
        out_keys: for a function over a container, the keys that it writes.
        device: the CUDA device to run on; by default the current one.

    Raises:
        ModuleError: (a `RuntimeError` and `ValueError`) for an input that requires grad; if a replay gets a tensor of
            another shape, dtype or device, another structure, or another constant than the recording.

    >>> import torch, warnings
    >>> from tensorclass.nn import CudaGraphModule
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")  # without CUDA it says that nothing is recorded
    ...     double = CudaGraphModule(lambda x: x * 2)
    >>> double(torch.ones(2, device="cuda" if torch.cuda.is_available() else "cpu")).tolist()
    [2.0, 2.0]
    """

    def __init__(
        self,
        module: Callable[..., Any],
        warmup: int = 2,
        in_keys: Any = None,
        out_keys: Any = None,
        device: torch.device | str | int | None = None,
    ) -> None:
        if not callable(module):
            raise ModuleError(f"CudaGraphModule takes a function or a module, got {type(module).__name__} {module!r}")
        if not isinstance(warmup, int) or warmup < 1:
            raise ModuleError(f"warmup is the number of the call that records, 1 or more; got {warmup!r}")
        self.module: Any = module
        self.warmup = warmup
        self.in_keys: Keys | None = _keys_of(module, "in_keys", in_keys)
        self.out_keys: Keys | None = _keys_of(module, "out_keys", out_keys)
        if self.in_keys is not None and self.out_keys is None:
            self.out_keys = []
        self._device = _device(device)
        self._stream: Any = None if self._device is None else torch.cuda.Stream(self._device)
        self._recordings: dict[Any, Recording | int] = {}
        self._turn = Turn()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run, record or replay."""
        if self.in_keys is not None:
            return self._keyed(*args, **kwargs)
        if self._device is None:
            _refuse_grad(tree_flatten((args, kwargs))[0])
            return self.module(*args, **kwargs)
        return self._run(args, kwargs)[0]

    @dispatch(auto_batch_size=False)
    def _keyed(self, tensordict: Any, *args: Any, tensordict_out: Any = None, **kwargs: Any) -> Any:
        """Run a keyed module by a recording; the results are written where the module would write them."""
        if self._device is None:
            _refuse_grad(tensordict._leaves())
            out = {} if tensordict_out is None else {"tensordict_out": tensordict_out}
            return self.module(tensordict, *args, **kwargs, **out)
        keys = self.in_keys if skip_existing() is False else None
        given = tensordict.select(*keys) if keys else tensordict.copy()
        result, same = self._run((given, *args), kwargs)
        if tensordict_out is not None:
            target = tensordict_out
        elif same:
            target = tensordict
        else:
            target = None
        return result if target is None else target.update(result)

    # ---- a graph -------------------------------------------------------------------------------------------------

    @in_turn
    def _run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, bool]:
        """The result, and whether it is the given container; then only its out keys are returned."""
        leaves, spec = tree_flatten((args, kwargs))
        _refuse_grad(leaves)
        key = self._conditions()
        found = self._recordings.get(key, 0)
        if isinstance(found, int):
            if found + 1 < self.warmup:
                self._recordings[key] = found + 1
                aside: tuple[Any, bool] = self._run_on_side_stream(lambda: self._called(args, kwargs))
                return aside
            found = self._recordings[key] = self._record(leaves, spec)
        return found.call(leaves, spec)

    def _conditions(self) -> Any:
        """The conditions that a recording depends on, besides its inputs."""
        parts: Any = self.module.modules() if isinstance(self.module, nn.Module) else ()
        cast = torch.is_autocast_enabled("cuda") and torch.get_autocast_dtype("cuda")
        training = tuple([part.training for part in parts])
        return interaction_type(), composite_lp_aggregate(), skip_mode(), cast, torch.is_grad_enabled(), training

    def _called(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, bool]:
        result = self.module(*args, **kwargs)
        same = self.in_keys is not None and bool(args) and result is args[0]
        if same and self.out_keys:
            result = result.select(*[key for key in self.out_keys if key != DROPPED])
        if any(leaf.requires_grad for leaf in tree_flatten(result)[0] if isinstance(leaf, Tensor)):
            raise ModuleError(
                "CudaGraphModule: a result requires grad, and a replay makes no autograd graph; detach what the "
                "function returns, or call it under torch.no_grad()"
            )
        return result, same

    def _run_on_side_stream(self, run: Run) -> Any:
        """Run on the side stream, synchronized with the current one."""
        current = torch.cuda.current_stream(self._device)
        self._stream.wait_stream(current)
        with torch.cuda.stream(self._stream):
            result = run()
        current.wait_stream(self._stream)
        return result

    def _record(self, leaves: list[Any], spec: TreeSpec) -> Recording:
        for leaf in leaves:
            if isinstance(leaf, Tensor) and leaf.device != self._device:
                raise ModuleError(
                    f"CudaGraphModule on {self._device}: got a tensor on {leaf.device}, whose values would be recorded "
                    "as constants; move the inputs to the device"
                )
        held = [leaf.clone() if isinstance(leaf, Tensor) else leaf for leaf in leaves]
        args, kwargs = tree_unflatten(held, spec)
        replay, (result, same) = self._capture(lambda: self._called(args, kwargs))
        results, result_spec = tree_flatten(result)
        return Recording(held, spec, results, result_spec, same, replay)

    def _capture(self, run: Run) -> tuple[Callable[[], None], Any]:
        """Record a run; returns a function that replays it, and the result, which each replay overwrites."""
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.device(self._device), torch.cuda.graph(graph, stream=self._stream):
            result = run()
        return graph.replay, result

    # ---- the module ----------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """The `state_dict` of the module; empty for a function."""
        found: dict[str, Any] = self.module.state_dict() if hasattr(self.module, "state_dict") else {}
        return found

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load into the module, in place, so that graphs see it; without effect for a function."""
        if hasattr(self.module, "load_state_dict"):
            self.module.load_state_dict(state_dict)

    def __repr__(self) -> str:
        inner = repr(self.module).replace("\n", "\n    ")
        rows = [f"module={inner}", f"warmup={self.warmup}", f"in_keys={self.in_keys}", f"out_keys={self.out_keys}"]
        return f"{type(self).__name__}(\n    " + ",\n    ".join(rows) + ")"


class Recording(NamedTuple):
    """A graph with the memory that it reads and writes."""

    held: list[Any]
    spec: TreeSpec
    results: list[Any]
    result_spec: TreeSpec
    same: bool
    replay: Callable[[], None]

    def call(self, leaves: list[Any], spec: TreeSpec) -> tuple[Any, bool]:
        """Replay with new values of the same shapes."""
        if spec != self.spec:
            raise ModuleError(
                f"CudaGraphModule: called with {spec.num_leaves} leaves in another structure than the recorded "
                f"{self.spec.num_leaves}: other keys, classes, batch dims or arguments{_ADVICE}"
            )
        pairs = list(zip(self.held, leaves, strict=True))
        for held, leaf in pairs:
            if _kind(held) != _kind(leaf):
                raise ModuleError(
                    f"CudaGraphModule: recorded with {_leaf_text(held)}, called with {_leaf_text(leaf)}{_ADVICE}"
                )
        tensors = [pair for pair in pairs if isinstance(pair[0], Tensor)]
        if tensors:
            torch._foreach_copy_([held for held, _ in tensors], [leaf for _, leaf in tensors])  # pyright: ignore[reportPrivateImportUsage]  # torch offers it under this name only
        self.replay()
        results = [leaf.clone() if isinstance(leaf, Tensor) else leaf for leaf in self.results]
        return tree_unflatten(results, self.result_spec), self.same


_ADVICE = "; a graph runs with one structure, one set of shapes and the same constants: make a CudaGraphModule for each"


def _kind(leaf: Any) -> Any:
    """The part of an argument that must not change between calls: a constant; all of a tensor but its values."""
    return (leaf.shape, leaf.dtype, leaf.device) if isinstance(leaf, Tensor) else leaf


def _leaf_text(leaf: Any) -> str:
    return f"{leaf.dtype} {list(leaf.shape)} on {leaf.device}" if isinstance(leaf, Tensor) else repr(leaf)


def _refuse_grad(leaves: Sequence[Any]) -> None:
    if any(leaf.requires_grad for leaf in leaves if isinstance(leaf, Tensor)):
        raise ModuleError(
            "CudaGraphModule: an input requires grad; a graph takes no part in autograd. Detach it, or let the "
            "function reach it as a constant, `def f(x, weight=weight)`"
        )


def _keys_of(module: Any, role: str, given: Any) -> Keys | None:
    """The keys of the module if it has them, else the given keys."""
    own = getattr(module, role, None)
    keys = None if given is None else as_keys(given, role)
    if own is not None and keys and keys != own:
        warnings.warn(f"CudaGraphModule: the module has its own {role}, {own}; {keys} has no effect", stacklevel=3)
    return keys if own is None else list(own)


def _device(device: torch.device | str | int | None) -> torch.device | None:
    """The device of the graphs; None without CUDA."""
    if not torch.cuda.is_available():
        warnings.warn(
            "CudaGraphModule: there is no CUDA device; every call runs the function as it is, nothing is recorded",
            stacklevel=3,
        )
        return None
    found = torch.device("cuda" if device is None else device)
    if found.type != "cuda":
        raise ModuleError(f"CudaGraphModule records on CUDA devices, got {found}")
    return torch.device("cuda", torch.cuda.current_device()) if found.index is None else found
