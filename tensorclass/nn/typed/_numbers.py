"""Checkpoints of an `nn.Sequential`, whose keys have numbers for names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from torch import nn


def name_numbers(state_dict: dict[str, Any], prefix: str, members: Sequence[tuple[str, nn.Module | None]]) -> None:
    """Rename the keys of numbers in place: by the place in the pipeline, else by order among those with parameters.

    Args:
        state_dict: The checkpoint.
        prefix: What its keys of this pipeline begin with.
        members: The names of the modules in order, and what is registered there.
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
