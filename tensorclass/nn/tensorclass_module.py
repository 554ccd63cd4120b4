"""Class-to-class modules, under the module of `tensordict` that has them."""

from .typed._class_module import TensorClassModuleBase as TensorClassModuleBase
from .typed._class_module import TensorClassModuleWrapper as TensorClassModuleWrapper
