"""Recorded CUDA graphs, under the module of `tensordict` that has them."""

from .. import _deferred
from .keyed._cuda_graph import CudaGraphModule as CudaGraphModule

_deferred.find_names_elsewhere(globals())
