"""The build check of modules over a part of the mesh, with values: pieces are to be treated as the whole is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from math import prod
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from .._deferred import is_dtensor
from ..nn.parts._results import outputs
from ._bridge import MeshPart, without_shards

_SIZE = 4
"""The size of batch dims and of dims that no module fixes."""
_MOST = 1 << 28
"""The most multiplications of one run, about."""


def judge_values(followed: Any, index: int, given: Sequence[Any]) -> None:
    """Report a module that gives other values for the pieces of ranks than one process has for the whole.

    It runs as in one process, with random parameters, on random values. Large and random modules are left out. A
    module may do so on purpose with batch norm, and with attention, which `context_parallel` replaces.
    """
    bridge, module = followed.bridges[index], followed.module(index)
    split = sorted(bridge.split(given).difference(bridge.part.own))
    if module is None or not split:
        return
    shapes = [followed._shape(use.place, _SIZE) for use in followed.report.reads[index]]
    work = (sum(one.numel() for one in module.parameters()) + 16) * max(prod(shape) for shape in shapes)
    if work > _MOST:
        return
    has_norms = any(isinstance(one, _BatchNorm) and one.training for one in module.modules())
    for norms in (False, True) if has_norms else (False,):
        found = _first_difference(followed, index, given, shapes, split, norms)
        if found is not None:
            _say(followed, index, given, *found, norms)
            return


def _say(followed: Any, index: int, given: Sequence[Any], dim: int, use: Any, norms: bool) -> None:
    name, rows = followed.mesh.mesh_dim_names[dim], followed._batch_dims()
    text = f"gives other values of `{use.slot}` for the piece of each rank of `{name}` than for the whole"
    hint = f"compute along the dim that `{name}` splits in a module of its own, whose DTensors the check follows"
    if norms:
        hint = "batch norm takes statistics of the rows of each rank; `eval()` uses the running ones"
    elif any(one.placements[dim].is_shard() and one.placements[dim].dim < rows for one in given):
        followed._say(index, "E119", text, (), hint)
        return
    else:
        hint += "; attention in a `context_parallel` block sees whole sequences"
    followed._say(index, "W212", text, (), hint)


def _first_difference(
    followed: Any, index: int, given: Sequence[Any], shapes: Sequence[Sequence[int]], split: Sequence[int], norms: bool
) -> tuple[int, Any] | None:
    """A dim of the mesh and an output whose pieces differ; None if the module is random, or refuses the values."""
    generator = torch.Generator().manual_seed(0)
    values = [_random(shape, one.dtype, generator) for shape, one in zip(shapes, given, strict=True)]
    try:
        with _on_real_values(followed, index, generator, norms):
            run = _runner(followed, index)
            whole = run(values, 0)
            if not all(_is_close(one, two) for one, two in zip(whole, run(values, 1), strict=True)):
                return None
            return next(_find_differences(followed, index, given, values, whole, run, split), None)
    except Exception:  # a module may refuse random values; the other checks have run it
        return None


def _find_differences(
    followed: Any,
    index: int,
    given: Sequence[Any],
    values: Sequence[Tensor],
    whole: Sequence[Any],
    run: Callable[[Sequence[Tensor], int], Sequence[Any]],
    split: Sequence[int],
) -> Iterator[tuple[int, Any]]:
    """Dims of the mesh, and outputs whose halves differ from the outputs of halves."""
    claims = followed.bridges[index].claims
    for dim in split:
        along = [one.placements[dim].dim if one.placements[dim].is_shard() else None for one in given]
        for half in (0, 1):
            made = run([_half(value, at, half) for value, at in zip(values, along, strict=True)], 0)
            for use, claim, one, two in zip(followed.report.writes[index], claims, whole, made, strict=True):
                if use is not None and claim is not None and not _is_close(_half(one, claim[dim], half), two):
                    yield dim, use


def _half(value: Any, dim: int | None, half: int) -> Any:
    return value if dim is None or not isinstance(value, Tensor) else value.chunk(2, dim)[half]


def _is_close(one: Any, two: Any) -> bool:
    if not isinstance(one, Tensor) or not isinstance(two, Tensor):
        return True
    if one.shape != two.shape or not one.is_floating_point():
        return one.shape == two.shape and torch.equal(one, two)
    first, second = one.double().nan_to_num(), two.double().nan_to_num()
    bound = max(1e-3, 16 * torch.finfo(one.dtype).eps) * max(float(first.abs().max()), 1e-6) if one.numel() else 0.0
    return torch.allclose(first, second, rtol=0, atol=bound)


def _random(shape: Sequence[int], dtype: torch.dtype, generator: torch.Generator) -> Tensor:
    """Values near 1; 0 and 1 for integers, which may be indices."""
    drawn = torch.randn(tuple(shape), generator=generator)
    return (drawn if dtype.is_floating_point or dtype.is_complex else drawn > 0).to(dtype)


def _runner(followed: Any, index: int) -> Callable[[Sequence[Tensor], int], Sequence[Any]]:
    """A function of values and a seed."""
    stage, target = followed.stages[index], followed.targets[index]
    how = getattr(stage, "how", None)

    def run(values: Sequence[Tensor], seed: int) -> Sequence[Any]:
        torch.default_generator.manual_seed(seed)  # those of accelerators stay as they are
        copies = [value.clone() for value in values]
        result = target(*copies) if how is None else how.call(target, copies)
        made = outputs(result, stage.writes, stage.at(index))
        return [one.clone() if isinstance(one, Tensor) and not is_dtensor(one) else one for one in made]

    return run


@contextmanager
def _on_real_values(followed: Any, index: int, generator: torch.Generator, norms: bool) -> Iterator[None]:
    """A block in which a module has whole random parameters and copies of its buffers, and drops nothing out.

    With `norms`, batch norm trains. The hooks of tensor parallel modules exchange values, so none is called.
    """

    def fill(shape: Sequence[int], dtype: torch.dtype) -> Tensor:
        made: Tensor = torch.randn(tuple(shape), generator=generator).to(dtype) / max([*shape[1:], 1]) ** 0.5
        return made

    module, part = followed.module(index), followed.bridges[index].part
    every: list[nn.Module] = [*module.modules()]
    before = [(one._buffers.copy(), one.training) for one in every]
    hooks: list[Any] = [table for one in every for table in (one._forward_pre_hooks, one._forward_hooks)]
    held = [table.copy() for table in hooks]
    try:
        for table in hooks if part.own else ():
            table.clear()
        for one in every:
            one._buffers.update({name: None if b is None else b.clone() for name, b in one._buffers.items()})
            one.training = one.training and norms and isinstance(one, _BatchNorm)
        with (
            without_shards(module, followed.mesh, MeshPart((), (*part.own, *part.averaged)), nullcontext(), fill),
            torch.no_grad(),
            torch.random.fork_rng(devices=[]),
        ):
            yield
    finally:
        for one, (buffers, training) in zip(every, before, strict=True):
            one._buffers.clear()
            one._buffers.update(buffers)
            one.training = training
        for table, kept in zip(hooks, held, strict=True):
            table.clear()
            table.update(kept)
