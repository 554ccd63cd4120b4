"""Loads checkpoints of an `nn.Sequential`, whose keys have numbers instead of names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from torch import nn


def name_numbers(state_dict: dict[str, Any], prefix: str, members: Sequence[tuple[str, nn.Module | None]]) -> None:
    """Rename numbered keys in place: by position in the pipeline, else by order among modules with parameters.

    Args:
        state_dict: The checkpoint.
        prefix: The prefix of the keys of this pipeline.
        members: The names of the modules in order, and the registered modules.
    """
    pattern = re.compile(rf"{re.escape(prefix)}(\d+)(\..+)")
    found = {key: match for key in state_dict if (match := pattern.fullmatch(key))}
    numbers = {match[1] for match in found.values()}
    names = {str(i): name for i, (name, module) in enumerate(members) if module is not None and module.state_dict()}
    if not numbers <= names.keys():
        ordered = sorted(numbers, key=int)
        names = dict(zip(ordered, names.values(), strict=True)) if len(ordered) == len(names) else {}
    for key, match in found.items():
        if match[1] in names:
            state_dict[f"{prefix}{names[match[1]]}{match[2]}"] = state_dict.pop(key)
