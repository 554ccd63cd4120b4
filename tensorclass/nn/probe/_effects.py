"""What a callable may reach when it runs, from an analysis of its code: whether a run of a copy has external effects.

The analysis follows globals, closures, attributes and methods. Torch, numpy and the parts of the standard library that
only compute are known; other code that can't be analyzed may do anything.
"""

from __future__ import annotations

import builtins
import dis
import functools
import itertools
import sys
import types
from collections import ChainMap, deque
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ._attributes import ITEMS, WRITERS, Stores
from ._copy import DATA, HEAP, HOLDERS, MODELS

OPT_OUT = "__tensorclass_probe__"
"""If a class, a module or a function has this attribute set to False, a check never runs it."""
_PURE = frozenset((
    "torch", "numpy", "einops", "tensorclass", "math", "cmath", "operator", "functools", "itertools", "collections",
    "typing", "typing_extensions", "types", "dataclasses", "enum", "numbers", "copy", "copyreg", "abc", "contextlib",
    "contextvars", "re", "string", "fractions", "decimal", "statistics", "bisect", "heapq", "inspect", "random",
    "weakref", "builtins", "annotated_types", "jaxtyping", "pytest", "_pytest", "@py_builtins", *MODELS,
))  # fmt: skip
_FUNCTIONS = frozenset((
    "print", "open", "input", "exec", "eval", "compile", "breakpoint", "__import__", "exit", "quit",
))  # fmt: skip
"""Builtins with external effects."""
_OUTSIDE = frozenset((
    "print", "open", "save", "load", "manual_seed", "manual_seed_all", "set_rng_state", "set_rng_state_all",
    "fromfile", "tofile", "savez", "savetxt", "loadtxt", "memmap", "distributed", "set_default_dtype",
    "set_default_device", "set_num_threads", "set_printoptions", "hub", "from_file", "seterr", "profiler",
    "multiprocessing", "use_deterministic_algorithms", "set_detect_anomaly", "set_float32_matmul_precision",
    "set_flush_denormal", "set_default_validate_args", "set_deterministic_debug_mode", "set_default_tensor_type",
    "enable_flash_sdp", "enable_math_sdp", "enable_mem_efficient_sdp", "enable_cudnn_sdp", "seed",
))  # fmt: skip
"""Names with external effects in packages that otherwise only compute."""
_MOST = 4000


@dataclass
class Reach:
    """What one callable may reach.

    `outside` describes the external effect of a run, "" for none; `refused` names an object that has opted out.
    """

    outside: str = ""
    refused: str = ""
    writes: bool = False
    """Whether some code may write to containers or arrays."""
    _seen: dict[int, Any] = field(default_factory=dict)
    _queue: deque[Any] = field(default_factory=deque)
    _methods: dict[str, list[Any]] = field(default_factory=dict)
    _names: set[str] = field(default_factory=set)
    _loaded: set[str] = field(default_factory=set)
    _stores: Stores = field(default_factory=Stores)
    _classes: set[str] = field(default_factory=set)
    """The names of attributes that are classes or modules."""
    _contents: set[str] = field(default_factory=set)
    """The names of attributes of classes that are containers, which all copies share."""

    @classmethod
    def of(cls, target: Any) -> Reach:
        """Analyze a callable and everything that it refers to."""
        found = cls()
        found._queue.append(target)
        try:
            while found._queue and not found.refused:
                found._visit(found._queue.popleft())
                if len(found._seen) > 4 * _MOST:
                    found._may("more code than is looked through")
                    break
            found._share()
        except Exception as error:  # attributes of the user's objects may raise anything
            found._may(f"what raises {type(error).__name__} when it is looked at")
        found.writes |= bool(found.outside)
        return found

    def feeds(self, other: Reach) -> bool:
        """Whether this code may write Python state that other code reads."""
        shared = [self._seen[key] for key in self._seen.keys() & other._seen.keys()]
        if self.writes and any(isinstance(value, (list, dict, set, deque, bytearray)) for value in shared):
            return True
        if self._stores.attributes & other._names and any(map(_has_attributes, shared)):
            return True
        spaces = [
            {id(f.__globals__) for f in reach._seen.values() if isinstance(f, types.FunctionType)}
            for reach in (self, other)
        ]
        return bool(self._stores.rebound & other._loaded and spaces[0] & spaces[1])

    def hooks(self) -> list[Any]:
        """The hooks of the modules that were seen; copies run without those of the user."""
        modules = [value for value in self._seen.values() if isinstance(value, nn.Module)]
        held = [entry for module in modules for name, entry in vars(module).items() if name.endswith("_hooks")]
        return [hook for entry in held if entry for hook in entry.values()]

    def _may(self, what: str) -> None:
        self.outside = self.outside or what

    def _share(self) -> None:
        """Writes to classes and modules, which copies share."""
        shared = sorted(self._stores.through & self._classes | self._stores.into & self._contents)
        if shared or self._stores.shared:
            self._may(self._stores.shared or f"`{shared[0]}` of a class or module")

    # ---- values --------------------------------------------------------------------------------------------------

    def _visit(self, value: Any) -> None:
        if type(value) in DATA or id(value) in self._seen:
            return
        self._seen[id(value)] = value
        if not isinstance(value, (Tensor, types.ModuleType)) and getattr(value, OPT_OUT, True) is False:
            self.refused = getattr(value, "__name__", type(value).__name__)
            return
        for kind, rule in _RULES:
            if isinstance(value, kind):
                rule(self, value)
                return
        self._search_object(value)

    def _search_object(self, value: Any) -> None:
        """Search an object of a class of the program; objects of torch, numpy and builtins have no effects."""
        cls, root = type(value), _root(type(value))
        if root in ("numpy", "re", "builtins") or (root == "torch" and not isinstance(value, nn.Module)):
            return
        held = getattr(value, "__dict__", None)
        if held is None or not cls.__flags__ & HEAP or _is_library(cls):  # defined in C, or with slots
            if not _is_pure(cls):
                self._may(f"a {cls.__module__}.{cls.__qualname__}")
            return
        self._class(cls)
        self._classes |= {name for name, entry in held.items() if isinstance(entry, (type, types.ModuleType))}
        # The user's hooks do not run in copies.
        self._queue.extend(entry for name, entry in held.items() if not name.endswith("_hooks"))

    def _class(self, cls: type) -> None:
        """Search the methods of a class: those that Python or the forward function calls."""
        for base in cls.__mro__:
            if id(base) in self._seen and base is not cls:
                continue
            self._seen[id(base)] = base
            self.writes |= _root(base) in MODELS
            if _is_pure(base) or hasattr(base, "__tensorclass_schema__"):
                continue
            if not base.__flags__ & HEAP or _is_library(base):
                self._may(f"a {base.__module__}.{base.__qualname__}")
            for name, member in vars(base).items():
                if isinstance(member, (list, dict, set, deque, bytearray)) and not name.startswith("__"):
                    self._contents.add(name)
                for code in _functions(member):
                    implied = name == "forward" or (name.startswith("__") and name.endswith("__"))
                    if implied or name in self._names:
                        self._queue.append(code)
                    else:
                        self._methods.setdefault(name, []).append(code)

    def _container(self, value: Collection[Any]) -> None:
        if not set(map(type, value)) <= DATA:
            if len(value) > _MOST and not set(map(type, value)) <= DATA | HOLDERS:
                self._may("more objects than are looked through")
            self._queue.extend(itertools.islice(value, _MOST))

    def _module(self, value: types.ModuleType) -> None:
        if not _is_pure(value):
            self._may(f"the module {value.__name__}")

    def _builtin(self, value: types.BuiltinFunctionType) -> None:
        owner = value.__self__
        if owner is not None and not isinstance(owner, (types.ModuleType, type)):
            self.writes |= value.__name__ in WRITERS
            self._queue.append(owner)
        elif value.__name__ in _OUTSIDE | _FUNCTIONS or not _is_pure(value):
            self._may(f"`{value.__name__}`")

    # ---- code ----------------------------------------------------------------------------------------------------

    def _function(self, value: types.FunctionType) -> None:
        """Search a function of the program; one of a library may have any effect, unless it is known."""
        original = getattr(value, "_torchdynamo_orig_callable", None)
        if original is not None:
            self._queue.append(original)
        elif _is_pure(value):
            if value.__name__ in _OUTSIDE:
                self._may(f"`{value.__name__}`")
            self._queue.extend(cells_of(value))
        elif _is_library(value):
            self._may(f"`{value.__module__}.{value.__qualname__}`")
        else:
            self._queue.extend(cells_of(value))
            self._queue += [*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()]
            self._code(value.__code__, ChainMap(dict(_cells(value)), value.__globals__))

    def _code(self, code: types.CodeType, space: Mapping[str, Any]) -> None:
        """Search bytecode for names, attributes and writes; functions inside it too."""
        self._stores.read(code, space)
        for step in dis.get_instructions(code):
            name = str(step.argval)
            if step.opname in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF"):
                self._loaded.add(name)
            if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
                self._global(name, space)
            elif step.opname == "IMPORT_NAME" and name.partition(".")[0] not in _PURE:
                self._may(f"the module {name}")
            elif step.opname in ITEMS:
                self.writes = True
            elif step.opname.startswith(("LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER", "IMPORT_FROM")):
                self._attribute(name)
        for inner in code.co_consts:
            if isinstance(inner, types.CodeType):
                self._code(inner, space)

    def _global(self, name: str, space: Mapping[str, Any]) -> None:
        if name in space:
            self._queue.append(space[name])
        elif name in _FUNCTIONS:
            self._may(f"`{name}`")
        elif not hasattr(builtins, name):
            self._may(f"`{name}`, which is not defined")

    def _attribute(self, name: str) -> None:
        self._names.add(name)
        self._queue += self._methods.pop(name, ())
        self.writes |= name in WRITERS
        if name in _OUTSIDE:
            self._may(f"`.{name}`")


_RULES: tuple[tuple[Any, Any], ...] = (
    ((Tensor, torch.jit.ScriptModule, torch.jit.ScriptFunction, np.ndarray, property), lambda reach, value: None),
    (types.FunctionType, Reach._function),
    (types.MethodType, lambda reach, value: reach._queue.extend((value.__func__, value.__self__))),
    (types.BuiltinFunctionType, Reach._builtin),
    (types.ModuleType, Reach._module),
    (type, Reach._class),
    (functools.partial, lambda reach, value: reach._queue.extend((value.func, value.args, value.keywords))),
    ((dict, types.MappingProxyType), lambda reach, value: reach._container(value.values())),
    ((list, tuple, set, frozenset, deque), Reach._container),
)


def _has_attributes(value: Any) -> bool:
    """Whether a value is a class, an instance or a module of the user, to whose attributes code may write."""
    cls = value if isinstance(value, type) else type(value)
    if isinstance(value, (Tensor, types.FunctionType, types.MethodType)) or _is_pure(cls):
        return isinstance(value, types.ModuleType) and not _is_pure(value)
    return hasattr(value, "__dict__")


def _root(value: Any) -> str:
    """The package in which an object is defined."""
    name = value.__name__ if isinstance(value, types.ModuleType) else getattr(value, "__module__", None)
    return str(name or "").partition(".")[0]


def _is_pure(value: Any) -> bool:
    """Whether an object belongs to a package that only computes; builtins of torch have no module."""
    root = _root(value)
    return root in _PURE or root.lstrip("_") in _PURE or root in ("", "None")


def _is_library(value: Any) -> bool:
    """Whether an object belongs to another part of the standard library, which is not analyzed."""
    return _root(value) in sys.stdlib_module_names and _root(value) != "__main__" and not _is_pure(value)


def cells_of(function: types.FunctionType) -> Iterator[Any]:
    """The closure values of a function."""
    for _, value in _cells(function):
        yield value


def _cells(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with suppress(ValueError):  # an empty cell
            yield name, cell.cell_contents


def _functions(member: Any) -> list[Any]:
    """The functions of a class member: itself, the function of a static method, the parts of a property."""
    member = getattr(member, "__func__", member)
    parts = (member.fget, member.fset) if isinstance(member, property) else (member,)
    return [part for part in parts if isinstance(part, types.FunctionType)]
