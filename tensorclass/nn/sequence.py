"""Sequences of keyed modules, under the module of `tensordict` that has them."""

from ._keyed_sequential import TensorDictSequential as TensorDictSequential
