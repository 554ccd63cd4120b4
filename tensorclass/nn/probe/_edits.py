"""The edits that are tried for a hint: of the inputs of a module that rejects them, and of the module."""

from __future__ import annotations

import copy
import itertools
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import torch
from torch import Tensor, nn

from ..check._declared import Use
from ..parts._stage import module_of

COPIED: Final = 1 << 22
"""A module with more parameters is not copied for a change."""
_WIDTHS: Final = {
    "Linear": ("in_features", -1),
    "LayerNorm": ("normalized_shape", -1),
    "RMSNorm": ("normalized_shape", -1),
    **{f"Conv{n}d": ("in_channels", -1 - n) for n in (1, 2, 3)},
    **{f"BatchNorm{n}d": ("num_features", 1) for n in (1, 2, 3)},
}
"""The argument that declares the width of a layer's input, and the dim that has it."""
Change = tuple[str, Sequence[int], torch.dtype]


def changed_inputs(use: Use, value: Tensor, sizes: Sequence[int]) -> Iterator[Change]:
    """Other tensors that the user may have meant: description, shape and dtype."""
    name, shape, batch = f"`{use.slot.name}`", list(value.shape), int(use.batched)
    count = value.ndim - batch
    if count == 3:
        text = f"{name} with its last dim first (the layout is channels first), `movedim(-1, -3)`,"
        yield text, [*shape[:-3], shape[-1], *shape[-3:-1]], value.dtype
    if count > 1:
        yield f"{name} with its last two dims swapped", [*shape[:-2], shape[-1], shape[-2]], value.dtype
    for dim in reversed(range(batch, value.ndim)):
        for size in sizes:
            text = f"{size} for event dim {dim - batch} of {name}, it is given {shape[dim]}"
            if shape[dim] == 1:
                dims = ", ".join(str(size if at == dim else -1) for at in range(value.ndim))
                text += f"; `expand({dims})` repeats it"
            yield text, [*shape[:dim], size, *shape[dim + 1 :]], value.dtype
    for dtype in (torch.float32, torch.int64, torch.float64, torch.bool):
        yield f"{str(dtype)[6:]} for {name}, it is given {str(value.dtype)[6:]}", shape, dtype
    for dim in (batch, value.ndim):
        text = f"{name} with one more dim of 1 at event dim {dim - batch}, `unsqueeze({dim - value.ndim - 1})`,"
        yield text, [*shape[:dim], 1, *shape[dim:]], value.dtype
    yield from _reshaped_inputs(name, shape, batch, value.dtype)


def _reshaped_inputs(name: str, shape: list[int], batch: int, dtype: torch.dtype) -> Iterator[Change]:
    """Event dims in any order, flattened, and without dims of 1."""
    count = len(shape) - batch
    for first in range(2, count + 1) if count < 5 else ():
        merged = torch.Size(shape[-first:]).numel()
        yield f"{name} with its last {first} dims as one, `flatten({-first})`,", [*shape[:-first], merged], dtype
    for dim in range(-count, 0):
        if shape[dim] == 1:
            text = f"{name} without event dim {dim + count}, `squeeze({dim})`,"
            yield text, [size for at, size in enumerate(shape) if at != dim + len(shape)], dtype
    for order in itertools.permutations(range(count)) if 2 < count < 5 else ():
        dims = ", ".join(map(str, (*range(batch), *(at + batch for at in order))))
        if order != (*range(count),):
            text = f"{name} with its dims in another order, `permute({dims})`,"
            yield text, [*shape[:batch], *(shape[at + batch] for at in order)], dtype


def changed_modules(
    target: Callable[..., Any], values: Sequence[Any], error: Exception, guessed: Collection[int]
) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Copies of a module with another dtype of its parameters, or with one layer of the width that it is given."""
    module = module_of(target)
    if module is None or module is not target or sum(p.numel() for p in module.parameters()) > COPIED:
        return
    own = {p.dtype for p in module.parameters() if p.is_floating_point()}
    given = {v.dtype for v in values if isinstance(v, Tensor) and v.is_floating_point()}
    if len(own) == len(given) == 1 and own != given:
        dtype = next(iter(given))
        with suppress(Exception):  # a module that can't be copied is not changed
            text = f"accepts them with parameters of their dtype, `.to({dtype})`; they are {str(next(iter(own)))[6:]}"
            yield text, copy.deepcopy(module).to(dtype)
    yield from _with_other_width(module, error, guessed)


def _with_other_width(module: nn.Module, error: Exception, guessed: Collection[int]) -> Iterator[tuple[str, nn.Module]]:
    """The module with the innermost layer made for the width of its input, if one with that width exists."""
    frames = [frame.f_locals for frame, _ in traceback.walk_tb(error.__traceback__)]
    calls = [row for row in frames if isinstance(row.get("self"), nn.Module)]
    layer, value = (calls[-1]["self"], calls[-1].get("input")) if calls else (None, None)
    path = next((name for name, part in calls[0]["self"].named_modules() if part is layer), "") if calls else ""
    row = _WIDTHS.get(type(layer).__name__)
    if row is None or not path or not isinstance(value, Tensor) or not -value.ndim <= row[1] < value.ndim:
        return
    size = int(value.shape[row[1]])
    with suppress(Exception):  # as above, and a layer that is made in another way
        original = module.get_submodule(path)
        made = _remade(original, row[0], size)
        if size not in guessed and made is not None:
            changed = copy.deepcopy(module)
            changed.set_submodule(path, made)
            was = getattr(original, row[0])
            old = was if isinstance(was, int) else was[0]
            yield f"accepts them if `{path}`, {type(layer).__name__}, has {row[0]}={size} in place of {old}", changed


def _remade(layer: nn.Module, name: str, size: int) -> nn.Module | None:
    """A layer with one other argument; None if it has others that are not known."""
    was = getattr(layer, name)
    if not isinstance(was, int) and len(was) != 1:
        return None
    kept: Mapping[str, Any] = {"out_features": 0, "out_channels": 0, "kernel_size": 0, "stride": 0, "padding": 0}
    options = {key: getattr(layer, key) for key in (*kept, "dilation") if hasattr(layer, key)}
    if getattr(layer, "groups", 1) != 1:
        return None
    if isinstance(layer, nn.Linear) or "out_channels" in options:
        options["bias"] = layer.bias is not None
    parameter = next(iter(layer.parameters()), None)
    dtype = None if parameter is None else parameter.dtype
    # on "meta", since initial values would be drawn from the user's random numbers; only shapes are asked
    made: nn.Module = type(layer)(**{name: size}, **options, dtype=dtype, device="meta")
    return made.to_empty(device="cpu" if parameter is None else parameter.device).train(layer.training)
