"""Programs of libraries that import `tensordict`: where the libraries are, and how a program runs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests._sources import ROOT

FOLDER = Path(sys.prefix, "clients")
"""Where `make clients` installs the libraries."""
PROGRAMS = {
    "ppo": "torchrl",
    "dqn": "torchrl",
    "sac": "torchrl",
    "iql": "torchrl",
    "rsl": "rsl_rl",
}
"""The library of each program."""


def run_program(name: str, *arguments: str, layer: bool) -> str:
    """What a program prints, with the layer or with `tensordict`."""
    script = str(Path(__file__).parent / "programs" / f"{name}.py")
    paths = [str(ROOT), str(FOLDER), os.environ.get("PYTHONPATH", "")]
    found = subprocess.run(
        [sys.executable, *(["-m", "tensorclass.compat"] if layer else []), script, *arguments],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths)), "OMP_NUM_THREADS": "1"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if found.returncode:
        raise RuntimeError(f"{name}, {'layer' if layer else 'tensordict'}:\n{found.stderr[-2000:]}")
    return found.stdout


def main(rounds: int = 5) -> None:
    """Print the speed of each program: the least of the seconds of each round, with tensordict and with the layer."""
    for name in PROGRAMS:
        pairs = [[float(run_program(name, "--time", layer=layer)) for layer in (False, True)] for _ in range(rounds)]
        theirs, ours = map(min, zip(*pairs, strict=True))
        print(f"{name:4} tensordict {theirs:.2f} s, layer {ours:.2f} s, {theirs / ours:.2f}x", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
