"""A sequence of batches as one container: their columns are written to files, which are mapped in the end."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Any

import torch
from torch import Tensor

from ...ops import cat
from .._atomic import naming, opened_file, scratch
from .._columns import Column, Form, ObjectColumn, Parts, RaggedColumn, take_apart
from .._map import Extent, mapped
from .._memory import buffer_of
from ._columns import some


@contextmanager
def spool_batches(batches: Iterable[Any], path: str) -> Iterator[Any]:
    """Batches as one container. Its tensors are in files next to a path until the end of the block.

    A batch with other columns is joined in memory; the error of the join names the difference. Python objects stay in
    memory; equal objects of a batch are stored once.

    Raises:
        StructureError: for batches that can't be joined, and for no batches.
        OSError: if the file can't be used. The message names the path.
    """
    given = some(batches)
    held = [one for one in (next(given), next(given, None)) if one is not None]
    if len(held) == 1:
        yield held[0]
        return
    with scratch(path, "1") as folder:
        spool = _Spool(folder)
        rest: list[Any] = []
        for batch in chain((held.pop(0) for _ in range(2)), given):
            parts = take_apart(batch)
            if not all([tensor.is_contiguous() for tensor in parts.tensors]):  # a default value, expanded over the rows
                parts = take_apart(batch.clone())
            if rest or not spool.add(parts, len(batch)):
                rest.append(batch)
        joined = [spool.whole(), *rest] if spool.rows or not rest else rest
        yield cat(joined) if rest else joined[0]


class _Spool:
    """The files of some columns."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.form: Form | None = None
        self.rows = 0
        self.shapes: list[list[int]] = []
        self.dtypes: list[torch.dtype] = []
        self.tables: list[list[Any]] = []

    def add(self, parts: Parts, rows: int) -> bool:
        """Append the columns of a batch to the files; False if its columns differ."""
        if parts.form is None or (self.form is not None and parts.form != self.form):
            return False
        if self.form is None:
            self.form = parts.form
            self.shapes = [[0, *tensor.shape[1:]] for tensor in parts.tensors]
            self.dtypes = [tensor.dtype for tensor in parts.tensors]
            self.tables = [[] for _ in parts.tables]
        shifts = dict(self._added_offsets(parts.form, iter(range(len(parts.tensors)))))
        for at, tensor in enumerate(parts.tensors):
            whole = (tensor + shifts[at] if at in shifts else tensor).contiguous()
            with naming(self._path(at)), open(self._path(at), "ab") as file:
                file.write(buffer_of(whole))
            self.shapes[at][0] += len(whole)
        for table, objects in zip(self.tables, parts.tables, strict=True):
            table += objects
        self.rows += rows
        return True

    def _added_offsets(self, form: Form, places: Iterator[int]) -> Iterator[tuple[int, Tensor]]:
        """The offsets that are added to the spans of ragged elements and to the positions of objects."""
        for _, part in form.entries:
            if isinstance(part, Form):
                yield from self._added_offsets(part, places)
            elif isinstance(part, RaggedColumn):
                at, values = next(places), next(places)
                yield at, torch.tensor([self.shapes[values][0], 0])
            elif isinstance(part, ObjectColumn):
                yield next(places), torch.tensor(len(self.tables[part.number]))
            elif isinstance(part, Column):
                next(places)

    def whole(self) -> Any:
        """All rows; the tensors are mapped."""
        assert self.form is not None  # `add` was called
        found = []
        for at, (dtype, shape) in enumerate(zip(self.dtypes, self.shapes, strict=True)):
            size = torch.Size(shape).numel() * dtype.itemsize
            with opened_file(self._path(at)) as (fd, _):
                found += mapped(fd, size, self._path(at), [Extent(0, size, dtype, shape)])
        return self.form.over(iter(found), self.tables, self.rows)

    def _path(self, at: int) -> str:
        return os.path.join(self.folder, f"{at}")
