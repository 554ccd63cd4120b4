"""Imports optional packages, in one place."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ..errors import MissingExtraError


def optional(module: str, feature: str, extra: str) -> Any:
    """Import a package that a feature needs.

    Args:
        module: what to import.
        feature: the feature as the start of a sentence: "An HDF5 file".
        extra: the extra of this library that installs the package.

    Raises:
        MissingExtraError: if it is not installed; the message shows the command that installs it.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingExtraError.of(feature, module.partition(".")[0], extra) from error
