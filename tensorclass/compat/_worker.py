"""The main module of a spawned worker: installs the layer, then runs the main module of the program."""

from __future__ import annotations

import runpy

from ._install import install, main_of_program

install()
name, path = main_of_program()
if name:
    globals().update(runpy.run_module(name, run_name="__mp_main__", alter_sys=True))
elif path:
    globals().update(runpy.run_path(path, run_name="__mp_main__"))
