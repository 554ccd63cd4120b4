"""Wrong calls of a pipeline or module, which takes one batch: what was given, and the right call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, is_dataclass
from typing import Any

from torch import Tensor
from torch.utils.data import DataLoader

from ...core import TensorCollection
from ...errors import named
from ._results import describe
from ._slots import fields_of, is_tensorclass_type


def what_to_call(
    cls: Any, batch: object, more: Sequence[object] = (), fields: Mapping[str, object] | None = None
) -> str:
    """What a call was given instead of one batch, and what to do: `got Tensor; make one with ...`.

    Args:
        cls: The class of the batch that the call takes.
        batch: The first argument; `MISSING` if there is none.
        more: The further arguments by position.
        fields: The arguments by keyword.
    """
    if fields:
        return _of_keywords(cls, batch, fields)
    if more:
        return _of_several(cls, (batch, *more))
    if batch is MISSING:
        return f"got nothing; give it a batch, `{constructor_call(cls)}`"
    if isinstance(batch, type):
        return f"got the class {batch.__name__}; make an instance, `{constructor_call(cls)}`"
    given = f"Tensor {describe(batch)}" if isinstance(batch, Tensor) else describe(batch)
    if isinstance(batch, (Iterator, DataLoader)):
        return f"got {given}; call it for each batch, `for batch in value: ...`"
    return f"got {given}; make one with `{how_to_make(cls, batch)}`"


def how_to_make(cls: Any, value: Any) -> str:
    """The call that makes an instance of a typed class from a value of another kind."""
    name = cls.__name__
    if isinstance(value, (list, tuple)) and value:
        return _from_rows(cls, value)
    if isinstance(value, TensorCollection):
        names = set(fields_of(cls)) if is_tensorclass_type(cls) else set()
        if is_tensorclass_type(type(value)) and not names & set(fields_of(type(value))):
            return constructor_call(cls)  # nothing of it fits
        # `from_tensordict` keeps the batch size of the container; that of a dict is inferred.
        return f"{name}.from_tensordict(value)" if value.batch_size else f"{name}.from_dict(value.to_dict())"
    return f"{name}.from_dict(value)" if isinstance(value, Mapping) else constructor_call(cls, value)


def constructor_call(cls: Any, value: object = None) -> str:
    """The call of a typed class with the fields that it needs: `Digits(image=..., label=...)`.

    Args:
        cls: The class.
        value: What the user has; a tensor is the value of an only field.
    """
    if not is_tensorclass_type(cls):
        return f"{cls.__name__}(...)"
    needed = {name: spec for name, spec in fields_of(cls).items() if spec.init and not spec.has_default}
    given = "value" if isinstance(value, Tensor) and len(needed) == 1 else "..."
    sized = any(spec.dims is not None or spec.nested is not None for spec in needed.values())
    parts = [f"{name}={given}" for name in needed] or ["..."]
    return f"{cls.__name__}({', '.join(parts if sized else [*parts, 'batch_size=[n]'])})"


def _from_rows(cls: Any, rows: Sequence[Any]) -> str:
    first = rows[0]
    if isinstance(first, type):
        return constructor_call(cls)
    if isinstance(first, cls):
        return f"torch.{'cat' if getattr(first, 'batch_size', ()) else 'stack'}(value)"
    if isinstance(first, Mapping) or is_dataclass(first) or hasattr(first, "_fields"):
        return f"{cls.__name__}.from_rows(value)"
    wanted = [spec for spec in fields_of(cls).values() if spec.init] if is_tensorclass_type(cls) else []
    return f"{cls.__name__}(*value)" if len(wanted) == len(rows) else constructor_call(cls)


def _of_keywords(cls: Any, batch: object, fields: Mapping[str, object]) -> str:
    known = fields_of(cls) if is_tensorclass_type(cls) else {}
    unknown = [name for name in fields if name not in known]
    if unknown:
        text = f"got the keyword {named(unknown[0], known)}; {cls.__name__} has: {', '.join(known)}; "
    else:
        text = f"got the keyword{'s' * (len(fields) > 1)} {', '.join(f'`{name}`' for name in fields)}; "
    if isinstance(batch, cls) and not unknown:
        changes = ", ".join(f"{name}=..." for name in fields)
        return f"{text}change the field of the batch, `batch.replace({changes})`"
    return f"{text}give the fields as one batch, `{constructor_call(cls)}`"


def _of_several(cls: Any, given: Sequence[object]) -> str:
    text = f"got {len(given)} values ({', '.join(map(describe, given))}); "
    if all(isinstance(value, cls) for value in given):
        return f"{text}join the batches, `torch.cat([...])`, or call it for each"
    return f"{text}give the fields as one batch, `{constructor_call(cls)}`"
