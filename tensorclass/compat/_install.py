"""Turn the layer on, in this process and in the workers that it spawns."""

from __future__ import annotations

import os
import sys
from multiprocessing import spawn
from typing import Any

from ._errors import say_texts
from ._finder import NAME, Finder
from ._methods import add_methods
from ._reads import wrap_reads
from ._torch_functions import take_containers
from ._writes import allow_other_keys

_MAIN = "TENSORCLASS_COMPAT_MAIN"
_FINDER = Finder()


def installed() -> bool:
    """Whether the layer is on in this process.

    >>> from tensorclass.compat import installed
    >>> installed()
    False
    """
    return _FINDER in sys.meta_path


def install() -> None:
    """Turn the layer on: from now on `import tensordict` gives this package, also in spawned workers.

    It holds for the whole process and can't be turned off. A second call has no effect.

    Raises:
        ImportError: if the real `tensordict` is already imported.

    >>> from tensorclass.compat import install, installed
    >>> install, installed  # doctest: +ELLIPSIS
    (<function install at ...>, <function installed at ...>)
    """
    if installed():
        return
    if NAME in sys.modules:
        raise ImportError(
            "tensorclass.compat: the real `tensordict` is already imported in this process; call `install()` before "
            "the first import of a library that uses it, or start the program with `python -m tensorclass.compat`"
        )
    sys.meta_path.insert(0, _FINDER)
    add_methods()
    wrap_reads()
    allow_other_keys()
    say_texts()
    take_containers()
    _inherit()


def _inherit() -> None:
    """Have spawned workers install the layer before they import the main module."""
    given = spawn.get_preparation_data

    def prepared(name: str) -> dict[str, Any]:
        data: dict[str, Any] = given(name)
        main = data.pop("init_main_from_name", ""), data.pop("init_main_from_path", "")
        os.environ[_MAIN] = os.pathsep.join(main)
        return data | {"init_main_from_name": f"{__package__}._worker"}

    spawn.get_preparation_data = prepared


def main_of_program() -> tuple[str, str]:
    """The name and the path of the program's main module in a spawned worker; empty if it has none."""
    name, _, path = os.environ.get(_MAIN, "").partition(os.pathsep)
    return name, path
