"""Rows: parameters into a module and out again, functional calls, vmap over parameters."""

from ._networks import PARAMETERS
from ._row import Group

FUNCTIONAL = Group("Parameters outside of modules")


def _add(name: str, text: str, raw: str | None, gain: float) -> None:
    FUNCTIONAL.add(
        name,
        None,
        raw,
        anchor_dict=text,
        our_class=text,
        samples=tuple(PARAMETERS),
        gain=gain,
        floor=None,
        comparable=not text.startswith("with"),
    )


_add("swap, locked container", "with params.to_module(net): pass", None, 20)
_add("swap, unlocked container", "with loose.to_module(net): pass", None, 1)
_add("swap, tensors that are no parameters", "with plain.to_module(net): pass", None, 1)
_add("functional call", "one(net, params, x)", "one(net, params, x)", 1.8)
_add("vmap over parameters", "batched(stacked, x)", "batched(stacked, x)", 1)
