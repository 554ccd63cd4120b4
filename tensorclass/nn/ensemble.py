"""Ensembles, under the module of `tensordict` that has them."""

from .. import _deferred
from .keyed._ensemble import EnsembleModule as EnsembleModule

_deferred.find_names_elsewhere(globals())
