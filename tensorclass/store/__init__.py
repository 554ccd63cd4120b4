"""The containers: the dense `TensorDict`, lazy stacks, parameters, and entry nodes."""

from typing import TYPE_CHECKING as _CHECKING

from ._bridges import from_module as from_module
from ._bridges import from_modules as from_modules
from ._collate import collate as collate
from ._consolidate import PackLayout as PackLayout
from ._convert import from_any as from_any
from ._convert import from_dict as from_dict
from ._convert import from_namedtuple as from_namedtuple
from ._convert import from_pytree as from_pytree
from ._convert import from_struct_array as from_struct_array
from ._convert import from_tuple as from_tuple
from ._convert import is_tensor_collection as is_tensor_collection
from ._convert import make_tensordict as make_tensordict
from ._dict import Relaid as Relaid
from ._dict import TensorDict as TensorDict
from ._dict import TensorDictBase as TensorDictBase
from ._helpers import DeviceType as DeviceType
from ._helpers import IndexType as IndexType
from ._helpers import assert_allclose_td as assert_allclose_td
from ._helpers import assert_close as assert_close
from ._helpers import expand_as_right as expand_as_right
from ._helpers import expand_right as expand_right
from ._helpers import fromkeys as fromkeys
from ._helpers import group_by as group_by
from ._helpers import is_uneven as is_uneven
from ._helpers import isin as isin
from ._helpers import merge_tensordicts as merge_tensordicts
from ._helpers import remove_duplicates as remove_duplicates
from ._helpers import uneven_pairs as uneven_pairs
from ._pad import pad as pad
from ._params import Buffer as Buffer
from ._params import TensorDictParams as TensorDictParams
from ._parse import parse_tensor_dict_string as parse_tensor_dict_string
from ._sequences import pad_sequence as pad_sequence
from ._sequences import unpad_sequence as unpad_sequence
from ._typed_dict import TypedTensorDict as TypedTensorDict
from .entries._nodes import Node as Node
from .entries._nodes import NonTensorStack as NonTensorStack
from .entries._non_tensor import MetaData as MetaData
from .entries._non_tensor import NonTensorData as NonTensorData
from .entries._non_tensor import NonTensorDataBase as NonTensorDataBase
from .entries._non_tensor import is_non_tensor as is_non_tensor
from .entries._ragged import RaggedTensor as RaggedTensor
from .entries._slots import plain_object as plain_object
from .entries._unbatched import Unbatched as Unbatched
from .entries._unbatched import UnbatchedTensor as UnbatchedTensor
from .lazy._functions import dense_stack_tds as dense_stack_tds
from .lazy._functions import lazy_stack as lazy_stack
from .lazy._functions import maybe_dense_stack as maybe_dense_stack
from .lazy._legacy import lazy_legacy as lazy_legacy
from .lazy._legacy import set_lazy_legacy as set_lazy_legacy
from .lazy._stack import LazyStackedTensorDict as LazyStackedTensorDict

if not _CHECKING:
    from ._absent import __getattr__ as __getattr__
