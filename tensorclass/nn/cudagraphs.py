"""Recorded CUDA graphs, under the module of `tensordict` that has them."""

from ._cuda_graph import CudaGraphModule as CudaGraphModule
