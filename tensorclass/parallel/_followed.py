"""The build check of a pipeline with a layout: its modules run once on DTensors of fake tensors, as one rank.

Nothing is sent: with a process group, functional collectives of fake tensors only make shapes; without one, torch's
fake process group of the size of the mesh is started for the time of the check.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from threading import RLock
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from .._deferred import dtensor, is_dtensor
from .._schema import Polynomial
from ..core import release_in_forks
from ..errors import UnsupportedOperationError
from ..nn import Diagnostic
from ..nn.parts._results import outputs
from ._bridge import Bridge, MeshPart, part_of, parts_of, without_shards
from ._followed_parts import bridge_of, judge_part, refuse_whole
from ._layout_rules import FieldPlace, Owner, Shards, chunk_span, placements_of, shards, specs_of, warn_unknown

_LOCK = release_in_forks(RLock())
_SCANS = ("cumsum", "cumprod", "logcumsumexp")
"""Functions that give wrong values along a split dim, as of torch 2.13."""
_FAKE_GROUP = "torch.testing._internal.distributed.fake_pg"


def follow(
    layout: Any,
    report: Any,
    stages: Sequence[Any],
    targets: Sequence[Callable[..., Any]],
    ends: Sequence[type],
    run: bool,
) -> Any:
    """Add the placements of all values, and what is wrong with them, to the report of the other checks.

    Without `run`, values are placed only by the layout, and modules over a part of the mesh are found.
    """
    between = [use.place.owner for uses in report.writes for use in uses if use is not None]
    warn_unknown(layout._rules, dict.fromkeys([*ends, *between]))
    if any(d.severity == "error" for d in report.diagnostics):
        return report
    with _LOCK, _mesh(layout) as mesh:
        followed = Followed(layout, mesh, report, stages, targets)
        followed.follow_all(run)
    return replace(
        report, diagnostics=(*report.diagnostics, *followed.found), placed=followed.placed, bridges=followed.bridges
    )


@contextmanager
def _mesh(layout: Any) -> Iterator[Any]:
    """The mesh of a layout; without a process group, one of a fake group for the block."""
    if dist.is_initialized():
        yield layout.mesh_on("cpu")
        return
    count = 1
    for size in layout.sizes.values():
        count *= size
    store = import_module(_FAKE_GROUP).FakeStore()
    dist.init_process_group("fake", store=store, rank=0, world_size=count)
    try:
        yield layout.mesh_on("cpu")
    finally:
        dist.destroy_process_group()
        forget_meshes()


def forget_meshes() -> None:
    """Clear the caches of torch for operations on DTensors: they keep meshes, and give them to an equal mesh later."""
    forget = getattr(import_module("torch.distributed.tensor.debug"), "_clear_sharding_prop_cache", None)
    if forget is not None:
        forget()
    for value in vars(import_module("torch.distributed.tensor._redistribute")).values():
        if hasattr(value, "cache_clear"):
            value.cache_clear()


class Scans(TorchFunctionMode):
    """A block in which a scan along a split dim raises: torch 2.13 scans each piece by itself, and says nothing."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call a function of torch, unless it is such a scan."""
        name, given = getattr(func, "__name__", "").rstrip("_"), kwargs or {}
        value: Any = args[0] if args else given["input"]
        if name in _SCANS and is_dtensor(value):
            dim = args[1] if len(args) > 1 else given.get("dim", 0)
            if any(one.is_shard() and one.dim == dim % value.ndim for one in value.placements):
                raise UnsupportedOperationError(
                    f"{name} along dim {dim}, which is split, would scan each piece by itself"
                )
        return func(*args, **given)


class Attention(TorchFunctionMode):
    """A block in which attention on DTensors is made of operations that they have, without masks: placements count."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call a function of torch, unless it is attention."""
        if func is nn.functional.scaled_dot_product_attention and len(args) >= 3 and is_dtensor(args[0]):
            query, key, value = args[:3]
            return (query @ key.transpose(-2, -1)).softmax(-1) @ value
        return func(*args, **(kwargs or {}))


def _names_in_inputs(report: Any) -> set[str]:
    """The dims whose sizes the inputs of a pipeline give."""
    terms = [term for place in report.inputs.values() for term in report.state.unifier.resolve(place.terms)]
    return {name for term in terms if isinstance(term, Polynomial) for name in term.names}


class Followed:
    """One run of the check.

    Attributes:
        found: what is wrong.
        placed: the placement of each value as text, by the number of the module that wrote it and its name.
        bridges: what calls the modules over a part of the mesh, by their numbers.
    """

    def __init__(
        self,
        layout: Any,
        mesh: Any,
        report: Any,
        stages: Sequence[Any],
        targets: Sequence[Callable[..., Any]],
    ) -> None:
        self.layout, self.mesh, self.report, self.stages, self.targets = layout, mesh, report, stages, targets
        self.found: list[Diagnostic] = []
        self.placed: dict[tuple[int, str], str] = {}
        self.values: dict[tuple[str, ...], Any] = {}
        self.bridges: dict[int, Bridge] = {}
        self.dims: dict[int, dict[str, tuple[int, ...] | None]] = {}
        self.size: int = 2 * mesh.size()  # of dims without a size; a split along any mesh dim divides it
        self.sized = _names_in_inputs(report)
        self.mode = import_module("torch._subclasses").FakeTensorMode(allow_non_fake_inputs=True)

    def follow_all(self, run: bool) -> None:
        """Follow all values from the input to the output; without `run`, only by the layout."""
        for path, place in self.report.inputs.items():
            self._keep(path, place, self._laid_out(place))
        for index, uses in enumerate(self.report.reads):
            self._step(index, uses, run)
        returned = {*self.report.sources.values()}
        for path, value in self.values.items():
            if path[0] in returned and is_dtensor(value) and any(one.is_partial() for one in value.placements):
                self._unfinished(path, value)

    # ---- values ------------------------------------------------------------------------------------------------------

    def _shape(self, place: Any, open_size: int = 0) -> tuple[int, ...]:
        size = open_size or self.size
        batch = () if place.spec.kind.is_shared else (size,) * self._batch_dims()
        terms = self.report.state.unifier.resolve(place.terms)
        sizes = [self._number(term, size) for term in terms if isinstance(term, Polynomial)]
        return (*batch, *sizes)

    def _number(self, term: Polynomial, size: int) -> int:
        """The size of a dim in which every open name has one size: a multiple of the mesh, as a rule."""
        open_: Any = dict.fromkeys(term.names, size)
        return term.substitute(open_).constant or 0

    def _batch_dims(self) -> int:
        batch = self.layout._rules.batch
        return 1 if isinstance(batch, Mapping) else max(1, len(batch))

    def _laid_out(self, place: Any) -> Any:
        """A field of the input as the layout has it; None for one that every rank holds whole."""
        found = self._claim(place)
        if found is None:
            return None
        return self._dtensor(self._shape(place), place.dtype.exact or torch.get_default_dtype(), found)

    def _claim(self, place: Any) -> Shards | None:
        """The placement of a field by the layout; None for one that every rank holds whole."""
        if not place.spec.kind.is_dense or place.dtype is None:
            return None
        batch = self.layout._rules.batch
        names = [*batch] if isinstance(batch, Mapping) else None
        shape = self._shape(place)
        shared = place.spec.kind.is_shared
        facts = FieldPlace(place.name, _owners(place), place.spec, self._batch_dims(), names, shape, shared)
        return shards(self.layout._rules, facts)

    def _piece(self, shape: Sequence[int], found: Shards) -> list[int]:
        where, sizes = self.mesh.get_coordinate(), self.mesh.shape
        return [chunk_span(size, dim, found, sizes, where)[1] for dim, size in enumerate(shape)]

    def _dtensor(self, shape: Sequence[int], dtype: torch.dtype, found: Shards) -> Any:
        local = self._piece(shape, found)
        stride = torch.empty(tuple(shape), device="meta").stride()
        with self.mode:
            return dtensor.DTensor.from_local(
                torch.empty(local, dtype=dtype),
                self.mesh,
                placements_of(found),
                run_check=False,
                shape=torch.Size(shape),
                stride=stride,
            )

    def _keep(self, path: tuple[str, ...], place: Any, value: Any) -> None:
        self.values[path] = value
        if is_dtensor(value):
            self.placed[place.writer, place.name] = _text(value.placements)

    # ---- one module --------------------------------------------------------------------------------------------------

    def _step(self, index: int, uses: Sequence[Any], run: bool) -> None:
        """Run one module, and keep the placements of what it gives."""
        stage = self.stages[index]
        given = [None if use is None else self.values.get(use.slot.path) for use in uses]
        made = cast("Sequence[Any]", (None,) * len(stage.writes))
        known = all(isinstance(value, Tensor) for value in given) and not any(
            u is not None and u.slot.items for u in uses
        )
        self._find_part(index, run)
        if not known:
            refuse_whole(self, index, given)
        elif not self._on_another_mesh(index) and run:
            result, error, looked = self._call(index, given)
            if error is None and self._is_left(index, result):
                result, error, looked = self._call(index, given)
            if error is None:
                made = outputs(result, stage.writes, stage.at(index))
                if index in self.bridges:
                    made = judge_part(self, index, given, made, looked)
                else:
                    self._judge(index, given, made, looked)
            else:
                self._refused(index, uses, given, error)
        for use, value in zip(self.report.writes[index], made, strict=True):
            if use is not None:
                good = is_dtensor(value) and value.device_mesh == self.mesh
                self._keep(use.slot.path, use.place, value if good else self._laid_out(use.place))

    def _call(self, index: int, given: Sequence[Any], keep: bool = False) -> tuple[Any, Exception | None, bool]:
        """The result of a module, its error, and whether it looked at the piece of this rank.

        Args:
            index: its number.
            given: its inputs.
            keep: whether what it makes local stays a DTensor.
        """
        looked: list[bool] = []
        kind: Any = dtensor.DTensor
        plain = kind.to_local

        def to_local(self: Any, **options: Any) -> Tensor:
            looked.append(any(not one.is_replicate() for one in self.placements))
            found: Tensor = self if keep and looked[-1] else plain(self, **options)
            return found

        stage, bridge = self.stages[index], self.bridges.get(index)
        part = None if bridge is None else bridge.part
        try:
            whole = without_shards(self.module(index), self.mesh, part, self.mode)
            with whole, self.mode, torch.no_grad(), _explicit(), Scans(), Attention():
                given = given if bridge is None else bridge.inward(given)
                kind.to_local = to_local
                how = getattr(stage, "how", None)
                target = self.targets[index]
                return (target(*given) if how is None else how.call(target, given)), None, any(looked)
        except Exception as error:  # the user's callable may raise anything
            return None, error, any(looked)
        finally:
            kind.to_local = plain

    def _say(self, index: int, code: str, text: str, notes: Sequence[str] = (), hint: str = "") -> None:
        stage = self.stages[index]
        self.found.append(stage.finding(index, code, f"{stage.at(index)} {text}", notes, hint))

    def _find_part(self, index: int, run: bool) -> None:
        """Keep the dims of the mesh that a module uses, and what calls it if it is over a part of the mesh."""
        module = self.module(index)
        if module is None:
            return
        dims = self.dims[index] = parts_of(module, self.mesh)
        part = part_of(module, self.mesh, dims)
        unseen = part is None and not run  # with a run, `_is_left` sees local tensors
        if unseen and dims and self.mesh.ndim == 1 and _has_hooks(module):
            part = MeshPart((), ())
        if part is not None:
            self.bridges[index] = bridge_of(self, index, part)

    def _on_another_mesh(self, index: int) -> bool:
        """Whether the parameters of a module are not on the mesh of the layout; reports it."""
        module = self.module(index)
        if module is None:
            return False
        parameters: list[tuple[str, Any]] = [*module.named_parameters()]
        dims = self.dims[index]
        for name, parameter in parameters:
            if dims[name] is not None and index in self.bridges:
                continue
            if not is_dtensor(parameter):
                what = f"is not parallelised: its parameter `{name}` is a plain tensor, and its inputs are DTensors"
                hint = "`distribute_module(module, mesh)` replicates it over the mesh of the layout"
                self._say(index, "E119", what, (), hint)
                return True
            if dims[name] is None or parameter.device_mesh != self.mesh:
                what = f"is on {_mesh_text(parameter.device_mesh)}, and the layout on {_mesh_text(self.mesh)}"
                hint = 'parallelise it over the mesh of the layout, or a part of it such as `mesh["tp"]`'
                self._say(index, "E119", what, (), hint)
                return True
        return False

    def _is_left(self, index: int, result: Any) -> bool:
        """Whether a module over a mesh of one dim gives local tensors, as tensor parallel modules do."""
        module = self.module(index)
        if index in self.bridges or self.mesh.ndim > 1 or module is None or not self.dims[index]:
            return False
        stage = self.stages[index]
        made = outputs(result, stage.writes, stage.at(index))
        if all(is_dtensor(value) for value in made) or not _has_hooks(module):
            return False
        self.bridges[index] = bridge_of(self, index, MeshPart((0,), ()))
        return True

    def module(self, index: int) -> nn.Module | None:
        """The module of a stage; None for a function."""
        return _module_of(self.targets[index])

    def _refused(self, index: int, uses: Sequence[Any], given: Sequence[Any], error: Exception) -> None:
        """A module that does not take its inputs as they are placed: which one, and what it takes."""
        text = str(error)
        if "mixed torch.Tensor and DTensor" in text:
            hint = "make it a DTensor, or a buffer of a module that `distribute_module` replicates"
            return self._say(index, "E119", "uses a plain tensor beside DTensors", (_line(error),), hint)
        for at, dim in self._movable(given):
            moved = [*given]
            moved[at] = self._gathered(given[at], [dim])
            if self._call(index, moved)[1] is None:
                return self._misplaced(index, uses, given, at, moved[at])
        every = [self._gathered(value, range(self.mesh.ndim)) for value in given]
        if self._call(index, every)[1] is None:
            at = next(at for at, _ in self._movable(given))
            return self._misplaced(index, uses, given, at, every[at])
        places = ", ".join(f"`{use.slot}` {_text(value.placements)}" for use, value in zip(uses, given, strict=True))
        return self._say(index, "E119", f"rejects its inputs as DTensors: {places}", (_line(error),), "")

    def _movable(self, given: Sequence[Any]) -> Iterator[tuple[int, int]]:
        for at, value in enumerate(given):
            if is_dtensor(value):
                yield from ((at, dim) for dim, one in enumerate(value.placements) if not one.is_replicate())

    def _gathered(self, value: Any, dims: Sequence[int]) -> Any:
        if not is_dtensor(value):
            return value
        found = tuple(
            one.dim if one.is_shard() and dim not in dims else None for dim, one in enumerate(value.placements)
        )
        return self._dtensor(value.shape, value.dtype, found)

    def _misplaced(self, index: int, uses: Sequence[Any], given: Sequence[Any], at: int, wanted: Any) -> None:
        slot = uses[at].slot
        have, want = _text(given[at].placements), _text(wanted.placements)
        text = f"does not take `{slot}` as {have}; it takes {want}"
        hint = f"before it, `{slot.path[-1]}.redistribute(placements=[{_code(wanted.placements)}])`"
        self._say(index, "E119", text, (f"the mesh is {_mesh_text(self.mesh)}",), hint)

    def _judge(self, index: int, given: Sequence[Any], made: Sequence[Any], looked: bool) -> None:
        """Report outputs that are plain, on another mesh, or of another shape."""
        for use, value in zip(self.report.writes[index], made, strict=True):
            if use is None or not hasattr(value, "layout"):
                continue
            if not is_dtensor(value):
                text = f"writes `{use.slot}` as a plain tensor, so each rank has the value of its own piece"
                hint = "return a DTensor: leave out `to_local`, or pass `use_local_output=False` to its ParallelStyle"
                self._say(index, "E121", text, (), hint)
            elif value.device_mesh != self.mesh:
                text = f"writes `{use.slot}` on {_mesh_text(value.device_mesh)}, the layout is on "
                self._say(index, "E119", text + _mesh_text(self.mesh))
            elif use.place.spec.kind.is_dense and not self._fits(use.place, value.shape):
                text = f"writes `{use.slot}` of shape {[*value.shape]}, and its inputs give {[*self._shape(use.place)]}"
                hint = "a DTensor that is made from pieces has the placement of these pieces"
                self._say(index, "E121", text, (f"it is {_text(value.placements)}",), hint)
        if looked and not any(d.module == index for d in self.found):
            self._on_pieces(index)

    def _on_pieces(self, index: int) -> None:
        text = "computes on the piece of each rank (`to_local`), which the check can't follow"
        self._say(index, "W212", text, (), "a norm or a sum over a split dim is wrong there; compare with one process")

    def _fits(self, place: Any, shape: Sequence[int]) -> bool:
        """Whether a value has the sizes of its declaration; those that only the output has are open."""
        wanted = self._shape(place)
        terms = self.report.state.unifier.resolve(place.terms)
        if any(not isinstance(term, Polynomial) for term in terms):
            return True
        open_ = [not {*term.names} <= self.sized for term in terms]
        skipped = [False] * (len(wanted) - len(terms)) + open_
        return len(shape) == len(wanted) and all(
            free or size == want for free, size, want in zip(skipped, shape, wanted, strict=True)
        )

    def _unfinished(self, path: tuple[str, ...], value: Any) -> None:
        writer = next(index for index, uses in enumerate(self.report.writes) for use in uses if _is_at(use, path))
        finished = [one if one.is_shard() else dtensor.Replicate() for one in value.placements]
        name = ".".join(path)
        text = f"gives the output `{name}` as {_text(value.placements)}, a sum over ranks that nobody has finished"
        hint = f"return `{path[-1]}.redistribute(placements=[{_code(finished)}])`"
        self._say(writer, "E120", text, (f"the mesh is {_mesh_text(self.mesh)}",), hint)


def _is_at(use: Any, path: tuple[str, ...]) -> bool:
    return use is not None and use.slot.path == path


def _module_of(target: Any) -> nn.Module | None:
    owner = target if isinstance(target, nn.Module) else getattr(target, "__self__", None)
    return owner if isinstance(owner, nn.Module) else None


def _has_hooks(module: nn.Module) -> bool:
    return any(one._forward_hooks for one in module.modules())


def _owners(place: Any) -> tuple[Owner, ...]:
    """The classes on the way to a field, the outermost first."""
    found, cls = [], place.owner
    for start, name in enumerate(place.path):
        if not isinstance(cls, type):
            break
        found.append(Owner(cls, place.path[start:]))
        spec = specs_of(cls).get(name)
        cls = None if spec is None else spec.nested
    return tuple(found)


def _explicit() -> Any:
    """A block in which an operation that would move an operand between ranks raises; not in old versions of torch."""
    kind = getattr(import_module("torch.distributed.tensor._utils"), "ExplicitRedistributionContext", None)
    return torch.no_grad() if kind is None else kind()


def _text(placements: Sequence[Any]) -> str:
    return f"({', '.join(_word(one) for one in placements)})"


def _word(one: Any) -> str:
    if one.is_shard():
        return f"Shard({one.dim})"
    return "Replicate" if one.is_replicate() else f"Partial({getattr(one, 'reduce_op', '')})"


def _code(placements: Sequence[Any]) -> str:
    return ", ".join(f"Shard({one.dim})" if one.is_shard() else "Replicate()" for one in placements)


def _mesh_text(mesh: Any) -> str:
    names = mesh.mesh_dim_names or range(mesh.ndim)
    return " x ".join(f"{name}={size}" for name, size in zip(names, mesh.shape, strict=True))


def _line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:200]
