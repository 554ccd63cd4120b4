"""`TensorDictSequential`: keyed modules in order on one container."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, overload

from torch import nn
from torch.nn.modules import module as _hooks
from typing_extensions import Self

from ..._flags import flags
from ...core import TensorCollection, unravel_key_to_tuple
from ...errors import BatchIndexError, MissingKeyError, ModuleError, did_you_mean
from ..parts._dispatch import dispatch
from ..parts._keyed_base import Keys, TensorDictModuleBase, as_keys
from ..parts._skipping import SKIP, skips
from ..parts._stage import TensorClassModule
from ..typed._class_module import TensorClassModuleBase, TensorClassModuleWrapper
from ..typed._sequential import TensorClassSequential
from ._module import Inplace, TensorDictModule, check_inplace
from ._wrap import TypedStep, WrapModule

Named = list[tuple[str, Any]]


@flags
class TensorDictSequential(TensorDictModule):
    """A sequence of keyed modules. Each reads entries of the input, or entries that earlier modules wrote.

    `in_keys` are the keys that a module reads and no earlier module writes; `out_keys` are all keys that are written.
    An int or a name selects a module, a slice makes a sequence with the same options. Assignment and deletion edit the
    sequence.

    Args:
        *modules: the modules, one list of them, or one dict from name to module. A callable without keys is wrapped in
            a `WrapModule`; typed modules and pipelines are accepted too, with the paths of their fields as keys.
        partial_tolerant: skip modules with missing in keys. On a lazy stack, such a module runs on the members that
            have all keys.
        selected_out_keys: the out keys to keep, as by `select_out_keys`.
        inplace: where the out keys are written: None leaves it to the modules, True writes to the input, False to a new
            `TensorDict`, `"empty"` to `tensordict.empty()`. With the last two, the input is not changed.

    Raises:
        ModuleError: (a `ValueError` and `RuntimeError`) for modules or keys that don't fit.

    >>> import torch
    >>> from torch import nn
    >>> from tensorclass import TensorDict
    >>> from tensorclass.nn import TensorDictModule, TensorDictSequential
    >>> model = TensorDictSequential(
    ...     TensorDictModule(lambda x: x + 1, in_keys=["x"], out_keys=["h"]),
    ...     TensorDictModule(nn.Linear(3, 4), in_keys=["h"], out_keys=["y"]),
    ... )
    >>> model.in_keys, model.out_keys, len(model)
    (['x'], ['h', 'y'], 2)
    >>> model(TensorDict(x=torch.zeros(2, 3), batch_size=[2]))["y"].shape
    torch.Size([2, 4])
    >>> h, y = model(torch.zeros(2, 3))
    """

    partial_tolerant: bool = False
    _initial_inplace: Inplace = True
    """The `inplace` of a sequence whose constructor got none; True if a subclass calls that of `TensorDictModule`."""

    def __init__(
        self,
        *modules: Any,
        partial_tolerant: bool = False,
        selected_out_keys: Iterable[Any] | None = None,
        inplace: Inplace = None,
    ) -> None:
        TensorDictModuleBase.__init__(self)
        self.partial_tolerant = partial_tolerant
        self._initial_inplace = None
        self.inplace: Any = check_inplace(inplace)
        self.module: Any = _as_module_list(modules)
        self._refresh()
        if selected_out_keys is not None:
            self.select_out_keys(*as_keys(selected_out_keys, "selected_out_keys"))

    def _refresh(self) -> None:
        """Derive the keys of the sequence. Selected keys stay selected if they are still written."""
        in_keys, out_keys = derived_keys(self._children())
        self.in_keys = in_keys
        if self._all_keys is None:
            self.out_keys = out_keys
        else:
            self._all_keys = out_keys
            self.out_keys: Keys = [key for key in self.out_keys if key in out_keys]

    def _children(self) -> list[Any]:
        modules: Any = self._modules["module"]  # an attribute of a module is looked up by two functions
        return list(modules._modules.values())

    def _watch_outputs(self) -> None:
        """Do nothing: the sequence itself writes only selected keys."""

    # ---- running -------------------------------------------------------------------------------------------------

    _direct = True

    @dispatch(auto_batch_size=False)
    def forward(self, tensordict: Any, tensordict_out: Any = None, **kwargs: Any) -> Any:
        """Run the modules on a container, and return the result.

        Tensors instead of a container are matched to the in keys.

        Args:
            tensordict: the input.
            tensordict_out: the container for the out keys; overrides `inplace`. The input is then not changed.
            **kwargs: none but the in keys.
        """
        return self._run(tensordict, tensordict_out, kwargs)

    def _run(self, data: Any, out: Any = None, kwargs: Mapping[str, Any] | None = None) -> Any:
        if kwargs:
            raise ModuleError(
                f"{type(self).__name__} takes no keyword arguments but `tensordict_out` and the in_keys "
                f"{self.in_keys}; got {list(kwargs)}"
            )
        return self._perform(data, out, {})

    def _perform(self, data: Any, out: Any, options: dict[str, Any]) -> Any:
        """Run one call; subclasses use the options."""
        mode = SKIP.get()
        if mode is not False and skips(data, self.in_keys, self.out_keys, mode):
            return data
        if out is not None or self._all_keys is not None or not (self.inplace is None or self.inplace is True):
            return self._run_on_copy(data, out, options)
        result = self._chain(data, options)
        if self.inplace and result is not data:
            data.update(_present(result, self.out_keys))
            return data
        return result

    def _chain(self, data: Any, options: dict[str, Any]) -> Any:
        modules: Any = self._modules["module"]
        if self.partial_tolerant:
            for module in modules._modules.values():
                data = self._partial(module, data)
            return data
        hooked = globally_hooked()
        for module in modules._modules.values():
            data = step(module, data) if hooked or not direct(module) else module._run(data)
        return data

    def _run_on_copy(self, data: Any, out: Any, options: dict[str, Any]) -> Any:
        """Run on a shallow copy, then write the out keys, and updated entries of the input if that is the target."""
        result = self._chain(data.copy(), options)
        if out is not None:
            target = out
        elif self.inplace is None:
            target = data
        else:
            target = self._target(data)
        keys = list(self.out_keys)
        if out is None and self.inplace is None:  # entries of the input follow the modules
            there = data.keys(True)
            keys += [key for key in self.out_keys_source if key not in keys and key in there]
        target.update(_present(result, keys))
        return target

    def _partial(self, module: Any, data: Any) -> Any:
        there = data.keys(True)
        if all(key in there for key in module.in_keys):
            return step(module, data)
        if data._stacked:
            for member in data._parts():
                if all(key in member.keys(True) for key in module.in_keys):
                    result = step(module, member)
                    if result is not member:
                        member.update(_present(result, module.out_keys))
        return data

    # ---- a list of modules ---------------------------------------------------------------------------------------

    def _pairs(self) -> Named:
        return list(self.module._modules.items())

    def _like(self, pairs: Named) -> Any:
        return self.with_modules(dict(pairs) if isinstance(self.module, nn.ModuleDict) else [part for _, part in pairs])

    def with_modules(self, modules: Sequence[Any] | Mapping[str, Any]) -> Any:
        """Build a sequence of the same class and options from other modules.

        Slices and `select_subsequence` call it. The class is called with `*modules`, and only with those options that
        differ from their defaults. A subclass whose constructor takes anything else overrides this method.

        Args:
            modules: The modules, or a dict from their names.

        >>> from tensorclass.nn import TensorDictModule, TensorDictSequential
        >>> model = TensorDictSequential(TensorDictModule(abs, ["x"], ["y"]), partial_tolerant=True)
        >>> other = model.with_modules([TensorDictModule(abs, ["y"], ["z"])])
        >>> other.in_keys, other.partial_tolerant
        (['y'], True)
        """
        return called_with(type(self), modules, self._options())

    def _options(self) -> dict[str, Any]:
        inplace = None if self.inplace is self._initial_inplace else self.inplace
        return given_options(partial_tolerant=self.partial_tolerant or None, inplace=inplace)

    def __len__(self) -> int:
        return len(self.module)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._children())

    @overload
    def __getitem__(self, index: int | str) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> Self: ...
    def __getitem__(self, index: int | str | slice) -> Any:
        """A module, or a sequence of the modules of a slice.

        >>> model = TensorDictSequential({"first": TensorDictModule(abs, ["x"], ["y"])})
        >>> model["first"] is model[0]
        True
        """
        if isinstance(index, slice):
            return self._like(self._pairs()[index])
        return self.module._modules[self._name(index)]

    def __setitem__(self, index: int | str, module: Any) -> None:
        """Replace a module; a new name is appended."""
        if isinstance(index, str) and isinstance(self.module, nn.ModuleDict):
            self.module[index] = as_step(module)
        else:
            self.module._modules[self._name(index)] = as_step(module)
        self._refresh()

    def __delitem__(self, index: int | str) -> None:
        """Remove a module."""
        name = self._name(index)
        del self.module[name if isinstance(self.module, nn.ModuleDict) else int(name)]
        self._refresh()

    def _name(self, index: int | str) -> str:
        names: list[str] = list(self.module._modules)
        if isinstance(index, str):
            if index not in names:
                raise MissingKeyError(f"no module `{index}`{did_you_mean(index, names)}; the modules are {names}")
            return index
        if not -len(names) <= index < len(names):
            raise BatchIndexError(f"index {index} is out of range for a sequence of {len(names)} modules")
        return names[index]

    # ---- subsequences --------------------------------------------------------------------------------------------

    def select_subsequence(self, in_keys: Iterable[Any] | None = None, out_keys: Iterable[Any] | None = None) -> Self:
        """Select the modules that can run from some keys and that compute some keys, as a new sequence.

        Modules are not copied.

        First, modules are kept whose in keys are all in `in_keys` or written by an earlier kept module. Of those,
        modules are kept that write one of `out_keys`, or an in key of a later kept module. Nested sequences are
        filtered too.

        Args:
            in_keys: the given keys; by default the in keys of the sequence.
            out_keys: the keys to compute; by default the out keys of the sequence.

        Raises:
            ModuleError: (a `ValueError`) if no module is left.

        >>> from tensorclass.nn import TensorDictModule, TensorDictSequential
        >>> model = TensorDictSequential(
        ...     TensorDictModule(abs, in_keys=["a"], out_keys=["b"]),
        ...     TensorDictModule(abs, in_keys=["b"], out_keys=["c"]),
        ...     TensorDictModule(abs, in_keys=["a"], out_keys=["e"]),
        ... )
        >>> model.select_subsequence(out_keys=["c"]).out_keys
        ['b', 'c']
        """
        given = self.in_keys if in_keys is None else as_keys(in_keys, "in_keys")
        wanted = self.out_keys if out_keys is None else as_keys(out_keys, "out_keys")
        started = self._reachable_modules(list(given))
        found = None if started is None else started._needed_modules(list(wanted))
        if found is None:
            raise ModuleError(
                f"no modules are left: none leads from in_keys {given} to out_keys {wanted}; the sequence reads "
                f"{self.in_keys} and writes {self.out_keys_source}"
            )
        return found._like(found._pairs()) if found is self else found

    def _reachable_modules(self, given: Keys) -> Self | None:
        """The modules that can run from the given keys; the keys that they write are added."""
        kept: Named = []
        for name, module in self._pairs():
            if isinstance(module, TensorDictSequential):
                module = module._reachable_modules(given)
            elif not all(_provides(given, key) for key in module.in_keys):
                module = None
            if module is not None:
                given += module.out_keys
                kept.append((name, module))
        return self._with(kept)

    def _needed_modules(self, wanted: Keys) -> Self | None:
        """The modules that compute the wanted keys; the keys that they read are added."""
        kept: Named = []
        for name, module in reversed(self._pairs()):
            if isinstance(module, TensorDictSequential):
                module = module._needed_modules(wanted)
            elif not any(_are_related(key, other) for key in module.out_keys for other in wanted):
                module = None
            if module is not None:
                wanted += module.in_keys
                kept.insert(0, (name, module))
        return self._with(kept)

    def _with(self, kept: Named) -> Self | None:
        if len(kept) == len(self) and all(a is b for (_, a), (_, b) in zip(kept, self._pairs(), strict=True)):
            return self
        return self._like(kept) if kept else None


def direct(module: Any) -> bool:
    """Whether a module has no hooks, so that `nn.Module.__call__` may be bypassed."""
    if not (isinstance(module, TensorDictModuleBase) and module._direct):
        return False
    backward = module._backward_hooks or module._backward_pre_hooks
    return not (module._forward_hooks or module._forward_pre_hooks or backward)


def step(module: Any, data: Any) -> Any:
    """Run one module of a sequence on its container."""
    result = module(data)
    if not isinstance(result, TensorCollection):
        raise ModuleError(
            f"{type(module).__name__} in a sequence returned {type(result).__name__}; it takes and returns a "
            "container. Wrap a callable over tensors in a TensorDictModule with in_keys and out_keys"
        )
    return result


def derived_keys(modules: Iterable[Any]) -> tuple[Keys, Keys]:
    """The in keys and out keys of a sequence; a key that is written twice is listed where it is written last."""
    reads: Keys = []
    writes: Keys = []
    for module in modules:
        reads += [key for key in module.in_keys if key not in reads and not _provides(writes, key)]
        writes = [key for key in writes if key not in module.out_keys] + list(dict.fromkeys(module.out_keys))
    return reads, writes


def _provides(keys: Keys, key: Any) -> bool:
    """Whether a key, or a container around it, is in a list of keys."""
    path = unravel_key_to_tuple(key)
    return any(unravel_key_to_tuple(other) == path[: len(unravel_key_to_tuple(other))] for other in keys)


def globally_hooked() -> bool:
    """Whether `register_module_forward_hook` and its like are in use."""
    return bool(
        _hooks._global_forward_hooks
        or _hooks._global_forward_pre_hooks
        or _hooks._global_backward_hooks
        or _hooks._global_backward_pre_hooks
    )


def _are_related(key: Any, other: Any) -> bool:
    return _provides([key], other) or _provides([other], key)


def _present(data: Any, keys: Iterable[Any]) -> dict[Any, Any]:
    there = data.keys(True)
    return {key: data.get(key) for key in keys if key in there}


def given_options(**options: Any) -> dict[str, Any]:
    """The options that are not None; a base class is passed no others, since it need not take them."""
    return {name: value for name, value in options.items() if value is not None}


def called_with(kind: type, modules: Sequence[Any] | Mapping[str, Any], options: dict[str, Any]) -> Any:
    """A sequence class called with modules: one dict, or one argument for each module."""
    return kind(modules, **options) if isinstance(modules, Mapping) else kind(*modules, **options)


def _as_module_list(modules: tuple[Any, ...]) -> nn.Module:
    """The constructor arguments as a module list or module dict."""
    if len(modules) == 1 and isinstance(modules[0], Mapping):
        return nn.ModuleDict({name: as_step(module) for name, module in modules[0].items()})
    if len(modules) == 1 and isinstance(modules[0], (list, tuple, nn.ModuleList)):
        modules = tuple(modules[0])
    return nn.ModuleList([as_step(module) for module in modules])


def as_step(module: Any) -> nn.Module:
    """Convert an argument to a module of a sequence.

    Raises:
        ModuleError: for objects that are not callable, and for classes.
    """
    if isinstance(module, type) and issubclass(module, nn.Module):
        raise ModuleError(f"got the class {module.__name__}: make an instance of it, `{module.__name__}(...)`")
    if isinstance(module, Mapping) or not callable(module):
        raise ModuleError(
            f"{type(module).__name__} {module!r} is not a module: give keyed modules, functions over containers, one "
            "list of them, or one dict from name to module"
        )
    if isinstance(module, TensorClassModule):
        return TypedStep(module)
    if isinstance(module, (TensorClassModuleBase, TensorClassSequential)):
        return TensorClassModuleWrapper(module, inplace=True)
    if isinstance(module, nn.Module) and TensorDictModuleBase.is_tdmodule_compatible(module):
        return module
    return WrapModule(module, in_keys=getattr(module, "in_keys", None), out_keys=getattr(module, "out_keys", None))
