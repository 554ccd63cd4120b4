"""Why torch can't write a tensor in place: asked of every leaf before the first one is written."""

from __future__ import annotations

import torch
from torch import Tensor


def unwritable(leaf: Tensor, tracked: bool) -> str:
    """Why torch can't write this tensor in place; empty when it can."""
    if tracked and leaf.requires_grad and leaf.is_leaf:
        return "requires grad and is an autograd leaf: write under `torch.no_grad()`, or detach it"
    compiling = torch.compiler.is_compiling()  # which can't trace views and inference tensors
    if tracked and not compiling and leaf._is_view():
        base = leaf._base
        if base is not None and base.requires_grad and (base.is_leaf or not leaf.requires_grad):
            return "is a view of a tensor that requires grad: write under `torch.no_grad()`, or into a `clone()`"
        if leaf.grad_fn is not None and leaf.grad_fn.name().startswith(("Unbind", "Split")):
            return "is one of several views of one tensor under autograd: write into a `clone()`"
    if not leaf.is_contiguous() and any(s == 0 and n > 1 for s, n in zip(leaf.stride(), leaf.shape, strict=True)):
        return "is expanded, so several elements share memory: write into a `clone()`"
    if not compiling and leaf.is_inference() and not torch.is_inference_mode_enabled():
        return "was made in inference mode: write in inference mode, or into a `clone()`"
    return ""


def rank(value: object) -> int:
    """Where a tensor's dtype or a number stands in torch's promotion: bool, integer, floating, complex."""
    if isinstance(value, Tensor):
        return 3 if value.is_complex() else 2 if value.is_floating_point() else int(value.dtype is not torch.bool)
    return 3 if isinstance(value, complex) else 2 if isinstance(value, float) else int(not isinstance(value, bool))
