"""Containers over HDF5 files, under the module of `tensordict` that has them."""

from . import _deferred
from ._api_files import PersistentTensorDict as PersistentTensorDict

_deferred.find_names_elsewhere(globals())
