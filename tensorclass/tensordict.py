"""Containers, under the module of early versions of `tensordict`."""

from ._api import LazyStackedTensorDict as LazyStackedTensorDict
from ._api import NestedKey as NestedKey
from ._api import TensorDict as TensorDict
from ._api import TensorDictBase as TensorDictBase
from ._api import assert_allclose_td as assert_allclose_td
from ._api import dense_stack_tds as dense_stack_tds
from ._api import expand_as_right as expand_as_right
from ._api import expand_right as expand_right
from ._api import is_tensor_collection as is_tensor_collection
from ._api import is_tensorclass as is_tensorclass
from ._api import make_tensordict as make_tensordict
from ._api import merge_tensordicts as merge_tensordicts
from ._api import pad as pad
from ._api import pad_sequence as pad_sequence
from ._api_files import MemoryMappedTensor as MemoryMappedTensor
from .base import NO_DEFAULT as NO_DEFAULT
