"""Class-to-class modules, under the module of `tensordict` that has them."""

from ._class_module import TensorClassModuleBase as TensorClassModuleBase
from ._class_module import TensorClassModuleWrapper as TensorClassModuleWrapper
