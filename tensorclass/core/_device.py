"""Devices in a normal form, so that equal devices compare as equal."""

from __future__ import annotations

from typing import TypeAlias

import torch

from ..errors import ArgumentError

CPU = torch.device("cpu")

Device: TypeAlias = "torch.device | str | int | None"


def as_device(device: Device) -> torch.device | None:
    """A torch device, with the index of the current accelerator filled in; None stays None."""
    if device is None:
        return None
    if device == "cpu":
        return CPU
    result = device if isinstance(device, torch.device) else _parse_device(device)
    if result.type not in ("cpu", "meta") and result.index is None:
        return torch.empty((), device=result).device
    return result


def _parse_device(device: str | int) -> torch.device:
    try:
        return torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise ArgumentError(
            f'{device!r} is not a device; give "cpu", "cuda", "cuda:1", "meta", and for a dtype `torch.float32`, ...'
        ) from error
