"""Containers to stored entries: the tensors that a file stores by name, and the tree that describes the container."""

from __future__ import annotations

import json
import pickle
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from pydantic_core import PydanticSerializationError
from torch import Tensor
from torch.nn.parameter import Parameter

from .._deferred import is_dtensor
from .._schema import FieldSpec, schema_of
from ..core import Path, TensorCollection, join_path, store_of, too_few_dims
from ..errors import UnsupportedOperationError
from ..store import (
    MetaData,
    NonTensorData,
    NonTensorStack,
    RaggedTensor,
    TensorDict,
    TensorDictParams,
    Unbatched,
    UnbatchedTensor,
)
from ._dtypes import CODES, TORCH, form_of
from ._memory import blank
from ._names import MAX_DEPTH, Names
from ._values import Unstorable, encode, to_text

INLINE = 1 << 16
"""The longest JSON text of one value in the metadata; longer texts are stored as a tensor of bytes."""
PLAIN: set[type] = {Tensor, Parameter, UnbatchedTensor}
"""Classes of tensors that are stored by their values. A subclass without state of its own may be added."""
_WHOLE = frozenset(CODES) - {TORCH.get("F4")}
"""dtypes that the format has."""
_ROLES: dict[type, str] = {Parameter: "parameter", UnbatchedTensor: "unbatched"}


class Item(NamedTuple):
    """One stored tensor: its name, dtype and shape in the file, and the tensor, which is not copied yet."""

    name: str
    code: str
    shape: Sequence[int]
    tensor: Tensor
    size: int
    pieces: Sequence[Tensor] = ()
    """The rows as consecutive pieces; empty if `tensor` holds them."""


class Packed(NamedTuple):
    """A container as a file stores it."""

    root: dict[str, Any]
    classes: list[dict[str, Any]]
    items: list[Item]
    simple: bool
    """Whether loading returns the same container with other tensors: it has no parameters and no locks inside."""
    shard: str = ""
    """The id, for a shard of a dataset."""
    compressed: dict[str, Any] = {}
    """The descriptions of the items that are compressed bytes."""


def pack(
    container: TensorCollection, allow_pickle: bool = False, path: Path = (), names: Names | None = None
) -> Packed:
    """The tensors and the structure of a container; nothing is copied.

    Args:
        container: any container.
        allow_pickle: pickle Python objects that JSON can't hold.
        path: its key path, if it is part of another container.
        names: makes the stored names.

    Raises:
        UnsupportedOperationError: for an entry that can't be stored; names the field.
    """
    packer = _Packer(allow_pickle, names or Names())
    root = packer.node(container, path, False)
    return Packed(root, packer.classes, packer.items, packer.simple)


def refuse(path: Path, why: str) -> UnsupportedOperationError:
    """The error for an entry that can't be stored."""
    return UnsupportedOperationError(f"save: field `{join_path(path)}` can't be stored: {why}")


class _Packer:
    """Packs one container."""

    def __init__(self, allow_pickle: bool, names: Names) -> None:
        self.allow_pickle = allow_pickle
        self.names = names
        self.items: list[Item] = []
        self.classes: list[dict[str, Any]] = []
        self.simple = True
        self._places: dict[type, int] = {}
        self._tied: dict[int, str] = {}

    # ---- containers ----------------------------------------------------------------------------------------------

    def node(self, batch: Any, path: Path, locked: bool) -> dict[str, Any]:
        """Pack a container; `locked` is whether its parent is locked."""
        if len(path) > MAX_DEPTH:
            raise refuse(path[:3], f"containers are nested more than {MAX_DEPTH} levels deep")
        found: dict[str, Any] = {"kind": "node"}
        cls: Any = type(batch)
        declared = schema_of(cls)
        if isinstance(batch, TensorDictParams):
            self.simple = False
            found["params"] = "keep" if batch.no_convert else "convert"
            batch = batch._store
        elif declared is not None or (isinstance(batch, TensorDict) and cls is not TensorDict):
            found["cls"] = self._class(cls)
        store: Any = batch if declared is None else store_of(batch)
        if batch.is_locked and not locked:
            found["locked"] = locked = True
            self.simple = self.simple and not path
        if store._stacked:
            self._members(found, store, path, locked)
        else:
            self._dense(found, batch, path, locked, {} if declared is None else declared.fields)
        return found

    def _dense(self, found: dict[str, Any], batch: Any, path: Path, locked: bool, fields: Any) -> None:
        """Describe a dense container: its size, names and device, then its entries."""
        size, names, device = batch._batch_size, batch._names, batch._device
        if size:
            found["size"] = list(size)
        if names is not None:
            found["names"] = list(names)
        if device is not None:
            found["device"] = str(device)
        entries = found["entries"] = {}
        for key, value in (batch._fields_and_gaps() if fields else batch._entries()).items():
            if isinstance(value, TensorCollection) and len(value._batch_size) < len(size):
                raise too_few_dims(f"save: `{join_path((*path, key))}`", value._batch_size)
            entries[key] = self._entry(value, (*path, key), locked, fields.get(key))

    def _members(self, found: dict[str, Any], stack: Any, path: Path, locked: bool) -> None:
        if stack.hook_in is not None or stack.hook_out is not None:
            raise refuse(path, "a lazy stack with hooks holds functions; save its dense form: `densify()`")
        found["dim"] = stack.stack_dim
        if stack._dim_name is not None:
            found["dim_name"] = stack._dim_name
        if stack._members:
            members = enumerate(stack._members)
            found["members"] = [self.node(member, (*path, str(i)), locked) for i, member in members]
        else:
            found |= {"members": [], "empty": self.node(stack._template, path, True)}

    def _class(self, cls: type) -> int:
        """The index of a class in the table of classes."""
        if cls not in self._places:
            schema = schema_of(cls)
            about: dict[str, Any] = {"module": cls.__module__, "name": cls.__qualname__}
            if schema is not None:
                about |= {"digest": schema.digest, "fields": schema.to_dict()}
            self._places[cls] = len(self.classes)
            self.classes.append(about)
        return self._places[cls]

    # ---- entries -------------------------------------------------------------------------------------------------

    def _entry(self, value: Any, path: Path, locked: bool, spec: FieldSpec | None) -> Any:
        """Describe an entry; its tensors are added to the file."""
        if isinstance(value, Tensor):
            return self._nested(value, path) if value.is_nested else self._tensor(value, path)
        if value is None and spec is not None:
            return {"kind": "none"}
        if isinstance(value, TensorCollection):
            return self.node(value, path, locked)
        if isinstance(value, Unbatched):
            return self._tensor(value.tensor, path, _ROLES.get(type(value.tensor), "shared"))
        if isinstance(value, RaggedTensor):
            values = self._tensor(value.values, (*path, "values"))
            return {"kind": "ragged", "values": values, "lengths": self._add((*path, "lengths"), value.lengths)}
        if isinstance(value, NonTensorStack):
            return self._objects(value, path, spec)
        return self._value(value, path, spec)

    def _tensor(self, value: Tensor, path: Path, role: str | None = None) -> Any:
        """Pack a tensor: its name, or a part if there is more to store."""
        role = role or ("buffer" if getattr(value, "_is_buffer", False) else _ROLES.get(type(value)))
        name = self._tied.get(id(value)) or self._add(path, value)
        self.simple = self.simple and role in (None, "shared")
        if role in ("parameter", "buffer"):  # a parameter under two keys is stored once
            self._tied[id(value)] = name
        form = None if value.dtype in _WHOLE else form_of(value.dtype, value.shape)
        if role is None and form is None and not value.requires_grad:
            return name
        about = {"dtype": form and form.true, "grad": value.requires_grad, "role": role}
        about = {key: part for key, part in about.items() if part}
        return {"kind": "tensor", "data": name, **about} if about else name

    def _add(self, path: Path, tensor: Tensor) -> str:
        """Add a tensor to the file; returns its name."""
        if is_dtensor(tensor):
            raise refuse(
                path,
                "it is a DTensor, and each rank has a part of it; save `batch.local()` or `batch.whole()`, or use "
                "`torch.distributed.checkpoint`",
            )
        if type(tensor) not in PLAIN:
            raise refuse(path, f"a {type(tensor).__name__} is more than its values; convert it to a plain tensor first")
        shape: Sequence[int] = tensor.shape
        code = CODES.get(tensor.dtype)
        if tensor.layout is not torch.strided or code is None or code == "F4" or tensor.is_meta:
            if tensor.layout is not torch.strided or tensor.is_quantized or tensor.is_meta:
                if tensor.is_quantized:
                    what: object = "quantized"
                elif tensor.is_meta:
                    what = "meta"
                else:
                    what = tensor.layout
                raise refuse(path, f"it is a {what} tensor; make it a dense one with values first")
            form = form_of(tensor.dtype, shape)
            if form is None:
                raise refuse(path, f"{tensor.dtype} has no form in a file")
            code, shape = form.code, form.shape
        name = self.names.take(path)
        self.items.append(Item(name, code, shape, tensor, tensor.nbytes))
        return name

    def _nested(self, value: Tensor, path: Path) -> dict[str, Any]:
        """A nested tensor of torch."""
        self.simple = False
        found: dict[str, Any] = {"kind": "nested", **({"grad": True} if value.requires_grad else {})}
        plain: Any = value.detach()
        if value.layout is torch.jagged:
            values, others = plain.values(), {"offsets": plain.offsets(), "lengths": plain.lengths()}
            found["dim"] = plain._ragged_idx
        else:
            parts = plain.unbind()
            values = torch.cat([part.reshape(-1) for part in parts]) if parts else blank(value.dtype, [0])
            others = {"sizes": torch.tensor([part.shape for part in parts], dtype=torch.int64, device="cpu")}
        found["values"] = self._tensor(values, (*path, "values"))
        return found | {name: self._add((*path, name), part) for name, part in others.items() if part is not None}

    # ---- Python objects ------------------------------------------------------------------------------------------

    def _value(self, value: Any, path: Path, spec: FieldSpec | None) -> dict[str, Any]:
        """Pack one object for the whole batch. What the reader assumes (a plain object, as JSON) is not written."""
        wrap = _wrap_of(value)
        coding, form = self._code_object(value.data if wrap else value, path, spec)
        packed: dict[str, Any] = {"kind": "value"}
        if wrap:
            packed["wrap"] = wrap
        if coding != "json":
            packed["coding"] = coding
        return packed | self._stored_form(coding, form, path)

    def _stored_form(self, coding: str, form: Any, path: Path) -> dict[str, Any]:
        """Bytes and long texts are stored like tensors, short ones in the description of the container."""
        if coding == "pickle":
            return {"data": self._bytes(form, path)}
        text = to_text(form)
        return {"data": self._bytes(text.encode(), path)} if len(text) > INLINE else {"value": form}

    def _code_object(self, value: Any, path: Path, spec: FieldSpec | None) -> tuple[str, Any]:
        """The coding of an object, and its JSON types or its bytes."""
        try:
            return "json", encode(value)
        except Unstorable as error:
            why = str(error)
        if spec is not None and spec.kind.holds_objects:
            form = _declared_form(spec, value)
            if form is not None:
                return "declared", form
        if self.allow_pickle:
            return "pickle", pickle.dumps(value, protocol=4)
        raise refuse(path, f"{why}; leave it out, or pass `allow_pickle=True` to save and load")

    def _objects(self, stack: NonTensorStack[Any], path: Path, spec: FieldSpec | None) -> dict[str, Any]:
        """Pack one object for each element: equal objects are stored once, in the order of the elements."""
        table, index = stack._held
        places = index.reshape(-1).tolist()
        coding, forms = self._coded_table([table[i] for i in dict.fromkeys(places)], path, spec)
        rows = dict(zip(dict.fromkeys(places), forms, strict=True))
        unique = {form: i for i, form in enumerate(dict.fromkeys(forms))}
        order = torch.tensor([unique[rows[i]] for i in places], dtype=torch.int64, device="cpu").reshape(index.shape)
        offsets = torch.tensor([0, *map(len, unique)], dtype=torch.int64, device="cpu").cumsum(0)
        return {
            "kind": "objects",
            "coding": coding,
            "text": self._bytes(b"".join(unique), (*path, "text")),
            "offsets": self._add((*path, "offsets"), offsets),
            "index": self._add((*path, "index"), order),
        }

    def _coded_table(self, table: list[Any], path: Path, spec: FieldSpec | None) -> tuple[str, list[bytes]]:
        if all([type(value) is str for value in table]):
            return "text", [value.encode("utf-8", "surrogatepass") for value in table]
        rows = [self._code_object(value, path, spec) for value in table]
        kinds = {coding for coding, _ in rows}
        if kinds in ({"json"}, {"declared"}):
            return kinds.pop(), [to_text(form).encode() for _, form in rows]
        if "pickle" in kinds:
            return "pickle", [pickle.dumps(value, protocol=4) for value in table]
        whole = [_declared_form(spec, value) for value in table]  # type: ignore[arg-type]  # "declared" needs one
        return "declared", [to_text(form).encode() for form in whole]

    def _bytes(self, raw: bytes, path: Path) -> str:
        """Bytes as a stored tensor."""
        tensor = torch.frombuffer(bytearray(raw), dtype=torch.uint8) if raw else blank(torch.uint8, [0])
        name: str = self._add(path, tensor)
        return name


def _wrap_of(value: Any) -> str:
    """The class around an object, by its name in files; "" for the object itself."""
    if isinstance(value, MetaData):
        return "meta"
    return "data" if isinstance(value, NonTensorData) else ""


def _declared_form(spec: FieldSpec, value: Any) -> Any:
    """A value as JSON of its declared type, if that restores an equal value; else None."""
    try:
        form = spec.adapter.dump_python(value, mode="json")
        back = spec.adapter.validate_json(json.dumps(form, allow_nan=False))
    except (PydanticSerializationError, ValueError, TypeError, RecursionError):
        return None
    return form if type(back) is type(value) and bool(back == value) else None
