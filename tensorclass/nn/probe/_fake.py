"""Fake tensors: shapes and dtypes without values. Only this file uses torch's private API for them.

Creating the first `FakeTensorMode` imports further parts of torch for a second, so nothing here runs at import. If a
torch release has moved it, `Unavailable` is raised, and only the declarations are checked.
"""

from __future__ import annotations

import importlib
import logging
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributions import Distribution
from torch.utils._python_dispatch import TorchDispatchMode

from ..._deferred import is_dtensor
from ._quiet import Assuming

_PRIVATE = "torch._subclasses.fake_tensor"
_COMPILER = "torch._dynamo"
logger = logging.getLogger("tensorclass")

# torch compares the dtypes of these operands only in its kernels, which fake tensors don't run.
SAME = (
    "mm", "addmm", "bmm", "baddbmm", "addbmm", "mv", "addmv", "addr", "dot", "vdot", "convolution", "_trilinear",
    "_addmm_activation",
)  # fmt: skip
_NORMS = ("batch_norm", "layer_norm", "group_norm")
_FLOATING = (
    "_softmax", "_log_softmax", "_safe_softmax", "gelu", "silu", "mish", "elu", "leaky_relu", "hardswish",
    "hardsigmoid", "hardtanh", "softplus", "rrelu", "softshrink", "hardshrink", "avg_pool2d", "avg_pool3d",
    "_adaptive_avg_pool2d", "_adaptive_avg_pool3d", "grid_sampler_2d", "upsample_nearest1d", "upsample_nearest2d",
    "upsample_linear1d", "upsample_bilinear2d", "upsample_bicubic2d",
)  # fmt: skip
_BLIND = (
    ".numpy() is not supported", "data pointer", "FakeTensor", "fake tensor", "'Meta' backend", "meta tensor",
    "data-dependent", "symbolic", "torch.ops.load_library", "functorch transforms don't yet support",
)  # fmt: skip


class Unavailable(Exception):
    """Raised if this version of torch has no fake tensors at the expected place."""


class _Here(threading.local):
    """Whether fake tensors are active in this thread."""

    running = False


_HERE = _Here()


def _is_wanted(record: logging.LogRecord) -> bool:
    """A log filter that drops messages about unsupported operations on our fake tensors; the probe handles these."""
    return not _HERE.running


def _private() -> Any:
    """Torch's module of fake tensors, and its compiler, which the first fake operation imports.

    That import permanently disables validation of distributions in the process; this function restores the setting.
    """
    if _COMPILER not in sys.modules:
        before, start = Distribution._validate_args, time.perf_counter()
        importlib.import_module(_COMPILER)
        Distribution.set_default_validate_args(before)
        seconds = time.perf_counter() - start
        logger.info(
            "the first probe of the process imported %s in %.1f s; `probe=False` does without", _COMPILER, seconds
        )
    module = importlib.import_module(_PRIVATE)
    logging.getLogger(_PRIVATE).addFilter(_is_wanted)
    return module


class FakeTensors:
    """Makes fake tensors, and fake copies of real tensors; one instance for one build.

    Raises:
        Unavailable: if torch's private API has changed.
    """

    real = False

    def __init__(self) -> None:
        try:
            self._private: Any = _private()
            self._mode: Any = self._private.FakeTensorMode(allow_non_fake_inputs=True)
        except (ImportError, AttributeError, TypeError) as error:
            raise Unavailable(str(error)) from error
        self.kind: Any = self._private.FakeTensor
        self._fakes: dict[int, tuple[Tensor, Tensor]] = {}
        self._guard = Guard(self)
        self._few_steps = FewSteps()
        self.steps = 0
        """The number of operations so far."""

    def close(self) -> None:
        """Drop the references to real tensors."""
        self._fakes.clear()
        self._few_steps.forget()

    def tensor(self, shape: Sequence[int], dtype: torch.dtype, device: torch.device) -> Tensor:
        """A fake tensor of a shape."""
        with self._mode:
            return torch.empty(tuple(shape), dtype=dtype, device=device)

    def copy(self, tensor: Any) -> Tensor:
        """The fake copy of a real tensor, which is cached; a fake tensor is returned unchanged."""
        if isinstance(tensor, self.kind):
            return tensor  # type: ignore[no-any-return]  # of a private class
        known = self._fakes.get(id(tensor))
        if known is None:
            known = self._fakes[id(tensor)] = (tensor, self._twin(tensor))
        return known[1]

    def _twin(self, tensor: Tensor) -> Tensor:
        """A fake tensor of the shape, dtype and device of a real one."""
        whole = is_dtensor(tensor)  # a check sees the whole of a tensor whose pieces are on several ranks
        if (
            (type(tensor) not in (Tensor, nn.Parameter) and not whole)
            or tensor.layout != torch.strided
            or tensor.is_quantized
        ):
            fake: Tensor = self._mode.from_tensor(tensor)
            return fake
        # Made from the shape: a copy by torch may keep small values as a "constant", and write to the real tensor.
        empty = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")
        fake = self.kind(self._mode, empty, tensor.device).requires_grad_(tensor.requires_grad)
        if isinstance(tensor, nn.Parameter):
            fake._is_param = True  # as `nn.Parameter` does, but that would run an operation
        return fake

    @contextmanager
    def running(self) -> Iterator[None]:
        """A block in which operations make fake tensors, and operands are compared as in real kernels."""
        _HERE.running = True
        try:
            self._few_steps.forget()
            with self._mode, self._guard, self._few_steps:
                yield
        finally:
            _HERE.running = False

    @property
    def crossed(self) -> Mapping[int, str]:
        """As of real tensors."""
        return self._few_steps.crossed

    def is_blind(self, error: BaseException) -> bool:
        """Whether an error means that values were needed, not that the module is wrong."""
        if isinstance(error, Warning):
            return True  # a warning that is an error, here as in a real call
        kinds = ("DataDependentOutputException", "DynamicOutputShapeException", "UnsupportedFakeTensorException")
        private = tuple(getattr(self._private, name, Unavailable) for name in kinds)
        found: BaseException | None = error
        while found is not None:
            if isinstance(found, AttributeError) and not hasattr(Tensor, str(found.name)):
                return False  # real tensors lack it too
            if isinstance(found, private) or any(text in str(found) for text in _BLIND):
                return True
            found = found.__cause__ or found.__context__
        return False


_DEVICE = torch.ops.prim.device.default
_VIEW = torch.ops.aten.view.default
"""Replaces `_unsafe_view`, which fake tensors don't cache, so that it takes four times as long."""


class Guard(TorchDispatchMode):
    """The dispatch mode that runs before fake tensors."""

    supports_higher_order_operators = True

    def __init__(self, fakes: FakeTensors) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # of torch
        self.fakes = fakes

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is _DEVICE and isinstance(args[0], self.fakes.kind):
            return args[0].fake_device  # read at each step; no operation needed
        name = getattr(getattr(func, "overloadpacket", None), "__name__", "")
        if name and name != "lift_fresh":
            compare_operands(name, args)
            args = tuple(self._replace_globals(arg) for arg in args)
            kwargs = {key: self._replace_globals(value) for key, value in (kwargs or {}).items()}
        self.fakes.steps += 1
        return (_VIEW if name == "_unsafe_view" else func)(*args, **(kwargs or {}))

    def _replace_globals(self, value: Any) -> Any:
        """Replace real tensors that a callable reaches outside its copy, such as globals."""
        if isinstance(value, Tensor):
            return self.fakes.copy(value)
        return [self._replace_globals(item) for item in value] if type(value) is list else value


class FewSteps(Assuming):
    """Runs recurrent layers over two steps only, since each step takes a millisecond of Python."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        # Nine arguments that end with `batch_first`; a packed sequence has others.
        if name not in ("gru", "lstm", "rnn_tanh", "rnn_relu") or len(args) != 9 or type(args[-1]) is not bool:
            return super().__torch_function__(func, types, args, kwargs)
        x, time = args[0], int(args[-1])
        steps = x.shape[time] if x.ndim == 3 else 0
        if steps < 3:
            return func(*args)
        output, *state = func(x.narrow(time, 0, 2), *args[1:])
        shape = [steps if dim == time else size for dim, size in enumerate(output.shape)]
        return output.narrow(time, 0, 1).expand(shape), *state


def compare_operands(name: str, args: Sequence[Any]) -> None:
    """Raise the error of a real kernel for operands of wrong dtypes.

    Raises:
        RuntimeError: for dtypes that the operation doesn't accept.
    """
    dtypes = [arg.dtype for arg in args if isinstance(arg, Tensor)]
    if not dtypes:
        return
    if name in SAME and len(set(dtypes)) > 1:
        raise RuntimeError(f"expected operands of one dtype, got {_names(dtypes)} ({name})")
    if any(norm in name for norm in _NORMS) and "backward" not in name:
        mixed = dtypes[0] in (torch.float16, torch.bfloat16)
        if not dtypes[0].is_floating_point or (not mixed and len(set(dtypes)) > 1):
            raise RuntimeError(f"expected floating point operands of one dtype, got {_names(dtypes)} ({name})")
    if name in _FLOATING and not (dtypes[0].is_floating_point or dtypes[0].is_complex):
        raise RuntimeError(f'"{name}" not implemented for {_names(dtypes[:1])}')
    if name in ("sub", "rsub", "neg") and torch.bool in dtypes:
        raise RuntimeError(f"`-` is not supported for bool; `~` inverts a mask ({name})")
    if name == "relu" and dtypes[0] == torch.bool:
        raise RuntimeError("relu is not implemented for bool")
    if name == "nll_loss_forward" and dtypes[1] not in (torch.int64, torch.uint8):
        raise RuntimeError(f"expected int64 targets, got {_names(dtypes[1:2])}")


def _names(dtypes: Sequence[torch.dtype]) -> str:
    return " and ".join(dict.fromkeys(str(dtype).removeprefix("torch.") for dtype in dtypes))
