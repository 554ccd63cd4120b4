"""Probabilistic keyed modules, under the module of `tensordict` that has them."""

from .. import _deferred
from .distributions._interaction import InteractionType as InteractionType
from .distributions._interaction import interaction_type as interaction_type
from .distributions._interaction import set_interaction_type as set_interaction_type
from .keyed._probabilistic import ProbabilisticTensorDictModule as ProbabilisticTensorDictModule
from .keyed._probabilistic_sequential import ProbabilisticTensorDictSequential as ProbabilisticTensorDictSequential

_deferred.find_names_elsewhere(globals())
