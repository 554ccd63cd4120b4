"""Makes containers visible to the hooks of `fully_shard`, which only search lists and dicts for tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from torch import nn
from torch.utils._pytree import tree_flatten, tree_unflatten
from torch.utils.hooks import RemovableHandle

from ..._flags import flags

_SHARDING = "torch.distributed.fsdp"


@flags
class Hooked(nn.Module):
    """A module whose `fully_shard` hooks see the tensors of a container, and can replace them.

    The hooks set up the backward pass on the returned tensors. Tensors that they don't see are never gathered or
    reduced, and their gradients are silently wrong.
    """

    def register_forward_pre_hook(
        self, hook: Any, *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """As of `nn.Module`."""
        seen: Any = Before(hook) if with_kwargs and _shards(hook) else hook
        return super().register_forward_pre_hook(seen, prepend=prepend, with_kwargs=with_kwargs)

    def register_forward_hook(
        self, hook: Any, *, prepend: bool = False, with_kwargs: bool = False, always_call: bool = False
    ) -> RemovableHandle:
        """As of `nn.Module`."""
        seen: Any = After(hook) if not with_kwargs and _shards(hook) else hook
        return super().register_forward_hook(seen, prepend=prepend, with_kwargs=with_kwargs, always_call=always_call)


class Before(NamedTuple):
    """A hook that gets the arguments as one list."""

    hook: Callable[..., Any]

    def __call__(self, module: nn.Module, args: Any, kwargs: Any) -> Any:
        """The arguments; the same objects if the hook leaves them unchanged."""
        leaves, spec = tree_flatten((args, kwargs))
        found = self.hook(module, (leaves,), {})
        return None if found is None or _same(found[0][0], leaves) else tree_unflatten(found[0][0], spec)


class After(NamedTuple):
    """A hook that gets the result as a list."""

    hook: Callable[..., Any]

    def __call__(self, module: nn.Module, args: Any, result: Any) -> Any:
        """The result; the same object if the hook leaves it unchanged."""
        leaves, spec = tree_flatten(result)
        found = self.hook(module, args, leaves)
        return None if found is None or _same(found, leaves) else tree_unflatten(found, spec)


def _shards(hook: Any) -> bool:
    return str(getattr(hook, "__module__", "")).startswith(_SHARDING)


def _same(found: Any, leaves: list[Any]) -> bool:
    return found is leaves or all(new is old for new, old in zip(found, leaves, strict=True))
