"""Methods of containers for workers and ranks; `parallel` implements them."""

# mypy: disable-error-code="empty-body"
# pyright: reportReturnType=false
# The bodies of most methods come from `implemented_in`.

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from typing_extensions import Self

from .._flags import answers
from ..core import Device
from ._bridges import implemented_in, placing, scaling
from ._tables import TableOps


@answers
class ScaleOps(TableOps):
    """Methods for workers, shared memory, and transfers between ranks."""

    __slots__ = ()

    # ---- workers and shared memory -----------------------------------------------------------------------------------

    @implemented_in(scaling, "map_chunks", unused="index_with_generator")
    def map(
        self,
        fn: Callable[[Any], Any],
        dim: int = 0,
        num_workers: int | None = None,
        *,
        out: Any = None,
        chunksize: int | None = None,
        num_chunks: int | None = None,
        pool: Any = None,
        generator: torch.Generator | None = None,
        max_tasks_per_child: int | None = None,
        worker_threads: int = 1,
        index_with_generator: bool = False,
        pbar: bool = False,
        mp_start_method: str | None = None,
        engine: Any = None,
        retries: int | None = None,
        timeout: float | None = None,
        layout: Any = None,
    ) -> Any:
        """Call a function on chunks along a dim, in workers, and join the results.

        Each chunk has its own seed, so random numbers don't depend on the engine and the number of workers, as long as
        the chunks are the same.

        Args:
            fn: gets a chunk, of the class of this container; returns a container, a tensor, or None.
            dim: the batch dim to split.
            num_workers: the number of workers; by default the cores of this machine. 0 runs in this thread.
            out: a container with the batch size of the result that the results are written to. If it is shared or
                mapped, worker processes write to it directly.
            chunksize: elements of a chunk; 0 passes single elements, without the dim, and stacks the results.
            num_chunks: the number of chunks; by default one for each worker, unless `chunksize` is given.
            pool: a running `multiprocessing.Pool`; its generators are not seeded.
            generator: the source of seeds; by default the generator of torch.
            max_tasks_per_child: replace a process after this many chunks.
            worker_threads: torch threads of each process.
            index_with_generator: accepted for compatibility; chunks are always made on demand.
            pbar: show the progress.
            mp_start_method: "fork", "forkserver" or "spawn".
            engine: "processes" (the default), the name of another engine ("threads", ...), or an `Engine`.
            retries: how often a chunk runs again after its worker has died; by default 2.
            timeout: seconds that a chunk may take; its worker is then stopped, as if it had died. Not for threads.
            layout: a `tensorclass.parallel.Layout`: all ranks of its mesh make this call with the same whole batch, and
                share the chunks; every rank gets all results. Ranks with the same rows run the same chunks, so the
                function may be a tensor-parallel pipeline with `num_workers=0`.

        Returns:
            The results, joined along `dim`, or `out`; None if the function returned None for every chunk.

        Raises:
            ArgumentError: for numbers that define no chunks, an unknown engine, and a function that can't be pickled
                or that, in this process, writes to its chunk.
            BatchDimError: for anything but a batch dim.
            UnsupportedOperationError: for a distributed batch and workers, and with a layout.
            StructureError: on all ranks, if their calls with a layout differ.
            WorkerError: for a chunk whose workers died, the retries included.
            Exception: the exception of the function, with the elements of its chunk added.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> data = TensorDict(a=torch.arange(4), batch_size=[4])
        >>> data.map(abs, num_workers=2, engine="threads")["a"]
        tensor([0, 1, 2, 3])
        """

    @implemented_in(scaling, "iterate_chunks", unused="index_with_generator")
    def map_iter(
        self,
        fn: Callable[[Any], Any],
        dim: int = 0,
        num_workers: int | None = None,
        *,
        shuffle: bool = False,
        chunksize: int | None = None,
        num_chunks: int | None = None,
        pool: Any = None,
        generator: torch.Generator | None = None,
        max_tasks_per_child: int | None = None,
        worker_threads: int = 1,
        index_with_generator: bool = True,
        pbar: bool = False,
        mp_start_method: str | None = None,
        engine: Any = None,
        retries: int | None = None,
        timeout: float | None = None,
    ) -> Iterator[Any]:
        """As `map`, but iterate over the results of the chunks, in order; a few chunks are computed ahead. Threads may
        share the iterator: each result goes to one of them.

        Args:
            shuffle: make chunks from the elements in a random order, which depends on `generator`.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> data = TensorDict(a=torch.arange(4), batch_size=[4])
        >>> [part["a"].tolist() for part in data.map_iter(abs, chunksize=3, engine="threads")]
        [[0, 1, 2], [3]]
        """

    @implemented_in(scaling, "share")
    def share_memory_(self) -> Self:
        """Move the tensors to shared memory, in place, and lock the container.

        A queue or pipe of `torch.multiprocessing` then sends only handles. Tensors on a GPU are already shared.

        Raises:
            UnsupportedOperationError: for a container that is mapped from a file.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> data = TensorDict(a=torch.zeros(3), batch_size=[3]).share_memory_()
        >>> data.is_shared(), data.is_locked
        (True, True)
        """

    @implemented_in(scaling, "is_shared")
    def is_shared(self) -> bool:
        """Whether this container is locked and its tensors are in shared memory.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> TensorDict(a=torch.zeros(3)).is_shared(), TensorDict(a=torch.zeros(3)).share_memory_().is_shared()
        (False, True)
        """

    # ---- ranks -------------------------------------------------------------------------------------------------------

    @implemented_in(scaling, "send", unused="pseudo_rand consolidated")
    def send(
        self,
        dst: Any = None,
        *,
        group: Any = None,
        group_dst: int | None = None,
        init_tag: int = 0,
        pseudo_rand: bool = False,
        consolidated: bool = False,
    ) -> None:
        """Send the values to another rank, which calls `recv` on a container of the same structure.

        All leaves are sent as one block, with a digest of the structure: dtypes, shapes, batch sizes and classes under
        sorted paths. If the receiver has another structure, both ranks raise an error that names the first field that
        differs.

        Args:
            dst: the rank in the default group, or a pipe with `send`.
            group: a process group of `torch.distributed`; by default the default group.
            group_dst: the rank in `group`, instead of `dst`.
            init_tag: a number; sender and receiver must use the same.
            pseudo_rand: accepted for compatibility; a transfer has one tag.
            consolidated: accepted for compatibility; a transfer is one block.

        Raises:
            StructureError: if the receiver has another structure.
            WorkerError: if it doesn't answer within the timeout of the group.
        """

    @implemented_in(scaling, "recv", unused="pseudo_rand consolidated")
    def recv(
        self,
        src: Any = None,
        *,
        group: Any = None,
        group_src: int | None = None,
        init_tag: int = 0,
        pseudo_rand: bool = False,
        consolidated: bool = False,
    ) -> Any:
        """Receive values from another rank into the tensors of this container; see `send`.

        Everything is received before the first tensor is written.

        Returns:
            The tag; for a pipe, the result of its `recv`.
        """

    @implemented_in(scaling, "isend", unused="pseudo_rand consolidated")
    def isend(
        self,
        dst: int | None = None,
        *,
        group: Any = None,
        group_dst: int | None = None,
        init_tag: int = 0,
        pseudo_rand: bool = False,
        return_early: bool = False,
        consolidated: bool = False,
    ) -> Any:
        """As `send`, but asynchronous; `return_early` returns a list of handles, whose `wait()` ends the transfer."""

    @implemented_in(scaling, "irecv", unused="pseudo_rand consolidated")
    def irecv(
        self,
        src: int | None = None,
        *,
        group: Any = None,
        group_src: int | None = None,
        return_premature: bool = False,
        init_tag: int = 0,
        pseudo_rand: bool = False,
        consolidated: bool = False,
    ) -> Any:
        """As `recv`; `return_premature` returns handles: a thread receives, and `wait()` ends when all is there."""

    async def asend(self, dst: Any) -> None:
        """Send through a pipe: `await dst.asend(self)`.

        >>> import asyncio
        >>> from tensorclass import TensorDict
        >>> class Pipe:
        ...     async def asend(self, batch):
        ...         print("sent", list(batch.keys()))
        >>> asyncio.run(TensorDict(a=1).asend(Pipe()))
        sent ['a']
        """
        await scaling().piped(dst, "asend")(self)

    async def arecv(self, src: Any, *, device: Device = None) -> Any:
        """Receive from a pipe: `await src.arecv(self, device=device)`.

        >>> import asyncio
        >>> from tensorclass import TensorDict
        >>> class Pipe:
        ...     async def arecv(self, batch, device):
        ...         return batch.set("a", "scan")
        >>> asyncio.run(TensorDict().arecv(Pipe()))["a"]
        'scan'
        """
        return await scaling().piped(src, "arecv")(self, device=device)

    @implemented_in(scaling, "broadcast")
    def broadcast(self, src: int, *, group: Any = None, device: Device = None) -> Any:
        """Send the container of one rank to all ranks.

        Each rank of the group calls it; other ranks may use an empty container.

        Python objects are pickled: use it only among trusted ranks.

        Args:
            src: the rank of the container.
            group: a process group.
            device: the device of the result on the other ranks.

        Returns:
            The container itself on `src`, a new container on the other ranks.

        >>> import torch
        >>> import torch.distributed as dist
        >>> from tensorclass import TensorDict
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)  # torchrun has more ranks
        >>> TensorDict(a=torch.arange(2)).broadcast(src=0)["a"]
        tensor([0, 1])
        >>> dist.destroy_process_group()
        """

    @implemented_in(scaling, "scatter")
    def scatter(self, src: int, tensordicts: Any = None, *, group: Any = None, device: Device = None) -> Any:
        """Send one container of a list on `src` to each rank of the group; returns that of this rank.

        >>> import torch
        >>> import torch.distributed as dist
        >>> from tensorclass import TensorDict
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)  # torchrun has more ranks
        >>> data = TensorDict(a=torch.arange(4), batch_size=[4])
        >>> TensorDict().scatter(0, data.chunk(dist.get_world_size()))["a"]
        tensor([0, 1, 2, 3])
        >>> dist.destroy_process_group()
        """

    @implemented_in(scaling, "all_gather")
    def all_gather(self, *, group: Any = None) -> Any:
        """Gather the containers of all ranks of the group, in rank order, on every rank; structures may differ.

        >>> import torch
        >>> import torch.distributed as dist
        >>> from tensorclass import TensorDict
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)  # torchrun has more ranks
        >>> [part["a"].tolist() for part in TensorDict(a=torch.arange(2)).all_gather()]
        [[0, 1]]
        >>> dist.destroy_process_group()
        """

    @implemented_in(scaling, "all_reduce")
    def all_reduce(
        self, op: Any = None, *, group: Any = None, async_op: bool = False, bucket_bytes: int | None = None
    ) -> Any:
        """Reduce every tensor over all ranks of the group, in place on every rank.

        Leaves are matched by name; the order of keys and the strides may differ. Nothing is written before all leaves
        are reduced.

        Args:
            op: a `torch.distributed.ReduceOp`; by default the sum. `AVG` needs floating or complex tensors.
            group: a process group.
            async_op: return a list of handles, whose `wait()` writes the result.
            bucket_bytes: bytes that are reduced at a time, for each dtype; by default 256 MB.

        Raises:
            StructureError: on every rank, if one has another structure; names the first field that differs.
            UnsupportedOperationError: for a dtype that the backend can't reduce; names the field.
            WorkerError: if a rank doesn't answer within the timeout of the group.

        >>> import torch
        >>> import torch.distributed as dist
        >>> from tensorclass import TensorDict
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)  # torchrun has more ranks
        >>> loss = TensorDict(loss=torch.tensor(0.5))
        >>> _ = loss.all_reduce(dist.ReduceOp.SUM)
        >>> loss["loss"]
        tensor(0.5000)
        >>> dist.destroy_process_group()
        """

    @implemented_in(scaling, "reduce")
    def reduce(
        self,
        dst: int,
        op: Any = None,
        async_op: bool = False,
        return_premature: bool = False,
        group: Any = None,
        *,
        bucket_bytes: int | None = None,
    ) -> Any:
        """Reduce every tensor over all ranks of the group, in place on rank `dst`; other ranks keep their values.

        >>> import torch
        >>> import torch.distributed as dist
        >>> from tensorclass import TensorDict
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)  # torchrun has more ranks
        >>> loss = TensorDict(loss=torch.tensor(0.5))
        >>> _ = loss.reduce(dst=0)
        >>> loss["loss"]
        tensor(0.5000)
        >>> dist.destroy_process_group()
        """

    @implemented_in(scaling, "gather_and_stack")
    def gather_and_stack(self, dst: int, group: Any = None) -> Any:
        """Write the containers of the other ranks into the rows of this one on rank `dst`.

        Returns:
            This container on `dst`, whose first batch dim is the number of other ranks; None on other ranks.
        """

    @implemented_in(scaling, "init_remote", unused="device")
    def init_remote(
        self, dst: int | None = None, group: Any = None, device: Device = None, use_broadcast: bool = False
    ) -> None:
        """Send structure and values to a rank that calls `from_remote_init`.

        Args:
            dst: the rank.
            group: a process group.
            device: accepted for compatibility; a block is sent from a device that the backend supports.
            use_broadcast: send it to all ranks of the group.
        """

    @classmethod
    def from_remote_init(cls, src: int, group: Any = None, device: Device = None, use_broadcast: bool = False) -> Any:
        """Receive a new container that another rank sends with `init_remote`."""
        return scaling().from_remote_init(src, group, device, use_broadcast)

    # ---- a device mesh -----------------------------------------------------------------------------------------------

    @implemented_in(placing, "distribute")
    def distribute(self, layout: Any, source: Any = None, *, check: bool = True) -> Self:
        """Distribute this batch over a device mesh: the fields of the result are DTensors with the placements of a
        layout.

        Ragged and per-element fields, strings and other objects stay whole on every rank; `local` cuts them. A batch
        that is distributed already gets the other layout.

        Args:
            layout: a `tensorclass.parallel.Layout`.
            source: where the values are. "everywhere": every rank holds the whole batch and keeps its piece. "rows":
                every rank holds its own rows, as from `loader(layout=layout)`. A number: the batch of that rank is
                sent to all others.
            check: compare layouts and structures of all ranks first, in one small exchange.

        Raises:
            ArgumentError: for a field that can't be laid out so, and without a source.
            StructureError: on every rank, if one has another layout, structure or source.

        >>> import torch
        >>> import torch.distributed as dist
        >>> from torch import Tensor
        >>> from tensorclass import TensorClass
        >>> from tensorclass.parallel import Layout
        >>> from tensorclass.typing import Int64
        >>> class Tokens(TensorClass):
        ...     ids: Int64[Tensor, "t"]
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)  # torchrun has more ranks
        >>> layout = Layout({"dp": 1, "cp": 1}, batch="dp", t="cp")
        >>> part = Tokens(ids=torch.zeros(4, 6, dtype=torch.int64)).distribute(layout, source="everywhere")
        >>> part.ids.placements, part.local().ids.shape, part.whole().ids.shape
        ((Shard(dim=0), Shard(dim=1)), torch.Size([4, 6]), torch.Size([4, 6]))
        >>> dist.destroy_process_group()
        """

    @implemented_in(placing, "local")
    def local(self) -> Self:
        """The piece of this rank of a distributed batch, as plain tensors; a view of the same memory.

        Raises:
            BatchSizeError: if the batch dims of two fields are split differently.
            UnsupportedOperationError: for an unfinished sum.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> TensorDict(a=torch.zeros(2)).local()["a"]  # not distributed: the batch itself
        tensor([0., 0.])
        """

    @implemented_in(placing, "whole")
    def whole(self) -> Self:
        """The whole of a distributed batch, as plain tensors, on every rank; every rank must call it.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> TensorDict(a=torch.zeros(2)).whole()["a"]
        tensor([0., 0.])
        """
