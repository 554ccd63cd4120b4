"""The build check of modules over a part of the mesh: they run on local tensors, as they do in the program."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any

from torch import Tensor, nn

from .._deferred import is_dtensor
from .._schema import Polynomial
from ..nn.parts._results import outputs
from ._bridge import Bridge, MeshPart
from ._followed_values import judge_values


def bridge_of(followed: Any, index: int, part: MeshPart) -> Bridge:
    """What calls a module of a pipeline that is on a part of the mesh."""
    stage = followed.stages[index]
    written = followed.report.writes[index]
    claims = [None if use is None else followed._claim(use.place) for use in written]
    sources = [{} if use is None else dict(_sources(followed, index, use.place)) for use in written]
    return Bridge(followed.mesh, part, claims, sources, lambda result: outputs(result, stage.writes, stage.at(index)))


def refuse_whole(followed: Any, index: int, given: Sequence[Any]) -> None:
    """Report an input with all rows beside one with the rows of this rank."""
    bridge = followed.bridges.get(index)
    here = [value for value in given if is_dtensor(value)]
    rows = {dim for value in here for dim, one in enumerate(value.placements) if one.is_shard() and one.dim == 0}
    if bridge is None or not rows.difference(bridge.part.own):
        return
    for use, value in zip(followed.report.reads[index], given, strict=True):
        if use is not None and value is None and not use.place.spec.kind.is_shared:
            name = _names(followed, sorted(rows))
            text = f"gets all rows of `{use.slot}`, beside the rows of each rank of `{name}`"
            hint = "pad the field to a tensor, which the layout splits"
            followed._say(index, "E119", text, ("ragged and per-element fields are whole on every rank",), hint)


def _sources(followed: Any, index: int, place: Any) -> Iterator[tuple[int, tuple[int, int]]]:
    """For each dim of an output the input, and its dim, with the same size."""
    mine = _terms(followed, place)
    for position, use in reversed([*enumerate(followed.report.reads[index])]):
        theirs = (
            () if use is None or use.slot.items or not use.place.spec.kind.is_dense else _terms(followed, use.place)
        )
        for dim, term in enumerate(mine):
            if term in theirs:
                yield dim, (position, theirs.index(term))


def _terms(followed: Any, place: Any) -> list[str]:
    batch = 0 if place.spec.kind.is_shared else followed._batch_dims()
    terms = followed.report.state.unifier.resolve(place.terms)
    return [*(f"batch {dim}" for dim in range(batch)), *map(str, terms)]


def judge_part(followed: Any, index: int, given: Sequence[Any], made: Sequence[Any], looked: bool) -> list[Any]:
    """Report what is wrong with the outputs of such a module; the values as DTensors of the whole mesh."""
    bridge = followed.bridges[index]
    shown = _trace_placements(followed, index, given) if looked else made
    found = []
    for number, use in enumerate(followed.report.writes[index]):
        value = made[number]
        if use is None or bridge.claims[number] is None or not isinstance(value, Tensor):
            found.append(value)
            continue
        wrong = _whole_over_split_dim(followed, index, given, number, use) or _misfit(
            followed, index, number, use, value
        )
        if not wrong and not is_dtensor(value):
            _misplaced_output(followed, index, number, use, None if shown is None else shown[number])
        found.append(bridge.outward(value, number, given))
    if shown is None and not any(d.module == index for d in followed.found):
        followed._on_pieces(index)
    if not any(d.module == index for d in followed.found):
        judge_values(followed, index, given)
    _alone(followed, index, bridge, given)
    return found


def _trace_placements(followed: Any, index: int, given: Sequence[Any]) -> Sequence[Any] | None:
    """The outputs where the module keeps DTensors that it makes local; None if it can't compute with them."""
    result, error, _ = followed._call(index, given, keep=True)
    return None if error is not None else followed.bridges[index].results(result)


def _names(followed: Any, dims: Sequence[int]) -> str:
    return "*".join(followed.mesh.mesh_dim_names[dim] for dim in dims)


def _whole_over_split_dim(followed: Any, index: int, given: Sequence[Any], number: int, use: Any) -> bool:
    """An output that is whole over a dim that splits the inputs: each rank has that of its own rows."""
    bridge = followed.bridges[index]
    split = bridge.split(given).difference(bridge.part.own)
    lost = [dim for dim in sorted(split) if bridge.claims[number][dim] is None]
    if lost:
        name = _names(followed, lost)
        text = f"writes `{use.slot}` from the piece of each rank of `{name}`, and nobody adds or joins the pieces"
        hint = f"reduce over `{name}` in a module of its own, whose DTensors the check follows"
        followed._say(index, "E120", text, (), hint)
    return bool(lost)


def _misfit(followed: Any, index: int, number: int, use: Any, value: Any) -> bool:
    """An output whose local shape is not that of its piece."""
    bridge = followed.bridges[index]
    claim = [*bridge.claims[number]]
    for dim in bridge.part.own if is_dtensor(value) else ():
        claim[dim] = None
    wanted = followed._piece(followed._shape(use.place), tuple(claim))
    terms = followed.report.state.unifier.resolve(use.place.terms)
    if any(not isinstance(term, Polynomial) for term in terms):
        return False
    first, seen = len(wanted) - len(terms), _seen(followed, index, number)
    ranks = prod(followed.mesh.shape[dim] for dim in bridge.part.own)
    fits = len(wanted) == value.ndim
    for dim, size in enumerate(value.shape) if fits else ():
        if dim < first or {*terms[dim - first].names} <= followed.sized:
            fits = fits and size == wanted[dim]
        elif dim not in claim and seen is not None and not is_dtensor(value):  # a dim of the module's own
            fits = fits and not (ranks > 1 and size * ranks == seen[dim - first])
    if not fits:
        text = f"writes `{use.slot}` as local tensors of shape {[*value.shape]}, which are not the pieces of the layout"
        hint = f"the layout has it as {_list_claims(bridge.claims[number])}: name its dims in the layout, or gather it"
        followed._say(index, "E121", text, (), hint)
    return not fits


def _seen(followed: Any, index: int, number: int) -> tuple[int, ...] | None:
    probed = followed.report.probed
    shown = () if probed is None or index >= len(probed.seen) else probed.seen[index]
    one = shown[number] if number < len(shown) else None
    return None if one is None else one.shape


def _misplaced_output(followed: Any, index: int, number: int, use: Any, shown: Any) -> None:
    """Report an output that is not placed over the module's own dims as the layout has it."""
    bridge = followed.bridges[index]
    if not is_dtensor(shown) or shown.device_mesh == followed.mesh:
        return
    for dim, one in zip(bridge.part.own, shown.placements, strict=False):
        name, claim = _names(followed, [dim]), bridge.claims[number][dim]
        wanted = None if claim is None else claim % shown.ndim
        split = one.dim if one.is_shard() else None
        if one.is_partial():
            text = f"writes `{use.slot}` as an unfinished sum over `{name}`"
            followed._say(index, "E120", text, (), "finish it: `output_layouts=Replicate()` of its ParallelStyle")
        elif split != wanted:
            declared = _list_claims(bridge.claims[number])
            text = f"writes `{use.slot}` as {one} over `{name}`, and the layout has {declared}"
            followed._say(index, "E121", text, (), "name its dims in the layout, or change `output_layouts=`")


def _list_claims(claim: Sequence[int | None]) -> str:
    return f"({', '.join('Replicate' if dim is None else f'Shard({dim})' for dim in claim)})"


def _alone(followed: Any, index: int, bridge: Bridge, given: Sequence[Any]) -> None:
    """A module whose gradients nobody adds over the dims that split its inputs."""
    split = bridge.split(given).difference(bridge.part.own)
    module = followed.module(index)
    dims: Mapping[str, Any] = followed.dims[index]
    parameters: dict[str, nn.Parameter] = dict(module.named_parameters())
    for name, used in dims.items():
        left = sorted(split.difference(used or ()))
        if left and parameters[name].requires_grad:
            over = _names(followed, left)
            text = f"has parameters, such as `{name}`, whose gradients are those of the rows of each rank of `{over}`"
            dims_text = ", ".join(f'"{followed.mesh.mesh_dim_names[dim]}"' for dim in left)
            hint = (
                f"`fully_shard(module, mesh=mesh[{dims_text}])` adds them; before an optimizer is used, somebody must"
            )
            followed._say(index, "W213", text, (), hint)
            return
