"""Distributions that torch lacks, and layers that compute their parameters."""

from . import composite as composite
from . import continuous as continuous
from . import discrete as discrete
from . import truncated_normal as truncated_normal
from ._composite import CompositeDistribution as CompositeDistribution
from ._delta import Delta as Delta
from ._discrete import OneHotCategorical as OneHotCategorical
from ._discrete import rand_one_hot as rand_one_hot
from ._extractors import AddStateIndependentNormalScale as AddStateIndependentNormalScale
from ._extractors import NormalParamExtractor as NormalParamExtractor
from ._extractors import add_custom_mapping as add_custom_mapping
from ._extractors import biased_softplus as biased_softplus
from ._extractors import expln as expln
from ._extractors import inv_softplus as inv_softplus
from ._extractors import mappings as mappings
from ._field import Dist as Dist
from ._interaction import InteractionType as InteractionType
from ._interaction import set_interaction_type as set_interaction_type
from ._truncated_normal import TruncatedNormal as TruncatedNormal
