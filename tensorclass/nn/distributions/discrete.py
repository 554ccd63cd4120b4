"""Discrete distributions, under the module of `tensordict` that has them."""

from ._discrete import OneHotCategorical as OneHotCategorical
from ._discrete import rand_one_hot as rand_one_hot
