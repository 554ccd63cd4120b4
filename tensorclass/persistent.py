"""Containers over HDF5 files, under the module of `tensordict` that has them."""

from ._api_files import PersistentTensorDict as PersistentTensorDict
