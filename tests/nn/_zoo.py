"""Callables of every kind, with what they read and write and what a probe of them finds."""

from __future__ import annotations

import copy
import functools
import random
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.distributions import Categorical, Independent, Normal
from torch.func import functional_call, vmap
from torch.nn.utils import parametrizations
from torch.utils.checkpoint import checkpoint

from tensorclass import TensorClass
from tensorclass.nn import TensorClassModule, TensorClassSequential
from tensorclass.typing import Bool, Float, Float32, Int64

FAMILIES = {"f": Float32, "i": Int64, "b": Bool, "F": Float}


def _class(name: str, specs: Sequence[str]) -> Any:
    """A tensorclass with a field for each spec: a letter for the dtype, then dims, as in "f 3 h w"."""
    fields = {f"{name[0].lower()}{i}": FAMILIES[s[0]][Tensor, s[2:]] for i, s in enumerate(specs)}
    return type(name, (TensorClass,), {"__annotations__": fields, "__module__": __name__})


def pipeline(callable_: Any, ins: Sequence[str], outs: Sequence[str | None], **options: Any) -> Any:
    """One callable as a pipeline from its in fields to its out fields; None drops a result."""
    given, made = _class("Given", ins), _class("Made", [spec for spec in outs if spec is not None])
    names = iter(f"m{i}" for i in range(len(outs)))
    writes = [None if spec is None else getattr(made, next(names)) for spec in outs]
    reads = [getattr(given, f"g{i}") for i in range(len(ins))]
    return TensorClassSequential(TensorClassModule(callable_, reads, writes), input=given, output=made, **options)


@dataclass(frozen=True)
class Animal:
    """One kind of callable; `make` builds it anew, `codes` are the notes that a probe leaves."""

    make: Callable[[], Any]
    ins: tuple[str, ...]
    outs: tuple[str | None, ...]
    codes: tuple[str, ...] = ()


class Scaled(nn.Module):
    """Keeps Python state: a counter and a log."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.calls, self.log = nn.Linear(8, 8), 0, []

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        self.log.append(tuple(x.shape))
        return self.linear(x)


class Output(OrderedDict):
    """Results as transformers returns them: a mapping with attributes."""


class Encoder(nn.Module):
    """Returns a mapping."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Output:
        hidden = self.dense(x)
        return Output(m1=hidden.tanh(), m0=hidden, attentions=None)


class Pair(NamedTuple):
    """Results by name and position."""

    mean: Tensor
    std: Tensor


class Square(torch.autograd.Function):
    """A function with a backward of its own."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return 2 * ctx.saved_tensors[0] * grad


class Residual(nn.Module):
    """A block with a skip."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 3, 3, padding=1), nn.BatchNorm2d(3), nn.ReLU(inplace=True))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.body(x)


class UNet(nn.Module):
    """Halves and doubles, and joins what it kept."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.up, self.out = nn.Conv2d(3, 8, 3, 2, 1), nn.ConvTranspose2d(8, 3, 2, 2), nn.Conv2d(6, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(torch.cat([x, self.up(self.down(x).relu())], 1))


class Positions(nn.Module):
    """Knows 32 positions at most."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.zeros(32, 8))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.table[: x.shape[-2]]


class Gated(nn.Module):
    """Branches on a value."""

    def forward(self, x: Tensor) -> Tensor:
        return x if x.sum() > 0 else -x


def bound_batch_norm() -> Callable[[Tensor], Tensor]:
    """A module captured in a closure."""
    norm = nn.BatchNorm1d(8)
    return lambda x: norm(x)  # noqa: PLW0108  # a closure is meant


def lazy_in_closure() -> Callable[[Tensor], Tensor]:
    """A lazy module captured in a closure."""
    lazy = nn.LazyLinear(5)
    return lambda x: lazy(x)  # noqa: PLW0108  # a closure is meant


def counting() -> Callable[[Tensor], Tensor]:
    """Changes what it captured, and draws random numbers of every kind."""
    count, seen = 0, []

    def run(x: Tensor) -> Tensor:
        nonlocal count
        count += 1
        seen.append(count)
        return x + torch.rand(()) * random.random() * float(np.random.rand())

    return run


def masked(x: Tensor, keep: Tensor) -> Tensor:
    """A mean over what a mask keeps."""
    weight = keep.unsqueeze(-1).float()
    return (x * weight).sum(-2) / weight.sum(-2).clamp(min=1)


def per_sample(module: nn.Module) -> Callable[[Tensor], Tensor]:
    """A module under `vmap`, over a functional call."""
    return vmap(lambda x: functional_call(module, dict(module.named_parameters()), (x,)))


def head() -> Any:
    """A plain object with a `__call__`."""

    class Head:
        def __init__(self) -> None:
            self.weight, self.uses = torch.ones(8), 0

        def __call__(self, x: Tensor) -> Tensor:
            self.uses += 1
            return x * self.weight

    return Head()


def _spectral() -> nn.Module:
    return nn.utils.spectral_norm(nn.Linear(8, 4))


def _weight_norm() -> nn.Module:
    return parametrizations.weight_norm(nn.Linear(8, 4))


def _transformer() -> nn.Module:
    return nn.Transformer(16, 2, 1, 1, 32, batch_first=True)


A = Animal
V, W = ("f 8",), ("f 4",)
T, I = ("f t 8",), ("f 3 h w",)  # noqa: E741  # vectors, sequences, images

ZOO: dict[str, Animal] = {
    "Linear": A(lambda: nn.Linear(8, 4), V, W),
    "Linear narrowing": A(lambda: nn.Linear(8, 4), ("f _",), W, ("W205",)),
    "Bilinear": A(lambda: nn.Bilinear(8, 8, 4), ("f 8", "f 8"), W),
    "Bilinear narrowing": A(lambda: nn.Bilinear(8, 6, 4), ("f _", "f _"), W, ("W205", "W205")),
    "Sequential": A(lambda: nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Dropout(), nn.Linear(16, 4)), V, W),
    "Conv1d": A(lambda: nn.Conv1d(3, 6, 3, padding=1), ("f 3 t",), ("f 6 t",)),
    "Conv2d": A(lambda: nn.Conv2d(3, 6, 3, 2, 1), I, ("f 6 (h+1)//2 (w+1)//2",)),
    "Conv2d narrowing": A(lambda: nn.Conv2d(3, 6, 1), ("f _ h w",), ("f 6 h w",), ("W205",)),
    "Conv3d": A(lambda: nn.Conv3d(1, 2, 1), ("f 1 d h w",), ("f 2 d h w",)),
    "ConvTranspose2d": A(lambda: nn.ConvTranspose2d(3, 6, 2, 2), I, ("f 6 2*h 2*w",)),
    "depthwise": A(lambda: nn.Conv2d(3, 3, 3, padding="same", groups=3), I, I),
    "MaxPool2d": A(lambda: nn.MaxPool2d(2), I, ("f 3 h//2 w//2",)),
    "AvgPool1d": A(lambda: nn.AvgPool1d(2), ("f 3 t",), ("f 3 t//2",)),
    "AdaptiveAvgPool2d": A(lambda: nn.AdaptiveAvgPool2d(1), I, ("f 3 1 1",)),
    "pad": A(lambda: nn.ZeroPad2d(1), I, ("f 3 h+2 w+2",)),
    "Upsample": A(lambda: nn.Upsample(scale_factor=2), I, ("f 3 2*h 2*w",)),
    "PixelShuffle": A(lambda: nn.PixelShuffle(2), ("f 12 h w",), ("f 3 2*h 2*w",)),
    "Unfold": A(lambda: nn.Unfold(2, stride=2), I, ("f 12 n",), ("N305",)),
    "BatchNorm1d": A(lambda: nn.BatchNorm1d(8), V, V, ("N304",)),
    "BatchNorm2d eval": A(lambda: nn.BatchNorm2d(3).eval(), I, I),
    "LayerNorm": A(lambda: nn.LayerNorm(8), T, T),
    "GroupNorm": A(lambda: nn.GroupNorm(3, 6), ("f 6 h w",), ("f 6 h w",)),
    "InstanceNorm2d": A(lambda: nn.InstanceNorm2d(3), I, I),
    "RMSNorm": A(lambda: nn.RMSNorm(8), V, V),
    "Embedding": A(lambda: nn.Embedding(10, 8), ("i t",), ("f t 8",)),
    "EmbeddingBag": A(lambda: nn.EmbeddingBag(10, 8), ("i t",), V),
    "RNN": A(lambda: nn.RNN(8, 4, batch_first=True), T, ("f t 4", None)),
    "GRU": A(lambda: nn.GRU(8, 4, 2, batch_first=True, bidirectional=True), T, ("f t 8", None)),
    "LSTM": A(lambda: nn.LSTM(8, 4, batch_first=True), T, ("f t 4", None)),
    "LSTMCell": A(lambda: nn.LSTMCell(8, 4), V, W * 2),
    "MultiheadAttention": A(lambda: nn.MultiheadAttention(8, 2, batch_first=True), T * 3, ("f t 8", "f t t")),
    "TransformerEncoderLayer": A(lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), T, T),
    "TransformerEncoder eval": A(
        lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2).eval(), T, T
    ),
    "TransformerDecoderLayer": A(lambda: nn.TransformerDecoderLayer(8, 2, 16, batch_first=True), ("f t 8", "f s 8"), T),
    "Transformer": A(_transformer, ("f s 16", "f t 16"), ("f t 16",)),
    "causal attention": A(
        lambda: lambda q, k, v: nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True),
        ("f h t 8",) * 3,
        ("f h t 8",),
    ),
    "residual block": A(Residual, I, I),
    "UNet": A(UNet, I, ("f 2 h w",), ("W210",)),
    "positions": A(Positions, T, T),
    "counts in Python": A(Scaled, V, V),
    "spectral_norm": A(_spectral, V, W),
    "spectral_norm parametrized": A(lambda: parametrizations.spectral_norm(nn.Linear(8, 4)), V, W),
    "weight_norm": A(_weight_norm, V, W),
    "orthogonal": A(lambda: parametrizations.orthogonal(nn.Linear(8, 8)), V, V),
    "LazyLinear": A(lambda: nn.LazyLinear(4), V, W),
    "LazyConv2d with norm": A(lambda: nn.Sequential(nn.LazyConv2d(6, 1), nn.LazyBatchNorm2d()), I, ("f 6 h w",)),
    "lazy in a closure": A(lazy_in_closure, V, ("f 5",)),
    "module in a closure": A(bound_batch_norm, V, V, ("N304",)),
    "counting closure": A(counting, V, V),
    "autograd function": A(lambda: Square.apply, V, V),
    "autograd.grad inside": A(
        lambda: lambda x: torch.autograd.grad((y := x.clone().requires_grad_()).pow(2).sum(), y)[0], V, V
    ),
    "compiled module": A(lambda: torch.compile(nn.Linear(8, 4), backend="eager"), V, W),
    "compiled function": A(lambda: torch.compile(lambda x: x.relu(), backend="eager"), V, V),
    "scripted module": A(lambda: torch.jit.script(nn.Linear(8, 4)), V, W),
    "mapping": A(Encoder, V, W * 2),
    "named tuple": A(lambda: lambda x: Pair(x.mean(-1), x.std(-1)), V, ("f ", "f ")),
    "max": A(lambda: lambda x: x.max(-1), V, ("f ", "i ")),
    "Normal": A(lambda: lambda m, s: Normal(m, s.exp()).rsample(), V * 2, V),
    "Categorical": A(lambda: lambda z: Categorical(logits=z).sample(), V, ("i ",)),
    "log_prob": A(lambda: lambda m, x: Independent(Normal(m, 1.0), 1).log_prob(x), V * 2, ("f ",)),
    "einsum": A(lambda: lambda a, b: torch.einsum("...td,...sd->...ts", a, b), ("f t 8", "f s 8"), ("f t s",)),
    "partial": A(lambda: functools.partial(nn.functional.pad, pad=(1, 1)), V, ("f 10",)),
    "partial of a module": A(lambda: functools.partial(nn.Linear(8, 4)), V, W),
    "bound method": A(lambda: nn.Linear(8, 4).forward, V, W),
    "bound method of a tensor": A(lambda: torch.ones(8).mul, V, V),
    "builtin": A(lambda: torch.relu, V, V),
    "callable object": A(head, V, V),
    "vmap": A(lambda: vmap(lambda x: x / x.norm()), V, V),
    "functional call under vmap": A(lambda: per_sample(nn.Linear(8, 4)), V, W),
    "grad": A(lambda: vmap(torch.func.grad(lambda x: x.pow(2).sum())), V, V),
    "checkpoint": A(lambda: functools.partial(checkpoint, nn.Linear(8, 4), use_reentrant=False), V, W),
    "cross entropy": A(lambda: nn.CrossEntropyLoss(reduction="none"), ("f c", "i "), ("f ",)),
    "one_hot": A(lambda: functools.partial(nn.functional.one_hot, num_classes=5), ("i ",), ("i 5",)),
    "gather": A(lambda: lambda x, i: x.gather(-1, i.unsqueeze(-1)).squeeze(-1), ("f c", "i "), ("f ",)),
    "masked mean": A(lambda: masked, ("f t 8", "b t"), V),
    "where": A(lambda: torch.where, ("b n", "f n", "f n"), ("f n",)),
    "topk": A(lambda: lambda x: x.topk(3, -1), V, ("f 3", "i 3")),
    "sort": A(lambda: torch.sort, V, ("f 8", "i 8")),
    "cumsum": A(lambda: lambda x: x.cumsum(-1), V, V),
    "fft": A(lambda: lambda x: torch.fft.rfft(x).abs(), ("f n",), ("f n//2+1",)),
    "patches": A(
        lambda: lambda x: x.unflatten(-1, (-1, 8)).unflatten(-3, (-1, 8)).flatten(-2),
        I,
        ("f 3 p 8 q",),
        ("W210", "N305", "N305"),
    ),
    "any float": A(lambda: nn.Linear(8, 4), ("F 8",), ("F 4",)),
    "any rank": A(lambda: nn.Conv2d(3, 6, 1), ("f ...",), ("f ...",)),
    "item": A(lambda: lambda x: x * x.sum().item(), V, V, ("W207", "N302")),
    "nonzero": A(lambda: lambda x: x[x > 0].sum() + x, V, V, ("W207", "N302")),
    "unique": A(lambda: lambda x: x.unique().sum() + x, V, V, ("W207", "N302")),
    "numpy": A(lambda: lambda x: torch.from_numpy(np.tanh(x.detach().numpy())), V, V, ("N302",)),
    "tolist": A(lambda: lambda x: torch.tensor(x.tolist()), V, V, ("N302",)),
    "branch": A(Gated, V, V, ("N302",)),
}


def state_of(value: Any) -> Any:
    """Everything that a run could change in a callable, as values that compare."""
    seen: list[Any] = []
    for owner in _reachable(value):
        if isinstance(owner, nn.Module):
            named = [*owner.named_parameters(), *owner.named_buffers()]
            seen += [(name, type(t), id(t), t._version, _value(t)) for name, t in named]
            for module in owner.modules():
                plain = [copy.copy(v) for v in vars(module).values() if isinstance(v, int | list)]
                seen.append((type(module), plain, dict(module._forward_pre_hooks), dict(module._forward_hooks)))
        elif isinstance(owner, Tensor):
            seen.append((id(owner), owner._version, _value(owner)))
        elif isinstance(owner, list | int):
            seen.append(copy.copy(owner))
        elif not callable(owner) or hasattr(owner, "uses"):
            seen.append(repr(vars(owner)) if hasattr(owner, "__dict__") else None)
    return seen


def random_states() -> list[Any]:
    """Where all random generators stand."""
    return [torch.get_rng_state().tolist(), random.getstate(), np.random.get_state()[1].tolist()]


def _value(tensor: Tensor) -> Any:
    return None if nn.parameter.is_lazy(tensor) else tensor.detach().tolist()


def _reachable(value: Any) -> Iterator[Any]:
    yield value
    if isinstance(value, functools.partial):
        for part in (value.func, *value.args):
            yield from _reachable(part)
    for cell in getattr(value, "__closure__", None) or ():
        yield from _reachable(cell.cell_contents)
    owner = getattr(value, "__self__", None)
    if isinstance(owner, nn.Module | Tensor):
        yield owner
