"""Continuous distributions and their layers, under the module of `tensordict` that has them."""

from ... import _deferred
from ._delta import Delta as Delta
from ._extractors import AddStateIndependentNormalScale as AddStateIndependentNormalScale
from ._extractors import NormalParamExtractor as NormalParamExtractor

_deferred.find_names_elsewhere(globals())
