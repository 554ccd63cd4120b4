"""The containers: the dense `TensorDict`, and the entry nodes that follow the batch or stay out of its way."""

from ._collate import collate as collate
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
from ._nodes import Node as Node
from ._nodes import NonTensorStack as NonTensorStack
from ._nodes import Unbatched as Unbatched
from ._parse import parse_tensor_dict_string as parse_tensor_dict_string
from ._ragged import RaggedTensor as RaggedTensor
