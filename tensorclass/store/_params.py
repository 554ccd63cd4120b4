"""TensorDictParams: a container that is an `nn.Module`, whose tensors are parameters and buffers."""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterator, Mapping, MutableMapping, ValuesView
from copy import deepcopy
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch._C import _functorch  # pyright: ignore[reportAttributeAccessIssue]  # a C module
from torch.nn.parameter import Buffer as Buffer  # public here, as in `tensordict`
from torch.nn.parameter import Parameter
from typing_extensions import Self

from .._flags import flag, flags
from ..core import (
    BATCHED,
    KEY_SEPARATOR,
    STORAGE,
    Kind,
    Layered,
    Names,
    Path,
    TensorCollection,
    Write,
    join_path,
    leaves_below,
    register,
    tensors_by_path,
)
from ..errors import ArgumentError, StructureError, UnsupportedOperationError
from ..ops._by_row import RowOps
from ..ops._device import DeviceOps
from ..ops._mapping import MappingOps
from ._dict import TensorDict, TensorDictBase
from .lazy._stack import LazyStackedTensorDict

Hook: TypeAlias = "Callable[[TensorDictParams, Any], Any]"
_TRAINABLE = (torch.float16, torch.float32, torch.float64)


def _place(value: Tensor) -> Any:
    """A key that two tensors of the same memory share, such as the `data` of one parameter that was read twice."""
    if type(value) is not Tensor or value.layout is not torch.strided or value.grad_fn is not None:
        return id(value)
    if _functorch.peek_interpreter_stack() is not None:
        return id(value)  # under a transform of torch.func it may have no storage
    where = value.untyped_storage()._cdata, value.storage_offset()
    return (*where, value.shape, value.stride(), value.dtype)


class Flat(MutableMapping[str, Any]):
    """The parameters, or the buffers, of a container by dotted name, as a module expects under `_parameters`."""

    def __init__(self, store: Any, parameters: bool) -> None:
        self.store = store
        self.parameters = parameters

    def _items(self) -> dict[str, Tensor]:
        return {
            name: leaf for name, leaf in tensors_by_name(self.store) if isinstance(leaf, Parameter) is self.parameters
        }

    def __getitem__(self, name: str) -> Tensor:
        return self._items()[name]

    def __setitem__(self, name: str, value: Any) -> None:
        *outer, key = name.split(KEY_SEPARATOR)
        (MappingOps.get(self.store, tuple(outer)) if outer else self.store)._put(key, value)

    def __delitem__(self, name: str) -> None:
        MappingOps.del_(self.store, tuple(name.split(KEY_SEPARATOR)))

    def __iter__(self) -> Iterator[str]:
        return iter(self._items())

    def __len__(self) -> int:
        return len(self._items())

    def items(self) -> ItemsView[str, Any]:
        """Names and tensors, in one snapshot, since other threads may write."""
        return self._items().items()

    def values(self) -> ValuesView[Any]:
        """The tensors, in the order of `items`."""
        return self._items().values()


def tensors_by_name(store: Any) -> Iterator[tuple[str, Tensor]]:
    """The tensors of a container by dotted name."""
    return ((join_path(path), leaf) for path, leaf in tensors_by_path(store).items())


def _nest_state(state: Mapping[str, Any]) -> dict[str, Any]:
    """A state dict with a level for each part of its names."""
    found: dict[str, Any] = {}
    for name, value in state.items():
        *outer, last = name.split(KEY_SEPARATOR)
        level = found
        for part in outer:
            level = level.setdefault(part, {})
        level[last] = value
    return found


def _flatten_state(state: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """A state dict with dotted names."""
    found: dict[str, Any] = {}
    for name, value in state.items():
        below = isinstance(value, Mapping)
        found.update(_flatten_state(value, f"{prefix}{name}{KEY_SEPARATOR}") if below else {prefix + name: value})
    return found


@flags
class TensorDictParams(Layered, TensorDictBase, nn.Module):  # type: ignore[misc]  # common names
    """A container that is a module: its tensors are parameters and buffers. It stores parameters apart from a network.

    As an attribute of a module, its tensors are part of `parameters()`, `state_dict()`, `to()` and so on, under dotted
    names. Operations return a `TensorDict`; `clone`, `to`, `cpu`, `cuda` and deep copies return a `TensorDictParams`
    with new parameters. Tensors that are written to it become parameters or buffers, as in the constructor.

    Args:
        parameters: a container or mapping; its structure is copied, its tensors are not.
        no_convert: convert all tensors that are neither parameters nor buffers to buffers; results of operations that
            autograd tracks stay as they are. Otherwise float16, float32
            and float64 tensors become parameters that require grad, all others buffers.
        lock: lock the given container.
        **kwargs: entries given by keyword instead of `parameters`.

    Raises:
        StructureError: for a lazy stack, since its parameters are stacked at each read.

    >>> import torch
    >>> from torch import nn
    >>> from tensorclass import TensorDictParams, from_module
    >>> class Shadow(nn.Module):
    ...     def __init__(self, net):
    ...         super().__init__()
    ...         self.target = TensorDictParams(from_module(net).data.clone())
    >>> [name for name, _ in Shadow(nn.Linear(3, 4)).named_parameters()]
    ['target.weight', 'target.bias']
    """

    # Not in the `__dict__` of the module: torch.export would rebuild containers there.
    __slots__ = ("_store",)
    _store: Any
    _hooks: list[Hook]
    _root: Any
    """For a nested container that was read from another: the outer container, which hooks are called with.

    Else None.
    """
    no_convert: bool

    def __init__(
        self,
        parameters: TensorCollection | Mapping[Any, Any] | None = None,
        *,
        no_convert: bool = False,
        lock: bool = False,
        **kwargs: Any,
    ) -> None:
        if isinstance(parameters, LazyStackedTensorDict):
            raise StructureError(
                "TensorDictParams: a lazy stack has no parameters of its own; make it dense first: `stack.densify()`"
            )
        if parameters is not None and kwargs:
            raise ArgumentError("give entries as one mapping or as keyword arguments, not both")
        if isinstance(parameters, TensorDictParams):
            parameters = parameters._store
        source: Any = parameters if isinstance(parameters, TensorCollection) else TensorDict(parameters, **kwargs)
        self._start(source._twin(), no_convert)
        self._convert_all(self._store, {})
        if lock:
            source.lock_()

    def _start(self, store: Any, no_convert: bool) -> None:
        nn.Module.__init__(self)
        self._store, self._hooks, self._root, self.no_convert = store, [], None, no_convert

    @classmethod
    def _wrap_store(cls, store: Any, no_convert: bool) -> Self:
        new = cls.__new__(cls)
        new._start(store, no_convert)
        return new

    def _converted(self, value: Tensor) -> Tensor:
        tracked = self.no_convert and value.grad_fn is not None  # a view of a parameter that others own
        if isinstance(value, (Parameter, Buffer)) or tracked:
            return value
        if self.no_convert or value.dtype not in _TRAINABLE:
            return Buffer(value.detach())
        return Parameter(value.detach())

    def _convert_all(self, store: Any, made: dict[Any, Tensor]) -> None:
        """Convert all tensors to parameters and buffers; a tensor in several places is converted once."""
        for leaf in leaves_below(store):
            if isinstance(leaf.entry, Tensor) and not isinstance(leaf.entry, (Parameter, Buffer)):
                place = _place(leaf.entry)
                if place not in made:
                    made[place] = self._converted(leaf.entry)
                leaf.holder._put(leaf.path[-1], made[place])

    def register_get_post_hook(self, hook: Hook) -> None:
        """Call `hook(params, value)` after each read of a tensor; a result other than None replaces the value.

        It runs for reads by key and by attribute, including nested ones, `values`, `items`, `to_dict`, `select` and
        other operations on keys, pytrees, and `to_module`. Operations that compute (arithmetic, `apply`, copies,
        indexing), the state dict, `parameters()` and `data` use the tensors themselves.

        >>> import torch
        >>> from tensorclass import TensorDictParams
        >>> params = TensorDictParams(a=torch.ones(2))
        >>> params.register_get_post_hook(lambda params, value: value.detach() * 2)
        >>> params["a"]
        tensor([2., 2.])
        """
        self._hooks.append(hook)

    def _hook_value(self, value: Any) -> Any:
        if self._hooks and isinstance(value, TensorCollection):
            return self._below(value)
        for hook in self._hooks if isinstance(value, Tensor) else ():
            found = hook(self if self._root is None else self._root, value)
            value = value if found is None else found
        return value

    def _below(self, store: Any) -> TensorDictParams:
        """A nested container as parameters, with the hooks of this container."""
        new = TensorDictParams._wrap_store(store, self.no_convert)
        new._hooks, new._root = self._hooks, self if self._root is None else self._root
        return new

    # ---- the primitives ------------------------------------------------------------------------------------------

    @classmethod
    def _from_entries(
        cls, entries: dict[str, Any], batch_size: torch.Size, device: torch.device | None, names: Names
    ) -> Any:
        return TensorDict._from_entries(entries, batch_size, device, names)

    def _open(self, leaves: list[Tensor], kind: Kind = BATCHED) -> Any:
        return self._store._open(leaves, kind)

    def _twin(self) -> Any:
        return self._store._twin()

    def _pair_leaves(
        self, other: Any, mine: list[Tensor], theirs: list[Tensor], write: Write = "", whole: bool = True
    ) -> Any:
        there = other if type(other) is dict else other._store
        alike = type(there) in (dict, type(self._store))
        return self._store._pair_leaves(there, mine, theirs, write, whole) if alike else None

    def _entries(self) -> dict[str, Any]:
        entries: dict[str, Any] = self._store._entries()
        return {key: self._hook_value(value) for key, value in entries.items()} if self._hooks else entries

    def _live(self) -> dict[str, Any]:
        return self._entries() if self._hooks else self._store._live()

    def _entry(self, key: str) -> Any:
        return self._hook_value(self._store._entry(key))

    def _check(self, key: str, value: Any) -> Any:
        return self._adapt_value(self._store._check(key, value))

    def _put(self, key: str, value: Any) -> None:
        self._store._put(key, value)

    def _swap_in(self, entries: dict[str, Any], seen: dict[str, Any]) -> None:
        self._store._swap_in(entries, self._store._entries() if self._hooks else seen)

    def _holder(self, path: Path, create: bool | None) -> Any:
        holder = super()._holder(path, create)
        known = holder is None or isinstance(holder, TensorDictParams)
        return holder if known else TensorDictParams._wrap_store(holder, self.no_convert)

    def _plan_update(self, *args: Any, **kwargs: Any) -> None:
        super()._plan_update(*args, **kwargs)
        plan: list[tuple[Any, dict[str, Any]]] = args[5]
        plan[:] = [(holder, {k: self._adapt_value(v) for k, v in values.items()}) for holder, values in plan]

    def _adapt_value(self, value: Any) -> Any:
        """A checked value with tensors converted to parameters and buffers; a container is copied, not changed."""
        if isinstance(value, TensorCollection):
            value = value._twin()
            self._convert_all(value, {})
        return self._converted(value) if isinstance(value, Tensor) else value

    # ---- copies --------------------------------------------------------------------------------------------------

    def _alike(self, store: Any) -> Self:
        """New parameters and buffers like these; one in several places is copied once."""
        made: dict[int, Tensor] = {}
        olds = self._store._leaves(STORAGE)
        for old, new in zip(olds, store._leaves(STORAGE), strict=True):
            if id(old) not in made:
                kept = isinstance(old, Parameter)
                made[id(old)] = Parameter(new.detach(), old.requires_grad) if kept else Buffer(new.detach())
        leaves = [made[id(old)] for old in olds]
        return type(self)._wrap_store(store._make(leaves, store._batch_size, store._names, STORAGE), self.no_convert)

    def clone(self, recurse: bool = True, **kwargs: Any) -> Self:
        """A copy with new parameters; with `recurse=False`, with the same parameters."""
        if not recurse:
            return type(self)._wrap_store(self._store._twin(), self.no_convert)
        return self._alike(MappingOps.clone(self._store, **kwargs))

    def copy(self) -> Self:
        """A copy of the structure with the same parameters."""
        return type(self)._wrap_store(self._store._twin(), self.no_convert)

    def __copy__(self) -> Self:
        return type(self)._wrap_store(self._store._twin(), self.no_convert)

    def __enter__(self) -> Self:
        if self._frames()[0] is None:  # `lock_` and `unlock_` leave what they undo
            what = "parameters, and copies of them, write nothing back"
            raise UnsupportedOperationError(f"with: {what}; use `params.update_(...)`, or a block over `params.data`")
        return super().__enter__()

    def to(self, *args: Any, **kwargs: Any) -> Any:
        """A copy with another device or dtype. `to` of a module that holds this container works in place."""
        return self._alike(self._store.to(*args, **kwargs))

    def cpu(self, **kwargs: Any) -> Any:
        """A copy on the CPU."""
        return self._alike(DeviceOps.cpu(self._store, **kwargs))

    def cuda(self, device: Any = None, **kwargs: Any) -> Any:
        """A copy on a GPU."""
        return self._alike(DeviceOps.cuda(self._store, device, **kwargs))

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        new = memo[id(self)] = type(self).__new__(type(self))
        for leaf in self._store._leaves(STORAGE):
            if leaf.grad_fn is not None:  # autograd's results can't be copied; their values can
                memo.setdefault(id(leaf), Buffer(leaf.detach().clone()))
        new.__dict__.update({key: deepcopy(value, memo) for key, value in self.__dict__.items()})
        new._store = deepcopy(self._store, memo)
        return new

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_store": self._store, "_compiled_call_impl": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._store = state["_store"]
        nn.Module.__setstate__(self, {key: value for key, value in state.items() if key != "_store"})

    # ---- as a module ---------------------------------------------------------------------------------------------

    _parameters = property(lambda self: Flat(self._store, True), lambda self, value: None)  # pyright: ignore[reportAssignmentType]  # read from the store
    _buffers = property(lambda self: Flat(self._store, False), lambda self, value: None)  # pyright: ignore[reportAssignmentType]  # read from the store

    def __getattr__(self, name: str) -> Any:
        """A tensor or a nested container as an attribute, for lookups of dotted parameter names."""
        value = None if name == "_store" else self._store._live().get(name)
        if isinstance(value, TensorCollection):
            return self._below(value)
        return self._hook_value(value) if isinstance(value, Tensor) else nn.Module.__getattr__(self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, Tensor):
            MappingOps.set(self, tuple(name.split(KEY_SEPARATOR)), value)
        else:
            object.__setattr__(self, name, value)

    def register_parameter(self, name: str, param: Any) -> None:
        """Add a parameter under a key."""
        MappingOps.set(self, name, param)

    def register_buffer(self, name: str, tensor: Any, persistent: bool = True) -> None:
        """Add a buffer under a key."""
        MappingOps.set(self, name, Buffer(tensor))

    def state_dict(self, *args: Any, flatten: bool = True, **kwargs: Any) -> Any:
        """The parameters and buffers by dotted name, as for any module.

        Args:
            *args: as for `nn.Module.state_dict`.
            flatten: False for nested dicts instead of dotted names.
            **kwargs: as for `nn.Module.state_dict`.

        >>> import torch
        >>> from tensorclass import TensorDictParams
        >>> params = TensorDictParams({"a": {"b": torch.ones(2)}})
        >>> list(params.state_dict()), list(params.state_dict(flatten=False)["a"])
        (['a.b'], ['b'])
        """
        flag(flatten=flatten, keep_vars=kwargs.get("keep_vars", False))
        state = nn.Module.state_dict(self, *args, **kwargs)
        return state if flatten else _nest_state(state)

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        """Save parameters and buffers from one snapshot."""
        still = type(self)._wrap_store(self._store._twin(), self.no_convert)
        still.__dict__.update(self.__dict__)
        nn.Module._save_to_state_dict(still, destination, prefix, keep_vars)
        for name, _ in tensors_by_name(still._store):  # the order of the entries, not parameters first
            destination[prefix + name] = destination.pop(prefix + name)

    def load_state_dict(
        self, state_dict: Any, strict: bool = True, assign: bool = False, from_flatten: bool | None = None
    ) -> Any:
        """Copy a state dict into the parameters and buffers, or with `assign` replace them by its tensors.

        Args:
            state_dict: tensors by dotted name, or nested mappings of them.
            strict: refuse missing and unexpected names.
            assign: use the tensors themselves instead of copying their values.
            from_flatten: accepted for compatibility; whether names are dotted is detected.

        Returns:
            The missing and the unexpected names, as for any module.

        >>> import torch
        >>> from tensorclass import TensorDictParams
        >>> params = TensorDictParams({"a": {"b": torch.ones(2)}})
        >>> params.load_state_dict({"a": {"b": torch.zeros(2)}})
        <All keys matched successfully>
        """
        if any(isinstance(value, Mapping) for value in state_dict.values()):
            state_dict = _flatten_state(state_dict)
        return nn.Module.load_state_dict(self, state_dict, strict, assign)

    def _load_from_state_dict(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: Any,
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Load dotted names, which `nn.Module` would treat as names of submodules."""
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, False, missing_keys, unexpected_keys, error_msgs
        )
        if strict:
            known = [prefix + name for name, _ in tensors_by_name(self._store)]
            missing_keys += [key for key in known if key not in state_dict]
            unexpected_keys += [key for key in state_dict if key.startswith(prefix) and key not in known]

    def __repr__(self) -> str:
        return f"TensorDictParams(params={self._store!r})"


class _Yielding:
    """A method that an entry of its name hides: `head` is a common name of a submodule."""

    def __init__(self, name: str, method: Any) -> None:
        self.name, self.method = name, method

    def __get__(self, params: Any, owner: type) -> Any:
        if params is None:
            return self.method
        held = isinstance(params._store._live().get(self.name), (Tensor, TensorCollection))
        return params.__getattr__(self.name) if held else self.method.__get__(params, owner)


for _name, _method in vars(RowOps).items():
    if not _name.startswith("_"):
        setattr(TensorDictParams, _name, _Yielding(_name, _method))
register(TensorDictParams)
