"""Class-to-class modules, under the module of `tensordict` that has them."""

from .. import _deferred
from .typed._class_module import TensorClassModuleBase as TensorClassModuleBase
from .typed._class_module import TensorClassModuleWrapper as TensorClassModuleWrapper

_deferred.find_names_elsewhere(globals())
