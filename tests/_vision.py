"""Torchvision beside a torch that was built for another device."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

import torch

DECLARED: list[torch.library.Library] = []  # kept, or the operators go


def declare_operators() -> None:
    """Declare the two operators that torchvision registers, where its wheel can't load them.

    A torchvision for CUDA beside a torch for the CPU can't be imported without them, nor can what imports it:
    torchmetrics, lightning, timm, models of transformers. None of the tests calls one of the two.
    """
    try:
        builds = [version(name).partition("+")[2] for name in ("torch", "torchvision")]
    except PackageNotFoundError:
        return
    if builds[0] != builds[1] and not DECLARED:
        DECLARED.append(torch.library.Library("torchvision", "FRAGMENT"))
        for name in ("nms", "qnms"):
            DECLARED[0].define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
