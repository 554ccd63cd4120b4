"""Results of modules: split into out fields, and put into a class; errors that name their module."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import torch
from torch import Tensor

from ...errors import MissingKeyError, ModuleError, TensorClassError, add_note
from ._slots import Slot, fields_of, is_tensorclass_type


def outputs(result: Any, writes: Sequence[Slot | None], label: str) -> tuple[Any, ...]:
    """The value for each out field, None for a dropped one.

    Args:
        result: What the callable returned.
        writes: The out fields.
        label: The module, for messages.

    Raises:
        TypeError: if the numbers of values and out fields differ.
        KeyError: if a mapping lacks the name of an out field.
    """
    if len(writes) == 1:
        return (single(result, writes[0], label),)
    if type(result) is tuple and len(result) == len(writes):
        return result
    if isinstance(result, Mapping):
        return tuple(None if slot is None else _pick(result, slot, label) for slot in writes)
    names = ", ".join("None" if slot is None else slot.label for slot in writes)
    if not isinstance(result, tuple | list):
        raise ModuleError(f"{label} declares {len(writes)} out fields ({names}) and returned {describe(result)}")
    if len(result) != len(writes):
        raise ModuleError(
            f"{label} declares {len(writes)} out fields ({names}) and returned {_several(result)}; "
            "name a field for each, or None to drop one"
        )
    return tuple(result)


def single(result: Any, slot: Slot | None, label: str) -> Any:
    """The value for the only out field."""
    if slot is None or not slot.spec.kind.is_dense or isinstance(result, Tensor):
        return result
    if isinstance(result, Mapping):
        return _pick(result, slot, label)
    if isinstance(result, tuple | list) and len(result) == 1:
        return result[0]
    if isinstance(result, tuple | list):
        raise ModuleError(
            f"{label} declares one out field ({slot.label}) and returned {_several(result)}; "
            "name a field for each in a tuple, or None to drop one"
        )
    return result


def _several(result: Sequence[Any]) -> str:
    kind = "" if type(result) in (tuple, list) else f", a {type(result).__name__}"
    return f"{len(result)} values ({', '.join(map(describe, result))}){kind}"


def _pick(result: Mapping[Any, Any], slot: Slot, label: str) -> Any:
    name = slot.path[-1]
    if name not in result:
        raise MissingKeyError(
            f"{label} writes {slot.label} and returned a mapping without `{name}`; it has {list(result)}"
        )
    return result[name]


def describe(value: object) -> str:
    """Describe a value in a message: dtype, shape and device of a tensor, the type of anything else."""
    if isinstance(value, Tensor):
        place = "" if value.device.type == "cpu" else f" on {value.device}"
        return f"{str(value.dtype).removeprefix('torch.')} {list(value.shape)}{place}"
    if is_tensorclass_type(type(value)):
        return f"{type(value).__name__} of batch size {list(getattr(value, 'batch_size', ()))}"
    return type(value).__name__


# ---- errors inside a module --------------------------------------------------------------------------------------


def blame(error: Exception, label: str, reads: Sequence[Slot], values: Sequence[object]) -> None:
    """Add to an error of a module a note that names the module and its inputs; the caller raises it again."""
    note_inputs(error, label, [f"{slot.name}: {describe(value)}" for slot, value in zip(reads, values, strict=False)])


def note_inputs(error: Exception, label: str, given: Sequence[str]) -> None:
    """As `blame`, with the inputs as text. Our own errors name their place themselves."""
    if not isinstance(error, TensorClassError):
        add_note(error, f"{label} failed on {', '.join(given)}" if given else f"{label} failed")


# ---- putting values into a class ---------------------------------------------------------------------------------


def fill(batch: Any, values: Mapping[str, Any]) -> Any:
    """A new instance with some fields filled in and checked; the others are passed through."""
    new = batch._wrap(batch._store.copy())
    setters = type(new).__tensorclass__.setters  # empty for a frozen class; torch.compile can trace setters
    for name, value in values.items():
        if name in setters:
            setters[name](new, value)
        else:
            new._put(name, new._check(name, value))
    return new


def build_alone(batch: Any, writes: Sequence[Slot | None], values: Sequence[Any], label: str) -> Any:
    """The result of a module outside a pipeline: the owner of its out fields, or a copy of the batch."""
    written = {slot: value for slot, value in zip(writes, values, strict=True) if slot is not None}
    owners = list(dict.fromkeys(slot.owner for slot in written))
    if len(owners) > 1:
        names = " and ".join(owner.__name__ for owner in owners)
        raise ModuleError(
            f"{label} writes fields of {names}; called by itself, a module writes one class; put it in a sequence"
        )
    tree = nest({slot.path: value for slot, value in written.items()})
    if isinstance(batch, owners[0]):
        return _fill_tree(batch, tree)
    return construct(owners[0], tree, batch.batch_size, label)


def nest(values: Mapping[tuple[str, ...], Any]) -> dict[str, Any]:
    """Paths as nested dicts."""
    tree: dict[str, Any] = {}
    for path, value in values.items():
        here = tree
        for part in path[:-1]:
            here = here.setdefault(part, Branch())
        here[path[-1]] = value
    return tree


class Branch(dict[str, Any]):
    """A nested dict of fields; a separate type from dicts that modules return."""


def _fill_tree(batch: Any, tree: Mapping[str, Any]) -> Any:
    return fill(batch, {k: _fill_tree(getattr(batch, k), v) if isinstance(v, Branch) else v for k, v in tree.items()})


def construct(cls: Any, tree: Mapping[str, Any], size: torch.Size, label: str) -> Any:
    fields = fields_of(cls)
    missing = [name for name, spec in fields.items() if spec.required and name not in tree]
    if missing:
        _refuse_partial(cls, missing, label)
    made = {k: construct(fields[k].nested, v, size, label) if isinstance(v, Branch) else v for k, v in tree.items()}
    new = cls(**{k: v for k, v in made.items() if fields[k].init}, batch_size=size)
    later = {k: v for k, v in made.items() if not fields[k].init}
    return fill(new, later) if later else new


def _refuse_partial(cls: type, missing: list[str], label: str) -> NoReturn:
    raise ModuleError(
        f"{label} is called by itself and can't build a {cls.__name__}: it does not write {', '.join(missing)}; put it "
        "in a TensorClassSequential with the modules that do, or declare those fields with `produced()`"
    )
