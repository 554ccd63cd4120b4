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
    "td3": "torchrl",
    "losses": "torchrl",
    "buffers": "torchrl",
    "envs": "torchrl",
    "rsl": "rsl_rl",
}
"""The library of each program."""


SOURCES = Path(sys.prefix, "sources")
"""Where `make clients` unpacks the libraries whose source distribution has tests."""
SUITES = {"verl": ["protocol_on_cpu", "protocol_v2_on_cpu", "base_config_on_cpu"]}
"""The tests of a library that use containers, by their files."""


def _run(arguments: list[str], folder: Path, library: Path) -> subprocess.CompletedProcess[str]:
    paths = [str(ROOT), str(library), os.environ.get("PYTHONPATH", "")]
    return subprocess.run(
        [sys.executable, *arguments],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths)), "OMP_NUM_THREADS": "1"},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def source_of(name: str) -> Path | None:
    """The unpacked source of a library, if it is there."""
    return next((path for path in SOURCES.glob(f"{name}-*") if path.is_dir()), None)


def passed_tests(name: str, folder: Path, *, layer: bool) -> set[str]:
    """The tests of a library that pass, with the layer or with `tensordict`."""
    options = ["-m", "pytest", "-n", "0", "-q", "-rp", "-W", "ignore", "-p", "no:cacheprovider"]
    plugin = ["-p", "tensorclass.compat.pytest"] if layer else []
    found = _run([*options, *plugin, *[f"tests/test_{file}.py" for file in SUITES[name]]], folder, folder)
    return {line.split()[1] for line in found.stdout.splitlines() if line.startswith("PASSED ")}


def run_program(name: str, *arguments: str, layer: bool) -> str:
    """What a program prints, with the layer or with `tensordict`."""
    script = str(Path(__file__).parent / "programs" / f"{name}.py")
    found = _run([*(["-m", "tensorclass.compat"] if layer else []), script, *arguments], ROOT, FOLDER)
    if found.returncode:
        raise RuntimeError(f"{name}, {'layer' if layer else 'tensordict'}:\n{found.stderr[-2000:]}")
    return found.stdout


def main(rounds: int = 5) -> None:
    """Print the speed of each program: the least of the seconds of each round, with tensordict and with the layer."""
    for name in PROGRAMS:
        pairs = [[float(run_program(name, "--time", layer=layer)) for layer in (False, True)] for _ in range(rounds)]
        theirs, ours = map(min, zip(*pairs, strict=True))
        print(f"{name:7} tensordict {theirs:.2f} s, layer {ours:.2f} s, {theirs / ours:.2f}x", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
