"""Probabilistic keyed modules, under the module of `tensordict` that has them."""

from ._interaction import InteractionType as InteractionType
from ._interaction import interaction_type as interaction_type
from ._interaction import set_interaction_type as set_interaction_type
from ._probabilistic import ProbabilisticTensorDictModule as ProbabilisticTensorDictModule
from ._probabilistic_sequential import ProbabilisticTensorDictSequential as ProbabilisticTensorDictSequential
