"""Typed classes, built from declarations. A class is built once; an instance has one slot, its store."""

from ._algebra import merge as merge
from ._algebra import omit as omit
from ._algebra import partial as partial
from ._algebra import pick as pick
from ._base import FrozenTensorClass as FrozenTensorClass
from ._base import TensorClass as TensorClass
from ._contracts import checked as checked
from ._dataclass import from_dataclass as from_dataclass
from ._decorator import is_tensorclass as is_tensorclass
from ._decorator import tensorclass as tensorclass
from ._reference import FieldRef as FieldRef
from ._validators import class_validator as class_validator
from ._validators import field_validator as field_validator
