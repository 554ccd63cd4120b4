"""The containers: the dense `TensorDict`, and the entry nodes that follow the batch or stay out of its way."""

from ._collate import collate as collate
from ._dict import Relaid as Relaid
from ._dict import TensorDict as TensorDict
from ._dict import TensorDictBase as TensorDictBase
from ._nodes import Node as Node
from ._nodes import NonTensorStack as NonTensorStack
from ._nodes import Unbatched as Unbatched
