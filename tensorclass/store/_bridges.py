"""Thin methods of containers that are implemented in rooms to the right; the only file that imports from there."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from importlib import import_module
from typing import Any, TypeAlias, TypeVar

from torch import nn

from .._flags import flags
from ..core import TensorCollection
from ..errors import ArgumentError
from ._pad import PadOps

F = TypeVar("F", bound=Callable[..., Any])
_ROOMS: dict[str, Any] = {}
"""Rooms that were imported on first use: an import statement takes as long as a whole parameter swap."""


def _room(name: str) -> Any:
    if name not in _ROOMS:
        _ROOMS[name] = import_module(f"tensorclass.{name}")
    return _ROOMS[name]


Room: TypeAlias = "Callable[[], Any]"
_functional: Room = partial(_room, "nn.functional._modules")
files: Room = partial(_room, "io._files")
"""The room that saves and loads containers."""
maps: Room = partial(_room, "io._memmap")
"""The room that maps containers from files."""
grow: Room = partial(_room, "io._grow")
"""The room that adds entries to mapped containers."""
tables: Room = partial(_room, "io.exchange._functions")
"""The room that implements the methods for tables."""
scaling: Room = partial(_room, "parallel._methods")
"""The room that implements the methods for workers and ranks."""
placing: Room = partial(_room, "parallel._placed")
"""The room that distributes batches over a device mesh."""


def implemented_in(room: Room, name: str, owner: str = "", unused: str = "") -> Callable[[F], F]:
    """A method whose body is a function of a room to the right: it gets this container and every argument by name.

    The declared method has the signature and the docstring, and no body.

    Args:
        room: gives the module.
        name: of the function there.
        owner: the keyword that gets the container or class; by default it is the first argument.
        unused: names of arguments that the function doesn't get, with spaces.
    """

    def make(declared: F) -> F:
        """The method that calls the function of the room to the right."""
        code = declared.__code__
        names = code.co_varnames[1 : code.co_argcount]
        given = declared.__defaults__ or ()
        defaults = dict(zip(names[len(names) - len(given) :], given, strict=True))
        defaults |= declared.__kwdefaults__ or {}
        left_out = unused.split()

        @wraps(declared)
        def method(self: Any, *args: Any, **kwargs: Any) -> Any:
            declared(self, *args, **kwargs)  # Python's own error for arguments that don't fit
            named = {**defaults, **dict(zip(names, args, strict=False)), **kwargs}
            for word in left_out:
                del named[word]
            function = getattr(room(), name)
            return function(**named, **{owner: self}) if owner else function(self, **named)

        return method  # type: ignore[return-value]  # the same signature

    return make


@flags
def from_module(
    module: nn.Module,
    as_module: bool = False,
    lock: bool = True,
    use_state_dict: bool = False,
    filter_empty: bool = True,
) -> Any:
    """The parameters and buffers of a module as a locked container; `TensorDict.from_module` leaves it unlocked.

    Args:
        module: a module with initialized parameters.
        as_module: return a `TensorDictParams`.
        lock: lock the container; locked containers are swapped into modules fastest.
        use_state_dict: read `module.state_dict()`, with its hooks and without the buffers that it leaves out.
        filter_empty: leave out submodules without parameters and buffers.

    Raises:
        UnsupportedOperationError: for a module with uninitialized parameters, and for a scripted one.

    >>> from torch import nn
    >>> from tensorclass import from_module
    >>> module = nn.Sequential(nn.Linear(3, 4), nn.ReLU())
    >>> params = from_module(module)
    >>> params["0", "weight"] is module[0].weight, list(params.keys()), params.is_locked
    (True, ['0'], True)
    """
    return _functional().from_module(module, as_module, lock, use_state_dict, filter_empty)


@flags
def from_modules(
    *modules: nn.Module,
    as_module: bool = False,
    lock: bool = True,
    use_state_dict: bool = False,
    lazy_stack: bool = False,
    expand_identical: bool = False,
) -> Any:
    """The parameters and buffers of several modules, stacked along a new first dim, for ensembles under `torch.vmap`.

    A dense stack holds new parameters: pass these to an optimizer. A lazy stack holds the parameters of the modules,
    and stacks them at each read.

    Args:
        *modules: modules of the same structure; with `lazy_stack`, structures may differ.
        as_module: return a `TensorDictParams`; not with `lazy_stack`.
        lock: lock the result.
        use_state_dict: read `module.state_dict()` of each.
        lazy_stack: keep the parameters of the modules.
        expand_identical: expand a parameter that all modules share instead of copying it; ignored with `lazy_stack`.

    Raises:
        StructureError: without modules, with both `lazy_stack` and `as_module`, and for modules of different
            structures.
        UnsupportedOperationError: for modules with uninitialized parameters.

    >>> import torch
    >>> from torch import nn
    >>> from tensorclass import from_modules
    >>> modules = [nn.Linear(3, 4) for _ in range(2)]
    >>> params = from_modules(*modules)
    >>> params.batch_size, params["weight"].shape
    (torch.Size([2]), torch.Size([2, 4, 3]))
    >>> def call(params, x):
    ...     with params.to_module(modules[0]):
    ...         return modules[0](x)
    >>> torch.vmap(call, (0, None))(params, torch.randn(3)).shape
    torch.Size([2, 4])
    """
    return _functional().from_modules(modules, as_module, lock, use_state_dict, lazy_stack, expand_identical)


@flags
class BridgeOps(PadOps):
    """Methods that get and set parameters of modules."""

    __slots__ = ()

    @classmethod
    def from_module(
        cls,
        module: nn.Module,
        as_module: bool = False,
        lock: bool = False,
        use_state_dict: bool = False,
        filter_empty: bool = True,
    ) -> Any:
        """The parameters and buffers of a module, not copies; as `tensorclass.from_module`, but unlocked.

        For a typed class, they become its fields and are checked.

        >>> from torch import nn
        >>> from tensorclass import TensorDict
        >>> module = nn.Sequential(nn.Linear(3, 4), nn.ReLU())
        >>> TensorDict.from_module(module)["0", "weight"] is module[0].weight
        True
        """
        found = _functional().from_module(module, as_module, lock, use_state_dict, filter_empty)
        wrap = getattr(cls, "from_tensordict", None)
        return found if as_module or wrap is None else wrap(found)

    @classmethod
    def from_modules(
        cls,
        *modules: nn.Module,
        as_module: bool = False,
        lock: bool = True,
        use_state_dict: bool = False,
        lazy_stack: bool = False,
        expand_identical: bool = False,
    ) -> Any:
        """The parameters of several modules, stacked; see `tensorclass.from_modules`.

        >>> from torch import nn
        >>> from tensorclass import TensorDict
        >>> TensorDict.from_modules(nn.Linear(3, 4), nn.Linear(3, 4))["bias"].shape
        torch.Size([2, 4])
        """
        return _functional().from_modules(modules, as_module, lock, use_state_dict, lazy_stack, expand_identical)

    def to_module(
        self,
        module: nn.Module,
        *,
        inplace: bool | None = None,
        return_swap: bool = True,
        swap_dest: TensorCollection | None = None,
        use_state_dict: bool = False,
        non_blocking: bool = False,
        preserve_module_state: bool = True,
        memo: object = None,
    ) -> Any:
        """Replace the parameters and buffers of a module by the tensors of this container.

        In a `with` block, the module has the new tensors during the block; the old ones are restored at its end, even
        after an exception. The block holds a lock of the module, so that no other thread swaps it at the same time.

        The container must have all parameters and buffers of the module, under the names of `from_module`; only
        non-persistent buffers may be missing. A submodule under several names gets the tensors of the first.

        Args:
            module: the module to change.
            inplace: copy the values into the module's tensors, which stay the same objects.
            return_swap: return the old tensors.
            swap_dest: a container that the old tensors are written to; it is returned.
            use_state_dict: load with `module.load_state_dict`, so that its hooks run.
            non_blocking: whether copies between devices with `inplace` may be asynchronous.
            preserve_module_state: wrap a plain tensor (no parameter, no grad, not inside a function transform) as a
                parameter with the `requires_grad` of the old one. Otherwise tensors are used unchanged.

        Returns:
            The old tensors as a `TensorDict`, or `swap_dest`; None without `return_swap`.

        Raises:
            StructureError: for missing and unknown names, which it lists; with `inplace`, for different shapes; and for
                two values of one parameter. Nothing is swapped then.
            UnsupportedOperationError: for a module with uninitialized parameters, and for a scripted one.

        >>> import torch
        >>> from torch import nn
        >>> from tensorclass import TensorDict
        >>> module = nn.Linear(3, 4)
        >>> zeros = TensorDict.from_module(module).data.clone().zero_()
        >>> with zeros.to_module(module):
        ...     y = module(torch.ones(2, 3))
        >>> bool((y == 0).all()), bool((module.weight == 0).all())
        (True, False)
        >>> old = zeros.to_module(module)
        >>> bool((module.weight == 0).all())
        True
        """
        if memo is not None:
            raise ArgumentError("to_module: `memo` is no longer an argument; a module is swapped as a whole")
        room = _ROOMS.get("functional") or _functional()
        return room.to_module(
            self, module, inplace, return_swap, swap_dest, use_state_dict, non_blocking, preserve_module_state
        )
