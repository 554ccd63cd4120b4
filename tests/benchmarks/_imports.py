"""Import time: processor seconds that a fresh interpreter spends on an import after `import torch`."""

from __future__ import annotations

import statistics
import subprocess
import sys

PROGRAM = """
import time, torch
start = time.process_time()
import {module}
print(time.process_time() - start)
"""
LIMIT_SECONDS = 0.25


def import_seconds(module: str, repeats: int) -> float:
    """Median over fresh interpreters; the first run, which may compile bytecode, is not counted."""
    program = [sys.executable, "-c", PROGRAM.format(module=module)]
    outputs = [subprocess.run(program, capture_output=True, text=True, check=True).stdout for _ in range(repeats + 1)]
    return statistics.median(float(output) for output in outputs[1:])
