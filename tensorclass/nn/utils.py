"""Mappings to scales and modes of modules, under the module of `tensordict` that has them."""

from .. import _deferred
from .distributions import add_custom_mapping as add_custom_mapping
from .distributions import biased_softplus as biased_softplus
from .distributions import expln as expln
from .distributions import inv_softplus as inv_softplus
from .distributions import mappings as mappings
from .distributions._interaction import composite_lp_aggregate as composite_lp_aggregate
from .distributions._interaction import set_composite_lp_aggregate as set_composite_lp_aggregate
from .parts._skipping import set_skip_existing as set_skip_existing
from .parts._skipping import skip_existing as skip_existing

_deferred.find_names_elsewhere(globals())
