"""The one door to packages that may be missing."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ..errors import MissingExtraError


def optional(module: str, feature: str, extra: str) -> Any:
    """A package that one feature needs.

    Args:
        module: what to import.
        feature: what the user asked for, as the start of a sentence: "An HDF5 file".
        extra: the extra of this library that brings the package.

    Raises:
        MissingExtraError: when it is not installed; the message says how to.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingExtraError.of(feature, module.partition(".")[0], extra) from error
