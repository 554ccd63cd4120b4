"""`Layout`: which dims of a batch are split over which dims of a device mesh."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from math import prod
from types import MappingProxyType
from typing import Any, NoReturn, TypeVar
from weakref import WeakKeyDictionary

import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh

from .._deferred import dtensor
from .._schema import Dim, parse_dims
from ..classes import FieldRef
from ..errors import ArgumentError, DimSyntaxError, FrozenError, StructureError, did_you_mean
from ._agreed import compare_calls
from ._followed import follow
from ._layout_rules import Rules, class_name
from ._layout_table import LayoutTable, table
from ._links import is_fake, talking
from ._sequences import split_sequences

_MESHES: WeakKeyDictionary[Any, dict[Any, Any]] = WeakKeyDictionary()
"""The meshes that layouts have made, for each default process group: making one takes all ranks."""
Batch = TypeVar("Batch")
MeshDims = str | Sequence[str]
"""One mesh dim, or several in the order of the mesh."""


class Layout:
    """Which dims of a batch are split over which dims of a device mesh.

    Dims that are not named are replicated. A layout knows no class: it fits each class whose dims have its names. It is
    immutable and hashable, and is pickled as names.

    Args:
        mesh: a `DeviceMesh` with named dims, or the names and sizes of its dims, for checks without processes.
        fields: placements of single fields, which replace the rules for their dims. `{Tokens.weight: Replicate()}`
            holds for all mesh dims; `{Tokens.weight: {"tp": Shard(0)}}` for some, the others are replicated. A
            reference to a nested class holds for all its fields.
        batch: the mesh dims of the batch dims: one name for the first batch dim, a sequence for the first ones (None
            for a dim that is not split, a tuple for several mesh dims), or a mapping from dim names.
        **dims: the mesh dims of event dims, by their declared names: `t="cp"`. An expression is written as
            `**{"h*w": "tp"}`, and its size must be a multiple of the size of the mesh dim. Several mesh dims for one
            dim are a tuple, in the order of the mesh.

    Raises:
        ArgumentError: for names that the mesh doesn't have, a mesh dim that is used twice, and wrong placements.

    >>> from torch import Tensor
    >>> from tensorclass import TensorClass
    >>> from tensorclass.parallel import Layout
    >>> from tensorclass.typing import Bool, Float32, Int64
    >>> class Tokens(TensorClass):
    ...     ids: Int64[Tensor, "t"]
    ...     mask: Bool[Tensor, "t"]
    ...     weight: Float32[Tensor, ""]
    >>> layout = Layout({"dp": 2, "cp": 2, "tp": 2}, batch="dp", t="cp")
    >>> print(layout.explain(Tokens, batch_size=64, t=512))
    field   dims     dp=2      cp=2       tp=2       each rank
    ids     [64, t]  Shard(0)  Shard(1)   Replicate  [32, 256]
    mask    [64, t]  Shard(0)  Shard(1)   Replicate  [32, 256]
    weight  [64]     Shard(0)  Replicate  Replicate  [32]
    """

    __slots__ = ("_key", "_made", "_rules", "sizes")
    sizes: Mapping[str, int]
    """The sizes of the mesh dims, by name, in the order of the mesh."""

    def __init__(
        self,
        mesh: Any,
        fields: Mapping[Any, Any] = MappingProxyType({}),
        /,
        *,
        batch: MeshDims | Sequence[MeshDims | None] | Mapping[str, MeshDims] | None = None,
        **dims: MeshDims,
    ) -> None:
        sizes = _sizes(mesh)
        named = {_dim(name): _mesh_dims(sizes, name, given) for name, given in dims.items()}
        batched = _batch(sizes, batch)
        rules = Rules(sizes, batched, named, _overrides(sizes, fields), set())
        object.__setattr__(self, "sizes", MappingProxyType(sizes))
        object.__setattr__(self, "_rules", rules)
        object.__setattr__(self, "_made", None if isinstance(mesh, Mapping) else mesh)
        object.__setattr__(self, "_key", repr(self.to_dict()))

    _key: str
    _made: Any
    _rules: Rules

    # ---- as a value --------------------------------------------------------------------------------------------------

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise FrozenError(f"a Layout is immutable: `{name:.80}` can't be set; make another layout")

    def __delattr__(self, name: str) -> NoReturn:
        raise FrozenError(f"a Layout is immutable: `{name:.80}` can't be deleted")

    def __eq__(self, other: object) -> bool:
        return self._key == other._key if isinstance(other, Layout) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        rules = self._rules
        parts = [", ".join(f"{name}={size}" for name, size in self.sizes.items())]
        parts += [f"batch={_short(rules.batch)}"] if rules.batch else []
        parts += [f"{name}={_short(places)}" for name, places in rules.dims.items()]
        parts += [f"{len(rules.fields)} fields of their own"] if rules.fields else []
        return f"Layout({'; '.join(parts)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Layout.from_dict, (self.to_dict(),)

    def to_dict(self) -> dict[str, Any]:
        """The layout as names and numbers, for JSON."""
        rules = self._rules
        batch = dict(rules.batch) if isinstance(rules.batch, Mapping) else list(rules.batch)
        fields = [[owner, list(path), dict(placed)] for (owner, path), placed in rules.fields.items()]
        return {"mesh": dict(self.sizes), "batch": batch, "dims": dict(rules.dims), "fields": fields}

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> Layout:
        """The layout that `to_dict` describes, on the names and sizes of a mesh.

        >>> from tensorclass.parallel import Layout
        >>> layout = Layout({"dp": 2}, batch="dp")
        >>> Layout.from_dict(layout.to_dict()) == layout
        True
        """
        batch: Any = data["batch"]
        batch = batch if isinstance(batch, Mapping) else [tuple(places) for places in batch]
        made = Layout(data["mesh"], batch=batch, **data["dims"])
        fields = {(owner, tuple(path)): dict(placed) for owner, path, placed in data["fields"]}
        object.__setattr__(made, "_rules", made._rules._replace(fields=fields))
        object.__setattr__(made, "_key", repr(made.to_dict()))
        return made

    # ---- what it says ------------------------------------------------------------------------------------------------

    def explain(self, what: Any, batch_size: int | Sequence[int] | None = None, **sizes: int) -> LayoutTable:
        """A table of the fields of a class or batch: their dims, placements, and shapes on each rank.

        Args:
            what: a typed class, or a batch.
            batch_size: the batch size, for a class.
            **sizes: sizes of named dims, for a class.

        Raises:
            ArgumentError: for a field that can't be laid out so.

        Warns:
            LayoutWarning: for a dim that no field has.
        """
        return table(self._rules, what, batch_size, sizes)

    def follow(
        self, report: Any, stages: Sequence[Any], targets: Sequence[Any], ends: Sequence[type], /, *, run: bool = True
    ) -> Any:
        """Add placements to the report of the build check of a pipeline; `TensorClassSequential(layout=...)` calls it.

        With `run=False` no module runs: only the layout places values.

        >>> Layout({"dp": 2}).follow.__name__
        'follow'
        """
        return follow(self, report, stages, targets, ends, run)

    def context_parallel(
        self, batch: Batch, dim: str | None = None, *, buffers: Sequence[tuple[Tensor, int]] = ()
    ) -> AbstractContextManager[Batch]:
        """A block in which each rank has a piece of all sequences, and torch's attention sees the whole ones.

        It is torch's experimental `context_parallel`: the fields that have the dim are its buffers, in copies, so the
        batch itself stays whole. torch balances the work of causal attention: each rank has an early and a late part
        of the sequence.

        Args:
            batch: the rows of this rank, with whole sequences.
            dim: the declared dim of sequences; not needed if the layout splits only one event dim.
            buffers: further tensors with their sequence dims, such as positions and masks; in the block they are
                pieces, too.

        Raises:
            ArgumentError: for a dim that the layout doesn't split, and sizes that it can't cut into equal parts.

        >>> import torch, torch.distributed as dist
        >>> from torch import Tensor
        >>> from tensorclass import TensorClass
        >>> from tensorclass.parallel import Layout
        >>> from tensorclass.typing import Int64
        >>> class Tokens(TensorClass):
        ...     ids: Int64[Tensor, "t"]
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)  # torchrun has more ranks
        >>> positions = torch.arange(8)
        >>> with Layout({"cp": 1}, t="cp").context_parallel(Tokens(positions[None]), buffers=[(positions, 0)]) as part:
        ...     part.ids.shape
        torch.Size([1, 8])
        >>> dist.destroy_process_group()
        """
        return split_sequences(self, batch, dim, buffers)

    def data_rank(self, call: str = "") -> tuple[int, int]:
        """The number of this rank's rows among those of all ranks, and the number of different rows.

        Ranks that differ only in mesh dims over which the first batch dim is not split have the same rows.

        Args:
            call: what this rank does with the rows, as text, such as the options of a loader. If it is given, all
                ranks compare it, and their layouts.

        Raises:
            ArgumentError: if no process group was started, or one of another size.
            StructureError: on all ranks, if `call` or a layout differs, or one rank is not in its mesh.

        >>> import torch.distributed as dist
        >>> from tensorclass.parallel import Layout
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)  # torchrun has more ranks
        >>> Layout({"dp": 1, "tp": 1}, batch="dp").data_rank()
        (0, 1)
        >>> dist.destroy_process_group()
        """
        if call:
            self._expect_ranks(False)
            compare_calls(self, call.partition("(")[0], call, self._problem())
        places = self._rules.of_rows()
        here, count = dict(zip(self.sizes, self.coordinate(), strict=True)), 1
        number = 0
        for name in self.sizes:
            if name in places:
                number = number * self.sizes[name] + here[name]
                count *= self.sizes[name]
        return number, count

    def coordinate(self) -> tuple[int, ...]:
        """The place of this rank in the mesh.

        Raises:
            ArgumentError: if no process group was started, or one of another size.
        """
        if self._made is not None:
            found = self._made.get_coordinate()
            if found is None:
                raise ArgumentError(f"rank {dist.get_rank()} is not in the mesh of {self!r}")
            return tuple(found)
        self._expect_ranks()
        rank, place = dist.get_rank(), list[int]()
        for size in reversed([*self.sizes.values()]):
            rank, at = divmod(rank, size)
            place.insert(0, at)
        return tuple(place)

    def _problem(self) -> str:
        """Why this rank has no place in the mesh; empty if it has one."""
        try:
            self.coordinate()
        except ArgumentError as error:
            return str(error)
        return ""

    def mesh_on(self, device_type: str) -> Any:
        """The `DeviceMesh`; one that was given as names and sizes is made once, by all ranks.

        Args:
            device_type: "cpu" or "cuda", for a mesh that was given as names.

        Raises:
            ArgumentError: if no process group was started, or one of another size.
            StructureError: on all ranks, if they make meshes of other dims or sizes.
        """
        if self._made is not None:
            return self._made
        self._expect_ranks()
        made = _MESHES.setdefault(dist.group.WORLD, {})
        key = (device_type, *self.sizes.items())
        if key not in made:
            self._compare()
            made[key] = init_device_mesh(device_type, tuple(self.sizes.values()), mesh_dim_names=tuple(self.sizes))
        return made[key]

    def _compare(self) -> None:
        """Compare the meshes that all ranks are about to make: of two meshes, the first ranks would wait for ever."""
        world: Any = dist.group.WORLD
        if is_fake(world):
            return
        each: list[Any] = [None] * dist.get_world_size()
        with talking(world, "making a mesh"):
            dist.all_gather_object(each, [*self.sizes.items()])
        for rank, sizes in enumerate(each):
            if sizes != each[0]:
                raise StructureError(
                    f"rank 0 makes the mesh {_times(each[0])}, and rank {rank} {_times(sizes)}; all ranks of a mesh "
                    f"give its dims alike"
                )

    def _expect_ranks(self, sizes: bool = True) -> None:
        """Refuse a process group that was not started, or, with `sizes`, one of another size than the mesh."""
        wanted = prod(self.sizes.values())
        if not dist.is_available() or not dist.is_initialized():
            raise ArgumentError(
                f"{self!r} needs {wanted} ranks, and no process group was started: call "
                f"`torch.distributed.init_process_group` first"
            )
        if sizes and dist.get_world_size() != wanted:
            mesh = _times(self.sizes.items())
            raise ArgumentError(
                f"the mesh {mesh} needs {wanted} ranks, and the process group has {dist.get_world_size()}"
            )


def _times(sizes: Iterable[tuple[str, int]]) -> str:
    return " x ".join(f"{name}={size}" for name, size in sizes)


def _short(places: Any) -> str:
    if isinstance(places, Mapping):
        return "{" + ", ".join(f"{name}: {_short(given)}" for name, given in places.items()) + "}"
    return "*".join(places) if all(isinstance(name, str) for name in places) else ", ".join(map(_short, places))


# ---- arguments ------------------------------------------------------------------------------------------------------


def _sizes(mesh: Any) -> dict[str, int]:
    """The names and sizes of the dims of a mesh."""
    if not isinstance(mesh, Mapping):
        names = getattr(mesh, "mesh_dim_names", None)
        if not hasattr(mesh, "get_coordinate"):
            raise ArgumentError(
                f"a layout takes a DeviceMesh, or the names and sizes of its dims such as "
                f'{{"dp": 2, "tp": 4}}; got a {type(mesh).__name__}'
            )
        if not names:
            raise ArgumentError("the dims of the mesh have no names: pass `mesh_dim_names=` to `init_device_mesh`")
        mesh = dict(zip(names, mesh.shape, strict=True))
    for name, size in mesh.items():
        if not isinstance(name, str) or not name:
            raise ArgumentError(f"a mesh dim is a name, got {name!r:.80}")
        if type(size) is not int or size < 1:
            raise ArgumentError(f"the mesh dim `{name}` has 1 rank or more, got {size!r:.80}")
    if not mesh:
        raise ArgumentError("a mesh has at least one dim, got none")
    return dict(mesh)


def _dim(name: str) -> str:
    """A declared dim in its normal form."""
    try:
        tokens = parse_dims(name).tokens
    except DimSyntaxError as error:
        raise ArgumentError(f"`{name:.80}=`: {error}") from None
    if len(tokens) != 1 or not isinstance(tokens[0], Dim) or tokens[0].size.constant is not None:
        raise ArgumentError(
            f"`{name:.80}` is not the name of one dim: a layout takes names such as `t` and expressions such as `h*w`"
        )
    return str(tokens[0].size).replace(" ", "")


def _mesh_dims(sizes: Mapping[str, int], what: str, given: Any) -> tuple[str, ...]:
    """The mesh dims that an option names, in their order."""
    names = (given,) if isinstance(given, str) else given
    if not isinstance(names, Iterable):
        raise ArgumentError(f"`{what}=` is the name of a mesh dim, or several, got {given!r:.80}")
    found = tuple(names)
    for name in found:
        if name not in sizes:
            hint = f"; write `{name}={what!r}`" if what in sizes else did_you_mean(str(name), sizes)
            raise ArgumentError(f"`{what}={given!r}`: the mesh has no dim `{name}`{hint}; its dims are {list(sizes)}")
    order = [*sizes]
    if sorted(found, key=order.index) != [*found] or len({*found}) != len(found):
        raise ArgumentError(f"`{what}={given!r}`: write each mesh dim once, in the order of the mesh, {order}")
    return found


def _batch(sizes: Mapping[str, int], given: Any) -> Any:
    """The mesh dims of each batch dim, by number or by name."""
    if given is None:
        return ()
    if isinstance(given, Mapping):
        found: Any = {name: _mesh_dims(sizes, f"batch.{name}", places) for name, places in given.items()}
        each = [*found.values()]
    else:
        if not isinstance(given, Iterable):
            raise ArgumentError(f"`batch=` is the name of a mesh dim, or several, got {given!r:.80}")
        listed = (given,) if isinstance(given, str) else tuple(given)
        each = [() if places is None else _mesh_dims(sizes, "batch", places) for places in listed]
        found = tuple(each)
    used = [name for places in each for name in places]
    for name in used:
        if used.count(name) > 1:
            raise ArgumentError(
                f"`batch={given!r}`: the mesh dim `{name}` splits two batch dims; it can split only one. "
                f"Several mesh dims for the first batch dim are written `batch=(({', '.join(map(repr, sizes))}),)`"
            )
    return found


def _overrides(sizes: Mapping[str, int], given: Mapping[Any, Any]) -> dict[tuple[str, tuple[str, ...]], Any]:
    if not isinstance(given, Mapping):
        raise ArgumentError(f"placements of fields are a mapping from references, got a {type(given).__name__}")
    found = {}
    for ref, placed in given.items():
        if not isinstance(ref, FieldRef):
            raise ArgumentError(
                f"a field is named by a reference, such as `{{Tokens.weight: Replicate()}}`, got {ref!r:.80}"
            )
        name = f"{ref._owner.__name__}.{'.'.join(ref._path)}"
        found[class_name(ref._owner), ref._path] = _placed(sizes, name, placed)
    return found


def _placed(sizes: Mapping[str, int], field: str, given: Any) -> dict[str, int]:
    """The split dim of a field by mesh dim, without those that replicate it."""
    if isinstance(given, dtensor.Placement):
        if isinstance(given, dtensor.Partial):
            raise _partial(field, given)
        if isinstance(given, dtensor.Replicate):
            return {}
        first = next(iter(sizes))
        raise ArgumentError(f"`{field}` is split over which mesh dim? Write `{{{field}: {{{first!r}: {given}}}}}`")
    if not isinstance(given, Mapping):
        raise ArgumentError(
            f"`{field}` has a placement, `Replicate()`, or one for each mesh dim, such as `{{'tp': Shard(0)}}`; "
            f"got {given!r:.80}"
        )
    found = {}
    for name, placement in given.items():
        (mesh_dim,) = _mesh_dims(sizes, field, (name,))
        if isinstance(placement, dtensor.Partial):
            raise _partial(field, placement)
        if isinstance(placement, dtensor.Shard):
            found[mesh_dim] = int(placement.dim)
        elif not isinstance(placement, dtensor.Replicate):
            raise ArgumentError(f"`{field}` over `{name}` is `Shard(dim)` or `Replicate()`, got {placement!r:.80}")
    return found


def _partial(field: str, placement: Any) -> ArgumentError:
    return ArgumentError(
        f"`{field}`: {placement} is the state of an unfinished sum, which no batch is distributed to; use "
        f"`Replicate()` or `Shard(dim)`"
    )
