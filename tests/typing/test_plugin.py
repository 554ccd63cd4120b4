"""The mypy plugin: without torch, incrementally, in the daemon, after a fault of its own, and in step with the run time."""

from __future__ import annotations

import importlib.util
import os
import re
import runpy
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from inspect import signature
from pathlib import Path
from textwrap import dedent

import pytest
import torch
from torch import Tensor

from tensorclass import FrozenTensorClass
from tensorclass._operations import REDUCTIONS, ROWS
from tensorclass._options import CLASS_OPTIONS
from tensorclass._schema import Options
from tensorclass.errors import FrozenError
from tensorclass.typecheck.plugin import _access
from tensorclass.typecheck.plugin._codes import CODES
from tensorclass.typing import Float32
from tests._sources import ROOT
from tests.test_docs import EXAMPLES, python_blocks
from tests.typing._checkers import fresh, run_checker
from tests.typing._notation import HERE
from tests.typing._table import PAGE

CONFIG = HERE / "mypy_plugin.ini"
CACHE = ROOT / ".mypy_cache" / "projects" / os.environ.get("PYTEST_XDIST_WORKER", "alone")

SCHEMA = """
    import torch
    from torch import Tensor
    from tensorclass import tensorclass
    from tensorclass.nn import TensorClassModule
    from tensorclass.typing import Float32, Int64

    @tensorclass
    class Digits:
        image: Float32[Tensor, "8 8"]
        label: Int64[Tensor, ""]

    @tensorclass
    class Scan(Digits):
        page: Int64[Tensor, ""] | None = None
"""
USE = """
    import torch
    from project_schema import Digits, Scan

    batch = Digits(torch.zeros(4, 8, 8), torch.arange(4), batch_size=[4])
    reveal_type(batch[0])
    Digits(torch.zeros(4, 9, 9), torch.arange(4))
    Scan(torch.zeros(4, 8, 8), torch.zeros(4))
"""
LAYERS = """
    from torch import Tensor, nn
    from tensorclass import TensorClass
    from tensorclass.nn import TensorClassModule, TensorClassSequential, module
    from tensorclass.typing import Float32
    from project_schema import Digits

    class Hidden(TensorClass):
        g: Float32[Tensor, "8"]
        h: Float32[Tensor, "8"] | None = None

    SOURCE, TARGET = Digits.image, Hidden.h
    flat = TensorClassModule(lambda image: image[..., 0], in_fields=Digits.image, out_fields=Hidden.g)
    encode = TensorClassModule(nn.Linear(8, 8), in_fields=Hidden.g, out_fields=Hidden.h)
    twice = encode
    twice = flat
    alias = encode
    chosen: TensorClassModule = encode
    both = TensorClassSequential(flat, encode, input=Digits, output=Hidden)

    @module(in_fields=Hidden.g, out_fields=Hidden.h)
    def score(g: Tensor) -> Tensor:
        return g
"""
PIPELINES = """
    import torch
    from project_schema import Digits
    from project_layers import SOURCE, TARGET, Hidden, both, encode, flat, score
    from tensorclass.nn import TensorClassModule, TensorClassSequential
    import project_layers as layers

    TensorClassSequential(flat, encode, input=Digits, output=Hidden)
    TensorClassSequential(encode, flat, input=Digits, output=Hidden)
    TensorClassSequential(layers.score, input=Digits, output=Hidden)
    TensorClassSequential(layers.flat, score, input=Digits, output=Hidden)
    TensorClassSequential(both, input=Digits, output=Hidden)
    TensorClassSequential(both, encode, input=Digits, output=Hidden)
    TensorClassSequential(TensorClassModule(lambda x: x[..., 0], in_fields=SOURCE, out_fields=TARGET), input=Digits, output=Hidden)
    TensorClassSequential(TensorClassModule(torch.relu, in_fields=TARGET, out_fields=Hidden.g), input=Digits, output=Hidden)
    TensorClassSequential(layers.twice, input=Digits, output=Hidden)
    TensorClassSequential(layers.alias, input=Digits, output=Hidden)
    TensorClassSequential(layers.chosen, input=Digits, output=Hidden)
"""
PARTS = """
    import torch
    from project_schema import Digits, Scan
    from tensorclass import omit, pick

    Small = pick(Scan, "image", "page")
    part = Digits(torch.zeros(4, 8, 8), torch.arange(4)).pick("image")
    maker = pick(Digits, "label")

    def get(batch: Digits) -> Small:
        return Scan(batch.image, batch.label).pick(Small)
"""
USE_OF_PARTS = """
    import torch
    from project_parts import Small, get, maker, part
    from project_schema import Digits
    from tensorclass import pick

    Other = pick(Small, "page")
    print(part.image, get(Digits(part.image, torch.arange(4))).page, maker(torch.arange(4)).label)
    print(part.label, get(Digits(part.image, torch.arange(4))).label, Other(torch.arange(4)).image)
    Small(torch.zeros(4, 8, 8), page=torch.arange(4))
    Small(torch.zeros(4, 9, 9), label=torch.arange(4))
"""
CONTRACTS = """
    from tensorclass import TensorClass, checked
    from tensorclass.typing import Float32, Shaped
    from torch import Tensor

    class Step(TensorClass):
        value: Float32[Tensor, ""]

    @checked
    def newest(steps: Shaped[Step, "t b"]) -> Shaped[Step, "b"]:
        return steps[-1]

    class Buffer:
        def add(self, steps: Shaped[Step, "t b"] | None = None, *more: Shaped[Step, "b"]) -> None: ...
"""
USE_OF_CONTRACTS = """
    from project_functions import Buffer, Step, newest

    steps = Step.zeros((8, 4))
    newest(newest(steps))
    Buffer().add(steps[0])
    Buffer().add(steps, steps[0], steps)
    last: list[Step] = [newest(steps[:, 0])]
    Buffer().add(None, steps[0])
    newest(steps)
"""
RESULTS = """
    import torch
    from torch import Tensor
    from tensorclass.typing import Float32, Int64

    class Tools:
        @staticmethod
        def chosen(x: Tensor) -> Int64[Tensor, "b"]:
            return x.argmax(-1)

    def halved(x: Float32[Tensor, "b 8 8"]) -> Float32[Tensor, "b 4 8"]:
        return x[:, :4]

    def numbers(count: int) -> Tensor:
        made = torch.arange(count)
        return made

    def anything(x: Tensor) -> Tensor:
        return x / 2
"""
USE_OF_RESULTS = """
    from project_schema import Digits
    from project_results import Tools, anything, halved, numbers

    def use(d: Digits) -> None:
        d.image = halved(d.image)
        d.image = numbers(4)
        d.image = Tools.chosen(d.image)
        d.label = Tools.chosen(d.image)
        d.label = numbers(4)
        d.image = anything(d.image)
"""
FLOWS = [(line, "tensorclass-flow") for line in (8, 9, 12, 13, 14)]
OTHER = ("nn.Linear(8, 8), in_fields=Hidden.g", "lambda image: image[..., 1], in_fields=Digits.image")
"""What makes `encode` of LAYERS read what the input has."""


def _write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(dedent(text).lstrip(), "utf-8")
    return path


def _environment() -> dict[str, str]:
    return {**os.environ, "MYPYPATH": str(ROOT), "PYTHONPATH": str(ROOT)}


def _run(folder: Path, *arguments: str, module: str = "mypy") -> tuple[int, str]:
    command = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(command, cwd=folder, env=_environment(), capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if not line.startswith(("Found ", "Success"))]
    return done.returncode, "\n".join(lines) + done.stderr


def _mypy(folder: Path, *names: str, config: Path = CONFIG) -> tuple[int, str]:
    return _run(folder, f"--config-file={config}", f"--cache-dir={CACHE}", "--hide-error-context", *names)


def _codes(output: str) -> list[tuple[int, str]]:
    return sorted((int(line), code) for line, code in re.findall(r":(\d+): error: .*\[([\w-]+)\]$", output, re.M))


def test_the_plugin_starts_without_torch() -> None:
    """Loading it costs no second of imports, and works where torch is broken."""
    code = (
        "import sys, tensorclass.mypy_plugin as p; p.plugin('2'); assert not {'torch', 'pydantic'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_names_of_this_package_exist() -> None:
    """Every full name by which the plugin and the stubs know something of this package leads there."""
    texts = [path.read_text("utf-8") for path in (ROOT / "tensorclass" / "typecheck").rglob("*.py")]
    found = {name for text in texts for name in re.findall(r'"(tensorclass(?:\.\w+)+)"', text)}
    assert len(found) > 12
    for name in sorted(found - {"tensorclass.typing", "tensorclass.typecheck", "tensorclass.mypy_plugin"}):
        parts = name.split(".")
        start = next(i for i in range(len(parts), 0, -1) if find_spec_of(".".join(parts[:i])))
        reached: object = importlib.import_module(".".join(parts[:start]))
        for part in parts[start:]:
            assert hasattr(reached, part), name
            reached = getattr(reached, part)


def find_spec_of(name: str) -> bool:
    """Whether there is a module of this name."""
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def test_every_code_is_documented() -> None:
    """The table of docs/typing.md has each code once, with the words that mypy knows it by."""
    page = PAGE.read_text("utf-8")
    documented = re.findall(r"^\| `(tensorclass-[\w-]+)` \|", page, re.M)
    assert documented == [code.code for code in CODES]


def test_options_are_those_of_the_run_time() -> None:
    """The plugin keeps names of its own, since it imports no torch."""
    assert set(CLASS_OPTIONS) == {option.name for option in fields(Options)}


OPERANDS = {"binary": ("f",), "comparison": ("f",), "ternary": ("f", "f"), "clamp": ("0.25", "0.5")}
HEAD = """
import torch
from torch import Tensor
from tensorclass import TensorClass
from tensorclass.typing import Float32, Int64
class Whole(TensorClass):
    n: Int64[Tensor, ""]
class Real(TensorClass):
    x: Float32[Tensor, ""]
class Set(TensorClass, frozen=True):
    x: Float32[Tensor, ""]
class Other(TensorClass):
    x: Float32[Tensor, ""]
n, f = Whole(torch.ones(3, dtype=torch.int64)), Real(torch.rand(3))
z, other = Set(torch.rand(3)), Other(torch.rand(3))
"""


def calls_of_operations() -> Iterator[str]:
    """A line for each row of the tables: as a method of integers, as a function of torch, in place, on another class."""
    for row in ROWS:
        if row.domain in ("int", "bool"):
            continue
        operands = OPERANDS.get(row.family, ())
        yield from (f"torch.{name}({', '.join(['f', *operands])})" for name in (row.torch_name, *row.aliases))
        if row.arity == 0:
            yield from (f"n.{row.name}()", f"torch.{row.torch_name}(n)")
        elif row.arity == 1:
            yield from (f"n.{row.name}({number})" for number in ("2", "0.5") if number == "2" or row.numbers == "yes")
            yield from (f"f.{row.name}(other)", *([f"f.{row.name}_(other)"] if row.in_place else []))
        if row.in_place:
            yield f"z.{row.name}_({', '.join(operand.replace('f', 'z') for operand in operands)})"
    for reduction in REDUCTIONS:
        yield f"n.{reduction.name}({'0.5' if reduction.name == 'quantile' else '' if reduction.name == 'norm' else '0'})"


@pytest.mark.slow
def test_operations_of_the_table_are_judged_as_they_run() -> None:
    """For each operation the plugin reports the calls that raise an error, and no others."""
    lines = list(calls_of_operations())
    file = fresh("operations") / "operations.py"
    file.write_text(HEAD + "\n".join(lines) + "\n", "utf-8")
    head = file.with_name("head.py")
    head.write_text(HEAD, "utf-8")
    space = runpy.run_path(str(head))
    raising = {number for number, line in enumerate(lines, HEAD.count("\n") + 1) if _raises(line, space)}
    found = run_checker("mypy+plugin", [file]).get(file, {})
    wrong = {lines[number - HEAD.count("\n") - 1] for number in raising ^ found.keys()}
    assert not wrong, "\n".join(sorted(wrong))
    assert len(raising) > 100


def _raises(line: str, space: dict[str, object]) -> bool:
    try:
        exec(line, space)
    except (TypeError, ValueError, RuntimeError):
        return True
    return False


class Still(FrozenTensorClass):
    image: Float32[Tensor, "8"]


def test_methods_that_refuse_unknown_names() -> None:
    """The plugin looks at each method whose parameters are keys, but for those that take any name."""
    found = set[str]()
    for name in dir(Still):
        method = None if name.startswith("_") else getattr(Still, name)
        if callable(method):
            found |= {name for one in signature(method).parameters.values() if _takes_keys(str(one.annotation))}
    other = {"exclude", "fromkeys", "stack_from_tensordict", "cat_from_tensordict", "load", "load_memmap"}
    assert found - other <= {*_access.KEYED, *_access.UPDATES, "update_at_"}
    assert {*_access.KEYED} - {"__getitem__", "__setitem__", "__delitem__"} <= found | {"get_at"}
    for name, parameter in _access.MAPPINGS.items():
        assert parameter in signature(getattr(Still, name)).parameters


def _takes_keys(annotation: str) -> bool:
    return re.search(r"\bKey\b", annotation) is not None


def _is_refused(method: Callable[..., object]) -> bool:
    values = (Still(torch.rand(4, 8)), torch.zeros(4, 8), torch.exp, 1, {}, "image")
    trials = [
        (),
        *((value,) for value in values),
        (1, 1),
        ("image", torch.zeros(4, 8)),
        ("image", "other"),
        ("image", torch.zeros(8), 0),
    ]
    for arguments in trials:
        try:
            method(*arguments)
        except FrozenError:
            return True
        except Exception:  # the arguments do not fit this method
            continue
    return False


def test_what_a_frozen_class_refuses() -> None:
    """No method that the plugin refuses on frozen instances runs there."""
    names = {name for name in dir(Still) if name.endswith("_") and not name.startswith("_")}
    names |= {*_access.ALWAYS_WRITE, "__iadd__"} - {"update", "__delitem__", "refine_names"}
    refused = {name for name in names - {*_access.NO_WRITES} if not _is_refused(getattr(Still(torch.rand(4, 8)), name))}
    assert refused <= {
        "copy_at_",
        "load_",
        "load_memmap_",
        "memmap_refresh_",
    }  # which want an index and a container, or a path
    assert not any(_is_refused(getattr(Still(torch.rand(4, 8)), name, id)) for name in _access.NO_WRITES)


@pytest.mark.slow
def test_pages_and_examples(tmp_path: Path) -> None:
    """What the README shows, mypy accepts with the plugin, and the examples; one has a comment at its wrong callable."""
    found = []
    for name in ("README.md", "docs/index.md"):
        blocks = [block.code for block in python_blocks((ROOT / name).read_text("utf-8")) if block.raises is None]
        found.append(str(_write(tmp_path, f"{Path(name).stem.lower()}_blocks.py", "\n".join(blocks))))
    _, output = _mypy(tmp_path, *found, *map(str, EXAMPLES))
    lines = [line for line in output.splitlines() if not line.startswith(str(ROOT / "tensorclass"))]
    assert [line for line in lines if "_blocks.py" in line] == []
    assert [code for _, code in _codes("\n".join(lines)) if code.startswith("tensorclass-")] == []


@pytest.mark.slow
def test_examples_with_the_base_class() -> None:
    """With `TensorClass` in place of the decorator, pyright finds nothing in the examples."""
    folder, files = fresh("examples"), list[Path]()
    for path in EXAMPLES:
        text = re.sub(r"@tensorclass\nclass (\w+):", r"class \1(TensorClass):", path.read_text("utf-8"))
        text = re.sub(r"@tensorclass\((.*)\)\nclass (\w+):", r"class \2(TensorClass, \1):", text)
        text = text.replace("annotations\n", "annotations\n\nfrom tensorclass import TensorClass\n", 1)
        files.append(_write(folder, path.name, text))
    assert {path.name: found for path, found in run_checker("pyright", files).items() if found} == {}


@pytest.mark.slow
def test_incremental_runs_know_what_a_cold_run_knows(tmp_path: Path) -> None:
    """Declarations come out of mypy's cache, and a changed one reaches the files that use it."""
    schema, use = _write(tmp_path, "project_schema.py", SCHEMA), _write(tmp_path, "project_use.py", USE)
    cold = _mypy(tmp_path, "project_use.py")
    assert _codes(cold[1]) == [(6, "tensorclass-shape"), (7, "tensorclass-dtype")]
    assert 'Revealed type is "project_schema.Digits"' in cold[1]
    assert _mypy(tmp_path, "project_use.py") == cold
    use.write_text(use.read_text("utf-8") + "\n# changed\n", "utf-8")
    assert _mypy(tmp_path, "project_use.py") == cold
    schema.write_text(schema.read_text("utf-8").replace("8 8", "9 9").replace("Int64", "Float32"), "utf-8")
    assert _codes(_mypy(tmp_path, "project_use.py")[1]) == [
        (4, "tensorclass-dtype"),
        (4, "tensorclass-shape"),
        (6, "tensorclass-dtype"),
        (7, "tensorclass-shape"),
    ]


@pytest.mark.slow
def test_type_variables_are_checked_again(tmp_path: Path) -> None:
    """A file that did not change is analyzed in the same way after a change of what it imports."""
    schema = _write(tmp_path, "project_schema.py", SCHEMA)
    _write(
        tmp_path,
        "project_use.py",
        """
        from typing import TypeVar
        from project_schema import Digits

        D = TypeVar("D", bound=Digits)

        def f(x: D) -> D:
            x.get("lable")
            return x
        """,
    )
    cold = _codes(_mypy(tmp_path, "project_use.py")[1])
    assert cold == [(7, "tensorclass-key")]
    schema.write_text(schema.read_text("utf-8").replace("8 8", "9 9"), "utf-8")
    assert _codes(_mypy(tmp_path, "project_use.py")[1]) == cold


@pytest.mark.slow
def test_modules_of_other_files(tmp_path: Path) -> None:
    """What a name of another file reads and writes comes out of mypy's cache; names with two values are not known."""
    _write(tmp_path, "project_schema.py", SCHEMA)
    layers, use = _write(tmp_path, "project_layers.py", LAYERS), _write(tmp_path, "project_use.py", PIPELINES)
    cold = _mypy(tmp_path, "project_use.py")
    assert _codes(cold[1]) == FLOWS
    use.write_text(use.read_text("utf-8") + "\n# changed\n", "utf-8")
    assert _mypy(tmp_path, "project_use.py") == cold
    original = layers.read_text("utf-8")
    layers.write_text(original.replace(*OTHER), "utf-8")
    assert (8, "tensorclass-flow") not in _codes(_mypy(tmp_path, "project_use.py")[1])
    layers.write_text(original, "utf-8")
    assert _mypy(tmp_path, "project_use.py") == cold


@pytest.mark.slow
def test_results_of_functions_of_other_files(tmp_path: Path) -> None:
    """What functions of another file return is known by annotation or by their text, also from mypy's cache."""
    _write(tmp_path, "project_schema.py", SCHEMA)
    results, use = _write(tmp_path, "project_results.py", RESULTS), _write(tmp_path, "project_use.py", USE_OF_RESULTS)
    wrong = [(5, "tensorclass-shape"), (6, "tensorclass-shape"), (7, "tensorclass-dtype")]
    assert _codes(_mypy(tmp_path, "project_use.py")[1]) == wrong
    use.write_text(use.read_text("utf-8") + "\n# changed\n", "utf-8")
    assert _codes(_mypy(tmp_path, "project_use.py")[1]) == wrong
    results.write_text(results.read_text("utf-8").replace('"b 4 8"', '"b 8 8"').replace("[:, :4]", ""), "utf-8")
    assert _codes(_mypy(tmp_path, "project_use.py")[1]) == wrong[1:]


@pytest.mark.slow
def test_functions_over_batches_of_other_files(tmp_path: Path) -> None:
    """Declared batch dims are known in other files, on a cold run and from mypy's cache."""
    _write(tmp_path, "project_functions.py", CONTRACTS)
    use = _write(tmp_path, "project_use.py", USE_OF_CONTRACTS)
    wrong = [(line, "tensorclass-batch-size") for line in (4, 5, 6, 7)]
    assert _codes(_mypy(tmp_path, "project_use.py")[1]) == wrong
    use.write_text(use.read_text("utf-8") + "\nnewest(steps[0])\n", "utf-8")
    assert _codes(_mypy(tmp_path, "project_use.py")[1]) == [*wrong, (11, "tensorclass-batch-size")]


@pytest.mark.slow
def test_classes_made_of_classes_of_other_files(tmp_path: Path) -> None:
    """They come out of mypy's cache, and change with what they are made of, in the daemon too."""
    schema, parts = _write(tmp_path, "project_schema.py", SCHEMA), _write(tmp_path, "project_parts.py", PARTS)
    use = _write(tmp_path, "project_use.py", USE_OF_PARTS)
    found = [*[(8, "attr-defined")] * 3, (10, "call-arg"), (10, "tensorclass-shape")]
    assert _codes(_mypy(tmp_path, "project_use.py")[1]) == found
    use.write_text(use.read_text("utf-8") + "\n# changed\n", "utf-8")
    assert _codes(_mypy(tmp_path, "project_use.py")[1]) == found
    declared, picked = schema.read_text("utf-8"), parts.read_text("utf-8")
    with _daemon(tmp_path) as check:
        assert check() == found
        schema.write_text(declared.replace('"8 8"', '"9  9"'), "utf-8")
        assert [row for row in check() if row[0] > 8] == [(9, "tensorclass-shape"), (10, "call-arg")]
        schema.write_text(declared, "utf-8")
        assert check() == found
        parts.write_text(picked.replace('"image", "page"', '"image", "label"'), "utf-8")
        assert {(6, "tensorclass-key"), (9, "call-arg"), (10, "tensorclass-shape")} <= {*check()}


@contextmanager
def _daemon(folder: Path) -> Iterator[Callable[[], list[tuple[int, str]]]]:
    """What checks the project of a folder in one daemon, again and again."""
    daemon = (f"--status-file={folder / 'status.json'}",)
    names = sorted(path.name for path in folder.glob("project_*.py"))
    flags = (f"--config-file={CONFIG}", f"--cache-dir={CACHE}", *names)
    try:
        yield lambda: _codes(_run(folder, *daemon, "run", "--", *flags, module="mypy.dmypy")[1])
    finally:
        _run(folder, *daemon, "stop", module="mypy.dmypy")


@pytest.mark.slow
def test_the_daemon_sees_a_changed_declaration(tmp_path: Path) -> None:
    """A file that did not change is checked again when a declaration that it uses did."""
    schema, _ = _write(tmp_path, "project_schema.py", SCHEMA), _write(tmp_path, "project_use.py", USE)
    with _daemon(tmp_path) as check:
        first = check()
        assert first == [(6, "tensorclass-shape"), (7, "tensorclass-dtype")]
        original = schema.read_text("utf-8")
        schema.write_text(original.replace("8 8", "9 9"), "utf-8")
        assert check() == [(4, "tensorclass-shape"), (7, "tensorclass-dtype"), (7, "tensorclass-shape")]
        schema.write_text(original.replace("Int64", "Float32"), "utf-8")
        assert check() == [(4, "tensorclass-dtype"), (6, "tensorclass-dtype"), (6, "tensorclass-shape")]
        schema.write_text(original, "utf-8")
        assert check() == first


@pytest.mark.slow
def test_the_daemon_sees_a_changed_module_of_another_file(tmp_path: Path) -> None:
    """A pipeline is checked again when a module that it takes from another file reads something else."""
    for name, text in (("schema", SCHEMA), ("use", PIPELINES)):
        _write(tmp_path, f"project_{name}.py", text)
    layers = _write(tmp_path, "project_layers.py", LAYERS)
    original = layers.read_text("utf-8")
    with _daemon(tmp_path) as check:
        assert check() == FLOWS
        layers.write_text(original.replace(*OTHER), "utf-8")
        assert (8, "tensorclass-flow") not in check()
        layers.write_text(original, "utf-8")
        assert check() == FLOWS


@pytest.mark.slow
def test_one_mistake_is_one_finding(tmp_path: Path) -> None:
    """Classes that don't meet are not compared by field; what a module lacks is not missed by the output again."""
    _write(tmp_path, "project_schema.py", SCHEMA)
    _write(
        tmp_path,
        "project_use.py",
        """
        from torch import Tensor, nn
        from tensorclass import TensorClass
        from tensorclass.nn import TensorClassModule, TensorClassSequential
        from tensorclass.typing import Float32
        from project_schema import Digits

        class Hidden(TensorClass):
            h: Float32[Tensor, "8"]
            y: Float32[Tensor, "8"]

        def added(one: Digits, other: Hidden) -> None:
            print(one + other)

        head = TensorClassModule(nn.Linear(8, 8), in_fields=Hidden.h, out_fields=Hidden.y)
        again = TensorClassModule(nn.Linear(8, 8), in_fields=Hidden.h, out_fields=Hidden.y, update=True)
        TensorClassSequential(head, again, input=Digits, output=Hidden)
        """,
    )
    assert _codes(_mypy(tmp_path, "project_use.py")[1]) == [(12, "tensorclass-join"), (16, "tensorclass-flow")]


@pytest.mark.slow
def test_a_right_module_is_checked_once(tmp_path: Path) -> None:
    """Each overload is tried several times by mypy. What is wrong is still reported."""
    _write(
        tmp_path,
        "counting_plugin.py",
        """
        from tensorclass.typecheck.plugin import _layers
        from tensorclass.mypy_plugin import plugin as plugin

        check = _layers.check_wrapped

        def counted(api, module, stage):
            print("checked", module.line)
            check(api, module, stage)

        _layers.check_wrapped = counted
        """,
    )
    text = CONFIG.read_text("utf-8").replace("tensorclass.mypy_plugin", "counting_plugin.py")
    _write(tmp_path, "project_schema.py", SCHEMA)
    _write(
        tmp_path,
        "project_use.py",
        """
        from torch import nn
        from project_schema import Digits
        from tensorclass.nn import TensorClassModule

        right = TensorClassModule(nn.Linear(8, 8), in_fields=Digits.image, out_fields=Digits.image)
        wrong = TensorClassModule(nn.Linear(9, 8), in_fields=Digits.image, out_fields=Digits.image)
        """,
    )
    _, output = _mypy(tmp_path, "project_use.py", config=_write(tmp_path, "counting.ini", text))
    assert output.splitlines().count("checked 5") == 1
    assert _codes(output) == [(6, "tensorclass-shape")]


@pytest.mark.slow
def test_a_fault_of_the_plugin_is_a_note(tmp_path: Path) -> None:
    """Types and errors are then those without it, and the check of the program goes on."""
    _write(
        tmp_path,
        "faulty_plugin.py",
        """
        from tensorclass.typecheck.plugin import _given, _stages
        from tensorclass.mypy_plugin import plugin as plugin

        def fail(*args, **kwargs):
            raise ZeroDivisionError("made up")

        _given.GivenCheck.check = fail
        _given.source_of = fail
        """,
    )
    config = _write(
        tmp_path, "faulty.ini", f"{CONFIG.read_text('utf-8')}".replace("tensorclass.mypy_plugin", "faulty_plugin.py")
    )
    _write(tmp_path, "project_schema.py", SCHEMA)
    _write(tmp_path, "project_use.py", USE + "    number: int = Digits(torch.zeros(4, 9, 9), torch.arange(4))\n")
    _, output = _mypy(tmp_path, "project_use.py", config=config)
    assert _codes(output) == [(8, "assignment")]
    assert "note: tensorclass.mypy_plugin failed here (ZeroDivisionError: made up)" in output
    assert 'Revealed type is "project_schema.Digits"' in output


@pytest.mark.slow
def test_messages_are_ignored_by_code(tmp_path: Path) -> None:
    """`# type: ignore[tensorclass-...]` silences a message, and one that silences nothing is reported."""
    _write(tmp_path, "project_schema.py", SCHEMA)
    _write(
        tmp_path,
        "project_use.py",
        """
        import torch
        from project_schema import Digits

        Digits(torch.zeros(4, 9, 9), torch.arange(4))  # type: ignore[tensorclass-shape]
        Digits(torch.zeros(4, 8, 8), torch.zeros(4))  # type: ignore[tensorclass-dtype]
        Digits(torch.zeros(4, 8, 8), torch.arange(4))  # type: ignore[tensorclass-dtype]
        Digits(torch.zeros(4, 8, 8), torch.arange(4))["lable"]  # type: ignore[tensorclass-key]
        """,
    )
    assert _codes(_mypy(tmp_path, "project_use.py")[1]) == [(6, "unused-ignore")]
