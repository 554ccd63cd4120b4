"""`TypedTensorDict`, under the module of `tensordict` that has it."""

from . import _deferred
from ._api import TypedTensorDict as TypedTensorDict

_deferred.find_names_elsewhere(globals())
