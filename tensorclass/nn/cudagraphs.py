"""Recorded CUDA graphs, under the module of `tensordict` that has them."""

from .keyed._cuda_graph import CudaGraphModule as CudaGraphModule
