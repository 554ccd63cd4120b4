"""The names of the layer: the modules of `tensordict`, and the names that clients use beside the public ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ContextDecorator, contextmanager, nullcontext
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import torch
import torch.utils._pytree as pytree

from .. import (
    LazyStackedTensorDict,
    NonTensorDataBase,
    NonTensorStack,
    TensorCollection,
    TensorDict,
    TensorDictParams,
    UnbatchedTensor,
    default_is_leaf,
    is_leaf_nontensor,
    is_tensorclass,
    unravel_key_to_tuple,
)
from ..base import NO_DEFAULT
from ..errors import page_of
from ..nn import set_skip_existing
from ..nn.parts._seeded import Seeded
from ._lenient import LenientTensorClass, lenient_tensorclass

VERSION = "0.15.3"
"""The version that clients look at."""
_NN = """
    common cudagraphs distributions distributions.composite distributions.continuous distributions.discrete
    distributions.truncated_normal ensemble functional_modules params probabilistic sequence tensorclass_module utils
"""
_TOP = """
    _nestedkey _pytree _td _tensorcollection base functional memmap nn persistent store tensorclass tensordict
    typedtensordict utils
"""
MODULES = frozenset([*_TOP.split(), *[f"nn.{name}" for name in _NN.split()]])
"""The modules of `tensordict` that the layer has, by their path inside of it."""


def _zip_strict(*values: Any) -> zip[Any]:
    return zip(*values, strict=True)


def _is_non_tensor(kind: type) -> bool:
    return issubclass(kind, (NonTensorDataBase, NonTensorStack))


_CONTAINERS = (TensorCollection, NonTensorDataBase, NonTensorStack)


def _is_container(value: Any) -> bool:
    kind = type(value)
    if kind is TensorDict or kind is torch.Tensor:
        return kind is TensorDict
    return issubclass(value if isinstance(value, type) else kind, _CONTAINERS)


def nested_tensors_as_lists(kind: type) -> bool:
    """What `items` and `values` take to give the entries of the members of lazy stacks, by their position."""
    return default_is_leaf(kind)


def _maybe_correct_neg_dim(dim: int, shape: Sequence[int] | None, ndim: int | None = None) -> int:
    count = len(shape or ()) if ndim is None else ndim
    if not -count <= dim < count:
        raise IndexError(f"dim {dim} is out of range for {count} dims")
    return dim % count


def _getitem_batch_size(batch_size: Sequence[int], index: Any) -> torch.Size:
    return torch.zeros(()).expand(tuple(batch_size))[index].shape


def _shape(value: Any) -> torch.Size:
    return value.shape  # type: ignore[no-any-return]  # of a tensor or a container


class _set_dispatch_td_nn_modules(ContextDecorator):
    """Without effect: modules that get a container never look at tensors."""

    def __init__(self, mode: bool) -> None:
        self.mode = mode

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        pass


def _set_skip_existing_none() -> Any:
    return set_skip_existing(None)


def use_generator(generator: torch.Generator | None) -> Any:
    """A block in which random operations draw from a generator, if there is one."""
    return nullcontext() if generator is None else Seeded(generator)


@contextmanager
def _exclude_td_from_pytree() -> Iterator[None]:
    """Containers are leaves of trees inside the block, in the whole process."""
    nodes = pytree.SUPPORTED_NODES
    kinds = (TensorDict, LazyStackedTensorDict, TensorDictParams)
    taken = {kind: nodes.pop(kind) for kind in kinds if kind in nodes}
    try:
        yield
    finally:
        nodes.update(taken)


class _Server:
    """Stands for a container over a server, which this package lacks: nothing is an instance of it."""

    def __init__(self, *_: Any, **__: Any) -> None:
        raise ImportError(f"tensorclass has no containers over Redis or Dragonfly servers; see {page_of('migrating')}")


OWN: dict[str, Any] = {
    "_ACCEPTED_CLASSES": (torch.Tensor, TensorCollection, UnbatchedTensor),
    "_NESTED_TENSORS_AS_LISTS": nested_tensors_as_lists,
    "_default_is_leaf": default_is_leaf,
    "_exclude_td_from_pytree": _exclude_td_from_pytree,
    "_getitem_batch_size": _getitem_batch_size,
    "_is_leaf_nontensor": is_leaf_nontensor,
    "_is_non_tensor": _is_non_tensor,
    "_is_tensorclass": is_tensorclass,
    "_maybe_correct_neg_dim": _maybe_correct_neg_dim,
    "_set_dispatch_td_nn_modules": _set_dispatch_td_nn_modules,
    "_set_skip_existing_None": _set_skip_existing_none,
    "_shape": _shape,
    "_unravel_key_to_tuple": unravel_key_to_tuple,
    "_use_generator": use_generator,
    "_zip_strict": _zip_strict,
    "LazyStackedTensorDictStore": _Server,
    "NO_DEFAULT": NO_DEFAULT,
    "TensorClass": LenientTensorClass,
    "TensorDictStore": _Server,
    "is_tensor_collection": _is_container,
    "tensorclass": lenient_tensorclass,
}
"""The names that the layer gives itself: private ones, and public ones with other rules."""
ROOTS = ("tensorclass", "tensorclass.nn", "tensorclass.utils", "tensorclass.base")
"""Where a name is looked for that the module of the same path lacks."""


def lookup(module: str, name: str) -> Any:
    """The object for a name of a module of `tensordict`.

    Raises:
        AttributeError: for a name that neither this package nor the layer has.
    """
    if name in OWN:
        return OWN[name]
    path = f"tensorclass.{module}".rstrip(".")
    same = [path] if find_spec(path) is not None else []
    if name == "__all__" and same:
        found = import_module(path)
        own = [key for key, value in vars(found).items() if key[0] != "_" and not isinstance(value, ModuleType)]
        return getattr(found, name, own)
    for place in (*same, *ROOTS):
        found = getattr(import_module(place), name, NO_DEFAULT)
        if found is not NO_DEFAULT:
            return found
    raise AttributeError(f"`{name}` of `tensordict.{module}`")
