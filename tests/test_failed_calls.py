"""A call that fails keeps nothing: after an error is handled the batch is let go, without the garbage collector."""

from __future__ import annotations

import copy
import copyreg
import gc
import sys
import traceback
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from tensorclass import TensorClass, TensorClassDataset, TensorDict
from tensorclass.errors import HeldError
from tensorclass.nn import (
    CudaGraphModule,
    EnsembleModule,
    ProbabilisticTensorClassModule,
    ProbabilisticTensorClassSequential,
    ProbabilisticTensorDictModule,
    ProbabilisticTensorDictSequential,
    TensorClassModule,
    TensorClassModuleBase,
    TensorClassSequential,
    TensorDictModule,
    TensorDictSequential,
    dispatch,
)
from tensorclass.parallel import ThreadEngine
from tensorclass.typing import Float32


class Own(Exception):
    """An error of a user, whose constructor takes what it doesn't keep in `args`."""

    def __init__(self, code: int, *, text: str) -> None:
        super().__init__(code)
        self.text = text


ERRORS: dict[str, Callable[[], Exception]] = {
    "out of memory": lambda: torch.OutOfMemoryError("Tried to allocate 20.00 GiB"),
    "runtime": lambda: RuntimeError("size mismatch"),
    "key": lambda: KeyError("absent"),
    "of the user": lambda: Own(3, text="broken"),
}


class Boom(nn.Module):
    """A module that fails."""

    def __init__(self, error: Callable[[], Exception]) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(()))
        self.error = error

    def reset_parameters(self) -> None:
        """Nothing random."""

    def forward(self, x: Tensor) -> Tensor:
        held = x * 1  # a variable of the user's frame
        raise self.error()
        return held


class In(TensorClass):
    x: Float32[Tensor, "4"]


class Out(TensorClass):
    y: Float32[Tensor, "4"]


class Wide(TensorClass):
    loc: Float32[Tensor, "4"]
    scale: Float32[Tensor, "4"]


class Drawn(TensorClass):
    z: Float32[Tensor, "4"]


class Whole(TensorClassModuleBase[In, Out]):
    """A module from class to class."""

    def __init__(self, boom: Boom) -> None:
        super().__init__()
        self.boom = boom

    def forward(self, batch: In) -> Out:
        return Out(self.boom(batch.x))


class Dispatched(nn.Module):
    """A module of one's own that takes tensors or a container."""

    in_keys, out_keys = ["x"], ["y"]

    def __init__(self, boom: Boom) -> None:
        super().__init__()
        self.boom = boom

    @dispatch
    def forward(self, tensordict: TensorDict) -> TensorDict:
        tensordict["y"] = self.boom(tensordict["x"])
        return tensordict


def typed(boom: Boom) -> Any:
    """A module over typed fields."""
    return TensorClassModule(boom, in_fields=In.x, out_fields=Out.y)


def sequence(boom: Boom, **options: Any) -> Any:
    """Modules in a row, of which one fails."""
    return TensorClassSequential(
        TensorClassModule(nn.Linear(4, 4), in_fields=In.x, out_fields=Out.y),
        TensorClassModule(boom, in_fields=Out.y, out_fields=Wide.loc, **options),
        TensorClassModule(lambda y: y, in_fields=Out.y, out_fields=Wide.scale),
        input=In,
        output=Wide,
        probe=False,
    )


def keyed(boom: Boom, **options: Any) -> Any:
    """A module over keys."""
    return TensorDictModule(boom, in_keys=["x"], out_keys=["y"], **options)


def drawing(boom: Boom) -> Any:
    """A typed sequence that draws."""
    draw = ProbabilisticTensorClassModule(
        (Wide.loc, Wide.scale), Drawn.z, distribution_class=torch.distributions.Normal
    )
    modules = (
        TensorClassModule(boom, in_fields=In.x, out_fields=Wide.loc),
        TensorClassModule(lambda x: x, in_fields=In.x, out_fields=Wide.scale),
    )
    return ProbabilisticTensorClassSequential(*modules, draw, input=In, output=Drawn, probe=False)


def keyed_drawing(boom: Boom) -> Any:
    """A keyed sequence that draws."""
    first = TensorDictModule(lambda x: (boom(x), x), in_keys=["x"], out_keys=["loc", "scale"])
    draw = ProbabilisticTensorDictModule(["loc", "scale"], ["z"], distribution_class=torch.distributions.Normal)
    return ProbabilisticTensorDictSequential(first, draw)


MODULES: dict[str, tuple[Callable[[Boom], Any], type]] = {
    "typed": (typed, In),
    "sequence": (sequence, In),
    "sequence with checkpoints": (lambda boom: sequence(boom, checkpoint=True), In),
    "nested sequence": (lambda boom: TensorClassSequential(sequence(boom), input=In, output=Wide, probe=False), In),
    "copied sequence": (lambda boom: copy.deepcopy(sequence(boom)), In),
    "class to class": (Whole, In),
    "probabilistic sequence": (drawing, In),
    "distribution of a sequence": (lambda boom: drawing(boom).get_dist, In),
    "keyed": (keyed, TensorDict),
    "keyed by name": (lambda boom: TensorDictModule(boom, in_keys={"x": "x"}, out_keys=["y"]), TensorDict),
    "keyed into another": (lambda boom: keyed(boom, inplace=False), TensorDict),
    "keyed sequence": (lambda boom: TensorDictSequential(keyed(boom)), TensorDict),
    "keyed on a typed batch": (keyed, In),
    "keyed probabilistic sequence": (keyed_drawing, TensorDict),
    "keyed distribution": (lambda boom: keyed_drawing(boom).get_dist, TensorDict),
    "ensemble": (lambda boom: EnsembleModule(keyed(boom), num_copies=2), TensorDict),
    "dispatched": (Dispatched, TensorDict),
    "cuda graph": (lambda boom: CudaGraphModule(keyed(boom)), TensorDict),
    "map in this thread": (lambda boom: lambda b: b.map(lambda part: boom(part["x"]), num_workers=0), TensorDict),
    "map in threads": (lambda boom: lambda b: b.map(lambda part: boom(part["x"]), engine="threads"), TensorDict),
    "map in own threads": (lambda boom: lambda b: in_threads(b, boom), TensorDict),
    "map iterator": (lambda boom: lambda b: list(b.map_iter(lambda part: boom(part["x"]), num_workers=0)), TensorDict),
    "apply": (lambda boom: lambda b: b.apply(boom), TensorDict),
    "with parameters": (lambda boom: lambda b: with_parameters(b, boom), TensorDict),
}


def in_threads(batch: Any, boom: Boom) -> None:
    """Map with threads of the caller."""
    with ThreadPoolExecutor(1) as executor:
        batch.map(lambda part: boom(part["x"]), engine=ThreadEngine(executor))


def with_parameters(batch: Any, boom: Boom) -> None:
    """A call with swapped parameters."""
    with TensorDict.from_module(boom).to_module(boom):
        boom(batch["x"])


def batch_of(cls: type, x: Tensor) -> Any:
    """Two elements."""
    return cls(x=x, batch_size=[2])


@contextmanager
def without_collector() -> Iterator[None]:
    """A place where nothing is collected."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def failing(call: Callable[[Any], object], batch: Any, expected: type) -> None:
    """One call, whose error is handled and dropped."""
    try:
        call(batch)
    except expected:
        return
    raise AssertionError("the call did not fail")


@pytest.mark.filterwarnings("ignore:.*CUDA.*", "ignore:.*reset_parameters.*")
@pytest.mark.parametrize("name", ERRORS)
@pytest.mark.parametrize("family", MODULES)
def test_a_failed_call_holds_nothing(family: str, name: str) -> None:
    """Whatever a module raises, the batch, its tensors and the module go when the error is handled."""
    make, cls = MODULES[family]
    error = ERRORS[name]
    call = make(Boom(error))
    failing(call, batch_of(cls, torch.ones(2, 4)), type(error()))  # what the first call makes is there
    with without_collector():
        x = torch.ones(2, 4)
        batch = batch_of(cls, x)
        seen = [weakref.ref(x), weakref.ref(batch), weakref.ref(call)]
        failing(call, batch, type(error()))
        del x, batch, call
        assert [ref() for ref in seen] == [None] * 3


class Row(TensorClass):
    n: Float32[Tensor, "4"]


def written(path: Path, rows: int = 8) -> TensorClassDataset[Row]:
    """A dataset of a few rows."""
    with TensorClassDataset.create(path, Row) as writer:
        writer.append(Row(torch.ones(rows, 4), batch_size=[rows]))
    return TensorClassDataset(path, Row)


READS: dict[str, Callable[[Path, Callable[[Any], Any]], object]] = {
    "map": lambda path, fn: TensorClassDataset(path, Row).map(fn, out=path.parent / "new", num_workers=0),
    "map in threads": lambda path, fn: TensorClassDataset(path, Row).map(fn, out=path.parent / "new", engine="threads"),
    "map that skips": lambda path, fn: TensorClassDataset(path, Row).map(
        fn, out=path.parent / "new", num_workers=0, errors="skip", cls=Row
    ),
    "filter": lambda path, fn: TensorClassDataset(path, Row).filter(fn, out=path.parent / "new", num_workers=0),
    "loader": lambda path, fn: list(torch.utils.data.DataLoader(TensorClassDataset(path, Row), 2, collate_fn=fn)),
    "batches": lambda path, fn: [fn(batch) for batch in TensorClassDataset(path, Row).batches(2)],
    "loader of batches": lambda path, fn: [fn(batch) for batch in TensorClassDataset(path, Row).loader(2)],
}


@pytest.mark.parametrize("name", ["out of memory", "key"])
@pytest.mark.parametrize("read", READS)
def test_a_failed_read_holds_nothing(tmp_path: Path, read: str, name: str) -> None:
    """What a function of a loader, or of a map over files, was given goes with its error."""
    seen: list[weakref.ref[Any]] = []

    def fail(rows: Any) -> Any:
        seen.append(weakref.ref(rows[0] if isinstance(rows, list) else rows))
        raise ERRORS[name]()

    written(tmp_path / "rows")
    with without_collector():
        with suppress(Exception):
            READS[read](tmp_path / "rows", fail)
        assert seen
        assert [ref() for ref in seen] == [None] * len(seen)


class Traced(Exception):
    """An error whose copies keep its traceback and causes, as those of all errors do once Dask is imported."""


def traced(error: BaseException) -> Traced:
    """An error with the traceback and causes of another one."""
    found = Traced(*error.args).with_traceback(error.__traceback__)
    found.__cause__, found.__context__ = error.__cause__, error.__context__
    return found


@pytest.mark.parametrize("engine", [{"num_workers": 0}, {"engine": "threads"}])
def test_copies_of_errors_hold_nothing(monkeypatch: pytest.MonkeyPatch, engine: dict[str, Any]) -> None:
    """A registered way to copy errors keeps neither the traceback nor the causes."""
    monkeypatch.setitem(copyreg.dispatch_table, Traced, lambda error: (traced, (error,)))

    def fail(part: Any) -> Any:
        try:
            raise KeyError("absent")
        except KeyError as error:
            raise Traced("broken") from error

    with without_collector():
        x = torch.ones(2, 4)
        seen = weakref.ref(x)
        failing(lambda batch: batch.map(fail, **engine), batch_of(TensorDict, x), Traced)
        del x
        assert seen() is None


class Exhausted(TorchDispatchMode):
    """Every operation of torch runs out of memory."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise torch.OutOfMemoryError("Tried to allocate 20.00 GiB")


FILES: dict[str, Callable[[Any, Path], object]] = {
    "save": lambda batch, path: batch.save(path / "a"),
    "save as one file": lambda batch, path: batch.save(path / "a.safetensors"),
    "memmap": lambda batch, path: batch.memmap(path / "a"),
    "archive": lambda batch, path: batch.save(path / "a.tdz"),
    "HDF5": lambda batch, path: batch.to_h5(path / "a.h5"),
    "JSON": lambda batch, path: batch.to_json(),
    "parquet": lambda batch, path: batch.to_parquet(path / "a.parquet"),
    "dataset": lambda batch, path: TensorClassDataset.create(path / "a", Row).append(batch),
    "dataset in shards": lambda batch, path: in_shards(batch, path / "a"),
    "consolidate": lambda batch, path: batch.consolidate(),
    "stack": lambda batch, path: torch.stack([batch, batch]),
    "arithmetic": lambda batch, path: batch + 1,
    "index": lambda batch, path: batch[torch.ones(2, dtype=torch.bool)],
}


def in_shards(batch: Any, path: Path) -> None:
    """Write a shard for each row."""
    with TensorClassDataset.create(path, Row, rows_per_shard=1) as writer:
        writer.append(batch)


@pytest.mark.parametrize("write", FILES)
def test_a_failed_write_holds_nothing(tmp_path: Path, write: str) -> None:
    """A file, dataset or container operation that runs out of memory lets its batch go."""

    def call(batch: Any) -> None:
        with Exhausted():
            FILES[write](batch, tmp_path)

    with suppress(Exception):  # what the first call makes is there
        call(Row(torch.ones(4, 2).T))
    with without_collector():
        x = torch.ones(4, 2).T  # not contiguous: it is copied before it is written
        batch = Row(x)
        seen = [weakref.ref(x), weakref.ref(batch)]
        failing(call, batch, Exception)
        del x, batch
        assert [ref() for ref in seen] == [None] * 2


# ---- one traceback ------------------------------------------------------------------------------------------------


def told(call: Callable[[Any], object], batch: Any) -> tuple[BaseException, list[str]]:
    """The error of a call, and the functions of its traceback."""
    with pytest.raises(Exception) as caught:  # any class
        call(batch)
    error = caught.value
    return error, [frame.name for frame in traceback.extract_tb(error.__traceback__)]


@pytest.mark.filterwarnings("ignore:.*CUDA.*", "ignore:.*reset_parameters.*")
@pytest.mark.parametrize("name", ERRORS)
@pytest.mark.parametrize("family", [name for name, (make, _) in MODULES.items() if make is not Whole])
def test_an_error_has_one_traceback(family: str, name: str) -> None:
    """The class and attributes stay, nothing is chained, and the last frame is that of the user's module."""
    make, cls = MODULES[family]
    wanted = ERRORS[name]()
    error, frames = told(make(Boom(ERRORS[name])), batch_of(cls, torch.ones(2, 4)))
    assert type(error) is type(wanted)
    assert vars(error).items() >= {k: v for k, v in vars(wanted).items() if k != "__notes__"}.items()
    assert error.__cause__ is None
    assert error.__context__ is None
    assert frames[-1] == "forward"


@pytest.mark.parametrize("family", ["typed", "sequence", "nested sequence", "probabilistic sequence", "keyed"])
def test_a_note_names_the_module(family: str) -> None:
    """The traceback ends with the module, its inputs and their shapes."""
    make, cls = MODULES[family]
    error, _ = told(make(Boom(ERRORS["runtime"])), batch_of(cls, torch.ones(2, 4)))
    text = "".join(traceback.format_exception(error)) if sys.version_info >= (3, 11) else str(error)
    last = [line for line in text.splitlines() if "failed on" in line]
    assert "float32 [2, 4]" in last[0]
    assert "`boom" in last[0] or ".boom_1`" in last[0]
    assert text.count("Traceback") <= 1


def test_held_errors_are_raised_again() -> None:
    """The first call raises the error itself, each later one a copy of the same class and text."""
    error = Own(3, text="broken")
    held = HeldError(error)
    with pytest.raises(Own) as first:
        held.reraise()
    assert first.value is error
    for _ in range(2):
        with pytest.raises(Exception, match="3"):
            held.reraise()
