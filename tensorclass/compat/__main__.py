"""`python -m tensorclass.compat script.py ...` runs a program for `tensordict` with the layer."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from ._install import install

USAGE = "usage: python -m tensorclass.compat [-m MODULE | SCRIPT] [ARGUMENT ...]"


def main(arguments: list[str]) -> int:
    """Install the layer and run a script, or a module after `-m`, as the main program."""
    if not arguments or arguments[0] in ("-h", "--help") or arguments == ["-m"]:
        sys.stdout.write(f"{USAGE}\n")
        return 0 if arguments[:1] in (["-h"], ["--help"]) else 2
    script = Path(arguments[0])
    if arguments[0] != "-m" and not script.is_file():
        sys.stderr.write(f"no file `{script}`; {USAGE}\n")
        return 2
    install()
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        sys.path.insert(0, "")
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        return 0
    sys.argv = arguments
    sys.path.insert(0, str(script.resolve().parent))
    own = sys.modules["__main__"]
    own.__spec__, own.__file__ = None, str(script)
    exec(compile(script.read_bytes(), str(script), "exec"), vars(own))  # in this module: its functions can be pickled
    return 0


if __name__ == "__main__":
    _code = main(sys.argv[1:])
    if _code:
        sys.exit(_code)
