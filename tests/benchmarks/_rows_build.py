"""Rows: building a pipeline of 50 modules, its declarations alone and probed. The anchor checks nothing there."""

from ._row import Group

BUILD = Group("Building a pipeline of 50 modules")


def _add(name: str, probe: str) -> None:
    BUILD.add(
        name,
        None,
        "nn.Sequential(*layers)",
        anchor_dict="Sequential(*modules)",
        our_class=f"Sequential(*modules, input=Start, output=End, probe={probe})",
        samples=("50 modules",),
        gain=0,
        floor=None,
        comparable=False,
    )


_add("declarations alone", "False")
_add("probed on fake tensors", "True")
