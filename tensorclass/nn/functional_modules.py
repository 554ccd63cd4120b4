"""Functional modules under the names of early versions of `tensordict`. New code uses `from_module` and `to_module`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from torch import nn

from .. import _deferred
from .._flags import flags
from ..core import TensorCollection
from ..errors import ModuleError
from ..store import TensorDict


def extract_weights_and_buffers(model: nn.Module) -> Any:
    """The parameters and buffers of a module, as `TensorDict.from_module` returns them; the module keeps them.

    >>> from tensorclass.nn.functional_modules import extract_weights_and_buffers
    >>> sorted(extract_weights_and_buffers(nn.Linear(3, 4)).keys())
    ['bias', 'weight']
    """
    return TensorDict.from_module(model)


def repopulate_module(model: nn.Module, tensordict: Any) -> nn.Module:
    """Put parameters and buffers into a module permanently, and return it.

    >>> from tensorclass.nn.functional_modules import extract_weights_and_buffers, repopulate_module
    >>> layer = nn.Linear(3, 4)
    >>> repopulate_module(layer, extract_weights_and_buffers(nn.Linear(3, 4))) is layer
    True
    """
    tensordict.to_module(model, return_swap=False)
    return model


def is_functional(module: nn.Module) -> bool:
    """Whether calls of a module accept `params`.

    >>> from tensorclass.nn.functional_modules import is_functional
    >>> is_functional(nn.Linear(3, 4))
    False
    """
    return isinstance(module, Functional)


@flags
def make_functional(
    module: nn.Module,
    funcs_to_decorate: Iterable[str] | None = None,
    keep_params: bool = False,
    return_params: bool = True,
) -> Any:
    """Let calls of a module accept parameters, as `params=` or as the last argument; changes the module.

    Args:
        module: the module to change.
        funcs_to_decorate: methods that accept `params`, besides the call.
        keep_params: leave the parameters in the module, for calls without `params`; otherwise they go to the meta
            device, and such a call raises.
        return_params: return the parameters.

    Returns:
        The parameters and buffers, None without `return_params`.

    >>> import torch
    >>> from tensorclass.nn.functional_modules import make_functional
    >>> layer = nn.Linear(3, 4)
    >>> params = make_functional(layer)
    >>> layer(torch.zeros(2, 3), params=params).shape
    torch.Size([2, 4])
    """
    params = TensorDict.from_module(module)
    if not is_functional(module):
        cls = type(module)
        methods = {name: _taking_params(getattr(cls, name)) for name in funcs_to_decorate or () if name != "forward"}
        module.__class__ = type(cls.__name__, (Functional, cls), {"__module__": cls.__module__, **methods})
    if not keep_params:
        params.data.to("meta").to_module(module, return_swap=False)
    return params if return_params else None


def get_functional(module: nn.Module, funcs_to_decorate: Iterable[str] | None = None) -> nn.Module:
    """As `make_functional`, with the parameters kept; returns the module.

    >>> import torch
    >>> from tensorclass.nn.functional_modules import extract_weights_and_buffers, get_functional
    >>> layer = get_functional(nn.Linear(3, 4))
    >>> x, params = torch.zeros(2, 3), extract_weights_and_buffers(layer)
    >>> bool((layer(x) == layer(x, params)).all())
    True
    """
    make_functional(module, funcs_to_decorate, keep_params=True, return_params=False)
    return module


class Functional(nn.Module):
    """The class that `make_functional` puts before the class of a module: its call accepts parameters.

    >>> from tensorclass.nn.functional_modules import Functional, get_functional
    >>> isinstance(get_functional(nn.Linear(3, 4)), Functional)
    True
    """

    def __call__(self, *args: Any, params: Any = None, **kwargs: Any) -> Any:
        """Call the module with its own parameters, or with `params`."""
        return _call_with_params(super().__call__, self, args, params, kwargs)


def _taking_params(method: Any) -> Any:
    def call(self: nn.Module, *args: Any, params: Any = None, **kwargs: Any) -> Any:
        return _call_with_params(method.__get__(self), self, args, params, kwargs)

    return call


def _call_with_params(
    method: Any, module: nn.Module, args: tuple[Any, ...], params: Any, kwargs: dict[str, Any]
) -> Any:
    if params is None and len(args) > 1 and isinstance(args[-1], TensorCollection):
        *rest, params = args
        args = tuple(rest)
    if params is not None:
        with cast("Any", params).to_module(module):
            return method(*args, **kwargs)
    if any(parameter.is_meta for parameter in module.parameters()):
        raise ModuleError(
            f"{type(module).__name__} is functional and has no parameters of its own: call it with `params=`"
        )
    return method(*args, **kwargs)


_deferred.find_names_elsewhere(globals())
