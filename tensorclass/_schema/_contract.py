"""What the annotation of a parameter or result says about tensors and batches; values are compared with it."""

from __future__ import annotations

import types
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass
from typing import Any, Union, get_args, get_origin

from torch import Tensor
from typing_extensions import Self

from .._dims import Bindings, Dims, parse_dims
from ..errors import Problem
from ._annotations import WrongDeclaration, is_tensorclass, parse_annotation, peel
from ._check import describe, dtype_hint
from ._dtypes import Shaped, TensorSpec

_STREAMS = (Iterator, Iterable, Generator, AsyncIterator, AsyncIterable, AsyncGenerator)


@dataclass(frozen=True)
class One:
    """A tensor or a batch: its class, dtype and dims.

    Args:
        kind: The class of the value.
        spec: The dtype, which is `Shaped` for a batch, and the dims: all dims of a tensor, the batch dims of a batch.
        sizes: The attribute with the sizes, `shape` or `batch_size`.
        optional: Whether None fits too.
    """

    kind: type
    spec: TensorSpec
    sizes: str
    optional: bool = False

    @property
    def dims(self) -> Dims | None:
        """The declared dims; None for any."""
        return self.spec.dims

    def problems(self, path: str, value: Any, bindings: Bindings) -> list[Problem]:
        """The reasons why a value does not fit; its dims are bound."""
        if value is None and self.optional:
            return []
        held: Any = value
        given = describe(value)
        if not isinstance(value, self.kind):
            return [Problem(path, str(self), given, f"pass an instance of {self.kind.__name__}")]
        if self.sizes == "shape" and not self.spec.dtype.accepts(held.dtype):
            return [Problem(path, str(self), given, dtype_hint(self.spec, held.dtype))]
        if self.dims is None:
            return []
        found = bindings.bind(path, self.dims, getattr(held, self.sizes), declared=str(self), given=given)
        word = "dim" if self.sizes == "shape" else "batch dim"
        return [problem._replace(hint=problem.hint.replace("event dim", word)) for problem in found]

    def __str__(self) -> str:
        shown = self.kind.__name__
        if self.spec != TensorSpec(Shaped):
            dims = "..." if self.dims is None else self.dims
            shown = f'{self.spec.dtype}[{shown}, "{dims}"]'
        return f"{shown} | None" if self.optional else shown


@dataclass(frozen=True)
class Several:
    """A tuple, a sequence or a mapping of values; `parts` has one rule for all, or one for each place."""

    parts: tuple[Rule | None, ...]
    by_place: bool = False
    optional: bool = False

    def problems(self, path: str, value: Any, bindings: Bindings) -> list[Problem]:
        """The reasons why an item does not fit. Values of other types are left to the type checker."""
        if isinstance(value, Mapping):
            rows = [(f"{path}[{key!r:.80}]", self.parts[-1], item) for key, item in value.items()]
        elif not isinstance(value, Sequence | set | frozenset):
            return []
        elif self.by_place and len(value) != len(self.parts):
            return [
                Problem(path, f"{len(self.parts)} values", f"{len(value)} values", "return one value for each place")
            ]
        else:
            parts = self.parts if self.by_place else self.parts * len(value)
            rows = [(f"{path}[{i}]", part, item) for i, (part, item) in enumerate(zip(parts, value, strict=True))]
        return [found for at, part, item in rows if part is not None for found in part.problems(at, item, bindings)]


@dataclass(frozen=True)
class Either:
    """A union: the first member that fits. Members that are neither tensors nor batches fit by their class."""

    members: tuple[Rule, ...]
    others: tuple[Any, ...]

    def problems(self, path: str, value: Any, bindings: Bindings) -> list[Problem]:
        """The reasons why no member fits."""
        if any(not isinstance(kind, type) or isinstance(value, kind) for kind in self.others):
            return []
        failed: list[Problem] = []
        for member in self.members:
            found = member.problems(path, value, bindings)
            if not found:
                return []
            failed += found
        declared = " | ".join(str(member) for member in self.members)
        near = [problem.hint for problem in failed if not problem.hint.startswith("pass an instance")]
        return [Problem(path, declared, describe(value), near[0] if near else "pass one of these")]


Rule = One | Several | Either


def read_rule(annotation: Any, batches: type) -> Rule | None:
    """The rule of an annotation; None if it says nothing about tensors and batches.

    Args:
        annotation: A type without unresolved names.
        batches: The class of all batches, for `Self`.

    Raises:
        WrongDeclaration: if the annotation contradicts itself.
    """
    core, optional, _ = peel(annotation)
    origin, arguments = get_origin(core), get_args(core)
    if origin in (Union, types.UnionType):
        rules = [read_rule(member, batches) for member in arguments]
        others = tuple(get_origin(m) or m for m, rule in zip(arguments, rules, strict=True) if rule is None)
        members = tuple(rule for rule in rules if rule is not None)
        if not members:
            return None
        return Either(members, (*others, types.NoneType) if optional else others)
    if isinstance(origin, type) and arguments and not is_tensorclass(origin):
        return _several(origin, arguments, batches)
    return _one(annotation, core, optional, batches)


def _several(origin: type, arguments: tuple[Any, ...], batches: type) -> Rule | None:
    if issubclass(origin, tuple) and arguments[-1] is not Ellipsis:
        parts = tuple(read_rule(argument, batches) for argument in arguments)
        return Several(parts, by_place=True) if any(parts) else None
    if not issubclass(origin, Sequence | set | frozenset | Mapping):
        return None
    inner = read_rule(arguments[0 if issubclass(origin, tuple) else -1], batches)
    return None if inner is None else Several((inner,))


def _one(annotation: Any, core: Any, optional: bool, batches: type) -> One | None:
    """What one member of an annotation says about a tensor or a batch; None if it says nothing."""
    core = batches if core is Self else core
    core = get_origin(core) if is_tensorclass(get_origin(core)) else core
    array = getattr(core, "array_type", None) if isinstance(core, type) else None
    collection = array if array is not None else core
    if isinstance(collection, type) and getattr(collection, "__tensor_collection__", False) is True:
        _, _, marks = peel(annotation)
        specs = [mark for mark in marks if isinstance(mark, TensorSpec)]
        return _of_batches(collection, specs[0].dims if specs else _jaxtyping_dims(core), optional)
    if core is Any or not isinstance(collection, type) or not issubclass(collection, Tensor):
        return None
    parsed = parse_annotation(annotation)
    if not parsed.kind.is_batched:
        raise WrongDeclaration(f"a {parsed.kind} parameter", "a contract is about tensors and batches")
    return One(collection, parsed.spec or TensorSpec(Shaped), "shape", optional)


def _of_batches(kind: Any, dims: Dims | None, optional: bool) -> One | None:
    options = getattr(kind, "__tensorclass_options__", None)
    if options is not None and options.validate == "off":
        return None
    return One(kind, TensorSpec(Shaped, dims), "batch_size", optional)


def _jaxtyping_dims(core: Any) -> Dims | None:
    text = getattr(core, "dim_str", None)
    return None if text is None else parse_dims(text)


def read_items(annotation: Any, batches: type) -> Rule | None:
    """The rule of the items of a stream, such as `Iterator[...]`; None if there is none.

    Args:
        annotation: The annotation of a result.
        batches: The class of all batches, for `Self`.
    """
    return read_rule(get_args(annotation)[0], batches) if get_origin(annotation) in _STREAMS else None
