"""Rows: sequences of modules. The anchor has no typed ones, so its TensorDictSequential stands against ours."""

from ._chains import keys
from ._row import Group

MODULES = Group("Sequences of modules")


def add(group: Group, name: str, sample: str, gain: float, floor: float | None, compiled: bool = False) -> None:
    """A sequence of some length, called once."""
    last = keys(sample)[-1]
    group.add(
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


add(MODULES, "5 x Linear", "linear", 2, 1.15)
add(MODULES, "20 x Linear", "20 linear", 2, 1.15)
add(MODULES, "5 x identity", "identity", 2, None)
