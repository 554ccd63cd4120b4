# Written by `tensorclass stubs` from torch's own; run it again after an update of torch.
from __future__ import annotations
from collections.abc import Iterator as _Iterator, Sequence as _Sequence
from typing import TypeVar as _TypeVar, overload as _overload
from tensorclass import TensorCollection as _TensorCollection
from tensorclass.core._base import Exactly as _Exactly
_Batch = _TypeVar("_Batch", bound=_TensorCollection)
r"""Definition of the DataLoader and associated iterators that subclass _BaseDataLoaderIter.

To support these two classes, in `./_utils` we define many utility methods and
functions to be run in multiprocessing. E.g., the data loading worker loop is
in `./_utils/worker.py`.
"""
import contextlib
import functools
import itertools
import logging
import multiprocessing as python_multiprocessing
import os
import queue
import threading
import warnings
import weakref
from collections.abc import Callable
from typing import Any, Generic, NoReturn, TYPE_CHECKING, TypeVar
from typing_extensions import Self
import torch
import torch.distributed as dist
import torch.utils.data.graph_settings
from torch._utils import ExceptionWrapper
from torch.utils.data import _utils
from torch.utils.data.datapipes.datapipe import (
    _IterDataPipeSerializationWrapper,
    _MapDataPipeSerializationWrapper,
    IterDataPipe,
    MapDataPipe,
)
from torch.utils.data.dataset import Dataset, IterableDataset
from torch.utils.data.sampler import (
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
)
if TYPE_CHECKING:
    from collections.abc import Iterable
__all__ = [
    "DataLoader",
    "get_worker_info",
    "default_collate",
    "default_convert",
]
_T = TypeVar("_T")
_T_co = TypeVar("_T_co", covariant=True)
_worker_init_fn_t = Callable[[int], None]
_collate_fn_t = Callable[[list[_T]], Any]
default_collate: _collate_fn_t = _utils.collate.default_collate
default_convert = _utils.collate.default_convert
get_worker_info = _utils.worker.get_worker_info
logger = logging.getLogger(__name__)
_persistent_workers_atexit_lock = threading.Lock()
_persistent_workers_atexit_registered = False
_persistent_workers_atexit: weakref.WeakSet[_MultiProcessingDataLoaderIter] = (
    weakref.WeakSet()
)

class _DatasetKind:
    Map = 0
    Iterable = 1
    @staticmethod
    def create_fetcher(kind, dataset, auto_collation, collate_fn, drop_last): ...


class _InfiniteConstantSampler(Sampler):
    r"""Analogous to ``itertools.repeat(None, None)``.

    Used as sampler for :class:`~torch.utils.data.IterableDataset`.
    """
    def __iter__(self): ...


class DataLoader(Generic[_T_co]):
    r"""
    Data loader combines a dataset and a sampler, and provides an iterable over the given dataset.

    The :class:`~torch.utils.data.DataLoader` supports both map-style and
    iterable-style datasets with single- or multi-process loading, customizing
    loading order and optional automatic batching (collation) and memory pinning.

    See :py:mod:`torch.utils.data` documentation page for more details.

    Args:
        dataset (Dataset): dataset from which to load the data.
        batch_size (int, optional): how many samples per batch to load
            (default: ``1``).
        shuffle (bool, optional): set to ``True`` to have the data reshuffled
            at every epoch (default: ``False``).
        sampler (Sampler or Iterable, optional): defines the strategy to draw
            samples from the dataset. Can be any ``Iterable`` with ``__len__``
            implemented. If specified, :attr:`shuffle` must not be specified.
        batch_sampler (Sampler or Iterable, optional): like :attr:`sampler`, but
            returns a batch of indices at a time. Mutually exclusive with
            :attr:`batch_size`, :attr:`shuffle`, :attr:`sampler`,
            and :attr:`drop_last`.
        num_workers (int, optional): how many subprocesses to use for data
            loading. ``0`` means that the data will be loaded in the main process.
            (default: ``0``)
        collate_fn (Callable, optional): merges a list of samples to form a
            mini-batch of Tensor(s).  Used when using batched loading from a
            map-style dataset.
        pin_memory (bool, optional): If ``True``, the data loader will copy Tensors
            into device/CUDA pinned memory before returning them.  If your data elements
            are a custom type, or your :attr:`collate_fn` returns a batch that is a custom type,
            see the example below.
        drop_last (bool, optional): set to ``True`` to drop the last incomplete batch,
            if the dataset size is not divisible by the batch size. If ``False`` and
            the size of dataset is not divisible by the batch size, then the last batch
            will be smaller. (default: ``False``)
        timeout (numeric, optional): if positive, the timeout value for collecting a batch
            from workers. Should always be non-negative. (default: ``0``)
        worker_init_fn (Callable, optional): If not ``None``, this will be called on each
            worker subprocess with the worker id (an int in ``[0, num_workers - 1]``) as
            input, after seeding and before data loading. (default: ``None``)
        multiprocessing_context (str or multiprocessing.context.BaseContext, optional): If
            ``None``, the default
            `multiprocessing context <https://docs.python.org/3/library/multiprocessing.html#contexts-and-start-methods>`_ # noqa: D401
            of your operating system will
            be used. (default: ``None``)
        generator (torch.Generator, optional): If not ``None``, this RNG will be used
            by RandomSampler to generate random indexes and multiprocessing to generate
            ``base_seed`` for workers. (default: ``None``)
        prefetch_factor (int, optional, keyword-only arg): Number of batches loaded
            in advance by each worker. ``2`` means there will be a total of
            2 * num_workers batches prefetched across all workers. (default value depends
            on the set value for num_workers. If value of num_workers=0 default is ``None``.
            Otherwise, if value of ``num_workers > 0`` default is ``2``).
        persistent_workers (bool, optional): If ``True``, the data loader will not shut down
            the worker processes after a dataset has been consumed once. This allows to
            maintain the workers `Dataset` instances alive. (default: ``False``)
        pin_memory_device (str, optional): Deprecated, the current :ref:`accelerator<accelerators>`
            will be used as the device if ``pin_memory=True``.
        in_order (bool, optional): If ``False``, the data loader will not enforce that batches
            are returned in a first-in, first-out order. Only applies when ``num_workers > 0``. (default: ``True``)


    .. warning:: If the ``spawn`` start method is used, :attr:`worker_init_fn`
                 cannot be an unpicklable object, e.g., a lambda function. See
                 :ref:`multiprocessing-best-practices` on more details related
                 to multiprocessing in PyTorch.

    .. warning:: ``len(dataloader)`` heuristic is based on the length of the sampler used.
                 When :attr:`dataset` is an :class:`~torch.utils.data.IterableDataset`,
                 it instead returns an estimate based on ``len(dataset) / batch_size``, with proper
                 rounding depending on :attr:`drop_last`, regardless of multi-process loading
                 configurations. This represents the best guess PyTorch can make because PyTorch
                 trusts user :attr:`dataset` code in correctly handling multi-process
                 loading to avoid duplicate data.

                 However, if sharding results in multiple workers having incomplete last batches,
                 this estimate can still be inaccurate, because (1) an otherwise complete batch can
                 be broken into multiple ones and (2) more than one batch worth of samples can be
                 dropped when :attr:`drop_last` is set. Unfortunately, PyTorch can not detect such
                 cases in general.

                 See `Dataset Types`_ for more details on these two types of datasets and how
                 :class:`~torch.utils.data.IterableDataset` interacts with
                 `Multi-process data loading`_.

    .. warning:: See :ref:`reproducibility`, and :ref:`dataloader-workers-random-seed`, and
                 :ref:`data-loading-randomness` notes for random seed related questions.

    .. warning:: Setting `in_order` to `False` can harm reproducibility and may lead to a skewed data
                 distribution being fed to the trainer in cases with imbalanced data.
    """
    dataset: Dataset[_T_co]
    batch_size: int | None
    num_workers: int
    pin_memory: bool
    drop_last: bool
    timeout: float
    sampler: Sampler | Iterable
    pin_memory_device: str
    prefetch_factor: int | None
    _iterator: _BaseDataLoaderIter | None
    __initialized = False
    @_overload
    def __init__(
        self,
        dataset: _Exactly[_T_co],
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Sampler | Iterable | None = None,
        batch_sampler: Sampler[list] | Iterable[list] | None = None,
        num_workers: int = 0,
        collate_fn: None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: _worker_init_fn_t | None = None,
        multiprocessing_context=None,
        generator=None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None: ...
    @_overload
    def __init__(
        self: DataLoader[Any],
        dataset: Dataset[Any],
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Sampler | Iterable | None = None,
        batch_sampler: Sampler[list] | Iterable[list] | None = None,
        num_workers: int = 0,
        *, collate_fn: _collate_fn_t,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: _worker_init_fn_t | None = None,
        multiprocessing_context=None,
        generator=None,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None: ...
    @_overload
    def __init__(
        self,
        dataset: Dataset[_T_co],
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Sampler | Iterable | None = None,
        batch_sampler: Sampler[list] | Iterable[list] | None = None,
        num_workers: int = 0,
        collate_fn: _collate_fn_t | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: _worker_init_fn_t | None = None,
        multiprocessing_context=None,
        generator=None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None: ...
    def _get_iterator(self) -> _BaseDataLoaderIter: ...
    @property
    def multiprocessing_context(self): ...
    @multiprocessing_context.setter
    def multiprocessing_context(self, multiprocessing_context) -> None: ...
    def __setattr__(self, attr, val) -> None: ...
    @_overload
    def __iter__(self: DataLoader[_TensorCollection]) -> _Iterator[_T_co]: ...
    @_overload
    def __iter__(self) -> _BaseDataLoaderIter: ...
    @property
    def _auto_collation(self): ...
    @property
    def _index_sampler(self): ...
    def __len__(self) -> int: ...
    def check_worker_number_rationality(self) -> None: ...
    worker_init_fn: _worker_init_fn_t | None
    in_order: bool
    generator: _Any
    persistent_workers: bool
    _IterableDataset_len_called: _Any
    _dataset_kind: _Any
    __multiprocessing_context: _Any


class _BaseDataLoaderIter:
    def __init__(self, loader: DataLoader) -> None: ...
    def __iter__(self) -> Self: ...
    def _reset(self, loader, first_iter=False) -> None: ...
    def _next_index(self): ...
    def _next_data(self) -> NoReturn: ...
    def __next__(self) -> Any: ...
    def __len__(self) -> int: ...
    def __getstate__(self): ...
    _dataset: _Any
    _shared_seed: _Any
    _pg: _Any
    _dataset_kind: _Any
    _IterableDataset_len_called: _Any
    _auto_collation: _Any
    _drop_last: _Any
    _index_sampler: _Any
    _num_workers: _Any
    _world_size: _Any
    _rank: _Any
    _pin_memory: _Any
    _pin_memory_device: _Any
    _timeout: _Any
    _collate_fn: _Any
    _sampler_iter: _Any
    _base_seed: _Any
    _persistent_workers: _Any
    _num_yielded: _Any
    _profile_name: _Any


class _SingleProcessDataLoaderIter(_BaseDataLoaderIter):
    def __init__(self, loader) -> None: ...
    def _next_data(self): ...
    _dataset_fetcher: _Any


class _MultiProcessingDataLoaderIter(_BaseDataLoaderIter):
    r"""Iterates once over the DataLoader's dataset, as specified by the sampler."""
    def __init__(self, loader) -> None: ...
    def _reset(self, loader, first_iter=False) -> None: ...
    def _try_get_data(self, timeout=_utils.MP_STATUS_CHECK_INTERVAL): ...
    def _get_data(self): ...
    def _next_data(self): ...
    def _try_put_index(self) -> None: ...
    def _process_data(self, data, worker_idx): ...
    def _mark_worker_as_unavailable(self, worker_id, shutdown=False) -> None: ...
    def _shutdown_workers(self) -> None: ...
    @staticmethod
    def _clean_up_persistent_workers_atexit() -> None: ...
    def _register_persistent_workers_atexit(self) -> None: ...
    def __del__(self) -> None: ...
    _prefetch_factor: _Any
    _in_order: _Any
    _worker_init_fn: _Any
    _worker_result_queue: _Any
    _worker_pids_set: _Any
    _shutdown: _Any
    _workers_done_event: _Any
    _index_queues: _Any
    _workers: _Any
    _pin_memory_thread_done_event: _Any
    _data_queue: _Any
    _pin_memory_thread: _Any
    _send_idx: _Any
    _rcvd_idx: _Any
    _task_info: _Any
    _tasks_outstanding: _Any
    _workers_status: _Any
    _workers_num_tasks: _Any
    _worker_queue_idx_cycle: _Any

def _get_distributed_settings(): ...
def _sharding_worker_init_fn(worker_init_fn, world_size, rank_id, worker_id) -> None: ...
def _share_dist_seed(generator, pg): ...
