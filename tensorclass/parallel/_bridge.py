"""Modules over a part of a mesh: they take local tensors, and the values around them are DTensors of the whole mesh."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import prod
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from .._deferred import dtensor, is_dtensor
from ..errors import UnsupportedOperationError
from ._layout_rules import Shards, chunk_span, placements_of

_FSDP = "torch.distributed.fsdp"


class MeshPart(NamedTuple):
    """The dims of a mesh that a module uses.

    Attributes:
        own: those over which the module moves values itself, as tensor parallel modules do.
        averaged: those over which `fully_shard` splits parameters and averages gradients.

    Without dims it is a module that takes DTensors of the whole mesh, and may return local tensors.
    """

    own: tuple[int, ...]
    averaged: tuple[int, ...]


def lines_of(part: Any, mesh: Any) -> list[tuple[int, ...]] | None:
    """For each dim of a mesh the dims of another one along which its ranks lie; None if it is not a part of it.

    These are several dims for one that torch has made by `_flatten`.
    """
    names, here = list(mesh.mesh_dim_names), part.get_coordinate()
    if here is None:
        return None
    coordinates = {rank: (mesh.mesh == rank).nonzero()[0].tolist() for rank in mesh.mesh.flatten().tolist()}
    found: list[tuple[int, ...]] = []
    for number, name in enumerate(part.mesh_dim_names or ()):
        line = (*here[:number], slice(None), *here[number + 1 :])
        ranks = part.mesh[line].tolist()
        if not coordinates.keys() >= {*ranks}:
            return None
        varied = [dim for dim in range(mesh.ndim) if len({coordinates[rank][dim] for rank in ranks}) > 1]
        dims = [names.index(name)] if name in names else varied
        if not {*varied} <= {*dims} or prod(mesh.shape[dim] for dim in dims) != len(ranks):
            return None
        found.append(tuple(dims))
    return found or None


def averaged_by(module: nn.Module, mesh: Any) -> set[int]:
    """The dims of the mesh over which `fully_shard` splits the parameters of a module."""
    return {dim for _, dims in _sharded_groups(module, mesh) for dim in dims}


def _sharded_groups(module: nn.Module, mesh: Any) -> Iterator[tuple[Any, tuple[int, ...]]]:
    """The groups of parameters that `fully_shard` has made, with the dims of the mesh over which each is split."""
    for _, state in _sharded_modules(module):
        for group in state._fsdp_param_groups:
            yield group, tuple(dim for line in lines_of(group.mesh_info.mesh, mesh) or () for dim in line)


def _gathered_parameters(module: nn.Module, mesh: Any) -> dict[int, tuple[int, ...]]:
    """The dims over which parameters were split before `fully_shard` gathered them, by identity.

    Between a forward and its backward pass they are plain tensors.
    """
    both = [(one, dims) for group, dims in _sharded_groups(module, mesh) for one in group.fsdp_params]
    return {id(one._unsharded_param): dims for one, dims in both if hasattr(one, "_unsharded_param")}


def parts_of(module: nn.Module, mesh: Any) -> dict[str, tuple[int, ...] | None]:
    """The dims of the mesh that each parameter uses: none for a plain tensor, None for one on another mesh."""
    averaged, gathered = averaged_by(module, mesh), _gathered_parameters(module, mesh)
    found: dict[str, tuple[int, ...] | None] = {}
    every: Any = module.named_parameters()
    for name, parameter in every:
        lines = lines_of(parameter.device_mesh, mesh) if is_dtensor(parameter) else []
        flat = any(len(line) > 1 and not averaged.issuperset(line) for line in lines or ())
        if lines is None or flat:
            found[name] = None
            continue
        found[name] = (*(dim for line in lines for dim in line), *gathered.get(id(parameter), ()))
    return found


def part_of(module: nn.Module, mesh: Any, dims: Mapping[str, tuple[int, ...] | None]) -> MeshPart | None:
    """The part of the mesh that a module is on; None for a module that takes DTensors of the whole mesh."""
    averaged = sorted(averaged_by(module, mesh))
    used = {dim for some in dims.values() for dim in some or ()}
    mixed = mesh.ndim == 1 and used and any(some == () for some in dims.values())
    if averaged or mixed or any(some and len(some) < mesh.ndim for some in dims.values()):
        return MeshPart(tuple(sorted(used.difference(averaged))), tuple(averaged))
    return None


def _sharded_modules(module: nn.Module) -> Iterator[tuple[nn.Module, Any]]:
    """The modules on which `fully_shard` was called, with their states."""
    kind: Any = getattr(sys.modules.get(_FSDP), "FSDPModule", ())
    inner: Any = module.modules()
    for one in inner:
        if isinstance(one, kind):
            yield one, one._get_fsdp_state()


@contextmanager
def without_shards(
    module: nn.Module | None, mesh: Any, part: MeshPart | None, mode: Any, fill: Callable[..., Tensor] = torch.empty
) -> Iterator[None]:
    """A block in which a module has whole parameters of made-up values, and `fully_shard` gathers and sends nothing."""
    if module is None or part is None or not part.averaged:
        yield
        return
    undo: list[tuple[dict[Any, Any], dict[Any, Any]]] = []
    try:
        for one, state in _sharded_modules(module):
            for hooks in (one._forward_pre_hooks, one._forward_hooks):
                undo.append((hooks, dict(hooks)))
                for key in [key for key, hook in hooks.items() if getattr(hook, "__self__", None) is state]:
                    del hooks[key]
        for inner in module.modules():
            undo.append((inner._parameters, dict(inner._parameters)))
            for name, parameter in inner._parameters.items():
                if is_dtensor(parameter):
                    inner._parameters[name] = _whole(parameter, mesh, part, mode, fill)
        yield
    finally:
        for held, before in reversed(undo):
            held.clear()
            held.update(before)


def _whole(parameter: Any, mesh: Any, part: MeshPart, mode: Any, fill: Callable[..., Tensor]) -> Any:
    """A parameter as a module sees it while it runs: split over the dims of tensor parallel modules only."""
    lines = lines_of(parameter.device_mesh, mesh) or ()
    both = zip(lines, parameter.placements, strict=True)
    rest = [(line[0], one) for line, one in both if line[0] not in part.averaged]
    own, local = submesh(mesh, [dim for dim, _ in rest]), list(parameter.shape)
    for dim, one in rest:
        if one.is_shard():
            local[one.dim] //= mesh.shape[dim]
    with mode:
        made = fill(local, dtype=parameter.dtype)
        return made if own is None else dtensor.DTensor.from_local(made, own, [p for _, p in rest], run_check=False)


def submesh(mesh: Any, dims: Sequence[int]) -> Any:
    """The mesh of some dims; None for none."""
    names = tuple(mesh.mesh_dim_names[dim] for dim in dims)
    if not names:
        return None
    return mesh if len(names) == mesh.ndim else mesh[names]


class _Scaled(torch.autograd.Function):
    """The same value, with a gradient times a factor."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, factor: float) -> Tensor:
        ctx.factor = factor
        return value.view_as(value)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Any, None]:
        return gradients[0] * ctx.factor, None


def _scale_gradient(value: Tensor, factor: float) -> Tensor:
    apply: Any = _Scaled.apply
    made: Tensor = value if factor == 1 else apply(value, factor)
    return made


class Bridge:
    """Calls a module over a part of the mesh: its inputs become local tensors, its outputs DTensors of the whole mesh.

    Gradients are those of one process: `fully_shard` averages them over ranks, and a loss over the whole batch needs
    their sum, so they are scaled on the way.

    Args:
        mesh: the whole mesh.
        part: the dims that the module uses.
        claims: for each output its placement by the layout; None if it is not split.
        sources: for each output and dim, the input and its dim of the same size.
        results: the values in the result of the module.
    """

    def __init__(
        self,
        mesh: Any,
        part: MeshPart,
        claims: Sequence[Shards | None],
        sources: Sequence[Mapping[int, tuple[int, int]]],
        results: Callable[[Any], Sequence[Any]],
    ) -> None:
        self.mesh, self.part, self.claims, self.sources, self.results = mesh, part, claims, sources, results
        self.own_mesh = submesh(mesh, part.own)

    def run(self, how: Any, target: Any, values: Sequence[Any]) -> Any:
        """Call the target; values that are not distributed go through unchanged."""
        if not any(self._is_here(value) for value in values):
            return how.call(target, values)
        found = self.results(how.call(target, self.inward(values)))
        made = tuple(self.outward(value, number, values) for number, value in enumerate(found))
        return made[0] if len(made) == 1 else made

    def split(self, values: Sequence[Any]) -> set[int]:
        """The dims of the mesh that split an input."""
        here = [value.placements for value in values if self._is_here(value)]
        return {dim for places in here for dim, one in enumerate(places) if one.is_shard()}

    def inward(self, values: Sequence[Any]) -> list[Any]:
        """The arguments of the module: local tensors, or DTensors of its own mesh where this splits them."""
        if not any(self.part):
            return [*values]
        split = self.split(values)
        return [self._inward(value, split) if self._is_here(value) else value for value in values]

    def _is_here(self, value: Any) -> bool:
        return is_dtensor(value) and value.device_mesh == self.mesh

    def _factor(self, split: set[int]) -> int:
        return prod(self.mesh.shape[dim] for dim in self.part.averaged if dim in split)

    def _inward(self, value: Any, split: set[int]) -> Any:
        """A DTensor of the whole mesh as a module over a part takes it: local, or a DTensor of the part."""
        own, places = self.part.own, value.placements
        if any(one.is_partial() for one in places):
            raise UnsupportedOperationError(
                f"a module over a part of the mesh takes no unfinished sum, {places}; redistribute it first"
            )
        # A rank's gradient of a value that all ranks hold is a summand where they have different rows.
        gradients = [
            dtensor.Partial() if one.is_replicate() and dim in split and dim not in own else one
            for dim, one in enumerate(places)
        ]
        local = value.to_local(grad_placements=gradients)
        local = _scale_gradient(local, 1 / self._factor(split))
        if not any(places[dim].is_shard() for dim in own):
            return local
        others = tuple(one.dim if one.is_shard() and dim not in own else None for dim, one in enumerate(places))
        where = self.mesh.get_coordinate()
        shape = [chunk_span(size, dim, others, self.mesh.shape, where)[1] for dim, size in enumerate(value.shape)]
        return _from_local(local, self.own_mesh, [places[dim] for dim in own], shape)

    def outward(self, value: Any, number: int, values: Sequence[Any]) -> Any:
        """An output as a DTensor of the whole mesh."""
        claim, is_tensor = self.claims[number], isinstance(value, Tensor)
        if not is_tensor or value.is_nested or claim is None or self._is_here(value):
            return value
        places = placements_of(tuple(None if dim is None else dim % value.ndim for dim in claim))
        shape = list(value.shape)
        own = dict(zip(self.part.own, value.placements, strict=False)) if is_dtensor(value) else {}
        for dim, placement in enumerate(places):
            if dim in own:  # the shape of a DTensor is already that over these dims
                places[dim] = own[dim]
            elif placement.is_shard():
                shape[placement.dim] *= self.mesh.shape[dim]
        for dim, (argument, at) in self.sources[number].items():  # pieces of unequal size: the input knows the whole
            if self._is_here(values[argument]):
                shape[dim] = values[argument].shape[at]
        local = value.to_local() if is_dtensor(value) else value
        return _from_local(_scale_gradient(local, self._factor(self.split(values))), self.mesh, places, shape)


def _from_local(local: Tensor, mesh: Any, places: Sequence[Any], shape: Sequence[int]) -> Tensor:
    stride = torch.empty(tuple(shape), device="meta").stride()
    made: Tensor = dtensor.DTensor.from_local(
        local.contiguous(), mesh, places, run_check=False, shape=torch.Size(shape), stride=stride
    )
    return made
