"""Keyed modules, under the module of `tensordict` that has them."""

from ._dispatch import dispatch as dispatch
from ._keyed import TensorDictModule as TensorDictModule
from ._keyed_base import TensorDictModuleBase as TensorDictModuleBase
from ._wrap import TensorDictModuleWrapper as TensorDictModuleWrapper
from ._wrap import WrapModule as WrapModule
from ._wrap import as_tensordict_module as as_tensordict_module
