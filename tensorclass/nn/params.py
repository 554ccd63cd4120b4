"""Parameters in a container, under the module of `tensordict` that has them."""

from .. import _deferred
from ..store import Buffer as Buffer
from ..store import TensorDictParams as TensorDictParams

_deferred.find_names_elsewhere(globals())
