"""What a build may be felt by: nothing that other threads see, one run of what reaches outside, no copies of data."""

from __future__ import annotations

import builtins
import copy
import logging
import multiprocessing
import random
import socket
import subprocess
import sys
import threading
import time
import tracemalloc
import warnings
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from numpy.random import rand
from torch import Tensor, nn
from torch.distributions import Distribution, Normal

from tensorclass import TensorClass
from tensorclass.errors import BuildError
from tensorclass.nn import TensorClassSequential
from tensorclass.nn.probe import _fake
from tensorclass.nn.probe._effects import Reach
from tensorclass.typing import Float32
from tests.nn._pipelines import step
from tests.nn._zoo import pipeline

V = ("f 8",)
log = logging.getLogger("tests.effects")
WORDS = {f"word {i}": i for i in range(20_000)}
NESTED = {f"word {i}": (i, [str(i)]) for i in range(20_000)}
CALLS: list[str] = []
SHARED = multiprocessing.Value("i", 0)
LOCK = threading.Lock()


def note(what: str) -> None:
    """Stand for the outside: a raw socket pair, whose other end counts."""
    ENDS[0].send(what.encode() + b"\n")


ENDS = socket.socketpair()
ENDS[1].setblocking(False)


def received() -> list[str]:
    """What was sent since the last time."""
    try:
        return ENDS[1].recv(10_000).decode().split()
    except BlockingIOError:
        return []


class Noisy(nn.Module):
    """Effects in a method that forward calls, around parameters."""

    def __init__(self, effect: Callable[[str], None]) -> None:
        super().__init__()
        self.linear, self.effect = nn.Linear(8, 8), effect

    def forward(self, x: Tensor) -> Tensor:
        """Calls the method."""
        return self.inner(x)

    def inner(self, x: Tensor) -> Tensor:
        """Has the effect."""
        self.effect("run")
        return self.linear(x)


class Service:
    """A plain object with a method."""

    def __call__(self, x: Tensor) -> Tensor:
        """Has the effect."""
        note("run")
        return x


def by_socket(x: Tensor) -> Tensor:
    """Sends."""
    note("run")
    return x


def nested(x: Tensor) -> Tensor:
    """Sends, two calls deep."""

    def inner() -> Tensor:
        return by_socket(x)

    return inner()


TABLE = {"f": by_socket}
CARRIERS: dict[str, Callable[[], Any]] = {
    "function": lambda: by_socket,
    "nested function": lambda: nested,
    "lambda": lambda: lambda x: (note("run"), x)[1],
    "module": lambda: Noisy(note),
    "in a sequence": lambda: nn.Sequential(nn.Linear(8, 8), Noisy(note)),
    "bound method": lambda: Noisy(note).inner,
    "object": Service,
    "dispatch table": lambda: lambda x: TABLE["f"](x),  # noqa: PLW0108  # looked up when it runs
    "default": lambda: lambda x, f=by_socket: f(x),
}


@pytest.mark.parametrize("mode", [True, "run"])
@pytest.mark.parametrize("make", CARRIERS.values(), ids=CARRIERS)
def test_effects_happen_once(make: Callable[[], Any], mode: Any) -> None:
    """However the effect is reached, a build has it once; parts and copies have it no more."""
    received()
    built = pipeline(make(), V, V, probe=mode)
    assert received() == ["run"]
    assert built.diagnostics == ()
    _ = built[:1]
    assert received() == []


def test_the_one_run_is_judged() -> None:
    """What it makes is compared with the declaration; what it rejects is an error where its sizes are declared."""

    def wrong(x: Tensor) -> Tensor:
        note("run")
        return x[..., :3]

    received()
    with pytest.raises(BuildError, match="E114"):
        pipeline(wrong, V, V)
    assert received() == ["run"]
    with pytest.raises(BuildError, match="E108"):
        pipeline(Noisy(note), ("f 5",), V)
    assert received() == ["run"]
    built = pipeline(Noisy(note), ("f n",), V)  # 8 is not searched for
    assert received() == ["run"]
    assert [d.code for d in built.diagnostics] == ["N302"]
    assert "ran only once" in built.diagnostics[0].message


@pytest.mark.filterwarnings("ignore:warning.W205")
def test_it_runs_when_sizes_are_settled() -> None:
    """What other modules find out about a dim is known to the one run."""

    class Wide(TensorClass):
        x: Float32[Tensor, "_"]

    class Made(TensorClass):
        y: Float32[Tensor, "8"]
        z: Float32[Tensor, "8"]

    steps = step(Noisy(note), Wide.x, Made.y), step(nn.Linear(8, 8), Wide.x, Made.z)
    received()
    built = TensorClassSequential(*steps, input=Wide, output=Made)
    assert [d.code for d in built.diagnostics] == ["W205"]
    assert received() == ["run"]


class Writer:
    """Counts what is printed."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def write(self, text: str) -> None:
        """Keep it."""
        self.lines.append(text)

    def flush(self) -> None:
        """Nothing to do."""


def test_prints_files_and_sleeps(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The usual effects are seen in the code, whatever they are called by."""
    file, out, naps = tmp_path / "log", Writer(), []
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(time, "sleep", naps.append)

    def loud(x: Tensor) -> Tensor:
        print("run", end="")
        return x

    def filed(x: Tensor) -> Tensor:
        with file.open("a") as handle:
            handle.write("run\n")
        return x

    def slow(x: Tensor) -> Tensor:
        time.sleep(1)
        return x

    for call in (loud, filed, slow):
        pipeline(call, V, V)
    assert out.lines == ["run"] or "".join(out.lines) == "run"
    assert file.read_text() == "run\n"
    assert naps == [1]


OUTSIDE: dict[str, Callable[[Tensor], object]] = {
    "print": lambda x: print(x, x),
    "print itself": print,
    "open": lambda x: open("x"),  # noqa: SIM115  # never run
    "builtins": lambda x: builtins.print(x, x),
    "logger": lambda x: log.info("x"),
    "warning": lambda x: warnings.warn("x", stacklevel=1),
    "time": lambda x: time.perf_counter(),
    "process": lambda x: subprocess.run(["x"], check=True),
    "lock": lambda x: LOCK.acquire(),
    "shared memory": lambda x: SHARED.get_lock(),
    "seeding torch": lambda x: torch.manual_seed(0),
    "saving": lambda x: torch.save(x, "x"),
    "numpy file": lambda x: np.savetxt("x", x),
    "exec": lambda x: exec("x", {"x": x}),
    "undefined": lambda x: nowhere(x, x),  # that is the point
}
PURE: dict[str, Any] = {
    "torch": torch.relu,
    "layer": nn.Transformer(8, 2, batch_first=True),
    "scripted": torch.jit.script(nn.Linear(8, 8)),
    "compiled": torch.compile(nn.Linear(8, 8)),
    "counter": lambda x: CALLS.append("x") or x,
    "random": lambda x: x * random.random() + np.random.rand() + rand(),
    "table": lambda x: x * WORDS["word 1"],
    "nested table": lambda x: x * NESTED["word 1"][0],
    "builtins": lambda x: max(len(x), sum(range(3))) * x,
    "unused method": Noisy(lambda what: None),
}


@pytest.mark.parametrize("call", OUTSIDE.values(), ids=OUTSIDE)
def test_what_reaches_outside(call: Any) -> None:
    """It is seen without running anything, and told."""
    assert Reach.of(call).outside


@pytest.mark.parametrize("call", PURE.values(), ids=PURE)
def test_what_does_not(call: Any) -> None:
    """What only computes, or changes what is copied, runs at all sizes."""
    assert Reach.of(call).outside == ""


# ---- opting out --------------------------------------------------------------------------------------------------


class Unprobed(Noisy):
    """A module that is not run."""

    __tensorclass_probe__: ClassVar[bool] = False


def test_opting_out() -> None:
    """A class, an instance inside of another module, or a function says that it is not to be run by a check."""

    def function(x: Tensor) -> Tensor:
        note("run")
        return x

    function.__tensorclass_probe__ = False  # type: ignore[attr-defined]  # functions take any
    received()
    carriers = Unprobed(note), nn.Sequential(nn.Linear(8, 8), Unprobed(note)), Unprobed(note).inner, function
    for target in (*carriers, lambda x: function(x) * 1):
        built = pipeline(target, V, V)
        assert [d.code for d in built.diagnostics] == ["N302"]
        assert "__tensorclass_probe__ = False" in built.diagnostics[0].message
        built.check(values=True)
        assert received() == []
        built(built.input_class(torch.ones(2, 8)))
        assert received() == ["run"]


# ---- data --------------------------------------------------------------------------------------------------------


class Tables(nn.Module):
    """Large data of every kind, some of it in plain objects."""

    def __init__(self, write: bool) -> None:
        super().__init__()
        size = range(20_000)
        self.tables: tuple[Any, ...] = (
            {str(i): i for i in size}, list(size), set(size), deque(size), OrderedDict((i, i) for i in size),
            defaultdict(int, {i: i for i in size}), {i: (i, [i]) for i in size}, tuple(size), np.zeros(20_000),
            Counter({i: i for i in size}),
        )  # fmt: skip
        self.words, self.array, self.write = self.tables[0], self.tables[8], write

    def forward(self, x: Tensor) -> Tensor:
        """Reads."""
        return x + self.words["1"] + float(self.array[1])


class WritingTables(Tables):
    """The same, with writes."""

    def forward(self, x: Tensor) -> Tensor:
        """Writes into a dict, a list, an array."""
        self.words["new"] = 1
        self.array[0] = 7
        self.tables[1].append(1)
        self.tables[2].add(-1)
        return super().forward(x)


def contents(module: Tables) -> list[Any]:
    """What the tables hold."""
    return [table.tolist() if isinstance(table, np.ndarray) else copy.copy(table) for table in module.tables]


def test_data_is_shared() -> None:
    """Data that nothing writes into is not copied: a build takes no memory for it."""
    module = Tables(False)
    pipeline(Tables(False), V, V)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        assert pipeline(module, V, V).diagnostics == ()
        used = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    assert used < sys.getsizeof(module.words) + 2**20  # looking at a table takes a list of its inner ones


def test_data_that_is_written_is_copied() -> None:
    """The user's data stays as it is where a module writes into it."""
    module = WritingTables(True)
    before = contents(module)
    assert pipeline(module, V, V).diagnostics == ()
    assert contents(module) == before


def test_data_that_holds_itself() -> None:
    """A list in itself is looked at once."""
    loop: list[Any] = [1]
    loop.append(loop)
    assert pipeline(lambda x: x * loop[0], V, V).diagnostics == ()
    assert len(loop) == 2


# ---- other threads -----------------------------------------------------------------------------------------------


def drawing(x: Tensor) -> Tensor:
    """Draws from everything."""
    return nn.functional.dropout(x * random.random() + float(np.random.rand()) + rand()) + torch.rand_like(x)


def states() -> list[Any]:
    """The global generators."""
    return [torch.get_rng_state().tolist(), random.getstate(), [str(part) for part in np.random.get_state()]]


def rejected() -> None:
    """Real values confirm that a module is wrong."""
    with pytest.raises(BuildError):
        pipeline(REJECTED, V, V)


REJECTED = nn.Sequential(nn.Dropout(), nn.Linear(5, 8))
BUILDS: dict[str, Callable[[], Any]] = {
    "fake": lambda: pipeline(drawing, V, V),
    "real": lambda: pipeline(drawing, V, V, probe="run"),
    "values": lambda: pipeline(nn.Dropout(), V, V).check(values=True),
    "real after fake": rejected,
    "distribution": lambda: pipeline(lambda x: Normal(x, x.exp()).rsample(), V, V),
    "warning": lambda: pipeline(
        lambda x: nn.functional.conv1d(x[:, None], x[:1, None, :2], padding="same")[:, 0], V, V
    ),
}


@pytest.mark.parametrize("build", BUILDS.values(), ids=BUILDS)
def test_generators_are_not_touched(build: Callable[[], Any]) -> None:
    """A build neither draws from the global generators nor sets them back."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        before = states()
        build()
        assert states() == before


def test_other_threads_notice_nothing() -> None:
    """While pipelines are built, another thread draws, warns, logs and validates as ever."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for build in BUILDS.values():
            build()  # what is imported for the first build is there
    done, problems = threading.Event(), []
    generators = torch.random.default_generator, random, np.random.mtrand._rand
    torch.manual_seed(1), random.seed(1), np.random.seed(1)
    expected = [(torch.rand(()).item(), random.random(), np.random.rand()) for _ in range(3000)]
    torch.manual_seed(1), random.seed(1), np.random.seed(1)
    filters = warnings.filters
    drawn: list[tuple[float, float, float]] = []
    logger = logging.getLogger(_fake._PRIVATE)

    def watch() -> None:
        while len(drawn) < len(expected) and not (done.is_set() and len(drawn) > 200):
            drawn.append((torch.rand(()).item(), random.random(), np.random.rand()))
            if warnings.filters is not filters:
                problems.append("filters")
            if not Distribution._validate_args:
                problems.append("validation")
            if logger.disabled or not logger.filter(logging.makeLogRecord({"msg": "x"})):
                problems.append("logger")
            try:
                Normal(torch.zeros(()), torch.tensor(-1.0), validate_args=None)
            except ValueError:
                continue
            problems.append("not validated")

    before, Distribution._validate_args = Distribution._validate_args, True
    try:
        thread = threading.Thread(target=watch)
        thread.start()
        for _ in range(2):
            for name in ("fake", "real", "values", "distribution"):
                BUILDS[name]()
        done.set()
        thread.join()
    finally:
        Distribution._validate_args = before
    assert problems == []
    assert drawn == expected[: len(drawn)]
    assert generators == (torch.random.default_generator, random, np.random.mtrand._rand)


def test_warnings_of_modules_are_left_alone() -> None:
    """A module that warns is heard; where warnings are errors, it is left to the first call."""

    def warns(x: Tensor) -> Tensor:
        warnings.warn("look out", UserWarning, stacklevel=1)
        return x

    with pytest.warns(UserWarning, match="look out") as found:
        pipeline(warns, V, V)
    assert len(found) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        built = pipeline(warns, V, V)
    assert [d.code for d in built.diagnostics] == ["N302"]


@pytest.mark.slow
def test_the_first_build_of_a_process() -> None:
    """Importing the compiler turns validation off for the process: a build leaves it on, and says what it imported."""
    program = (
        "import logging, sys\nlogging.basicConfig(level='INFO', stream=sys.stdout)\n"
        "from tests.nn._zoo import *\nfrom torch.distributions import Distribution\n"
        "assert Distribution._validate_args\n"
        "pipeline(nn.Linear(3000, 3000), ('f 3000',), ('f 3000',))\nassert Distribution._validate_args\n"
    )
    found = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert "imported torch._dynamo in" in found.stdout
    program = program.replace("('f 3000',))", "('f 3000',), probe='run')")
    found = subprocess.run(
        [sys.executable, "-c", program + "assert 'torch._dynamo' not in sys.modules"],
        check=True,
        capture_output=True,
        text=True,
    )
    assert found.stdout == ""
