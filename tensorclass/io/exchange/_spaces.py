"""Observation and action spaces of gymnasium as classes, and classes as spaces.

Both declare dtypes, shapes and bounds of one element. Data needs no conversion function: use
`Observation(**space.sample())`; a space contains `observation.to_numpy()`.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from typing import Annotated, Any

import torch
from annotated_types import Ge, Le
from torch import Tensor

from ..._flags import flags
from ..._schema import FieldSpec, PerElement, family_of
from ..._schema._domain import dtypes_of, numbers
from ...classes import TensorClass, is_tensorclass
from ...classes._conveniences import event_shape
from ...errors import ArgumentError, Problem, SchemaError
from .._optional import optional


@flags
def to_gymnasium(cls: Any, **dims: int) -> Any:
    """The `Dict` space of a class: a `Box` for each tensor, `Discrete` for an int64 scalar with two bounds.

    Constraints of the fields (`Ge`, `Lt`, ...) are the bounds of the space; without constraints, a box has the bounds
    of its dtype. A nested class is a `Dict` in the `Dict`.

    Args:
        cls: a typed class whose fields are tensors or such classes.
        **dims: the sizes of named dims, including those of nested classes.

    Raises:
        SchemaError: for fields that a space can't hold, and for dims without a size; names all of them.
        MissingExtraError: if gymnasium is not installed.

    >>> from torch import Tensor
    >>> from tensorclass import TensorClass, to_gymnasium
    >>> from tensorclass.typing import Float32
    >>> class State(TensorClass):
    ...     place: Float32[Tensor, "n"]
    >>> to_gymnasium(State, n=2)
    Dict('place': Box(-inf, inf, (2,), float32))
    """
    if not is_tensorclass(cls) or not isinstance(cls, type):
        raise ArgumentError(f"to_gymnasium takes a tensorclass, got {cls!r:.80}")
    spaces = optional("gymnasium", "A space of gymnasium", "gymnasium").spaces
    known: Any = cls
    found, problems = {}, []
    for spec in known.__tensorclass_schema__:
        try:
            found[spec.name] = to_gymnasium(spec.nested, **dims) if spec.nested else _space(spaces, spec, dims)
        except SchemaError as error:
            hint = f"{error}; leave it out: `omit({cls.__name__}, {spec.name!r})`"
            inner = [problem._replace(path=f"{spec.name}.{problem.path}") for problem in error.problems]
            problems += inner or [Problem(spec.name, str(spec), "a space of gymnasium", hint)]
    if problems:
        raise SchemaError.of(cls.__name__, problems)
    return spaces.Dict(found)


def _space(spaces: Any, spec: FieldSpec, dims: dict[str, int]) -> Any:
    if not spec.kind.is_dense or spec.optional:
        raise SchemaError("a space holds tensors that are always there")
    dtype = dtypes_of(spec)[0]
    if dtype.is_complex or dtype is torch.bfloat16 or (dtype.itemsize == 1 and dtype.is_floating_point):
        raise SchemaError(f"numpy has no {dtype} for it")
    shape, kind = tuple(event_shape(spec, dims)), torch.empty(0, dtype=dtype).numpy().dtype
    low, high = numbers(spec, dtype)[:2]
    if dtype is torch.int64 and not shape and low is not None and high is not None:
        return spaces.Discrete(int(high) - int(low) + 1, start=int(low))
    limits = (0, 1) if dtype is torch.bool else _limits(dtype)
    return spaces.Box(limits[0] if low is None else low, limits[1] if high is None else high, shape, kind)


def _limits(dtype: torch.dtype) -> tuple[float, float]:
    if dtype.is_floating_point:
        return -torch.inf, torch.inf
    return torch.iinfo(dtype).min, torch.iinfo(dtype).max


def from_gymnasium(space: Any, name: str = "Observation") -> Any:
    """The class of a `Dict` space: a tensor for each `Box`, `Discrete`, `MultiDiscrete`, `MultiBinary`.

    Bounds that are the same for all numbers of a field become its constraints, which `validate()` checks. Bounds that
    differ within a field are dropped: a declaration can't express them. `Text` becomes one `str` for each element. A
    field may hide a method of the same name (`shadow=True`).

    Args:
        space: a `Dict`. Wrap any other space in a `Dict`, since a field needs a name.
        name: the name of the class. The key of a nested space is appended for its class.

    Raises:
        ArgumentError: for an unsupported space, and for a key that can't be a field name.

    >>> from gymnasium import spaces
    >>> from tensorclass import from_gymnasium, schema
    >>> print(schema(from_gymnasium(spaces.Dict({"place": spaces.Box(-1, 1, (2,)), "lamp": spaces.Discrete(3)}))))
    Observation
      lamp   Int64[""]
      place  Float32["2"]
    """
    parts: Any = getattr(space, "spaces", None)
    if not hasattr(parts, "items"):
        hint = f'a field needs a name: `spaces.Dict({{"state": {space!r:.80}}})`'
        raise ArgumentError(f"from_gymnasium takes a `Dict` space, got {type(space).__name__}; {hint}")
    frame: Any = sys._getframe(1)
    while frame.f_globals.get("__name__", "").partition(".")[0] == __name__.partition(".")[0]:
        frame = frame.f_back  # pickle looks the class up in the module of the caller
    module = frame.f_globals.get("__name__", "__main__")
    body = {"__module__": module, "__annotations__": {key: _annotation(part, key, name) for key, part in parts.items()}}
    return types.new_class(name, (TensorClass,), {"shadow": True}, lambda names: names.update(body))


def _annotation(space: Any, key: Any, name: str) -> Any:
    kind = type(space).__name__
    if not isinstance(key, str) or not key.isidentifier():
        raise ArgumentError(f"from_gymnasium: the key {key!r:.80} can't be the name of a field")
    if kind == "Dict":
        return from_gymnasium(space, name + key.capitalize())
    if kind == "Text":
        return PerElement[str]
    if kind not in ("Box", "Discrete", "MultiDiscrete", "MultiBinary"):
        raise ArgumentError(f"from_gymnasium: `{key}` is a {kind}, which no field can declare; flatten the space")
    dtype = torch.tensor(space.sample()).dtype
    declared: Any = family_of(dtype)
    annotation = (declared[Tensor, " ".join(map(str, space.shape))], *_bounds(space, kind, dtype))
    return Annotated[annotation] if annotation[1:] else annotation[0]


def _bounds(space: Any, kind: str, dtype: torch.dtype) -> Iterator[Any]:
    """The constraints of a field; none for a bound that equals that of the dtype, or that is not a single number."""
    if kind == "Box":
        low, high = space.low, space.high
    elif kind == "MultiBinary":
        low, high = 0, 1
    else:
        low = getattr(space, "start", 0)
        high = low + (space.n if kind == "Discrete" else space.nvec) - 1
    ends = _limits(dtype) if dtype is not torch.bool else (0, 1)
    for mark, bound, end in ((Ge, low, ends[0]), (Le, high, ends[1])):
        values = set(torch.as_tensor(bound).flatten().tolist())
        if len(values) == 1 and values != {end}:
            yield mark(values.pop())
