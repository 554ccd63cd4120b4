"""Rows: sequences of modules. The anchor has no typed ones, so its TensorDictSequential stands against ours."""

from ._row import Group

MODULES = Group("Sequences of five modules")


def _add(name: str, sample: str, gain: float, floor: float | None) -> None:
    MODULES.add(
        name,
        None,
        "net(x['h0'])",
        anchor_dict="net(x)['h5']",
        our_class="net(x).h5",
        samples=(sample,),
        gain=gain,
        floor=floor,
    )


_add("5 x Linear", "linear", 2, 1.15)
_add("5 x identity", "identity", 2, None)
