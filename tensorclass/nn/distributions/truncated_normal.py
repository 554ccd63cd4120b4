"""Truncated normal distributions, under the module of `tensordict` that has them."""

from ... import _deferred
from ._truncated_normal import TruncatedNormal as TruncatedNormal

_deferred.find_names_elsewhere(globals())
