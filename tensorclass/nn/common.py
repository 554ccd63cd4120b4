"""Keyed modules, under the module of `tensordict` that has them."""

from .. import _deferred
from .keyed._module import TensorDictModule as TensorDictModule
from .keyed._wrap import TensorDictModuleWrapper as TensorDictModuleWrapper
from .keyed._wrap import WrapModule as WrapModule
from .keyed._wrap import as_tensordict_module as as_tensordict_module
from .parts._dispatch import dispatch as dispatch
from .parts._keyed_base import TensorDictModuleBase as TensorDictModuleBase

_deferred.find_names_elsewhere(globals())
