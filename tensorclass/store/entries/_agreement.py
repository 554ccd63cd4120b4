"""In-place writes of ragged entries: lengths with the same dim name must agree afterwards, or nothing is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ..._schema import Dim, Schema, dims_problems
from ...errors import SchemaError
from ._ragged import RaggedTensor
from ._unbatched import Unbatched


def shares_lengths(schema: Schema) -> bool:
    """Whether the named length of a ragged field also occurs in another field."""
    specs = [spec for spec in schema if spec.dims is not None]
    first = [
        spec.dims.tokens[0].text
        for spec in specs
        if spec.kind.is_ragged and spec.dims is not None and isinstance(spec.dims.tokens[0], Dim)
    ]
    return any(sum(name in spec.dims.names for spec in specs if spec.dims is not None) > 1 for name in first)


def require_agreement(
    name: str, schema: Schema, entries: Mapping[str, Any], size: torch.Size, prefix: Sequence[str] = ()
) -> None:
    """Refuse entries whose dims of the same name differ; `prefix` is their path, for messages.

    Raises:
        SchemaError: names the element, both fields and both lengths.
    """
    values = {key: value.tensor if isinstance(value, Unbatched) else value for key, value in entries.items()}
    problems = dims_problems(schema, values, size)
    if problems:
        raise SchemaError.of(name, [p._replace(path=".".join((*prefix, p.path))) for p in problems])


def require_planned(
    name: str,
    schema: Schema,
    entries: Mapping[str, Any],
    size: torch.Size,
    plan: Sequence[tuple[Any, Any, Any]],
    prefix: Sequence[str] = (),
) -> None:
    """Refuse a plan of in-place writes after which lengths would not agree."""
    after = {id(entry): entry._elements_after(source) for entry, source, _ in plan if isinstance(entry, RaggedTensor)}
    if after:
        state = {key: after.get(id(value), value) for key, value in entries.items()}
        require_agreement(name, schema, state, size, prefix)
