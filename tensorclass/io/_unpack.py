"""Stored entries to containers: the inverse of `_pack`, over read or mapped tensors. The tree is not trusted."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import torch
from pydantic import ValidationError
from torch import Tensor
from torch.nn.parameter import Buffer, Parameter

from .._budget import reserve
from .._schema import FieldSpec, schema_of
from ..core import Path, check_names, join_path
from ..errors import FileFormatError, MissingKeyError, SchemaError, did_you_mean
from ..store import (
    LazyStackedTensorDict,
    MetaData,
    NonTensorData,
    NonTensorStack,
    RaggedTensor,
    TensorDict,
    TensorDictParams,
    Unbatched,
    UnbatchedTensor,
)
from ..store.entries._rows import spans_of
from ._classes import digest_of, find_class, typed
from ._format import (
    ClassPart,
    Metadata,
    NestedPart,
    NodePart,
    NonePart,
    ObjectsPart,
    RaggedPart,
    TensorPart,
    ValuePart,
)
from ._values import decode

_OBJECT = 50
"""Bytes of a small Python object."""
UNTYPED: Any = object()
"""Instead of a class: build an untyped container."""


def references(part: Any) -> Iterator[tuple[str, str | None]]:
    """The names of the stored tensors of an entry, each with its true dtype if the entry states one."""
    if isinstance(part, str):
        yield part, None
    elif isinstance(part, NodePart):
        for entry in part.entries.values():
            if isinstance(entry, str):
                yield entry, None
            else:
                yield from references(entry)
        for member in part.members or ():
            yield from references(member)
    elif isinstance(part, TensorPart):
        yield part.data, part.dtype
    elif isinstance(part, (RaggedPart, NestedPart)):
        yield from references(part.values)
        names = (part.lengths,) if isinstance(part, RaggedPart) else (part.offsets, part.lengths, part.sizes)
        yield from ((name, None) for name in names if name is not None)
    elif isinstance(part, ObjectsPart):
        yield from ((part.text, None), (part.offsets, None), (part.index, None))
    elif isinstance(part, ValuePart) and part.data is not None:
        yield part.data, None


def find(root: NodePart, key: Path, path: str) -> Any:
    """The part of a tree under a key; members of a lazy stack have their position as a key.

    Raises:
        MissingKeyError: for a key that the file does not have.
    """
    here: Any = root
    for depth, name in enumerate(key):
        known: Mapping[str, Any] = {}
        if isinstance(here, NodePart):
            known = here.entries if here.members is None else {str(i): m for i, m in enumerate(here.members)}
        if name not in known:
            at = f"`{join_path(key[: depth + 1])}`"
            raise MissingKeyError(f"{path}: there is no entry {at} in it{did_you_mean(name, known)}")
        here = known[name]
    return here


@dataclass(eq=False)
class Unpacker:
    """Builds the containers of one file.

    Args:
        meta: the metadata.
        tensors: the tensors by stored name.
        path: for messages.
        allow_pickle: load pickled objects, which may run any code.
        lenient: if a class has changed since the file was written, build an untyped container.
        infer: let a class find its batch size, for files without one.
    """

    meta: Metadata
    tensors: Mapping[str, Tensor]
    path: str
    allow_pickle: bool = False
    lenient: bool = False
    infer: bool = False
    _made: dict[str, Tensor] = field(default_factory=dict)

    def wrong(self, key: Path, what: str) -> FileFormatError:
        """The error for one entry."""
        return FileFormatError(what, self.path, None, join_path(key) or "(root)")

    def build(self, part: Any, key: Path = (), want: Any = None, outer: torch.Size | None = None) -> Any:
        """Build the value of a part of the tree.

        Args:
            part: the part.
            key: where it is.
            want: the class that a container must be an instance of.
            outer: the batch size of its parent; None if the parent is not read.
        """
        if isinstance(part, NodePart):
            return self._node(part, key, want, outer or torch.Size([]))
        return self._entry(part, key, outer, None)

    # ---- containers ----------------------------------------------------------------------------------------------

    def _node(self, node: NodePart, key: Path, want: Any, outer: torch.Size) -> Any:
        """A container, of the requested class, from its part of the metadata."""
        part = self._class_part(node, key)
        cls = self._class(part, want)
        declared = None if cls is None else schema_of(cls)
        if node.members is not None:
            built = self._stack(node, key, node.members)
        else:
            built = self._dense(node, key, cls, {} if declared is None else declared.fields)
        if built._batch_size[: len(outer)] != outer:
            raise self.wrong(key, f"its batch size {list(built._batch_size)} does not begin with {list(outer)}")
        if declared is not None:
            built = typed(cls, built, part, self.path, self.infer)
        if node.params is not None:
            if node.members is not None or declared is not None:
                raise self.wrong(key, "parameters are in a dense container")
            built = TensorDictParams._wrap_store(built, node.params == "keep")
            built._convert_all(built._store, {})
        if node.locked:
            built.lock_()
        return built

    def _class_part(self, node: NodePart, key: Path) -> ClassPart | None:
        if node.cls is None:
            return None
        if node.cls >= len(self.meta.classes):
            raise self.wrong(key, f"its class has number {node.cls}, the file lists {len(self.meta.classes)}")
        return self.meta.classes[node.cls]

    def _class(self, part: ClassPart | None, want: Any) -> Any:
        """The class of a container: the requested one, or a subclass of it that the file names."""
        if want is UNTYPED:
            return None
        found = None if part is None else find_class(part)
        if want is None:
            changed = self.lenient and found is not None and part is not None and digest_of(found) != part.digest
            return None if changed else found
        return found if isinstance(found, type) and issubclass(found, want) else want

    def _dense(self, node: NodePart, key: Path, cls: Any, fields: Mapping[str, FieldSpec]) -> Any:
        """A dense container; nested ones and entry nodes are built on the way."""
        size = torch.Size(node.size)
        rank, tensors = len(size), self.tensors
        entries: dict[str, Any] = {}
        former = {} if not fields else schema_of(cls).renamed  # type: ignore[union-attr]  # it has fields
        for name, part in node.entries.items():
            if isinstance(part, str):
                found = tensors[part]
                if found.shape[:rank] != size:
                    raise self._wrong_shape((*key, name), found, size)
                entries[name] = found
                continue
            spec = fields.get(former.get(name, name))
            if isinstance(part, NodePart):
                want = None if spec is None else spec.nested
                entries[name] = self._node(part, (*key, name), want, size)
            elif isinstance(part, NonePart):
                if fields:
                    entries[name] = None
            else:
                entries[name] = self._entry(part, (*key, name), size, spec)
        names = self._names(node, key, rank)
        device = None if node.device is None else torch.device("cpu")
        dense = cls if cls is not None and not fields and issubclass(cls, TensorDict) else TensorDict
        return dense._from_entries(entries, size, device, names)

    def _names(self, node: NodePart, key: Path, rank: int) -> Any:
        try:
            return check_names(node.names, rank)
        except (ValueError, TypeError) as error:
            raise self.wrong(key, f"its dim names are wrong: {error}") from None

    def _stack(self, node: NodePart, key: Path, members: list[NodePart]) -> Any:
        built = [self._node(member, (*key, str(i)), None, torch.Size([])) for i, member in enumerate(members)]
        empty: Any = None if node.empty is None else self._node(node.empty, key, UNTYPED, torch.Size([]))
        if not built and empty is None:
            raise self.wrong(key, "a stack has members, or says what they are like")
        like = {} if built else {"batch_size": empty._batch_size, "device": empty._device, "names": empty._names}
        try:
            return LazyStackedTensorDict(*built, stack_dim=node.dim, stack_dim_name=node.dim_name, **like)
        except (ValueError, TypeError, IndexError, RuntimeError) as error:
            raise self.wrong(key, f"its members make no stack: {error!s:.200}") from None

    # ---- entries -------------------------------------------------------------------------------------------------

    def _entry(self, part: Any, key: Path, size: torch.Size | None, spec: FieldSpec | None) -> Any:
        """Build an entry that is not a container. `size` is the batch size of its parent, if the parent is read."""
        if isinstance(part, (str, TensorPart)):
            return self._tensor(part, key, size)
        if isinstance(part, RaggedPart):
            return self._ragged(part, key, size)
        if isinstance(part, NestedPart):
            return self._nested(part, key)
        if isinstance(part, ObjectsPart):
            return self._objects(part, key, size, spec)
        return self._value(part, key, spec) if isinstance(part, ValuePart) else None

    def _wrong_shape(self, key: Path, found: Tensor, size: torch.Size) -> FileFormatError:
        return self.wrong(key, f"its shape {list(found.shape)} does not begin with the batch size {list(size)}")

    def _tensor(self, part: Any, key: Path, size: torch.Size | None) -> Any:
        """A tensor of the file, with its class and `requires_grad`; parameters in several places are one."""
        name = part if isinstance(part, str) else part.data
        role = None if isinstance(part, str) else part.role
        found = self._made.get(name)
        if found is None:
            found = self.tensors[name]
            if role is not None and role != "shared":
                found = found.as_subclass(Tensor)
            grad = not isinstance(part, str) and part.grad
            if grad and not (found.is_floating_point() or found.is_complex()):
                raise self.wrong(key, f"a tensor of {found.dtype} can't require grad")
            if role == "parameter":
                found = self._made[name] = Parameter(found, grad)
            else:
                found = found.requires_grad_() if grad else found
            if role == "buffer":
                found = self._made[name] = Buffer(found)
        if role == "shared":
            return Unbatched(found)
        if role == "unbatched":
            return Unbatched(UnbatchedTensor(found))
        if size is not None and found.shape[: len(size)] != size:
            raise self._wrong_shape(key, found, size)
        return found

    def _integers(self, name: str, key: Path, ndim: int | None = None) -> Tensor:
        found = self.tensors[name]
        if found.dtype is not torch.int64 or (ndim is not None and found.ndim != ndim):
            dims = "" if ndim is None else f" with {ndim} dims"
            raise self.wrong(key, f"`{name}` is an int64 tensor{dims}, got {found.dtype} of shape {list(found.shape)}")
        return found

    def _ragged(self, part: RaggedPart, key: Path, size: torch.Size | None) -> Any:
        values = self._tensor(part.values, key, None)
        lengths = self._integers(part.lengths, key)
        if size is not None and lengths.shape != size:
            raise self.wrong(key, f"the lengths have shape {list(lengths.shape)}, the batch size is {list(size)}")
        flat = lengths.reshape(-1)
        total = values.shape[0] if values.ndim else -1
        if (flat.numel() and not 0 <= int(flat.min()) <= int(flat.max()) <= total) or int(flat.sum()) != total:
            raise self.wrong(key, f"the lengths don't add up to the {max(total, 0)} rows in the file")
        return RaggedTensor._of(values, spans_of(lengths), True)

    def _nested(self, part: NestedPart, key: Path) -> Any:
        """A nested tensor of torch; offsets and lengths are checked, since torch reads outside its values otherwise."""
        values: Tensor = self._tensor(part.values, key, None)
        try:
            if part.sizes is not None:
                found = self._nest_strided(values, self._integers(part.sizes, key, 2), key)
            else:
                if part.offsets is None:
                    raise self.wrong(key, "a nested tensor has offsets or sizes")
                lengths = None if part.lengths is None else self._integers(part.lengths, key, 1)
                offsets = self._integers(part.offsets, key, 1)
                rows = values.shape[part.dim - 1] if values.ndim >= part.dim else -1
                steps = offsets.diff()
                inside = offsets.numel() > 0 and int(offsets[0]) == 0 and int(offsets[-1]) <= rows
                if not inside or (steps.numel() and int(steps.min()) < 0):
                    raise self.wrong(key, "its offsets don't rise from 0 up to the number of rows")
                if lengths is not None and (
                    lengths.shape != steps.shape or bool(((lengths < 0) | (lengths > steps)).any())
                ):
                    raise self.wrong(key, "its lengths don't fit its offsets")
                found = torch.nested.nested_tensor_from_jagged(values, offsets, lengths, jagged_dim=part.dim)
        except (RuntimeError, ValueError, IndexError) as error:
            if isinstance(error, FileFormatError):
                raise
            raise self.wrong(key, f"it makes no nested tensor: {error!s:.200}") from None
        return found.requires_grad_() if part.grad else found

    def _nest_strided(self, values: Tensor, sizes: Tensor, key: Path) -> Tensor:
        shapes = sizes.tolist()
        counts = [torch.Size(shape).numel() if min(shape, default=0) >= 0 else -1 for shape in shapes]
        if min(counts, default=0) < 0 or sum(counts) != values.numel() or values.ndim != 1:
            raise self.wrong(key, f"the sizes of its parts don't add up to {values.numel()} numbers")
        parts = [flat.reshape(shape) for flat, shape in zip(values.split(counts), shapes, strict=True)]
        return torch.nested.as_nested_tensor(parts, dtype=values.dtype, layout=torch.strided)

    # ---- Python objects ------------------------------------------------------------------------------------------

    def _raw(self, name: str, key: Path) -> bytes:
        found = self.tensors[name]
        if found.dtype is not torch.uint8 or found.ndim != 1:
            raise self.wrong(key, f"`{name}` holds bytes, got {found.dtype} of shape {list(found.shape)}")
        reserve(found.numel(), f"the values of `{join_path(key)}`")
        return found.numpy().tobytes()

    def _value(self, part: ValuePart, key: Path, spec: FieldSpec | None) -> Any:
        if part.data is None:
            value = self._decoded(part.coding, part.value, key, spec)
        else:
            value = self._from_bytes(part.coding, self._raw(part.data, key), key, spec)
        if part.wrap == "plain":
            return value
        return (MetaData if part.wrap == "meta" else NonTensorData)(value)

    def _from_bytes(self, coding: str, raw: bytes, key: Path, spec: FieldSpec | None) -> Any:
        """An object from its bytes in the file."""
        if coding == "pickle":
            if not self.allow_pickle:
                raise self.wrong(key, "it is pickled, and loading it may run any code; `allow_pickle=True` loads it")
            return pickle.loads(raw)
        try:
            if coding == "text":
                return raw.decode("utf-8", "surrogatepass")
            return self._decoded(coding, json.loads(raw.decode("utf-8")), key, spec)
        except (ValueError, RecursionError) as error:
            if isinstance(error, FileFormatError):
                raise
            raise self.wrong(key, f"its text can't be read: {error!s:.120}") from None

    def _decoded(self, coding: str, value: Any, key: Path, spec: FieldSpec | None) -> Any:
        """A value from JSON types."""
        if coding == "pickle":
            raise self.wrong(key, "a pickled object is stored as bytes")
        try:
            if coding == "json":
                return decode(value)
            if spec is None or not spec.kind.holds_objects:
                return value  # its class is not imported: the plain JSON value
            return spec.adapter.validate_json(json.dumps(value))
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            raise SchemaError(f"{self.path}: field `{join_path(key)}` is not {spec}: {first['msg']}") from None
        except (ValueError, RecursionError, TypeError) as error:
            raise self.wrong(key, f"its value can't be read: {error!s:.120}") from None

    def _objects(self, part: ObjectsPart, key: Path, size: torch.Size | None, spec: FieldSpec | None) -> Any:
        """Objects for each element, from one text with offsets, and an index."""
        raw, offsets = self._raw(part.text, key), self._integers(part.offsets, key, 1).tolist()
        index = self._integers(part.index, key)
        if size is not None and index.shape[: len(size)] != size:
            raise self.wrong(key, f"the index has shape {list(index.shape)}, the batch size is {list(size)}")
        rising = offsets[:1] == [0] and offsets[-1:] == [len(raw)] and sorted(offsets) == offsets
        if not rising:
            raise self.wrong(key, f"the offsets don't rise from 0 to {len(raw)}")
        if index.numel() and not 0 <= int(index.min()) <= int(index.max()) < len(offsets) - 1:
            raise self.wrong(key, f"the index names objects outside of the {len(offsets) - 1} in the file")
        reserve(_OBJECT * len(offsets), f"the values of `{join_path(key)}`")
        pairs = pairwise(offsets)
        table = [self._from_bytes(part.coding, raw[begin:end], key, spec) for begin, end in pairs]
        return NonTensorStack._of(tuple(table), index)
