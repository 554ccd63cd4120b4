"""Import time: processor seconds that a fresh interpreter spends on an import and a first class, after torch."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile

PROGRAM = """
import time, torch
start = time.process_time()
from {module} import TensorDict, tensorclass
@tensorclass
class First:
    a: torch.Tensor
    name: str = ""
print(time.process_time() - start)
"""
LIMIT_SECONDS = 0.25


def import_seconds(module: str, repeats: int) -> float:
    """Median over fresh interpreters with bytecode at hand, as an installed package has it; the first run writes it."""
    program = [sys.executable, "-c", PROGRAM.format(module=module)]
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    with tempfile.TemporaryDirectory() as cache:
        environment["PYTHONPYCACHEPREFIX"] = cache
        outputs = [
            subprocess.run(program, capture_output=True, text=True, check=True, env=environment).stdout
            for _ in range(repeats + 1)
        ]
    return statistics.median(float(output) for output in outputs[1:])
