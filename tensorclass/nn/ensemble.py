"""Ensembles, under the module of `tensordict` that has them."""

from .keyed._ensemble import EnsembleModule as EnsembleModule
