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
from .ops import cat as cat
from .ops import equal as equal
from .ops import stack as stack
from .store import NonTensorStack as NonTensorStack
from .store import RaggedTensor as RaggedTensor
from .store import TensorDict as TensorDict
from .store import TensorDictBase as TensorDictBase
from .store import collate as collate
from .store import from_any as from_any
from .store import from_dict as from_dict
from .store import from_namedtuple as from_namedtuple
from .store import from_pytree as from_pytree
from .store import from_struct_array as from_struct_array
from .store import from_tuple as from_tuple
from .store import is_tensor_collection as is_tensor_collection
from .store import make_tensordict as make_tensordict
from .store import parse_tensor_dict_string as parse_tensor_dict_string
