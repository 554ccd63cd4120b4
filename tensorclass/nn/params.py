"""Parameters in a container, under the module of `tensordict` that has them."""

from ..store import Buffer as Buffer
from ..store import TensorDictParams as TensorDictParams
