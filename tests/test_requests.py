"""Requests to extend the package, carried out in a copy: the files that each edits are all that it takes."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from tests._sources import PACKAGE, ROOT


class Request(NamedTuple):
    """Edits of files, each a text and what replaces it ("" in a new file), and a program that uses them."""

    edits: Mapping[str, tuple[tuple[str, str], ...]]
    program: str
    generates: bool = False


def after(text: str, more: str) -> tuple[str, str]:
    """The edit that adds lines below a text."""
    return text, text + more


FIELD_OPTION = Request(
    {
        "_options.py": (
            after(
                '    for option in (\n        FieldOption("default", effect="default"),\n',
                '        FieldOption("unit", saved="given", effect="hides", in_produced=True, note="in {}"),\n',
            ),
        ),
        "_schema/_fields.py": (
            after("    shadow: bool = False\n", "    unit: str | None = None\n"),
            after("    shadow: bool = False,\n", "    unit: str | None = None,\n"),
        ),
        "_schema/_spec.py": (after("    shadow: bool = False\n", "    unit: str | None = None\n"),),
    },
    """
from pathlib import Path
from tensorclass import TensorClass, field, schema
from tensorclass._schema import Schema
from tensorclass.cli._main import main
from tensorclass.typecheck._rules import produced_with

Path("row.py").write_text('''
from torch import Tensor
from tensorclass import TensorClass, field
from tensorclass.typing import Float32

class Row(TensorClass):
    x: Float32[Tensor, ""] = field(unit="m")
''')
from row import Row
assert schema(Row)["x"].unit == "m"
assert Schema.from_dict(schema(Row).to_dict())["x"].unit == "m"
assert schema(Row)["x"] != schema(Row)["x"].replace(unit="s")
assert main(["inspect", "row.py:Row"]) == 0
assert produced_with("unit") == "" != produced_with("join")
Path("hiding.py").write_text(Path("row.py").read_text().replace("x: ", "clone: "))
assert main(["stubs", "hiding.py", "--out", "made"]) == 0
Path("wrong.py").write_text(Path("hiding.py").read_text().replace('unit="m"', 'doc="m"'))
assert main(["stubs", "wrong.py", "--out", "made"]) == 1
""",
)
FORMAT = Request(
    {
        "io/exchange/_bars.py": (
            (
                "",
                """
from functools import partial

from ._text import read_csv, write_csv

read_bars, write_bars = partial(read_csv, delimiter="|"), partial(write_csv, delimiter="|")
""",
            ),
        ),
        "io/_file_kinds.py": (
            after(
                "FILE_KINDS: Final = (\n",
                '    FileKind("bars", "`from_bars`", (".bars",), rows="_bars:bars", table="text", is_flat=True),\n',
            ),
        ),
        "io/exchange/_functions.py": (
            after('    "from_csv",\n', '    "from_bars",\n'),
            (
                "from ._batches import TableOptions\n",
                "from ._bars import read_bars, write_bars\nfrom ._batches import TableOptions\n",
            ),
            after(
                '"""The names that `exchange`, `io` and the package have too."""\n',
                """

@flags
def from_bars(path: StrPath, *, cls: Any = None, **options: Unpack[TableOptions]) -> Any:
    return next(read_bars(path, TensorDict if cls is None else cls, None, **options))
""",
            ),
            after(
                "        write_csv(self._blocks(), path, separator, delimiter)\n",
                """
    def to_bars(self, path: StrPath) -> None:
        write_bars(self._blocks(), path)
""",
            ),
        ),
        "store/_tables.py": (
            after(
                "# type: ignore[no-any-return]  # of this class\n",
                """
    def to_bars(self, path: StrPath) -> None:
        tables().write_bars([self], path)

    @classmethod
    def from_bars(cls, path: StrPath, **options: Any) -> Self:
        return tables().read("bars", cls, path, **options)
""",
            ),
        ),
    },
    """
import tensorclass, torch
from pathlib import Path
from tensorclass import TensorClassDataset, TensorDict
from tensorclass.io import exchange
from row import Row
from tensorclass.cli._main import main

data = TensorDict(a=torch.arange(3), batch_size=[3])
data.to_bars("a.bars")
for read in (TensorDict.from_bars, tensorclass.from_bars, tensorclass.io.from_bars, exchange.from_bars):
    assert read("a.bars")["a"].tolist() == [0, 1, 2]
assert main(["convert", "a.bars", "a.csv"]) == 0 and Path("a.csv").read_text() == "a\\n0\\n1\\n2\\n"
assert main(["convert", "a.csv", "b.bars"]) == 0 and Path("b.bars").read_bytes() == Path("a.bars").read_bytes()
assert main(["new", "Row", "--from", "a.bars"]) == 0
try:
    TensorDict.from_parquet("a.bars")
except tensorclass.errors.FileFormatError as error:
    assert "`from_bars` reads" in str(error)
rows = Row(x=torch.arange(3.0))
rows.to_csv("x.csv")
rows.to_bars("x.bars")
TensorClassDataset.from_csv("x.csv", "data", Row).to_bars("c.bars")
assert Path("c.bars").read_bytes() == Path("x.bars").read_bytes()
assert type(Row.from_bars("x.bars")) is Row
""",
)
VERB = Request(
    {
        "ops/_by_row.py": (
            (
                "\n    def sort_by(",
                """
    def every(self, *keys: Key) -> Self:
        return self[:: len(keys)]

    def sort_by(""",
            ),
        ),
        "_operations/_groups.py": (after("BY_FIELD: Final = {\n", '    "every": "*keys: {keys}) -> Self",\n'),),
    },
    """
import torch
from pathlib import Path
from tensorclass import TensorDict
from tensorclass.cli._main import main
from row import Row

assert TensorDict(a=torch.arange(4), batch_size=[4]).every("a", "a")["a"].tolist() == [0, 2]
assert len(Row(x=torch.zeros(4)).every("x", "x")) == 2
assert main(["stubs", "row.py", "--strict-keys", "--out", "made"]) == 0
assert "def every(self, *keys:" in Path("made/row.pyi").read_text()
""",
)
ENGINE = Request(
    {
        "parallel/_slow.py": (
            (
                "",
                """
from ._engines import ThreadEngine


class SlowEngine(ThreadEngine):
    def __init__(self, **policy):
        super().__init__()
""",
            ),
        ),
        "parallel/_choose.py": (
            after("from ._processes import ProcessEngine\n", "from ._slow import SlowEngine\n"),
            ("NAMES: dict[str, Any] = {", 'NAMES: dict[str, Any] = {"slow": SlowEngine, '),
        ),
        "parallel/__init__.py": (
            after("from ._rows import FailedRow as FailedRow\n", "from ._slow import SlowEngine as SlowEngine\n"),
        ),
    },
    """
import torch
from tensorclass import TensorDict, parallel

data = TensorDict(a=torch.arange(4), batch_size=[4])
for engine in ("slow", parallel.SlowEngine()):
    assert data.map(lambda row: row + 1, engine=engine, num_workers=2)["a"].tolist() == [1, 2, 3, 4]
""",
)
COMMAND = Request(
    {
        "cli/_hello.py": (
            (
                "",
                """
def configure(parser):
    parser.add_argument("name")


def run(arguments):
    print("hello", arguments.name)
    return 0
""",
            ),
        ),
        "cli/_main.py": (
            after("COMMANDS: dict[str, Command] = {\n", '    "hello": Command("_hello", "greet", "you"),\n'),
        ),
    },
    """
from tensorclass.cli._main import main
assert main(["hello", "you"]) == 0
""",
)
OPERATION = Request(
    {
        "_operations/_table.py": (
            (
                '    Row("bitwise_not"',
                '    Row("sinc", "unary", "The sinc of every leaf.", result="floating"),\n    Row("bitwise_not"',
            ),
        )
    },
    """
import torch
from tensorclass import TensorDict
from tensorclass._operations import FLOATING
from row import Row

data = Row(x=torch.tensor([0.0, 1.0]))
assert torch.equal(data.sinc().x, data.x.sinc())
assert torch.equal(torch.sinc(data).x, data.x.sinc())
assert torch.equal(TensorDict(a=torch.ones(2), batch_size=[2]).sinc()["a"], torch.ones(2).sinc())
assert "sinc" in FLOATING
""",
    generates=True,
)
CLASS_OPTION = Request(
    {
        "_options.py": (
            after('        ClassOption("nocast", _own),\n', '        ClassOption("quick", operator.and_),\n'),
        ),
        "_schema/_check.py": (after("    nocast: bool = False\n", "    quick: bool = False\n"),),
        "classes/_base.py": (
            after("        nocast: bool | None = None,\n", "        quick: bool | None = None,\n"),
            ("given = (frozen, nocast, autocast", "given = (frozen, nocast, quick, autocast"),
        ),
        "classes/_decorator.py": (after("    nocast: bool = False,\n", "    quick: bool = False,\n"),),
        "classes/_meta.py": (
            after("            nocast: bool | None = None,\n", "            quick: bool | None = None,\n"),
        ),
    },
    """
from tensorclass import merge, tensorclass

class Quick(TensorClass, quick=True):
    y: int = 0

@tensorclass(quick=True)
class Decorated:
    z: int = 0

assert Quick.__tensorclass_options__.quick and Decorated.__tensorclass_options__.quick
assert type("Child", (Quick,), {}).__tensorclass_options__.quick
assert not merge(Quick, Row).__tensorclass_options__.quick
try:
    type("Wrong", (TensorClass,), {}, quick="yes")
except TypeError as error:
    assert "`quick` is True or False" in str(error), error
""",
)
JOIN_POLICY = Request(
    {
        "_options.py": (('JOINS: Final = ("stack", ', 'JOINS: Final = ("zero", "stack", '),),
        "_schema/_fields.py": (('JoinPolicy = Literal["stack", ', 'JoinPolicy = Literal["zero", "stack", '),),
        "classes/_joins.py": (
            (
                '        if spec.join == "pad":\n',
                """        if spec.join == "zero":
            values = [torch.zeros_like(value) for value in values]
        if spec.join == "pad":
""",
            ),
        ),
    },
    """
import torch
from torch import Tensor

class Zeroed(TensorClass):
    y: Tensor = field(join="zero")

ones = Zeroed(y=torch.ones(2), batch_size=[2])
assert torch.cat([ones, ones]).y.tolist() == torch.stack([ones, ones]).y.flatten().tolist() == [0] * 4
assert Schema.from_dict(schema(Zeroed).to_dict())["y"].join == "zero"
""",
)
REDUCTION = Request(
    {
        "_operations/_reduce_table.py": (
            (
                '    Reduction("cummin"',
                '    Reduction("median", "indexed", "Median of every leaf.", many=False),\n    Reduction("cummin"',
            ),
        )
    },
    """
three = Row(x=torch.tensor([3.0, 1.0, 2.0]))
assert three.median(dim=0).values.x.item() == torch.median(three, 0).values.x.item() == 2
""",
    generates=True,
)
INTERACTION = Request(
    {"nn/distributions/_interaction.py": (after('    MEAN = "mean"\n', '    STDDEV = "stddev"\n'),)},
    """
from tensorclass.nn import InteractionType, ProbabilisticTensorDictModule, set_interaction_type

draw = ProbabilisticTensorDictModule(["loc", "scale"], ["x"], distribution_class=torch.distributions.Normal)
with set_interaction_type("stddev"):
    drawn = draw(TensorDict(loc=torch.zeros(2), scale=torch.full((2,), 3.0), batch_size=[2]))
assert drawn["x"].tolist() == [3, 3] and str(InteractionType.STDDEV) == "stddev"
""",
)
DISTRIBUTION = Request(
    {
        "nn/distributions/_wide.py": (
            (
                "",
                """
from torch.distributions import Normal


class Wide(Normal):
    pass
""",
            ),
        ),
        "nn/distributions/__init__.py": (
            after(
                "from ._truncated_normal import TruncatedNormal as TruncatedNormal\n",
                "from ._wide import Wide as Wide\n",
            ),
        ),
        "nn/__init__.py": (
            after(
                "from .distributions import TruncatedNormal as TruncatedNormal\n",
                "from .distributions import Wide as Wide\n",
            ),
        ),
    },
    """
from tensorclass.nn import Dist, Wide

class Policy(TensorClass):
    policy: Dist[Wide]

pair = torch.stack([Policy(policy=Wide(torch.zeros(3), torch.ones(3)))] * 2)
assert pair[0].policy.log_prob(torch.zeros(3)).shape == (3,)
""",
)
COLLECTIVE = Request(
    {
        "parallel/_collectives.py": (
            after(
                "    return _reduction(batch, op, group, None, async_op, bucket_bytes)\n",
                """

def all_sum(batch: Any, group: Any) -> Any:
    return _reduction(batch, None, group, None, False, None)
""",
            ),
        ),
        "parallel/_methods.py": (
            after(
                "from ._collectives import all_reduce as all_reduce\n",
                "from ._collectives import all_sum as all_sum\n",
            ),
        ),
        "store/_scale.py": (
            (
                '    @implemented_in(scaling, "all_reduce")\n',
                """    @implemented_in(scaling, "all_sum")
    def all_sum(self, group: Any = None) -> Any: ...

    @implemented_in(scaling, "all_reduce")
""",
            ),
        ),
    },
    """
import torch.distributed as dist

dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
summed = TensorDict(a=torch.ones(2), batch_size=[2])
summed.all_sum()
assert summed["a"].tolist() == [1, 1]
dist.destroy_process_group()
""",
)
DTYPE = Request(
    {
        "_dims/_families.py": (("_FLOAT = {\n", '_FLOAT = {\n    "Float4": "float4_e2m1fn_x2",\n'),),
        "_schema/_dtypes.py": (after("# In the order of the table.\n(\n", "    Float4,\n"),),
        "_schema/_json.py": (('name.startswith("float8")', 'name.startswith(("float4", "float8"))'),),
        "typing.py": (
            ("__all__ = [\n", '__all__ = [\n    "Float4",\n'),
            after("    from typing import Annotated as Float\n", "    from typing import Annotated as Float4\n"),
        ),
    },
    """
from tensorclass import load
from tensorclass.typing import Float4, Float32

class Small(TensorClass):
    y: Float4[Tensor, "2"]

if hasattr(torch, "float4_e2m1fn_x2"):  # an older torch has no such tensors
    small = Small(y=torch.zeros(3, 2, dtype=torch.uint8).view(torch.float4_e2m1fn_x2))
    assert small.batch_size == (3,) and str(schema(Small)["y"]) == 'Float4["2"]'
    small.save("small")
    assert type(load("small")) is Small
try:
    Small(y=torch.zeros(3, 2))
except TypeError as error:
    assert "Float4" in str(error)
""",
)
REQUESTS = {
    "a field option": (FIELD_OPTION, 3),
    "a file format": (FORMAT, 4),
    "a verb of rows": (VERB, 2),
    "an engine": (ENGINE, 3),
    "a command": (COMMAND, 2),
    "an operation": (OPERATION, 1),
    "a reduction": (REDUCTION, 1),
    "an interaction type": (INTERACTION, 1),
    "a join policy": (JOIN_POLICY, 3),
    "a distribution": (DISTRIBUTION, 3),
    "a collective": (COLLECTIVE, 3),
    "a class option": (CLASS_OPTION, 5),
    "a dtype": (DTYPE, 4),
}


def run(folder: Path, *arguments: str) -> None:
    """Run Python in a folder, which is the first place of its imports."""
    done = subprocess.run([sys.executable, *arguments], check=False, cwd=folder, env={}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", REQUESTS)
def test_the_page_names_the_files(name: str) -> None:
    """internals.md names every existing file that a request edits, in the table of what to edit."""
    page = (ROOT / "docs" / "internals.md").read_text("utf-8")
    table = page.partition("## What to edit to add one")[2].partition("\n## ")[0]
    request, files = REQUESTS[name]
    assert len(request.edits) == files
    assert [place for place in request.edits if (PACKAGE / place).exists() and f"`{place}`" not in table] == []


@pytest.mark.slow
def test_requests_take_as_few_files_as_the_page_says(tmp_path: Path) -> None:
    """What is new works on every surface when the files that internals.md names are edited."""
    shutil.copytree(PACKAGE, tmp_path / "tensorclass", ignore=shutil.ignore_patterns("__pycache__"))
    for request, _ in REQUESTS.values():
        for place, edits in request.edits.items():
            path = tmp_path / "tensorclass" / place
            text = path.read_text("utf-8") if path.exists() else ""
            for old, new in edits:
                assert old in text, (place, old)
                text = text.replace(old, new, 1) if old else new
            path.write_text(text, "utf-8")
        if request.generates:
            run(tmp_path, "-m", "tensorclass.ops._generate")
    run(tmp_path, "-c", "\n".join(request.program for request, _ in REQUESTS.values()))
