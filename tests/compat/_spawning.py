"""A program for `tensordict` that sends containers and typed classes to a spawned worker, and gets them back."""

from __future__ import annotations

import multiprocessing

import torch
from tensordict import TensorClass, TensorDict


class Row(TensorClass):
    data: torch.Tensor


def work(data, row):
    """What the worker computes."""
    return TensorDict(sum=data["a"] + 1), type(row).__module__ + "." + type(row).__name__, row.data.tolist()


if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.apply(work, (TensorDict(a=torch.ones(2)), Row(torch.ones(1))))[0]["sum"].tolist())
