"""Errors for attributes and keys of a class: the requested name, the nearest name, what to do."""

from __future__ import annotations

from typing import Any

from .._schema import Schema
from ..core import later
from ..errors import (
    FieldNotProducedError,
    MissingKeyError,
    SchemaError,
    StructureError,
    UnknownFieldError,
    did_you_mean,
    nearest,
)
from ..errors import Problem as Problem


class UnknownKeyError(MissingKeyError, ValueError):
    """A key that is not a field of a typed class: a missing key (KeyError), and a wrong one (ValueError)."""

    undeclared = True


def unknown_field(cls: Any, name: str) -> MissingKeyError:
    """The error for a key that is not a field."""
    error = UnknownKeyError(later(_no_field, cls, name))
    error.key = name
    return error


def _no_field(cls: Any, name: str) -> str:
    fields = list(cls.__tensorclass_schema__.fields)
    return (
        f"{cls.__name__} has no field `{name}`{did_you_mean(name, fields)}; its fields are {fields}. Fields are "
        "declared on the class; an untyped corner is a field of type TensorDict"
    )


def unknown_attribute(cls: Any, name: str) -> UnknownFieldError:
    """The error for an attribute that is neither a field nor a member of the class."""
    return UnknownFieldError(later(_no_attribute, cls, name))  # `hasattr` drops the message


def _no_attribute(cls: Any, name: str) -> str:
    fields = list(cls.__tensorclass_schema__.fields)
    meant = _hint_for_name(cls, name)
    if name.startswith("_") and not meant:
        near = f"; state of an instance that is not a field is declared in the class: `{name}: dict = field("
        near += "default_factory=dict)`, or with another type and default"
    else:
        near = did_you_mean(name, fields) or meant
    return f"{cls.__name__} has no field or attribute `{name}`{near}; its fields are {fields}"


_SURE = 0.8  # among hundreds of methods, some resemble any word
SYNONYMS = {
    word: said
    for words, said in {
        "drop remove drop_columns": "`exclude(...)`",
        "dict as_dict": "`to_dict()`",
        "dump json model_dump_json dump_json": "`to_json()`",
        "model_validate parse_obj": "`from_any(...)`",
        "model_validate_json parse_raw": "`from_json(...)`",
        "model_copy assign copy_with evolve _replace": "`replace(...)`",
        "model_fields": "`schema(cls).fields`",
        "model_json_schema": "`schema(cls).json_schema()`",
        "schema": "the function `schema(cls)`",
        "fields": "`schema(cls).fields`, or `keys()`",
        "columns field_names": "`keys()`",
        "dtypes": "`schema(cls)`",
        "concat concatenate": "`torch.cat([a, b])`",
        "append": "`torch.cat([batch, other])`",
        "join": "`merge(other)`",
        "deepcopy": "`clone()`",
        "as_numpy array": "`numpy()`",
        "to_tensor": "`cat_tensors(...)`, or a field",
        "astype type_as": "`to(dtype)`",
        "tail": "`batch[-n:]`",
        "iloc loc": "`batch[...]`",
        "length len num_rows": "`len(batch)`",
        "count": "`numel()`",
        "to_list to_rows": "`tolist()`",
        "info": "`describe()`",
        "save_to_disk": "`save(path)`",
        "collate": "`torch.stack([...])`",
        "loader dataloader data_loader": "`DataLoader(batch, batch_size=...)` of torch",
        "nbytes": "`bytes()`",
        "batch": "`torch.stack([...])`",
        "unbatch": "`unbind(0)`",
        "to_device": "`to(device)`",
        "expand_dims": "`unsqueeze(dim)`",
        "has_key contains": "`key in batch.keys()`",
        "sort_values sort": "`sort_by(...)`",
        "query": "`filter(...)`",
        "value_counts": "`group_by(...)`",
        "drop_duplicates": "`unique_by(...)`",
        "equals": "the function `equal(a, b)`",
        "isna": "`isnan()`",
        "random rand fake": "`example(...)`",
        "batches": "`iter(size)`",
        "to_gymnasium": "the function `to_gymnasium(cls)`",
        "to_df": "`to_pandas()`",
        "iterrows": "`for row in batch`",
    }.items()
    for word in words.split()
}
"""Names in other libraries for methods and functions that have another name here."""


def _hint_for_name(cls: Any, name: str) -> str:
    """The hint for a name: its meaning in another library, else the member that it almost certainly misspells."""
    meant = SYNONYMS.get(name)
    if meant is not None:
        return f"; you may look for {meant}"
    found = nearest(name, [member for member in dir(cls) if not member.startswith("_")], _SURE)
    return f"; did you mean `{found}`?" if found is not None else ""


class NotProducedKeyError(FieldNotProducedError, MissingKeyError):
    """A produced field that was not written yet. It is also a missing key, so `get` returns its default."""


def not_produced(cls: Any, name: str) -> NotProducedKeyError:
    """The error for reading a produced field too early."""
    return NotProducedKeyError(
        f"{cls.__name__}.{name} is declared `produced()` and no module has written it yet; run the module whose "
        f"out_fields name it, or assign `batch.{name} = ...`"
    )


def cannot_drop(cls: Any, key: str) -> StructureError | MissingKeyError:
    """The error for removing a required field."""
    if key not in cls.__tensorclass_schema__.fields:
        return unknown_field(cls, key)
    spec = cls.__tensorclass_schema__.fields[key]
    return StructureError(
        f"{cls.__name__}.{key} ({spec}) is required and can't be removed; declare it optional (`| None`), or take "
        "what you need with `batch.select(...)`"
    )


def clashes(name: str, reserved: list[str], hiding: list[str]) -> SchemaError:
    """The error for fields that would hide members of the container."""
    problems = [
        Problem(
            field, "a field", "a name that every batch uses itself", "rename the field; `shadow=True` does not free it"
        )
        for field in reserved
    ] + [
        Problem(
            field,
            "a field",
            f"a name that would hide `{name}.{field}`, a member of every container",
            "rename the field, write `field(shadow=True)`, or give the class the option: "
            f"`class {name}(TensorClass, shadow=True)` or `@tensorclass(shadow=True)`; the operation stays "
            f"reachable as `TensorDict.{field}(batch, ...)`",
        )
        for field in hiding
    ]
    return SchemaError.of(name, problems)


def written_batch(schema: Schema) -> str:
    """The addition to an error about missing batch dims, if an annotation seems to include one."""
    declared = [spec.dims for spec in schema if spec.kind.is_batched]
    first = {str(dims.tokens[0]) if dims is not None and dims.tokens else "" for dims in declared}
    name = first.pop() if len(first) == 1 else ""
    if not name.isidentifier() or name == "_":
        return ""
    return (
        f". Every tensor of {schema.name} is declared to begin with `{name}`: annotations give the shape of "
        f"one element, and batch dims are not written in them. If `{name}` is the batch, leave it out"
    )
