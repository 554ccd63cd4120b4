"""Rows: sequences of modules. The anchor has no typed ones, so its TensorDictSequential stands against ours."""

from ._chains import keys
from ._row import Group

MODULES = Group("Sequences of modules")


def _add(name: str, sample: str, gain: float, floor: float | None, compiled: bool = False) -> None:
    last = keys(sample)[-1]
    MODULES.add(
        name,
        None,
        "net(x['h0'])",
        anchor_dict=f"net(x)['{last}']",
        our_dict=f"net(x)['{last}']",
        our_class=f"net(x).{last}",
        samples=(sample,),
        gain=gain,
        floor=floor,
        compiled=compiled,
    )


_add("5 x Linear", "linear", 2, 1.15)
_add("20 x Linear", "20 linear", 2, 1.15)
_add("5 x identity", "identity", 2, None)
_add("5 x Linear, compiled", "linear", 1, 1.25, compiled=True)
