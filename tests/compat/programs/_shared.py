"""What each program does around its training: seeds, numbers on the output, and the seconds of processor time."""

from __future__ import annotations

import contextlib
import logging
import sys
import time
import warnings

import torch
import torch._dynamo  # the first optimizer loads it: no part of the training

logging.disable(logging.INFO)
warnings.simplefilter("ignore")
torch.set_num_threads(1)


def report(train):
    """Print every number that the training gives; with `--time`, the seconds that it took instead."""
    torch.manual_seed(0)
    start = time.thread_time()
    with contextlib.redirect_stdout(sys.stderr):
        rows = [[float(number) for number in row] for row in train()]
    if sys.argv[1:] == ["--time"]:
        print(time.thread_time() - start)
        return
    for row in rows:
        print(*(number.hex() for number in row))
