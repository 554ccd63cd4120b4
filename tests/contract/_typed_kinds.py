"""Typed classes among the kinds of container; the families they declare admit every dtype."""

from __future__ import annotations

from torch import Tensor

from tensorclass import PerElement, Shared, TensorClass, TensorDict, tensorclass
from tensorclass.typing import Shaped
from tests.contract._kinds import KINDS, Factory, Maker, objects

TYPED: dict[str, Factory] = {}


def typed(factory: Factory) -> Factory:
    """Register a typed kind of container under its function's name."""
    TYPED[factory.__name__] = factory
    return factory


@tensorclass
class Flat:
    a: Shaped[Tensor, "4"]
    b: Shaped[Tensor, ""]
    c: Shaped[Tensor, "n 1"]


class Inner(TensorClass):
    x: Shaped[Tensor, "4"]
    y: Shaped[Tensor, ""]


class Nested(TensorClass):
    inner: Inner
    a: Shaped[Tensor, "..."]
    loose: TensorDict


class Optional(TensorClass):
    a: Shaped[Tensor, "4"]
    weight: Shaped[Tensor, ""] | None = None
    inner: Inner | None = None


@tensorclass
class Assorted:
    a: Shaped[Tensor, "4"]
    who: PerElement[str]
    table: Shared[Tensor]
    tag: str = "scan"


@typed
def typed_flat(make: Maker) -> Flat:
    """Tensors of several event ranks."""
    return Flat(a=make(2, 3, 4), b=make(2, 3), c=make(2, 3, 2, 1), batch_size=[2, 3])


@typed
def typed_nested(make: Maker) -> Nested:
    """A class in a class, beside an untyped container."""
    loose = TensorDict({"d": make(2, 3, 2)}, batch_size=[2, 3])
    inner = Inner(x=make(2, 3, 4), y=make(2, 3), batch_size=[2, 3])
    return Nested(inner=inner, a=make(2, 3, 5), loose=loose, batch_size=[2, 3])


@typed
def typed_optional(make: Maker) -> Optional:
    """Optional fields that are absent."""
    return Optional(a=make(2, 3, 4), batch_size=[2, 3])


@typed
def typed_assorted(make: Maker) -> Assorted:
    """A value shared by the batch, an object for each element, a tensor without batch dims."""
    return Assorted(a=make(2, 3, 4), who=objects(2, 3), table=make(5), batch_size=[2, 3])


@typed
def typed_locked(make: Maker) -> Nested:
    """A locked class, names on its dims."""
    data = typed_nested(make)
    data.names = ["time", "lane"]
    return data.lock_()  # type: ignore[no-any-return]  # the factory's type is loose


ALL_KINDS: dict[str, Factory] = {**KINDS, **TYPED}
