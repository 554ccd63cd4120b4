"""Truncated normal distributions, under the module of `tensordict` that has them."""

from ._truncated_normal import TruncatedNormal as TruncatedNormal
