"""The first call: compares the values that modules return with their declarations, and sizes across modules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ..._schema import Bindings, Dim, Dims, DTypeFamily, FieldSpec, Variadic
from ...core import TensorCollection
from ...errors import Problem, SchemaError
from ..parts._results import describe
from ..parts._stage import Stage
from ._declared import Report, Use
from ._known import Place
from ._unify import Rest, Unifier, plain_name


class FirstCall:
    """Compares every value of one call with its declaration; sizes are shared by the whole pipeline.

    Args:
        report: The facts of the build check about each value.
        stages: The modules, for messages.
        batch: The input of the call.
    """

    def __init__(self, report: Report, stages: Sequence[Stage], batch: Any) -> None:
        self.report = report
        self.stages = stages
        self.size = getattr(batch, "batch_size", torch.Size())
        self.further = _further_ndim(batch) if isinstance(batch, TensorCollection) else 0
        self.bindings = Bindings()
        self.names: dict[str, str] = {}

    def read(self, stage: int, position: int, value: object) -> None:
        """Bind the sizes of an input field, whose instance is valid already."""
        use = self.report.reads[stage][position]
        if use is not None and isinstance(value, Tensor) and use.place.spec.kind.is_dense:
            self._bind(use.place, value)

    def wrote(self, stage: int, position: int, value: object) -> None:
        """Check a value that a module returned against its declaration.

        Raises:
            SchemaError: names the module, the field, the declaration and the value.
        """
        use = self.report.writes[stage][position]
        if use is None or not use.slot.spec.kind.is_dense:
            return
        problem = self._problem(use, value)
        if problem is not None:
            raise SchemaError.of(self.stages[stage].at(stage), [problem])

    def _problem(self, use: Use, value: object) -> Problem | None:
        """What is wrong with an output of the first call; None if it fits its declaration."""
        spec, label = use.slot.spec, use.slot.label
        if value is None and spec.optional:
            return None
        if not isinstance(value, Tensor):
            return Problem(label, str(spec), describe(value), "return a tensor, or a mapping with the field's name")
        given = describe(value)
        if use.place.dtype is not None and not use.place.dtype.accepts(value.dtype):
            return Problem(label, str(spec), given, _dtype_hint(use.place.dtype, spec))
        if spec.kind.is_batched and value.shape[: len(self.size)] != self.size:
            hint = f"keep the batch dims {list(self.size)} first; a mean, flatten or squeeze may have taken them"
            return Problem(label, str(spec), given, hint)
        found = self._bind(use.place, value)
        return Problem(label, str(spec), given, found[0].hint) if found else None

    def _bind(self, place: Place, value: Tensor) -> list[Problem]:
        batch = len(self.size) if place.spec.kind.is_batched else 0
        dims = runtime_dims(self.report.state.unifier, place, self.names)
        if self.further and batch and len(place.path) > 1 and dims.rank is not None:
            batch += min(max(value.ndim - dims.rank - batch, 0), self.further)
        return self.bindings.bind(place.name, dims, tuple(value.shape[batch:]), batch_dims=batch)


def _further_ndim(batch: Any) -> int:
    """The most batch dims that an instance in a batch has beyond those of the batch."""
    inner = [entry for entry in batch._entries().values() if isinstance(entry, TensorCollection)]
    return max([entry.ndim - batch.ndim + _further_ndim(entry) for entry in inner], default=0)


def _dtype_hint(dtype: DTypeFamily, spec: FieldSpec) -> str:
    if dtype != spec.dtype:
        return f"a module after it reads the field as {dtype}; convert with `.to(...)` in the module that writes it"
    return (
        f"convert with `.to({dtype.exact})` in the module"
        if dtype.exact
        else "convert it there, or declare what it returns"
    )


def runtime_dims(unifier: Unifier, place: Place, names: dict[str, str]) -> Dims:
    """The dims of a place with plain names, one for each variable of the pipeline."""
    tokens: list[Dim | Variadic] = []
    for term in unifier.resolve(place.terms):
        if isinstance(term, Rest):
            tokens.append(Variadic(_name(term.name, names)))
            continue
        size = term.substitute({variable: _name(variable, names) for variable in term.names})
        tokens.append(Dim(size, str(size).replace(" ", "")))
    return Dims(tuple(tokens))


def _name(variable: str, names: dict[str, str]) -> str:
    if variable not in names:
        plain = plain_name(variable).replace("...", "rest").replace("_", "any")
        taken = sum(known.rstrip("'") == plain for known in names.values())
        names[variable] = plain + "'" * taken
    return names[variable]
