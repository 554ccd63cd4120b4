"""Reading takes time in proportion to the input: every reader and message at n and 2n, ratio under 3.

The work of Python is counted, in executed instructions. What C does inside of one call can't be counted, so the time of
the thread is measured too, of the best of several tries: a quadratic reader has a ratio of 4 in each.
"""

from __future__ import annotations

import json
import sys
import time
import zipfile
from contextlib import suppress

import h5py
import pyarrow as pa
import pytest
import torch
from torch import Tensor

import tensorclass
from tensorclass import PerElement, TensorClass, TensorDict
from tensorclass.cli import main
from tensorclass.errors import TensorClassError
from tensorclass.io._values import decode, encode
from tensorclass.typing import Float32
from tests._marks import rest_is_slow

PRIME = 2**61 - 1
"""Integers that differ by multiples of it have one hash."""


class Numbers(TensorClass):
    """A field of each kind that is read from lists."""

    x: Float32[Tensor, "..."] | None
    t: PerElement[str] | None


def _instructions(call):
    """The executed instructions of Python of a call."""
    count = 0

    def trace(frame, event, arg):
        nonlocal count
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        count += event == "opcode"
        return trace

    for _ in range(2):
        sys.settrace(trace)
        try:
            call()
        finally:
            sys.settrace(None)
        if count:  # Python 3.12 may report no instruction the first time
            break
    return count


def _seconds(call):
    best = float("inf")
    for _ in range(3):
        start = time.thread_time()
        call()
        best = min(best, time.thread_time() - start)
    return best


def _quiet(call):
    with suppress(TensorClassError, ValueError, KeyError):
        call()


def _text(value):
    raw = value if isinstance(value, str) else json.dumps(value)
    return lambda folder: lambda: Numbers.from_json(raw)


def _file(name, text, read):
    def made(folder):
        (folder / name).write_text(text)
        return lambda: read(folder / name)

    return made


def _anchor(n):
    def made(folder):
        path, kind = folder / f"{n}.tdz", "<class 'tensordict._td.TensorDict'>"
        node = {"shape": [], "device": "None", "_type": kind}
        with zipfile.ZipFile(path, "w") as file:
            file.writestr("meta.json", json.dumps({**node, **{f"k{i}": {"type": "TensorDict"} for i in range(n)}}))
            for i in range(n):
                file.writestr(f"k{i}/meta.json", json.dumps(node))
        return lambda: tensorclass.load(path)

    return made


def _stored(n):
    def made(folder):
        path = folder / f"{n}.safetensors"
        TensorDict({f"k{i}": torch.zeros(1) for i in range(n)}).save(path)
        return lambda: tensorclass.load(path)

    return made


def _foreign_header(n):
    def made(folder):
        path = folder / f"f{n}.safetensors"
        names = {
            ".".join(["a"] * (i % 100) + [str(i)]): {"dtype": "U8", "shape": [0], "data_offsets": [0, 0]}
            for i in range(n)
        }
        raw = json.dumps(names).encode()
        path.write_bytes(len(raw).to_bytes(8, "little") + raw)
        return lambda: tensorclass.load(path)

    return made


def _h5(n):
    def made(folder):
        with h5py.File(folder / f"{n}.h5", "w") as file:
            here = file
            for _ in range(10):
                here = here.create_group("g")
            for i in range(n):
                file[f"k{i}"] = [1.0]
        return lambda: tensorclass.from_h5(folder / f"{n}.h5", batch_size=[]).to_tensordict()

    return made


def _command(*arguments, text):
    def made(folder):
        (folder / arguments[-1]).write_text(text)
        return lambda: main([*arguments[:-1], str(folder / arguments[-1])])

    return made


BOOK = {"cells": [{"cell_type": "code", "source": ""}]}
READERS = {
    # name: (n, the input of size n)
    "a repeated last key": (4_000, lambda n: _text("{" + ",".join(f'"k{i}":1' for i in range(n)) + ',"z":1,"z":1}')),
    "repeated keys": (4_000, lambda n: _text("{" + ",".join(f'"k{i // 2}":1' for i in range(n)) + "}")),
    "a long key above many": (4_000, lambda n: _text('{"' + "k" * 20 * n + '":[' + ",".join(['{"a":{"b":1}}'] * n)
                                                     + '],"y":1,"y":2}')),
    "unknown keys": (1_000, lambda n: _text({f"x{i}": 1 for i in range(n)})),
    "lists": (20_000, lambda n: _text({"x": [[1.5, 2.0]] * n})),
    "lists with a long text": (10_000, lambda n: _text({"x": ["a" * n, *[""] * n]})),
    "wrong lists": (4_000, lambda n: _text({"x": [[1.0]] * n + [[]]})),
    "wrong texts": (2_000, lambda n: _text({"t": [1] * n})),
    "texts": (10_000, lambda n: _text({"t": ["abc"] * n})),
    "records": (2_000, lambda n: _text([{"x": 1.0, "t": "a"}] * n)),
    "records with a long text": (4_000, lambda n: _text([{"t": "a" * n}, *[{"t": ""}] * n])),
    "JSON lines": (1_000, lambda n: _file("a.jsonl", '{"a":1,"b":[1,2]}\n' * n,
                                          lambda p: tensorclass.from_json(p, lines=True))),
    "JSON table": (2_000, lambda n: _file("a.json", json.dumps([{"a": 1, "b": {"c": "x"}}] * n),
                                          tensorclass.from_json)),
    "JSON table of a long text": (5_000, lambda n: _file("a.json", json.dumps([{"a": ["b" * n] + [""] * n}]),
                                                         tensorclass.from_json)),
    "CSV rows": (2_000, lambda n: _file("a.csv", "a,b\n" + "1,x\n" * n, tensorclass.from_csv)),
    "CSV columns": (2_000, lambda n: _file("a.csv", ",".join(f"c{i}" for i in range(n)) + "\n" + ",".join(["1"] * n),
                                           tensorclass.from_csv)),
    "CSV columns that nest": (1_000, lambda n: _file(
        "a.csv", ",".join(f"a.b.c{i}" for i in range(n)) + "\n" + ",".join(["1"] * n),
        lambda p: tensorclass.from_csv(p, separator="."))),
    "a repeated CSV column": (4_000, lambda n: _file("a.csv", ",".join(f"c{i}" for i in range(n)) + ",c0\n",
                                                     tensorclass.from_csv)),
    "Arrow columns": (300, lambda n: lambda folder: lambda: tensorclass.from_arrow(
        pa.table({f"c{i}": [1] for i in range(n)}))),
    "integers with one hash": (2_000, lambda n: lambda folder: lambda: decode(
        {"$set": [{"$int": hex(i * PRIME)} for i in range(n)]})),
    "keys with one hash": (2_000, lambda n: lambda folder: lambda: decode(
        {"$dict": [[{"$int": hex(i * PRIME)}, 1] for i in range(n)]})),
    "tuples with one hash": (2_000, lambda n: lambda folder: lambda: decode(
        {"$set": [{"$tuple": [{"$int": hex(i * PRIME)}, 1]} for i in range(n)]})),
    "a set": (2_000, lambda n: lambda folder: lambda: decode(encode(set(range(n))))),
    "folders of an archive": (150, _anchor),
    "a file with many tensors": (1_000, _stored),
    "names with dots": (200, _foreign_header),
    "HDF5": (40, _h5),
    "a program with imports on one line": (1_000, lambda n: _command("migrate", "p.py", text="import tensordict;" * n)),
    "a program of one list": (5_000, lambda n: _command(
        "migrate", "p.py", text=f"import tensordict\nx=[{'1,' * n}]\n")),
    "a program with a wide line": (1_000, lambda n: _command("migrate", "p.py", text="é;" + "import tensordict;" * n)),
    "a program with unknown names": (110, lambda n: _command(
        "migrate", "p.py", text="import tensordict as t\n" + "".join(f"t.stack{i}\n" for i in range(n)))),
    "a notebook of blanks": (100_000, lambda n: _command("migrate", "p.ipynb", text=json.dumps(
        {"cells": [{"cell_type": "code", "source": "import tensordict\n" + " " * n}]}))),
    "a notebook of cells": (200, lambda n: _command("migrate", "p.ipynb", text=json.dumps(
        {"cells": [{"cell_type": "code", "source": "import tensordict\n"}] * n}))),
    "a class for many columns": (100, lambda n: _command("new", "Made", "--from", "d.json", text=json.dumps(
        [{f"a b{i}": 1 for i in range(n)}]))),
}  # fmt: skip


HEAVY = ("a program with", "a program of one list", "names with dots", "CSV columns")
"""Readers that take seconds under the counter of instructions."""


@pytest.mark.parametrize(
    "name",
    rest_is_slow([pytest.param(n, marks=pytest.mark.slow if n.startswith(HEAVY) else ()) for n in READERS], each=2),
)
def test_twice_the_input_takes_less_than_three_times_the_work(tmp_path, capsys, name):
    """Keys, columns, folders, rows, texts and faults are each handled once."""
    n, make = READERS[name]
    work, quick = [], []
    for size in (n, 2 * n):
        folder = tmp_path / str(size)
        folder.mkdir()
        call = make(size)(folder)
        _quiet(call)  # what is done once for a process
        quick.append(call)
        work.append(_instructions(lambda call=call: _quiet(call)))
    assert work[1] < 3 * work[0] + 5_000
    for _ in range(5):
        times = [_seconds(lambda call=call: _quiet(call)) for call in quick]
        if times[1] < 3 * times[0] + 0.004:
            return
    pytest.fail(f"{times[0]:.4f} s at n, {times[1]:.4f} s at 2n")


SMALL = TensorDict({f"k{i}": torch.zeros(1) for i in range(10)})
MESSAGES = {
    "an absent key": (200, lambda n, held: lambda: held["kex"]),
    "many problems": (100, lambda n, held: lambda: Numbers(**{f"x{i}": 1 for i in range(n)})),
    "a long key": (20_000, lambda n, held: lambda: SMALL["k" * n]),
    "a key of many parts": (500, lambda n, held: lambda: SMALL[("a",) * n]),
    "a long wrong value": (20_000, lambda n, held: lambda: Numbers(t=[0] * n, batch_size=[n])),
    "a repr": (200, lambda n, held: held.__repr__),
    "a repr in HTML": (200, lambda n, held: held._repr_html_),
    "a repr of nested containers": (20, lambda n, held: _deep(n).__repr__),
    "a description": (100, lambda n, held: held.describe),
    "unlike keys": (200, lambda n, held: lambda: tensorclass.stack([held, SMALL])),
}  # fmt: skip


def _deep(n):
    found = TensorDict({"x": torch.zeros(1)})
    for _ in range(n):
        found = TensorDict({"n": found})
    return found


@pytest.mark.parametrize("name", MESSAGES)
def test_messages_take_work_in_proportion(name):
    """A message, a repr or a description of twice the content takes less than three times the work."""
    n, make = MESSAGES[name]
    work = []
    for size in (n, 2 * n):
        call = make(size, TensorDict({f"k{i}": torch.zeros(1) for i in range(size)}))

        def told(call=call):
            try:
                str(call())
            except Exception as error:
                str(error)

        told()
        work.append(_instructions(told))
    assert work[1] < 3 * work[0] + 5_000
