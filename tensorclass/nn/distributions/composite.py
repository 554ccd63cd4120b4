"""Composite distributions, under the module of `tensordict` that has them."""

from ... import _deferred
from ._composite import CompositeDistribution as CompositeDistribution

_deferred.find_names_elsewhere(globals())
