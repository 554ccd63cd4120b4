"""Copies of callables that share nothing with the originals, so that running one leaves no trace.

Modules, closures, partials, bound methods, containers and plain objects are copied with one memo; a function replaces
the tensors. Objects that can't be copied (locks, files, C objects) are shared. Hooks of the user are left out: they
should only see real runs.
"""

from __future__ import annotations

import copy
import dis
import functools
import random
import sys
import types
import weakref
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter, is_lazy
from torch.utils.hooks import RemovableHandle

_ATOMS = (
    type(None), bool, int, float, complex, str, bytes, type, range, slice, types.ModuleType, types.CodeType,
    torch.dtype, torch.device, torch.Size, torch.jit.ScriptFunction, weakref.ref, property,
)  # fmt: skip
MODELS = (
    "torchvision", "torchaudio", "timm", "transformers", "diffusers", "peft", "accelerate", "safetensors",
    "huggingface_hub", "tokenizers", "sentence_transformers", "open_clip", "segmentation_models_pytorch", "monai",
    "kornia", "torch_geometric", "torchmetrics",
)  # fmt: skip
"""Libraries of models; objects that their code uses besides the model, such as a logger, are not copied."""
_LIBRARIES = frozenset({"torch", "numpy", "builtins", *MODELS, *sys.stdlib_module_names} - {"__main__"})
DATA = frozenset((
    type(None), bool, int, float, complex, str, bytes, type(...), range, slice, torch.dtype, torch.device, torch.Size,
))  # fmt: skip
HOLDERS = frozenset((dict, list, tuple, set, frozenset))
_DEEPEST = 8
_LARGE = 10_000
HEAP = 1 << 9
"""The flag of classes defined in Python code."""


class Uncopyable(Exception):
    """Raised for a value that running a callable would consume, such as a generator."""


class Private(types.ModuleType):
    """A module with some names replaced; all others are those of the original module."""

    def __init__(self, module: types.ModuleType, own: object) -> None:
        super().__init__(module.__name__)
        self.__dict__.update(_behind=module, _own=own)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own if hasattr(self._own, name) else self._behind, name)


class Isolator:
    """Copies values; an object that occurs twice is copied once.

    Args:
        tensor: Makes the replacement of a tensor.
        make: Makes an empty tensor of a shape, for the parameters of lazy modules.
        share: Whether data is shared, because nothing writes to it. Data are arrays, and containers of numbers, strings
            and other data. Otherwise the containers are copied.
        known: Which large containers are data, by id; shared by several copies.
    """

    def __init__(
        self,
        tensor: Callable[[Tensor], Tensor],
        make: Callable[..., Tensor],
        *,
        share: bool = False,
        known: dict[int, bool] | None = None,
    ) -> None:
        self._share = share
        self._known_data: dict[int, bool] = {} if known is None else known
        self._tensor = tensor
        self._make = make
        self._memo: dict[int, Any] = {}
        self._keep: list[Any] = []  # an id is valid as long as its object lives

    def copy(self, value: Any) -> Any:
        """A copy that shares nothing that a call could change.

        Raises:
            Uncopyable: for a generator, which a call would consume.
        """
        if value is random or value is np:
            return self._drawing(value)
        if type(value) in _ATOMS or isinstance(value, (type, types.ModuleType)):
            return value
        known = self._memo.get(id(value))
        if known is not None:
            return known
        rule = _EXACT.get(type(value)) or next((rule for kind, rule in _RULES if isinstance(value, kind)), None)
        return rule(self, value) if rule is not None else self._object(value)

    def _drawing(self, module: types.ModuleType) -> Any:
        """`random` or `numpy` with separate generators, since the global ones are shared."""
        if id(module) not in self._memo:
            own = Private(random, random.Random(0))
            arrays = Private(np, types.SimpleNamespace(random=Private(np.random, np.random.RandomState(0))))
            self._memo.update({id(random): own, id(np): arrays})
        return self._memo[id(module)]

    def known(self, value: Any, twin: Any) -> Any:
        """Record a copy before its contents are copied."""
        self._memo[id(value)] = twin
        self._keep.append(value)
        return twin

    # ---- tensors and modules -------------------------------------------------------------------------------------

    def _tensors(self, value: Tensor) -> Tensor:
        if is_lazy(value):
            raise Uncopyable("an uninitialized parameter outside of its module")
        return self.known(value, self._tensor(value))  # type: ignore[no-any-return]

    def _module(self, value: nn.Module) -> Any:
        """A copy of a module, whose attributes are copied as deep as they can be changed."""
        inner = _inner_module(value)
        if inner is not None:
            return self.known(value, self.copy(inner))
        twin = self.known(value, object.__new__(type(value)))
        for name, entry in value.__dict__.items():
            if name != "_compiled_call_impl":  # the copy runs uncompiled
                twin.__dict__[name] = entry if type(entry) in DATA else self._entry(twin, name, entry)
        for name, function in _own_methods(type(value)):
            mine = self.copy(function)
            if mine is not function:  # it uses globals that a call could change
                twin.__dict__.setdefault(name, types.MethodType(mine, twin))
        return twin

    def _entry(self, twin: nn.Module, name: str, entry: Any) -> Any:
        if name in ("_parameters", "_buffers"):
            return {key: self._parameter(twin, key, tensor) for key, tensor in entry.items()}
        return self._hooks(entry) if name.endswith("_hooks") and isinstance(entry, dict) else self.copy(entry)

    def _hooks(self, entry: dict[int, Any]) -> dict[int, Any]:
        twin = self._memo.get(id(entry)) if entry else OrderedDict()
        if twin is None:
            twin = self.known(entry, OrderedDict())
            twin.update((key, self.copy(hook)) for key, hook in entry.items() if _is_ours(hook))
        return twin

    def _handle(self, value: RemovableHandle) -> Any:
        """The handle that removes a hook, for lazy modules: it removes it from the copy."""
        hooks = value.hooks_dict_ref()
        twin = RemovableHandle(OrderedDict() if hooks is None else self._hooks(hooks))
        twin.id = value.id
        return self.known(value, twin)

    def _parameter(self, twin: nn.Module, name: str, tensor: Tensor | None) -> Tensor | None:
        if tensor is not None and is_lazy(tensor):
            lazy: Tensor = _copy_uninitialized(twin, name, tensor, self._make)
            return lazy
        return None if tensor is None else self.copy(tensor)

    # ---- functions -----------------------------------------------------------------------------------------------

    def _function(self, value: types.FunctionType) -> Any:
        """A copy of a function over copies of the values that it may change; the function itself if there are none."""
        original = getattr(value, "_torchdynamo_orig_callable", None)
        if original is not None:  # a result of torch.compile; the copy runs uncompiled
            return self.known(value, self.copy(original))
        named = _touched_globals(value)
        if named is None and not value.__closure__ and not value.__defaults__ and not value.__kwdefaults__:
            return value
        space = value.__globals__ if named is None else self._space(value.__globals__)
        cells = tuple(types.CellType() for _ in value.__closure__ or ())
        twin = self.known(value, types.FunctionType(value.__code__, space, value.__name__, None, cells or None))
        twin.__defaults__, twin.__kwdefaults__ = self.copy(value.__defaults__), self.copy(value.__kwdefaults__)
        twin.__dict__.update(value.__dict__)
        twin.__module__, twin.__qualname__ = value.__module__, value.__qualname__
        for name in named or ():
            if space[name] is value.__globals__[name]:
                space[name] = self.copy(space[name])
        for cell, new in zip(value.__closure__ or (), cells, strict=True):
            self._cell(cell, new)
        return twin

    def _cell(self, cell: types.CellType, new: types.CellType) -> None:
        known = self._memo.get(id(cell)) or self.known(cell, new)
        with suppress(ValueError):  # an empty cell
            new.cell_contents = self.copy(cell.cell_contents) if known is new else known.cell_contents

    def _space(self, space: dict[str, Any]) -> dict[str, Any]:
        """The globals of a user's module, to which a function may write."""
        known = self._memo.get(id(space))
        return known if known is not None else self.known(space, dict(space))  # type: ignore[no-any-return]

    def _builtin(self, value: types.BuiltinMethodType) -> Any:
        owner = value.__self__
        if owner is None or isinstance(owner, (types.ModuleType, type)):
            return value
        return getattr(self.copy(owner), value.__name__, value)

    def _partial(self, value: functools.partial[Any]) -> Any:
        twin: Any = functools.partial(self.copy(value.func), *self.copy(value.args), **self.copy(value.keywords))
        return self.known(value, twin)

    # ---- containers and objects ----------------------------------------------------------------------------------

    def _data(self, value: Any) -> Any:
        """A container of data."""
        return value if self._share else self.known(value, copy.copy(value))

    def _is_data(self, value: Any) -> bool:
        if type(value) not in HOLDERS and getattr(value, "__dict__", None):
            return False  # a user's class, with attributes
        if len(value) <= _LARGE:
            return _is_data(value, self._share)
        if id(value) not in self._known_data:
            self._known_data[id(value)] = _is_data(value, self._share)
        return self._known_data[id(value)]

    def _dict(self, value: dict[Any, Any]) -> Any:
        if self._is_data(value):
            return self._data(value)
        if _stays(dict.values(value)):
            return value
        twin, base = self._bare(value), _builtin_base(type(value))
        for key, entry in base.items(value):
            base.__setitem__(twin, key, self.copy(entry))
        return twin

    def _list(self, value: Any) -> Any:
        if self._is_data(value):
            return self._data(value)
        if _stays(value):
            return value
        twin, base = self._bare(value), _builtin_base(type(value))
        for entry in base.__iter__(value):
            getattr(base, "add" if base is set else "append")(twin, self.copy(entry))
        return twin

    def _bare(self, value: Any) -> Any:
        """An empty container of the same class with the same attributes, made without its constructor."""
        base = _builtin_base(type(value))
        twin = self.known(value, base.__new__(type(value)))
        if base is deque:
            deque.__init__(twin, (), value.maxlen)
        if base is defaultdict:
            twin.default_factory = value.default_factory
        return self._attributes(value, twin)

    def _attributes(self, value: Any, twin: Any) -> Any:
        for name, entry in getattr(value, "__dict__", {}).items():
            twin.__dict__[name] = self.copy(entry)
        return twin

    def _subclass(self, value: Any) -> Any:
        """A container or string of a class of the user or a library; its own copy protocol is used."""
        if _copies_itself(type(value)):
            return self._object(value)
        if isinstance(value, (dict, list, deque, set)):
            return self._dict(value) if isinstance(value, dict) else self._list(value)
        return value

    def _tuple(self, value: tuple[Any, ...]) -> Any:
        if self._is_data(value):
            return value
        made = [self.copy(entry) for entry in value]
        if all(new is old for new, old in zip(made, value, strict=True)):
            return value
        return self._attributes(value, tuple.__new__(type(value), made))

    def _generator(self, value: torch.Generator) -> Any:
        twin = torch.Generator(value.device)
        twin.set_state(value.get_state())
        return self.known(value, twin)

    def _refuse(self, value: Any) -> Any:
        raise Uncopyable(f"a {type(value).__name__}")

    def _object(self, value: Any) -> Any:
        """A copy of any other object; one that can't be copied is shared."""
        cls = type(value)
        if hasattr(cls, "__tensor_collection__") or hasattr(cls, "__tensorclass_schema__"):
            return self.known(value, value.apply(self.copy))
        if cls.__module__.startswith("torch.distributed."):
            return self.known(value, value)  # meshes, placements and what `fully_shard` keeps beside a module
        if _is_plain(value):
            return self._attributes(value, self.known(value, object.__new__(cls)))
        size = getattr(value, "nbytes", 0)  # for a class it is a descriptor
        if (isinstance(size, int) and size > _LARGE) or (hasattr(value, "__len__") and _length(value) > _LARGE):
            return value  # data that is too large
        try:
            return self.known(value, copy.deepcopy(value))
        except Exception:  # locks, files, C objects: copying may raise anything; then share the object
            return self.known(value, value)


_EXACT: dict[type, Callable[[Isolator, Any], Any]] = {
    **dict.fromkeys((dict, OrderedDict, defaultdict), Isolator._dict),
    **dict.fromkeys((list, deque, set), Isolator._list),
}
"""Rules for exact types only; subclasses may need other constructors."""
_RULES: tuple[tuple[Any, Callable[[Isolator, Any], Any]], ...] = (
    (Tensor, Isolator._tensors),
    (torch.jit.ScriptModule, lambda self, value: self.known(value, value)),
    (nn.Module, Isolator._module),
    (types.FunctionType, Isolator._function),
    (types.MethodType, lambda self, value: types.MethodType(self.copy(value.__func__), self.copy(value.__self__))),
    (types.BuiltinMethodType, Isolator._builtin),
    (functools.partial, Isolator._partial),
    ((types.GeneratorType, types.AsyncGeneratorType, types.CoroutineType), Isolator._refuse),
    (torch.Generator, Isolator._generator),
    (RemovableHandle, Isolator._handle),
    (np.ndarray, lambda self, value: value if self._share else self.known(value, value.copy())),
    (tuple, Isolator._tuple),
    ((dict, list, deque, set, str, bytes, int, float, complex), Isolator._subclass),
)


def _is_data(values: Collection[Any], deep: bool) -> bool:
    """Whether values are numbers, strings and such; with `deep`, also containers of these."""
    for _ in range(_DEEPEST if deep else 1):
        values = dict.values(values) if isinstance(values, dict) else values
        kinds = set(map(type, values)) - DATA
        if not kinds <= HOLDERS or not kinds:
            return not kinds
        inner = [value for value in values if type(value) in HOLDERS]
        values = list(chain.from_iterable(value.values() if type(value) is dict else value for value in inner))
    return False


def _stays(values: Collection[Any]) -> bool:
    """Whether a container has too many objects to copy them one by one."""
    return len(values) > _LARGE and not any(issubclass(kind, (Tensor, nn.Module)) for kind in set(map(type, values)))


def _own_methods(cls: type) -> Iterator[tuple[str, types.FunctionType]]:
    """The methods of a user's class that an instance can override."""
    for base in cls.__mro__:
        if base.__module__.partition(".")[0] not in _LIBRARIES:
            for name, member in vars(base).items():
                if isinstance(member, types.FunctionType) and not name.startswith("__"):
                    yield name, member


def _inner_module(module: nn.Module) -> nn.Module | None:
    """The module inside a compiled or distributed one, which the copy runs directly."""
    name = type(module).__module__
    if name.startswith("torch._dynamo"):
        return getattr(module, "_orig_mod", None)
    return getattr(module, "module", None) if name.startswith("torch.nn.parallel") else None


def _is_ours(hook: Any) -> bool:
    """Whether torch or a library of models computes with a hook, as in `spectral_norm` and lazy modules."""
    function = getattr(hook, "__func__", hook)
    name = getattr(function, "__module__", None) or type(hook).__module__
    # Those of torch.distributed move values between ranks; a copy holds whole parameters.
    return str(name).partition(".")[0] in ("torch", *MODELS) and not str(name).startswith("torch.distributed.")


def _copy_uninitialized(owner: nn.Module, name: str, tensor: Any, make: Callable[..., Tensor]) -> Any:
    """An uninitialized parameter whose `materialize` replaces it by an empty tensor."""
    base: Any = UninitializedBuffer if isinstance(tensor, UninitializedBuffer) else UninitializedParameter

    class Lazy(base):  # type: ignore[misc]  # the base is only known at run time
        def materialize(self, shape: Any, device: Any = None, dtype: Any = None) -> None:
            new = make(tuple(shape), dtype or tensor.dtype, device or tensor.device)
            if base is UninitializedBuffer:
                owner._buffers[name] = new
            else:
                owner._parameters[name] = nn.Parameter(new)

    return Lazy(device=tensor.device, dtype=tensor.dtype)


def _touched_globals(function: types.FunctionType) -> list[str] | None:
    """The globals that a call of a user's function could change; None if its globals can be shared."""
    space = function.__globals__
    if str(space.get("__name__", "")).partition(".")[0] in _LIBRARIES:
        return None
    named = [name for name in _names(function.__code__) if name in space and _must_be_copied(space[name])]
    return named if named or _writes_globals(function.__code__) else None


def _names(code: types.CodeType) -> set[str]:
    """Every global that a code object and its inner functions may use."""
    inner = [_names(const) for const in code.co_consts if isinstance(const, types.CodeType)]
    return set(code.co_names).union(*inner)


def _writes_globals(code: types.CodeType) -> bool:
    return any(
        instruction.opname in ("STORE_GLOBAL", "DELETE_GLOBAL") for instruction in dis.get_instructions(code)
    ) or any(_writes_globals(const) for const in code.co_consts if isinstance(const, types.CodeType))


def _must_be_copied(value: Any) -> bool:
    """Whether a call could change a global; library objects, classes, constants and large data are not copied."""
    drawn = getattr(value, "__self__", None)
    if value is random or value is np or isinstance(drawn, (random.Random, np.random.RandomState)):
        return True
    if type(value) in _ATOMS or isinstance(value, (type, types.ModuleType, types.BuiltinFunctionType)):
        return False
    module = getattr(value, "__module__", None) if callable(value) else type(value).__module__
    if isinstance(value, (Tensor, nn.Module, list, dict, set, deque, functools.partial)):
        return True
    return str(module).partition(".")[0] not in _LIBRARIES


def _builtin_base(cls: type) -> Any:
    """The builtin container that a class is or extends."""
    return next(base for base in cls.__mro__ if base in _EXACT)


def _copies_itself(cls: type) -> bool:
    """Whether a Python class defines how it is copied, or has slots."""
    names = ("__reduce__", "__reduce_ex__", "__deepcopy__", "__copy__", "__slots__")
    return any(vars(base).get(name) for base in cls.__mro__ if base.__flags__ & HEAP for name in names)


def _is_plain(value: Any) -> bool:
    """Whether an object consists of its `__dict__`, and its Python class doesn't customize copying."""
    cls = type(value)
    made = all(base.__flags__ & HEAP for base in cls.__mro__[:-1])
    return made and hasattr(value, "__dict__") and not _copies_itself(cls)


def _length(value: Any) -> int:
    try:
        return len(value)
    except Exception:  # the user's `__len__` may raise anything
        return 0
