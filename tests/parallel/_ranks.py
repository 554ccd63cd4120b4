"""Ranks over gloo, as forked processes, and what they do: each function gets its rank and the number of ranks."""

from __future__ import annotations

import os
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

Body = Callable[[int, int], Any]


def run(body: Body, world: int = 2, timeout: float = 20) -> list[Any]:
    """What each rank gives; raises what the first one that failed said."""
    context = mp.get_context("fork")
    with tempfile.TemporaryDirectory() as folder:
        pipes, started = [], []
        for rank in range(world):
            here, there = context.Pipe()
            process = context.Process(target=_start, args=(there, body, rank, world, folder, timeout))
            process.start()
            there.close()
            pipes.append(here)
            started.append(process)
        found = [_heard(pipe) for pipe in pipes]
        for process in started:
            process.join()
    wrong = [value for good, value in found if not good]
    assert not wrong, "\n".join(wrong)
    return [value for _, value in found]


def _heard(pipe: Any) -> tuple[bool, Any]:
    try:
        return pipe.recv()  # type: ignore[no-any-return]  # what `_start` sends
    except EOFError:
        return True, "died"


def _start(pipe: Any, body: Body, rank: int, world: int, folder: str, timeout: float) -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    store = dist.FileStore(f"{folder}/store", world)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=world, timeout=timedelta(seconds=timeout))
    try:
        answer = True, body(rank, world)
    except BaseException:  # goes to the test
        answer = False, f"rank {rank}: {traceback.format_exc()}"
    pipe.send(answer)
    if answer[0]:
        dist.destroy_process_group()
    os._exit(0)


def clock(work: Callable[[], Any], times: int = 100) -> float:
    """Microseconds of one run."""
    dist.barrier()
    begin = time.perf_counter()
    for _ in range(times):
        work()
    return (time.perf_counter() - begin) / times * 1e6
