"""Sequences of keyed modules, under the module of `tensordict` that has them."""

from .. import _deferred
from .keyed._sequential import TensorDictSequential as TensorDictSequential

_deferred.find_names_elsewhere(globals())
