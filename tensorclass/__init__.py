"""Typed, schema-validated batches and model pipelines for PyTorch.

Declare a batch once with `@tensorclass`; get the constructor, validation of dtype, shape and symbolic dims, and a
container that indexes, stacks, moves and compiles like a tensor. Wire modules by field with `tensorclass.nn`.
"""

from ._config import get_printoptions as get_printoptions
from ._config import set_printoptions as set_printoptions
from ._schema import PerElement as PerElement
from ._schema import Ragged as Ragged
from ._schema import Schema as Schema
from ._schema import Shared as Shared
from ._schema import field as field
from ._schema import produced as produced
from ._schema import schema as schema
from .classes import FieldRef as FieldRef
from .classes import FrozenTensorClass as FrozenTensorClass
from .classes import TensorClass as TensorClass
from .classes import from_dataclass as from_dataclass
from .classes import is_tensorclass as is_tensorclass
from .classes import tensorclass as tensorclass
from .core import KEY_SEPARATOR as KEY_SEPARATOR
from .core import NestedKey as NestedKey
from .core import TensorCollection as TensorCollection
from .core import print_directory_tree as print_directory_tree
from .core import unravel_key as unravel_key
from .core import unravel_key_list as unravel_key_list
from .core import unravel_key_to_tuple as unravel_key_to_tuple
from .core import unravel_keys as unravel_keys
from .ops import LinkedList as LinkedList
from .ops import capture_non_tensor_stack as capture_non_tensor_stack
from .ops import cat as cat
from .ops import equal as equal
from .ops import get_defaults_to_none as get_defaults_to_none
from .ops import list_to_stack as list_to_stack
from .ops import set_capture_non_tensor_stack as set_capture_non_tensor_stack
from .ops import set_get_defaults_to_none as set_get_defaults_to_none
from .ops import set_list_to_stack as set_list_to_stack
from .ops import stack as stack
from .store import LazyStackedTensorDict as LazyStackedTensorDict
from .store import MetaData as MetaData
from .store import NonTensorData as NonTensorData
from .store import NonTensorDataBase as NonTensorDataBase
from .store import NonTensorStack as NonTensorStack
from .store import PackLayout as PackLayout
from .store import RaggedTensor as RaggedTensor
from .store import TensorDict as TensorDict
from .store import TensorDictBase as TensorDictBase
from .store import TypedTensorDict as TypedTensorDict
from .store import UnbatchedTensor as UnbatchedTensor
from .store import collate as collate
from .store import dense_stack_tds as dense_stack_tds
from .store import from_any as from_any
from .store import from_dict as from_dict
from .store import from_namedtuple as from_namedtuple
from .store import from_pytree as from_pytree
from .store import from_struct_array as from_struct_array
from .store import from_tuple as from_tuple
from .store import is_non_tensor as is_non_tensor
from .store import is_tensor_collection as is_tensor_collection
from .store import lazy_legacy as lazy_legacy
from .store import lazy_stack as lazy_stack
from .store import make_tensordict as make_tensordict
from .store import maybe_dense_stack as maybe_dense_stack
from .store import parse_tensor_dict_string as parse_tensor_dict_string
from .store import set_lazy_legacy as set_lazy_legacy
