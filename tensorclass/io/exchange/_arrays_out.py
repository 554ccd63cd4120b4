"""Entries as arrays: what a live store writes for a value, and the mapping that a class is made from."""

from __future__ import annotations

import json
from math import prod
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..._schema import FieldSpec, schema_of
from ...errors import UnsupportedOperationError
from ...store import NonTensorData, NonTensorStack, TensorDict, Unbatched
from .._optional import optional
from .._values import Unstorable, encode
from ._columns import as_json, stored

BLOCK_BYTES = 1 << 23
"""Bytes that are written at a time, and of a chunk of a zarr array if its number of rows is not given."""

_ATTRIBUTE = 60_000
"""Bytes of an attribute that HDF5 stores outside of its heap."""


def new_array(backend: str, group: Any, name: str, shape: tuple[int, ...], dtype: Any, kwargs: dict[str, Any]) -> Any:
    """A new array of a group, with options of the library of its format."""
    if backend == "h5":
        return group.create_dataset(name, shape, dtype, **(kwargs if prod(shape) and shape else {}))
    lead = tuple(kwargs.get("chunks", ()))[: len(shape)]
    row = max(1, prod(shape[1:]) * dtype.itemsize)
    lead = lead or tuple([max(1, min(n, BLOCK_BYTES // row)) for n in shape[:1]])
    chunks = (*lead, *[max(1, n) for n in shape[len(lead) :]])
    summed = group.metadata.zarr_format == 3  # format 2 has no standard checksum
    checksum = optional("zarr.codecs", "A zarr group", "zarr").Crc32cCodec() if summed else None
    how = {"compressors": checksum, **kwargs, "chunks": chunks}
    return group.create_array(name, shape=shape, dtype=dtype, **how)


def write_note(node: Any, name: str, note: dict[str, Any]) -> None:
    """Set an attribute of a group or an array to a dict.

    HDF5 keeps texts of any length in a heap, and reading a damaged heap may never end; short ones need no heap.
    """
    text = json.dumps(note)
    node.attrs[name] = np.bytes_(text) if hasattr(node, "id") and len(text) < _ATTRIBUTE else text


def encoded_entry(key: str, value: Any, coded: bool = False) -> tuple[Tensor, dict[str, Any]]:
    """An entry as a tensor, and the attributes that describe it."""
    shared = isinstance(value, Unbatched)
    value = value.tensor if shared else value
    about: dict[str, Any] = {"kind": "shared"} if shared else {}
    if isinstance(value, Tensor) and not value.is_nested:
        value = value.detach().cpu().resolve_conj().resolve_neg()
        name = stored(value[:0] if value.ndim else value, key)[1]
        return value, about if name is None else {**about, "dtype": name}
    many = isinstance(value, NonTensorStack)
    if many:
        plain = value.tolist()
    elif isinstance(value, NonTensorData):
        plain = value.data
    else:
        plain = value
    try:
        text = json.dumps(plain if coded else encode(plain))
    except (Unstorable, TypeError, ValueError, RecursionError) as error:
        raise UnsupportedOperationError(f"field `{key}` can't be stored: {error!s:.200}") from None
    if many:
        kind = "objects"
    elif plain is not value:
        kind = "data"
    else:
        kind = "value"
    about = {"kind": kind, "json": True} if coded else {"kind": kind}
    return torch.frombuffer(bytearray(text.encode()), dtype=torch.uint8), about


def as_json_entry(spec: FieldSpec | None, value: Any) -> Any:
    """Python values as the JSON types of their field."""
    if not isinstance(value, NonTensorStack):
        return as_json(spec, value)
    return NonTensorStack._of([as_json(spec, entry) for entry in value._table], value._index)


def mapping_of(batch: TensorDict, cls: Any) -> dict[str, Any]:
    """A container as the mapping that the constructor of a class accepts."""
    schema = schema_of(cls)
    found: dict[str, Any] = {}
    for key, value in batch._entries().items():
        spec = schema.fields.get(key) if schema is not None else None
        if isinstance(value, TensorDict) and (spec is None or not (spec.kind.is_collection or spec.kind.is_open)):
            found[key] = mapping_of(value, spec.nested if spec is not None else None)
        else:
            found[key] = value.tolist() if isinstance(value, (NonTensorData, NonTensorStack)) else value
    return {**found, "batch_size": batch._batch_size, "names": batch._names}
