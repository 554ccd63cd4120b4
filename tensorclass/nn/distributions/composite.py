"""Composite distributions, under the module of `tensordict` that has them."""

from ._composite import CompositeDistribution as CompositeDistribution
