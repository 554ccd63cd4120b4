"""Sequences of keyed modules, under the module of `tensordict` that has them."""

from .keyed._sequential import TensorDictSequential as TensorDictSequential
