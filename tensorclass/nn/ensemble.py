"""Ensembles, under the module of `tensordict` that has them."""

from ._ensemble import EnsembleModule as EnsembleModule
