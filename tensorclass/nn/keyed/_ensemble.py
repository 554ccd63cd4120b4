"""EnsembleModule: copies of a keyed module, each with its own parameters, which `torch.vmap` runs in parallel."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from copy import deepcopy
from typing import Any, Literal

import torch
from torch import nn
from typing_extensions import Self

from ..._flags import flags
from ...errors import ModuleError
from ...store import from_modules, lazy_stack
from ..parts._keyed_base import Keys, TensorDictModuleBase, reset_all


@flags
class EnsembleModule(TensorDictModuleBase):
    """An ensemble of copies of a keyed module, each with its own parameters.

    Outputs have a new first dim, over the copies.

    The stacked parameters are `ensemble.params_td`, a `TensorDictParams` of batch size `[num_copies]`;
    `ensemble.parameters()` returns only these. The parameters of `module` itself are not used.

    Args:
        module: a module with `in_keys` and `out_keys`.
        num_copies: the number of copies.
        expand_input: True passes the same input to all copies. False expects an input with a first dim of size
            `num_copies`, such as the output of another ensemble, and passes one slice to each copy.
        parameter_init_fn: called with each copy to initialize it; by default, `reset_parameters` of its submodules is
            called.
        randomness: how `torch.vmap` treats random operations such as dropout: "error", "different" or "same".

    Raises:
        ModuleError: for a module without keys, and for fewer than one copy.

    Warns if no submodule has a `reset_parameters` method, since all copies then start with the same parameters.

    >>> import torch
    >>> from torch import nn
    >>> from tensorclass import TensorDict
    >>> from tensorclass.nn import EnsembleModule, TensorDictModule
    >>> ensemble = EnsembleModule(TensorDictModule(nn.Linear(4, 2), in_keys=["a"], out_keys=["b"]), num_copies=3)
    >>> ensemble(TensorDict(a=torch.randn(10, 4), batch_size=[10]))["b"].shape
    torch.Size([3, 10, 2])
    """

    module: Any

    def __init__(
        self,
        module: TensorDictModuleBase,
        num_copies: int,
        expand_input: bool = True,
        *,
        parameter_init_fn: Callable[[nn.Module], Any] | None = None,
        randomness: Literal["error", "same", "different"] = "error",
    ) -> None:
        super().__init__()
        if not TensorDictModuleBase.is_tdmodule_compatible(module):
            raise ModuleError(
                f"EnsembleModule: {type(module).__name__} has no `in_keys` and `out_keys`; wrap it: "
                "`TensorDictModule(module, in_keys=[...], out_keys=[...])`"
            )
        if num_copies < 1:
            raise ModuleError(f"EnsembleModule: num_copies is at least 1, got {num_copies}")
        self.__dict__["module"] = module  # not registered: its parameters are not ours
        self.in_keys: Keys = module.in_keys
        self.out_keys: Keys = module.out_keys
        self.num_copies: int = num_copies
        self.expand_input: bool = expand_input
        self.randomness = randomness
        copies = [deepcopy(module) for _ in range(num_copies)]
        found = [_initialise(copy, parameter_init_fn) for copy in copies]
        if not all(found) and any(True for _ in module.parameters()):
            warnings.warn(
                "EnsembleModule: no submodule has a `reset_parameters` method, so that all copies have the same "
                "parameters; give `parameter_init_fn`",
                stacklevel=2,
            )
        self.params_td: Any = from_modules(*copies, as_module=True)

    def forward(self, tensordict: Any, *args: Any, **kwargs: Any) -> Any:
        """Run all copies. The batch size of the result is `[num_copies, *batch]`."""

        def run(params: Any, data: Any) -> Any:
            with params.to_module(self.module):
                return self.module(data, *args, **kwargs)

        if not self.expand_input and (not tensordict.batch_dims or tensordict.batch_size[0] != self.num_copies):
            raise ModuleError(
                f"EnsembleModule with expand_input=False: the first batch dim of the input is num_copies, "
                f"{self.num_copies}; the batch size is {list(tensordict.batch_size)}"
            )
        in_dims = (0, None if self.expand_input else 0)
        return torch.vmap(run, in_dims, randomness=self.randomness)(self.params_td, tensordict)

    def train(self, mode: bool = True) -> Self:
        """Set the training mode of the wrapped module."""
        self.module.train(mode)
        return super().train(mode)

    def reset_parameters_recursive(self, parameters: Any = None) -> Any:
        """Reset the parameters of every copy in place.

        Args:
            parameters: stacked parameters; by default `params_td`.

        Returns:
            None without `parameters`, else a lazy stack of the reset parameters, which share their memory.

        >>> from torch import nn
        >>> from tensorclass.nn import EnsembleModule, TensorDictModule
        >>> ensemble = EnsembleModule(TensorDictModule(nn.Linear(4, 2), in_keys=["a"], out_keys=["b"]), num_copies=3)
        >>> before = ensemble.params_td["module", "weight"].clone()
        >>> ensemble.reset_parameters_recursive()
        >>> bool((ensemble.params_td["module", "weight"] == before).any())
        False
        """
        members = [
            self._reset(member) for member in (self.params_td if parameters is None else parameters).data.unbind(0)
        ]
        return None if parameters is None else lazy_stack(members)

    def _reset(self, member: Any) -> Any:
        if member.batch_dims:
            return lazy_stack([self._reset(inner) for inner in member.unbind(0)])
        with member.to_module(self.module):
            _initialise(self.module, None)
        return member

    def _shown(self) -> dict[str, Any]:
        return {"module": self.module, **super()._shown()}


def _initialise(module: nn.Module, init: Callable[[nn.Module], Any] | None) -> bool:
    """Initialize the parameters of a module; returns whether any initializer was found."""
    if init is None:
        return reset_all(module)
    init(module)
    return True
