"""Meshes in this process: torch's fake process group, whose collectives do nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.testing._internal.distributed.fake_pg import FakeStore

from tensorclass.parallel._followed import forget_meshes


@contextmanager
def fake_mesh(rank: int = 0, **sizes: int) -> Iterator[DeviceMesh]:
    """A mesh of which this process is one rank, and the others are not there."""
    world = 1
    for size in sizes.values():
        world *= size
    dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=world)
    try:
        yield init_device_mesh("cpu", tuple(sizes.values()), mesh_dim_names=tuple(sizes))
    finally:
        dist.destroy_process_group()
        forget_meshes()
