"""The checks that a typed class adds to its store: values, casts and results must fit the declaration."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from .._deferred import is_dtensor
from .._schema import Dim, Dims, FieldSpec, Schema, cast_problem, check_field, check_fields, schema_of
from ..core import VALUES, Names, Step, TensorCollection, as_jagged, as_jagged_layout, join_path, leaves_below, store_of
from ..errors import CastError, Problem, SchemaError, StructureError
from ..ops._keys import requires
from ..ops._steps import carry_out
from ..store import Node, NonTensorDataBase, NonTensorStack, RaggedTensor, TensorDict, Unbatched, plain_object
from ..store.entries._agreement import require_agreement
from ._access import is_like, leaves_by_name, mixes
from ._errors import cannot_drop, unknown_field
from ._validators import run_checks


def to_entry(spec: FieldSpec, value: Any, batch_size: torch.Size) -> Any:
    """Convert a checked value to the entry that the store holds."""
    if isinstance(value, Node) or (value is None and not spec.takes_none):
        return value
    if spec.kind.is_shared:
        return Unbatched(value)  # pyright: ignore[reportArgumentType]  # a shared field takes no None
    if spec.kind.is_ragged:
        return RaggedTensor.of(value, batch_size, _no_elements(spec))
    return NonTensorStack.of(value, batch_size) if spec.kind.is_per_element else plain_object(value)


def _no_elements(spec: FieldSpec) -> Tensor:
    """The values of a ragged field without elements: the declared dtype, and 0 for sizes that are not literal."""
    assert spec.spec is not None  # a ragged field has one
    tokens = () if spec.spec.dims is None else spec.spec.dims.tokens[1:]
    sizes = [token.size.constant or 0 if isinstance(token, Dim) else 0 for token in tokens]
    return torch.empty(0, *sizes, dtype=spec.spec.dtype.exact)


def check_one(self: Any, key: str, value: Any) -> Any:
    """Check one field against its declaration and the other fields, then against the store."""
    schema = type(self).__tensorclass_schema__
    if key not in schema.fields:
        raise unknown_field(type(self), key)
    if _all_alike(self, {key: value}):
        return value
    if self._store._stacked:
        return check_many(self, {key: value})[key]
    value = _bare(value)
    if type(value) is Tensor and value.is_nested:
        value = as_jagged_layout(key, value)
    others = {name: entry for name, entry in self._entries().items() if name != key}
    options = type(self).__tensorclass_options__
    checked = check_field(schema, key, value, batch_size=self._batch_size, others=readable(others), options=options)
    refuse_plain(self._entries(), {key: checked})
    return _in_state(self, {key: _store_check(self, key, checked)})[key]


def check_many(self: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    """Check several fields that are written together, against the resulting state."""
    schema = type(self).__tensorclass_schema__
    for key in values:
        if key not in schema.fields:
            raise unknown_field(type(self), key)
    if _all_alike(self, values):
        return dict(values)
    if self._store._stacked:
        return self._store._check_members(values, lambda part, shares: check_many(self._wrap(part), shares))  # type: ignore[no-any-return]  # a dict
    values = as_jagged(values.items()) or values
    if len(values) == 1:
        return {key: check_one(self, key, value) for key, value in values.items()}
    state = {**_state(schema, readable(self._entries())), **readable(values)}
    checked, _ = check_all(type(self), state, self._batch_size)
    refuse_plain(self._entries(), {key: checked[key] for key in values if key in checked})
    return _in_state(self, {key: _store_check(self, key, checked.get(key)) for key in values})


def refuse_plain(entries: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    """Refuse plain tensors in a batch that is distributed over a device mesh, and DTensors of another mesh.

    Raises:
        StructureError: names the field, and one that is a DTensor.
    """
    if not (mixes(values) or mixes(entries)):
        return
    new, old = leaves_by_name(values), leaves_by_name(entries)
    kept = {name: leaf for name, leaf in old.items() if name.partition(".")[0] not in values}
    pairs: list[tuple[str, Any]] = [*kept.items(), *new.items(), *old.items()]
    beside, placed = next((name, leaf) for name, leaf in pairs if is_dtensor(leaf))
    for name, value in pairs[len(kept) : len(kept) + len(new)]:
        if not is_dtensor(value):
            raise StructureError(
                f"`{name}` would be a plain tensor beside the DTensor `{beside}` {placed.placements}; assign a "
                f"DTensor (`torch.distributed.tensor.distribute_tensor`), or set it before `distribute`"
            )
        if value.device_mesh != placed.device_mesh:
            raise StructureError(
                f"`{name}` would be on {value.device_mesh}, and `{beside}` is on {placed.device_mesh}; "
                f"distribute the whole batch: `batch.distribute(layout)`"
            )


def without_absent(self: Any, source: Any) -> Any:
    """What an in-place write takes from a source: None for an optional field that is absent writes nothing."""
    fields, present = type(self).__tensorclass_schema__.fields, self._live()
    entries = readable(source._entries()) if isinstance(source, TensorCollection) else source
    absent = [k for k, v in entries.items() if v is None and k in fields and k not in present]
    if isinstance(source, TensorCollection):
        without: Any = source
        return without.exclude(*absent)
    return {key: value for key, value in entries.items() if key not in absent}


def put_steps(self: Any, values: dict[str, Any]) -> list[Step]:
    """The steps that write several checked fields. Fields that become None are removed."""
    present = self._store._live()
    gone = [key for key, value in values.items() if value is None]
    steps = [step for key in gone if key in present for step in self._store._drop_steps(key)]
    return [*steps, *self._store._put_steps({key: values[key] for key in values if key not in gone})]


def swap_in(self: Any, entries: dict[str, Any], seen: dict[str, Any]) -> None:
    """Replace all entries in one step."""
    require_droppable(type(self), seen.keys() - entries.keys())
    self._store._swap_in(entries, self._store._entries())


def require_droppable(cls: Any, keys: Iterable[str]) -> None:
    """Refuse to remove a field that is not optional."""
    for key in keys:
        if requires(cls, key):
            raise cannot_drop(cls, key)


def _in_state(self: Any, entries: dict[str, Any]) -> dict[str, Any]:
    """The entries to write, after the class validators have checked the resulting state."""
    if type(self).__tensorclass__.checks:
        new = self._twin()
        for key, entry in entries.items():
            new._put(key, entry)
        run_checks(new)
    return entries


def _all_alike(self: Any, values: Mapping[str, Any]) -> bool:
    """Whether all values are tensors that replace tensors of the same dtype and shape, which needs no further check."""
    if self._store._stacked or self._device is not None:
        return False
    if type(self).__tensorclass__.checked:
        return False
    present = self._store._live()
    return all([is_like(present.get(key), value) for key, value in values.items()])


def _state(schema: Schema, entries: Mapping[str, Any]) -> dict[str, Any]:
    """The entries for the validator. An absent optional field is None, not its default."""
    absent = {name: None for name, spec in schema.fields.items() if spec.optional and not spec.produced}
    return {**absent, **entries}


def _store_check(self: Any, key: str, value: Any) -> Any:
    return _as_stored(type(self).__tensorclass_schema__.fields[key], value, self._store)


def _as_stored(spec: FieldSpec, value: Any, store: Any) -> Any:
    """A checked value in the form that the store accepts.

    A list of numbers becomes a tensor only if a tensor is declared. None means that the field is absent.
    """
    entry = to_entry(spec, value, store._batch_size)
    plain = entry is None or (spec.kind.takes_none and not isinstance(entry, (Tensor, TensorCollection, Node)))
    return entry if plain else store._check(spec.name, entry)


def readable(entries: Mapping[str, Any]) -> dict[str, Any]:
    """Entries as the validator sees them: shared tensors and objects are unwrapped."""
    return {key: _bare(value) for key, value in entries.items()}


def _bare(value: Any) -> Any:
    return value._read_value() if isinstance(value, (Unbatched, NonTensorDataBase)) else value


def check_all(cls: Any, values: Mapping[str, Any], size: Any) -> tuple[dict[str, Any], torch.Size]:
    """Check the values of a new instance; see `check_fields`."""
    options = cls.__tensorclass_options__
    checked, found = check_fields(cls.__tensorclass_schema__, values, batch_size=size, options=options)
    refuse_plain({}, checked)
    return checked, found


def new_store(
    cls: Any, checked: Mapping[str, Any], size: torch.Size, device: Any = None, names: Names = None
) -> TensorDict:
    """Checked values in a store, in the order of the declaration."""
    store = TensorDict._of({}, size, device, names, True)
    for name, spec in cls.__tensorclass_schema__.fields.items():
        entry = _as_stored(spec, checked[name], store) if name in checked else None
        if entry is not None:
            store._put(name, entry)
    return store


def adopt(cls: Any, tensordict: Any, extra: Mapping[str, Any]) -> Any:
    """Wrap a container in an instance, and validate it; nested containers are validated against their classes."""
    if isinstance(tensordict, Mapping):
        tensordict = TensorDict(tensordict)
    if not isinstance(tensordict, TensorCollection):
        given = f"{type(tensordict).__name__} {tensordict!r:.60}"
        problem = Problem("from_tensordict", "a container to wrap", given, "give a TensorDict or a mapping")
        raise SchemaError.of(cls.__name__, [problem])
    store: Any = store_of(tensordict)
    for key, value in extra.items():
        store.set(key, value)
    if store._afar:
        return _adopt_stored_in_file(cls, store)
    if store._stacked:
        members = [store_of(member) for member in store._members]
        for member in members:
            adopt(cls, member, {})
        same = all([a is b for a, b in zip(members, store._members, strict=True)])
        return cls._wrap((store if same else store._with_members(members))._joined_by(cls))
    entries = store._entries()
    seen, given = readable(entries), store
    for name, spec in cls.__tensorclass_schema__.fields.items():
        value = seen.get(name)
        if spec.nested is not None and isinstance(value, TensorCollection) and not isinstance(value, spec.nested):
            seen[name] = _prefix_problems((name,), cls, adopt, spec.nested, value, {})
            # an instance of another class, and a container with entries of None, must not change in its own container
            if hasattr(value, "_store") or not (value._stacked or store_of(seen[name]) is value):
                store = store._twin() if store is given else store
                store._put(name, seen[name])
    checked, _ = check_all(cls, seen, store._batch_size)
    for name, spec in cls.__tensorclass_schema__.fields.items():
        value = checked.get(name)
        if value is None and name in entries and not spec.takes_none:  # None means that the field is absent
            store = store._twin() if store is given else store
            store._drop(name)
        changed = spec.kind.is_listed or spec.kind.is_shared or isinstance(entries.get(name), NonTensorDataBase)
        changed = changed or name not in seen
        if value is not None and (changed or (isinstance(value, Tensor) and value is not seen[name])):
            store._put(name, to_entry(spec, value, store._batch_size))
    return run_checks(cls._wrap(store))


def _adopt_stored_in_file(cls: Any, store: Any) -> Any:
    """As `adopt`, for a store in a file: only fields with constraints or validators are read, others are sketched."""
    fields = cls.__tensorclass_schema__.fields
    looked_into = [name for name, spec in fields.items() if spec.metadata or spec.validators]
    seen: dict[str, Any] = readable(store._sketch(looked_into))
    for name, spec in fields.items():
        if spec.nested is not None and isinstance(seen.get(name), TensorCollection):
            seen[name] = adopt(spec.nested, seen[name], {})
    checked, _ = check_all(cls, seen, store._batch_size)
    for name, spec in fields.items():
        if name not in seen and checked.get(name) is not None:
            store._put(name, to_entry(spec, checked[name], store._batch_size))
    return run_checks(cls._wrap(store))


def try_on_members(self: Any, name: str, *args: Any) -> None:
    """Try a write to a lazy stack on a copy first, since the resulting lengths are only known afterwards.

    Raises:
        SchemaError: if dims of the same name would differ.
    """
    trial = self._store.clone()
    plan = getattr(trial, name)(*args)
    if name == "_plan":
        carry_out(plan)
    for member in trial._members:
        part = self._wrap(store_of(member))
        require_agreement(type(self).__name__, type(self).__tensorclass_schema__, part._live(), part._batch_size)


# ---- results of operations ---------------------------------------------------------------------------------------


def specs_of(self: Any) -> Iterator[tuple[str, FieldSpec | None, Any]]:
    """The path, the declaration and the value of each `VALUES` leaf, in the order of `_leaves(VALUES)`."""
    for leaf in leaves_below(self):
        spec = schema.fields.get(leaf.path[-1]) if (schema := schema_of(leaf.holder)) else None
        yield from ((join_path(leaf.path), spec, tensor) for tensor in leaf.tensors)


def accept(self: Any, new: Sequence[Tensor], op: str) -> None:
    """Refuse a result whose dtypes or event shapes break the declaration; the error names every such field."""
    problems = []
    for (path, spec, old), leaf in zip(specs_of(self), new, strict=True):
        if spec is None or spec.spec is None:
            continue
        if not spec.spec.dtype.accepts(leaf.dtype):
            hint = (
                f"work on `batch.to_tensordict()`, declare a family such as `Float[...]`, or apply {op} to the fields "
                "that can hold the result"
            )
            problems.append(Problem(path, str(spec.spec), f"{op} gives {leaf.dtype}", hint))
        elif leaf.shape != old.shape and spec.spec.dims is not None:
            problems.append(Problem(path, str(spec.spec), f"{op} gives shape {list(leaf.shape)}", "operands broadcast"))
    if problems:
        unique = list(dict.fromkeys(problems))  # members of a stack repeat problems
        raise SchemaError.of(type(self).__name__, unique)


def _casts_freely(value: Any, dtype: torch.dtype) -> bool:
    """Whether no declaration of a container or its nested containers refuses a cast."""
    facts = getattr(type(value), "__tensorclass__", None)
    if facts is not None and dtype not in facts.casts:
        return False
    if value._tensors_by_key() is not None:
        return True
    return all([_casts_freely(v, dtype) for v in value._outline().values() if isinstance(v, TensorCollection)])


def dtypes(leaves: Sequence[Tensor]) -> list[torch.dtype]:
    """The dtype of each leaf."""
    return [leaf.dtype for leaf in leaves]


def castable(self: Any, leaves: Sequence[Tensor], dtype: torch.dtype) -> list[bool]:
    """Which leaves a cast converts: floating ones, as with `nn.Module.to`.

    Raises if a declared dtype forbids the cast.
    """
    if _casts_freely(self, dtype):
        return [leaf.is_floating_point() or leaf.is_complex() for leaf in leaves]
    problems = []
    wanted = []
    for path, spec, leaf in specs_of(self):
        touched = leaf.is_floating_point() or leaf.is_complex()
        wanted.append(touched)
        if touched and spec is not None and spec.spec is not None:
            problem = cast_problem(spec, dtype)
            if problem is not None:
                problems.append(problem._replace(path=path))
    if problems:
        names = ", ".join(f"`{p.path}`: {p.declared}" for p in dict.fromkeys(problems))
        raise CastError(
            f"{type(self).__name__}: a cast to {dtype} would break declared dtypes ({names}); declare the family "
            "`Float[...]` for fields that may be cast, or work on `batch.to_tensordict()`"
        )
    return wanted


def check_size(self: Any, size: torch.Size, path: tuple[str, ...]) -> None:
    """Refuse a batch size of another rank, which would move dims between the batch and the declared event dims."""
    problems = []
    for name, value in self._store._entries().items():
        spec = type(self).__tensorclass_schema__.fields[name]
        shape = value.shape if (spec.kind.is_batched or spec.kind.is_listed) and value is not None else None
        dims = Dims(()) if spec.kind.is_listed else spec.dims
        if shape is None or dims is None:
            continue
        rank = len(shape) - len(size)
        if rank < dims.min_rank or (dims.rank is not None and rank > dims.rank):
            given = f"shape {list(shape)}, which leaves {rank} event dims to the batch size {list(size)}"
            hint = "make a batch of another shape with `reshape`, `flatten`, `unsqueeze` or an index"
            problems.append(Problem(".".join((*path, name)), str(spec), given, hint))
    if problems:
        raise SchemaError.of(type(self).__name__, problems)


def rebuild_mapped(
    self: Any, entries: dict[str, Any], size: torch.Size, path: tuple[str, ...], device: Any = None, names: Names = None
) -> Any:
    """A twin around entries that a function returned. Entries like the old ones are valid; others are validated."""
    cls = type(self)
    old = self._store._live()
    same_keys = size == self._batch_size and list(entries) == list(old)
    if same_keys and all(map(_have_same_form, list(old.values()), entries.values())):
        return cls._wrap(TensorDict._of(entries, size, device, names, self._tensors_by_key() is not None))
    state = _state(cls.__tensorclass_schema__, readable(entries))
    checked, _ = _prefix_problems(path, cls, check_all, cls, state, size)
    return cls._wrap(new_store(cls, checked, size, device, names))


def mapped_stack(self: Any, found: Any, path: tuple[str, ...]) -> Any:
    """The same for a lazy stack, whose members the function has mapped one by one."""
    old, new = self._leaves(VALUES), found._leaves(VALUES)
    alike = len(old) == len(new) and all(map(_have_same_form, old, new))
    if alike and self._store._layout() == store_of(found)._layout():
        return found
    return _prefix_problems(path, type(self), adopt, type(self), store_of(found), {})


def _prefix_problems(path: tuple[str, ...], cls: Any, check: Callable[..., Any], *args: Any) -> Any:
    """The result of a check; the paths of its problems begin with the path of what is checked."""
    try:
        return check(*args)
    except SchemaError as error:
        found = [problem._replace(path=".".join((*path, problem.path))) for problem in error.problems]
        raise SchemaError.of(cls.__name__, found) from None


def _have_same_form(old: Any, new: Any) -> bool:
    if type(new) is Tensor and type(old) is Tensor:
        return new.dtype is old.dtype and new.shape == old.shape
    return new is old or (hasattr(new, "_store") and type(new) is type(old))
