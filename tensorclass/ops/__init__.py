"""Every operation, written once: a table, kernels, generated methods, and modules for shape, index, join and keys.

Nothing here imports a store: operations use the primitives of `core.TensorCollection`.
"""

from . import _torch as _torch
from ._attrs import TensorAttrs as TensorAttrs
from ._attrs import is_bool as is_bool
from ._attrs import is_floating as is_floating
from ._attrs import is_inexact as is_inexact
from ._attrs import is_integer as is_integer
from ._compare import equal as equal
from ._container import Container as Container
from ._exports import LinkedList as LinkedList
from ._index import Index as Index
from ._join import Join as Join
from ._join import cat as cat
from ._join import stack as stack
from ._mapping import UNSET as UNSET
from ._modes import capture_non_tensor_stack as capture_non_tensor_stack
from ._modes import get_defaults_to_none as get_defaults_to_none
from ._modes import list_to_stack as list_to_stack
from ._modes import set_capture_non_tensor_stack as set_capture_non_tensor_stack
from ._modes import set_get_defaults_to_none as set_get_defaults_to_none
from ._modes import set_list_to_stack as set_list_to_stack
from ._reading import NO_DEFAULT as NO_DEFAULT
