"""Runs a copy of one callable on temporary values, and compares the results with its declaration."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from ..._deferred import is_dtensor
from ...core import Path, TensorCollection
from ...errors import MissingKeyError, UnsupportedOperationError
from ...store import RaggedTensor, Unbatched
from ..check._declared import Use
from ..check._unify import Rest
from ..parts._results import describe, outputs
from ..parts._seeded import Seeded
from ..parts._stage import Stage
from ._copy import Isolator
from ._examples import over_entries
from ._fake import FakeTensors
from ._quiet import Assuming
from ._sizes import SweepSizes, Wrong


class RealTensors:
    """Real tensors: random floats, and one number (0) for values that may be indices; reproducible.

    Args:
        device: The device on which modules draw, from a separate generator.
        number: The value in tensors of integers. Over 1, it is the value of the first element, and the others are 1:
            as lengths they are uneven, and in descending order.
    """

    real = True

    def __init__(self, device: torch.device, number: int = 0) -> None:
        self.number = number
        self._generators: dict[torch.device, torch.Generator] = {}
        self._drawing = Seeded(torch.Generator(device))
        self._assuming = Assuming()

    def generator(self, device: torch.device) -> torch.Generator:
        """The generator of a device, seeded."""
        if device not in self._generators:
            self._generators[device] = torch.Generator(device).manual_seed(0)
        return self._generators[device]

    def tensor(self, shape: Sequence[int], dtype: torch.dtype, device: torch.device) -> Tensor:
        """A real tensor of a shape."""
        if dtype.is_floating_point or dtype.is_complex:
            return torch.rand(tuple(shape), device=device, generator=self.generator(device)).to(dtype)
        made = torch.full(tuple(shape), min(self.number, 1), dtype=dtype, device=device)
        if self.number > 1 and made.ndim:
            made[:1] = self.number
        return made

    def close(self) -> None:
        """Drop the values of the last run."""
        self._assuming.forget()

    def copy(self, tensor: Tensor) -> Tensor:
        """A clone that requires grad if the original does."""
        if is_dtensor(tensor):  # a check sees the whole of a tensor whose pieces are on several ranks
            twin = self.tensor(tensor.shape, tensor.dtype, tensor.device)
        else:
            twin = tensor.detach().clone()
        if isinstance(tensor, torch.nn.Parameter):
            return torch.nn.Parameter(twin, requires_grad=tensor.requires_grad)
        return twin.requires_grad_(tensor.requires_grad)

    @contextmanager
    def running(self) -> Iterator[None]:
        """A block in which operations draw from a separate generator, the same numbers in each block."""
        self._drawing.generator.manual_seed(0)
        self._assuming.forget()
        with self._assuming, self._drawing:
            yield

    @property
    def crossed(self) -> Mapping[int, str]:
        """For each number of elements, an operation of the last run that pairs them all."""
        return self._assuming.crossed

    def is_blind(self, error: BaseException) -> bool:
        """Whether an operation could only draw from the global generator, and so was not run."""
        return isinstance(error, (UnsupportedOperationError, Warning))


Tensors = RealTensors | FakeTensors


@dataclass(frozen=True)
class Symptom:
    """A fault of one run, before it is formatted.

    `position` is the in or out field, `dim` the event dim, `expected` and `given` are for the message.
    """

    code: str
    position: int = 0
    dim: int | None = None
    expected: Any = None
    given: Any = None


@dataclass
class Outcome:
    """The outcome of one run of one module."""

    findings: list[Symptom] = field(default_factory=list)
    values: tuple[Any, ...] | None = None
    error: Exception | None = None
    crossed: str = ""
    """An operation that pairs every element of the batch with every other by chance."""


@dataclass(frozen=True)
class Run:
    """The data for a run of one stage."""

    index: int
    stage: Stage
    target: Callable[..., Any]
    writes: tuple[Use | None, ...]
    batch: int
    returned: Collection[str] = ()
    """The names of the values that the pipeline returns."""
    further: int = 0
    """How many further batch dims nested instances may have."""

    def __call__(
        self, tensors: Tensors, reads: Sequence[Any], sizes: SweepSizes, live: Mapping[Path, Any], isolator: Isolator
    ) -> Outcome:
        """Run a copy of the callable.

        Args:
            tensors: Makes new tensors.
            reads: The values of the in fields.
            sizes: The numbers of the dims; sizes of outputs are bound there.
            live: Values that must not change.
            isolator: Makes the copy.
        """
        target = isolator.copy(self.target)
        with tensors.running(), torch.enable_grad():  # a call may leave another mode
            before = {path: _state(value) for path, value in live.items()}
            try:
                result = self._call(target, reads)
            except Exception as error:  # the user's callable may raise anything
                return Outcome(error=error)
            changed = [path for path, value in live.items() if _state(value) != before[path]]
            within = {path[:n] for path in changed for n in range(1, len(path))}
            outcome = self._judge(result, sizes, [path for path in changed if path not in within])
            outcome.crossed = tensors.crossed.get(self.batch, "")
            return outcome

    def _call(self, target: Callable[..., Any], reads: Sequence[Any]) -> Any:
        how = getattr(self.stage, "how", None)
        return target(*reads) if how is None else how.call(target, reads)

    def _judge(self, result: Any, sizes: SweepSizes, changed: list[Path]) -> Outcome:
        """What is wrong with the result of a module: changed inputs, the number of outputs, and each output."""
        outcome = Outcome([Symptom("E109", given=path) for path in changed])
        label = f"module {self.index} `{self.stage.name}`"
        try:
            outcome.values = outputs(result, [None if use is None else use.slot for use in self.writes], label)
        except (TypeError, MissingKeyError) as error:
            outcome.findings.append(Symptom("E110", given=str(error).removeprefix(f"{label} ").strip('"')))
            return outcome
        for position, (use, value) in enumerate(zip(self.writes, outcome.values, strict=True)):
            if use is not None:
                found = self._compare(use, value, position, sizes)
                outcome.findings += [] if found is None else [found]
        return outcome

    def _compare(self, use: Use, value: Any, position: int, sizes: SweepSizes) -> Symptom | None:
        """The first difference between an output and its declaration; None if it fits."""
        spec = use.slot.spec
        if spec.optional and value is None:
            return None
        if not use.slot.known:
            return self._unnamed(use, value, position)
        ragged = value if spec.kind.is_ragged and isinstance(value, RaggedTensor) else None
        uneven = ragged is not None
        if not spec.kind.is_dense and not uneven:
            if spec.nested is None:
                return None
            if not isinstance(value, spec.nested):
                return Symptom("E111", position, given=describe(value))
            size = tuple(getattr(value, "batch_size", ()))
            fits = size[:1] == (self.batch,) and len(size) <= 1 + self.further
            return None if fits else Symptom("E112", position, given=size)
        if not uneven and not isinstance(value, Tensor):
            return Symptom("E111", position, given=describe(value))
        rows = value if ragged is None else ragged.values
        if use.place.dtype is not None and not use.place.dtype.accepts(rows.dtype):
            return Symptom("E111", position, given=str(rows.dtype).removeprefix("torch."))
        shape, batched = tuple(value.shape), batch_ndim(use, value, self.further)
        if (batched or uneven) and shape[: None if uneven else 1] != (self.batch,):
            return Symptom("E112", position, given=shape)
        first = int(uneven)  # the lengths are those that the module chooses
        try:
            sizes.compare(use.place.terms[first:], tuple(rows.shape[first or batched :]), (self.index, position))
        except Wrong as wrong:
            given = tuple(rows.shape[batched:])
            if wrong.dim is None:
                return Symptom("E113", position, None, wrong.expected + first, given)
            return Symptom("E114", position, wrong.dim + first, wrong.expected, given)
        return None

    def _unnamed(self, use: Use, value: Any, position: int) -> Symptom | None:
        """A tensor without a declaration has the batch dim; the result of the pipeline may be one number."""
        if not isinstance(value, Tensor) or value.shape[:1] == (self.batch,):
            return None
        number = not value.ndim and use.slot.path[0] in self.returned
        return None if number else Symptom("E112", position, given=tuple(value.shape))


def batch_ndim(use: Use | None, value: Any, further: int) -> int:
    """How many dims of a tensor are batch dims; with further ones, all that come before the event dims."""
    if use is not None and not use.batched:
        return 0
    if use is None or not further or len(use.slot.path) < 2 or any(isinstance(term, Rest) for term in use.place.terms):
        return 1
    return 1 + min(max(int(value.ndim) - len(use.place.terms) - 1, 0), further)


def empty(tensors: Tensors, shape: Sequence[int], dtype: torch.dtype, device: Any) -> Tensor:
    return tensors.tensor(shape, dtype, torch.device(device))


def _state(value: Any) -> Any:
    """What changes when a tensor is written in place, or a field of an instance; views share it with their base."""
    if isinstance(value, TensorCollection):
        return [(key, id(entry), _state(entry)) for key, entry in value._entries().items()]
    return (value._version, value.shape, value.dtype) if isinstance(value, Tensor) else None


def as_real(value: Any, tensors: RealTensors) -> Any:
    """A real value of the shape of a fake one."""

    def made(entry: Any) -> Any:
        if isinstance(entry, Tensor):
            return tensors.tensor(entry.shape, entry.dtype, entry.device)
        if isinstance(entry, Unbatched):
            return Unbatched(made(entry.tensor))
        if isinstance(entry, RaggedTensor):
            return RaggedTensor(made(entry.values), lengths=entry.lengths.flip(-1) if tensors.number else entry.lengths)
        return entry

    return over_entries(value, made)
