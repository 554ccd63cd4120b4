"""`new`, `migrate`, `doctor` and pictures: what they write, what they find, what they refuse."""

from __future__ import annotations

import ast
import json
import re
import webbrowser
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import tensorclass
from tensorclass import RaggedTensor, TensorDict, save
from tensorclass.cli import main
from tensorclass.cli._migrate import Rule, rewrite_program, rules
from tensorclass.cli._target import load_module
from tests._sources import ROOT
from tests.cli._program import RIGHT, program

# ---- new -------------------------------------------------------------------------------------------------------------


def data(size: int = 4) -> TensorDict:
    """Every kind of entry."""
    return TensorDict(
        {
            "image": torch.rand(size, 1, 8, 8),
            "half": torch.zeros(size, dtype=torch.float16),
            "ids": torch.zeros(size, 3, dtype=torch.uint8),
            "brain": torch.zeros(size, dtype=torch.bfloat16),
            "ok": torch.zeros(size, dtype=torch.bool),
            "wave": torch.zeros(size, dtype=torch.complex64),
            "tokens": RaggedTensor(torch.arange(size * 2), lengths=[2] * size),
            "words": ["a", None, "c", "d"][:size],
            "src": "scan",
            "pose": {"angle": torch.zeros(size, 3)},
        },
        batch_size=[size],
    )


def written(kind: str, folder: Path) -> Path:
    """Data in a file of each kind."""
    file = folder / f"data.{kind}"
    if kind == "pt":
        torch.save({"image": torch.rand(4, 8, 8), "label": torch.arange(4), "n": {"x": torch.zeros(4)}}, file)
    elif kind == "json":
        file.write_text(json.dumps([{"label": 1, "x": [0.5, 1.0]}, {"label": 2, "x": [0.5, 2.0]}]))
    elif kind == "safetensors":
        save(data(), file)
    else:
        frame = pd.DataFrame({"label": [1, 2], "score": [0.5, 1.0], "name": ["a", "b"]})
        frame.to_parquet(file) if kind == "parquet" else frame.to_csv(file, index=False)
    return file


@pytest.mark.parametrize("kind", ["pt", "json", "safetensors", "parquet", "csv"])
def test_new(kind: str, tmp_path: Path, capsys: Any):
    """The class that is written is one that the data fits."""
    file, out = written(kind, tmp_path), tmp_path / "made.py"
    assert main(["new", "Digits", "--from", str(file), "--out", str(out)]) == 0, capsys.readouterr()
    text = out.read_text("utf-8")
    space: dict[str, Any] = {"__name__": "made"}
    exec(compile(text, str(out), "exec"), space)  # what the command wrote
    cls = space["Digits"]
    if kind == "pt":
        batch = cls.from_dict(torch.load(file))
        assert batch.n.x.shape == (4,)
    elif kind == "safetensors":
        batch = cls.from_tensordict(tensorclass.load(file))
        assert batch.tokens.lengths.tolist() == [2] * 4
    else:
        batch = cls.from_json(path=file) if kind == "json" else getattr(cls, f"from_{kind}")(file)
        assert batch.label.tolist() == [1, 2]
    batch.validate()


@pytest.mark.parametrize(
    ("name", "text", "wanted"),
    [
        ("a.jsonl", '{"x": 1}\n{"x": 2}\n', 'x: Int64[Tensor, ""]'),
        ("a.csv", "x,y\n", "a.csv has no rows; the types of the fields come from them"),
        ("a.csv", "x,x\n1,2\n", "given:    'x' twice"),  # the whole error, not its first line
        ("a.json", "[1, 2]", "it holds no list of objects"),
        ("b.json", "{", "b.json: "),
        ("a.tsv", "x\ty\n1\t2\n", "tables are read from .parquet, .arrow, .feather, .csv, .jsonl"),
    ],
)
def test_new_reads_or_says_why(name: str, text: str, wanted: str, tmp_path: Path, capsys: Any):
    """Lines of JSON are rows; for files that give no class the whole reason is printed."""
    (tmp_path / name).write_text(text, "utf-8")
    status = main(["new", "Digits", "--from", str(tmp_path / name)])
    said = capsys.readouterr()
    assert status == (0 if name == "a.jsonl" else 2)
    assert wanted in said.out + said.err


def test_new_reads_rows_of_torch(tmp_path: Path, capsys: Any):
    """A list of dicts is a batch; other objects are named by their type."""
    torch.save([{"x": torch.rand(3), "y": i} for i in range(2)], tmp_path / "rows.pt")
    assert main(["new", "Digits", "--from", str(tmp_path / "rows.pt")]) == 0
    assert 'x: Float32[Tensor, "3"]' in capsys.readouterr().out
    torch.save([torch.rand(3)], tmp_path / "list.pt")
    assert main(["new", "Digits", "--from", str(tmp_path / "list.pt")]) == 2
    assert "holds a list without entries" in capsys.readouterr().err


def cell(source: Any, kind: str = "code") -> dict[str, Any]:
    """A cell of a notebook."""
    return {"cell_type": kind, "metadata": {}, "source": source}


def test_migrate_notebooks(tmp_path: Path, capsys: Any):
    """Code cells are one program; magics, text and the form of each source stay; findings name the cell."""
    foreign = "%%bash\npip install tensordict"
    cells = [
        cell(["import tensordict"], "markdown"),
        cell(["%matplotlib inline\n", "!pip install tensordict\n", "import tensordict as td\n", "td?\n", "\n"]),
        cell(foreign),
        cell("%%time\nfrom tensordict import stack\nif True:\n    %timeit 1\n"),
        cell("x = 1\ntd.no_such_name"),
    ]
    file, book = tmp_path / "a.ipynb", {"cells": cells, "metadata": {"é": 1}, "nbformat": 4, "nbformat_minor": 5}
    file.write_text(json.dumps(book), "utf-8")
    assert main(["migrate", str(tmp_path)]) == 1  # a folder has them too
    assert "a.ipynb:2: code cell 4: tensorclass has no `no_such_name`" in capsys.readouterr().out
    assert json.loads(file.read_text("utf-8")) == book
    assert main(["migrate", str(file), "--force"]) == 1
    found = json.loads(file.read_text("utf-8"))
    assert found["metadata"] == book["metadata"]
    assert [one["source"] for one in found["cells"]] == [
        ["import tensordict"],
        ["%matplotlib inline\n", "!pip install tensordict\n", "import tensorclass as td\n", "td?\n", "\n"],
        foreign,
        "%%time\nfrom tensorclass import stack\nif True:\n    %timeit 1\n",
        "x = 1\ntd.no_such_name",
    ]
    text = file.read_text("utf-8")
    assert main(["migrate", str(file), "--force"]) == 0
    assert file.read_text("utf-8") == text
    for bad in ("{}", "[]", "{", '{"cells": [{"cell_type": "code", "source": "x = ("}]}'):
        file.write_text(bad, "utf-8")
        assert main(["migrate", str(file)]) == 1
        assert "a.ipynb: can't be read: " in capsys.readouterr().out


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1"])
def test_migrate_keeps_the_encoding(encoding: str, end: str, tmp_path: Path):
    """Python reads all of these files; byte order marks, coding lines and line ends stay."""
    lines = ["# coding: latin-1" if encoding == "latin-1" else "# é", "import tensordict  # é", ""]
    (tmp_path / "a.py").write_bytes(end.join(lines).encode(encoding))
    assert main(["migrate", str(tmp_path), "--force"]) == 0
    lines[1] = "import tensorclass as tensordict  # é"
    assert (tmp_path / "a.py").read_bytes() == end.join(lines).encode(encoding)


def test_migrate_lists_modules_in_strings():
    """A string may be a module; the program is not changed there."""
    text = "import_module('tensordict.nn')\nprint('uses tensordict', 'tensordictx')\npatch('tensordict')\n"
    new, findings = rewrite_program(text)
    assert new == text
    assert [(one.line, one.text.split("'")[1]) for one in findings] == [(1, "tensordict.nn"), (3, "tensordict")]
    assert rewrite_program(f"import tensordict\n{text}")[1] == [one._replace(line=one.line + 1) for one in findings]


def test_new_names(tmp_path: Path, capsys: Any):
    """Names that no field can have are changed, said, and counted as a finding; those of methods need `shadow`."""
    file = tmp_path / "odd.pt"
    torch.save({"a-b": torch.ones(2), "class": torch.ones(2), "names": torch.ones(2), "1": torch.ones(2)}, file)
    assert main(["new", "Odd", "--from", str(file)]) == 1
    said = capsys.readouterr()
    out = said.out
    assert "'class' can't be the name of a field; it is written as `class_`" in said.err
    for line in ("a_b: Float32[Tensor, \"\"]  # in the data 'a-b'", "class_:", "names_:", "field_1_:"):
        assert line in out
    torch.save({"split": torch.ones(2)}, file)
    assert main(["new", "Odd", "--from", str(file)]) == 0
    assert "@tensorclass(shadow=True)" in capsys.readouterr().out


NULLS = {"n": [1, None, 3], "f": [0.5, None, 2.0], "b": [True, None, False], "t": ["x", None, "y"]}


@pytest.mark.parametrize("kind", ["parquet", "json", "jsonl"])
def test_new_takes_nulls(kind: str, tmp_path: Path, capsys: Any):
    """Columns with nulls become fields that read them; the command says so and exits with 1."""
    file, table = tmp_path / f"data.{kind}", pa.table({**NULLS, "s": [{"z": 1}, {"z": None}, {"z": 3}]})
    if kind == "parquet":
        pq.write_table(table, file)
    else:
        rows = [json.dumps(row) for row in table.to_pylist()]
        file.write_text("\n".join(rows) if kind == "jsonl" else f"[{','.join(rows)}]", "utf-8")
    assert main(["new", "Data", "--from", str(file)]) == 1
    said = capsys.readouterr()
    for name in ("n", "f", "b", "z"):
        assert f"'{name}' has nulls; `fill=` of the field `{name}` replaces them" in said.err
    assert 'f: Float64[Tensor, ""] | None = field(join="fill", fill=float("nan"))' in said.out
    (tmp_path / f"made_{kind}.py").write_text(said.out, "utf-8")
    cls = load_module(str(tmp_path / f"made_{kind}.py")).Data
    found = cls.from_parquet(file) if kind == "parquet" else cls.from_json(path=file, lines=kind == "jsonl")
    assert found.n.tolist() == [1, 0, 3]
    assert found.b.tolist() == [True, False, False]
    assert found.f.isnan().tolist() == [False, True, False]
    assert found.s.z.tolist() == [1, 0, 3]
    assert found.t.tolist() == ["x", None, "y"]


def test_new_takes_lists_of_any_length(tmp_path: Path, capsys: Any):
    """They become ragged fields, whose lengths have nothing to do with each other."""
    pq.write_table(pa.table({"a": [[1], [2, 3]], "b": [[1.0, 2.0], []]}), tmp_path / "lists.parquet")
    assert main(["new", "Lists", "--from", str(tmp_path / "lists.parquet")]) == 0
    out = capsys.readouterr().out
    assert 'a: Int64[RaggedTensor, "_"]' in out
    assert 'b: Float64[RaggedTensor, "_"]' in out
    (tmp_path / "made_lists.py").write_text(out, "utf-8")
    found = load_module(str(tmp_path / "made_lists.py")).Lists.from_parquet(tmp_path / "lists.parquet")
    assert found.a.lengths.tolist() == [1, 2]
    assert found.b.lengths.tolist() == [2, 0]
    pq.write_table(pa.table({"a": [[1], None]}), tmp_path / "gaps.parquet")
    assert main(["new", "Gaps", "--from", str(tmp_path / "gaps.parquet")]) == 1
    assert "'a' has nulls; read the data with `nulls=\"fill\"`" in capsys.readouterr().err


@pytest.mark.parametrize(
    "text", ['{"a": 1, "b": "x", "c": [1.5, 2.5]}', '{"n": {"a": [1, 2]}, "words": ["x", "y", "z"]}']
)
def test_new_takes_one_object(text: str, tmp_path: Path, capsys: Any):
    """A file of one JSON object is one instance, which `from_json` reads."""
    (tmp_path / "one.json").write_text(text, "utf-8")
    assert main(["new", "One", "--from", str(tmp_path / "one.json")]) == 0
    (tmp_path / "made_one.py").write_text(capsys.readouterr().out, "utf-8")
    found = load_module(str(tmp_path / "made_one.py")).One.from_json(text)
    assert found.batch_size in ((), (2,))


def test_new_refuses(tmp_path: Path, capsys: Any):
    """A user's file, a wrong name, data that is none; nothing is unpickled."""
    file, out = written("pt", tmp_path), tmp_path / "mine.py"
    out.write_text("x = 1\n")
    assert main(["new", "Digits", "--from", str(file), "--out", str(out)]) == 2
    assert "exists; `--force` replaces it" in capsys.readouterr().err
    assert out.read_text() == "x = 1\n"
    assert main(["new", "Digits", "--from", str(file), "--out", str(out), "--force"]) == 0
    torch.save(Path("a"), tmp_path / "object.pt")
    torch.save({}, tmp_path / "nothing.pt")
    (tmp_path / "broken.json").write_text("{")
    for arguments, message in (
        (["class", "--from", str(file)], "'class' is not the name of a class"),
        (["A", "--from", str(tmp_path / "no.pt")], "no file"),
        (["A", "--from", str(tmp_path / "object.pt")], "plain types are read: it holds pathlib."),
        (["A", "--from", str(tmp_path / "nothing.pt")], "without entries"),
        (["A", "--from", str(tmp_path / "broken.json")], "broken.json: "),
        (["A", "--from", str(file), "--out", "a.txt"], "would hold Python"),
        (["A", "--from", str(file), "--out", str(tmp_path / "no" / "a.py")], "can't write"),
    ):
        assert main(["new", *arguments]) == 2
        assert message in capsys.readouterr().err


TAKEN = ["Tensor", "TensorClass", "tensorclass", "PerElement", "Float32", "int", "list"]


@pytest.mark.parametrize("name", TAKEN)
def test_new_takes_no_name_that_its_module_uses(name: str, tmp_path: Path, capsys: Any):
    """Such a class would hide what its own annotations mean."""
    (tmp_path / "a.csv").write_text("a\n1\n", "utf-8")
    assert main(["new", name, "--from", str(tmp_path / "a.csv")]) == 2
    assert f"`{name}` is a name that the written module uses" in capsys.readouterr().err


def test_new_takes_every_dtype(tmp_path: Path, capsys: Any):
    """A dtype without a name of its own is declared by a family."""
    kinds = [torch.bfloat16, torch.float16, torch.uint8, torch.uint64, torch.bool, torch.complex64, torch.float8_e4m3fn]
    data = {f"x{number}": torch.ones(2).to(kind) for number, kind in enumerate(kinds)}
    torch.save(data, tmp_path / "kinds.pt")
    assert main(["new", "Kinds", "--from", str(tmp_path / "kinds.pt")]) == 0
    (tmp_path / "made_kinds.py").write_text(capsys.readouterr().out, "utf-8")
    found = load_module(str(tmp_path / "made_kinds.py")).Kinds.from_dict(data)
    assert [value.dtype for value in found.values()] == kinds
    assert "x0: BFloat16" in (tmp_path / "made_kinds.py").read_text("utf-8")


def test_new_names_nested_classes_apart(tmp_path: Path, capsys: Any):
    """Two containers whose paths make one name are two classes."""
    nested = {"a": {"b_c": {"x": torch.zeros(2)}}, "a_b": {"c": {"y": torch.ones(2)}}}
    torch.save(nested, tmp_path / "a.pt")
    assert main(["new", "D", "--from", str(tmp_path / "a.pt")]) == 0
    (tmp_path / "written_apart.py").write_text(capsys.readouterr().out, "utf-8")
    made = load_module(str(tmp_path / "written_apart.py"))
    assert made.D.from_dict(nested, auto_batch_size=True).a_b.c.y.equal(torch.ones(2))


# ---- migrate ---------------------------------------------------------------------------------------------------------

IMPORTS = {
    "import tensordict": "import tensorclass as tensordict",
    "import tensordict as td": "import tensorclass as td",
    "import tensordict.nn": "import tensorclass as tensordict, tensorclass.nn",
    "import tensordict.nn as tdnn": "import tensorclass.nn as tdnn",
    "import os, tensordict, tensordict.nn as n  # y": "import os, tensorclass as tensordict, tensorclass.nn as n  # y",
    "from tensordict import TensorDict as T": "from tensorclass import TensorDict as T",
    "from tensordict import (  # both\n    TensorDict,\n)": "from tensorclass import (  # both\n    TensorDict,\n)",
    "from tensordict.nn.common import TensorDictModule": "from tensorclass.nn.common import TensorDictModule",
    "from tensordict import tensorclass": "from tensorclass import tensorclass",
    "if x:\n    é = 1; import tensordict; y = 1": "if x:\n    é = 1; import tensorclass as tensordict; y = 1",
    "import tensordict as tensordict": "import tensorclass as tensordict",
}
ALONE = ["from .tensordict import x\nimport mytensordict, tensordict_more", "tensordict = 1", "'import tensordict'"]
IMPORTS.update({text: text for text in ALONE})


@pytest.mark.parametrize("before", IMPORTS)
def test_imports(before: str):
    """Every way to import is rewritten, and nothing else; what is rewritten runs."""
    after, findings = rewrite_program(before)
    assert after == IMPORTS[before]
    assert findings == []
    if before not in ALONE and not before.startswith("if x"):
        exec(compile(after, "migrated", "exec"), {})


GONE = {rule.text: rule.message for rule in rules() if rule.text.isidentifier()}
SEEN = [rule for rule in rules() if rule.text not in GONE]
MIGRATING = (Path(__file__).parents[2] / "docs" / "migrating.md").read_text("utf-8")


@pytest.mark.parametrize("name", GONE)
def test_names_that_are_gone(name: str):
    """A name that is not here is found in an import and as an attribute, with what to write."""
    assert not hasattr(tensorclass, name)
    assert f"`{name}`" in MIGRATING or f".{name}" in MIGRATING
    for text in (f"from tensordict import {name}", f"import tensordict as td\n\nx = td.{name}"):
        ((line, message),) = rewrite_program(text)[1]
        assert (line, GONE[name] in message) == (text.count("\n") + 1, True)


def applied(rule: Rule) -> tuple[str, int]:
    """A program in which a rule applies once, and the line: the pattern with names in place of `_`."""
    text = re.sub(r"\b_\b", "x", rule.text).replace("OWN", "'Node'").replace("{}", "{'a': 1}")
    head = "from tensordict import *\nimport torch\nfrom collections.abc import Mapping, MutableMapping\n"
    if isinstance(rule.tree, ast.AnnAssign):
        return f"{head}@tensorclass\nclass Node:\n    y: Tensor\n    {text}\n", 7
    return f"{head}y = 1\n{text}\n", 5


@pytest.mark.parametrize("rule", SEEN, ids=lambda rule: rule.text)
def test_differences(rule: Rule):
    """Each rule is found where it applies and is told once; its words are those of the page on migrating."""
    text, line = applied(rule)
    assert [found.line for found in rewrite_program(text)[1] if found.text == rule.message.replace("OWN", "Node")] == [
        line
    ]
    words = set(re.findall(r"[A-Za-z]\w+", rule.text)) - {"with", "pass", "OWN", "True", "False", "str"}
    assert [word for word in words if word not in MIGRATING] == []


QUIET = [
    "torch.save(x)\nnp.pad(x)\njson.load(f)",  # of other packages
    "pad_sequence(x)\nrnn.pad_sequence(y)",
    "x.to(device)\nx.keys(True)\nx.from_dict(d)\nx.view(2)\nx.max(0)\nx.sum(dim=0)\ny = x[0]\nx[0] = y",
    "@dataclass\nclass Plain:\n    x: Tensor = None\n    name: str = ''",
    "@tensorclass\nclass Good:\n    x: Tensor | None = None\n    y: Tensor\n    node: 'Good | None' = None",
    "x == y\nisinstance(x, TensorDict)\n'DISPATCH'",
    "with x.lock_(): pass\nwith torch.no_grad(): pass",
]


@pytest.mark.parametrize("text", QUIET)
def test_what_is_not_different_is_not_told(text: str):
    """The same words in other places, and of other packages."""
    rnn = "import torch.nn.utils.rnn as rnn\nfrom torch.nn.utils.rnn import pad_sequence\n"
    head = f"import torch, json, numpy as np\n{rnn}"
    assert rewrite_program(f"{head}from tensordict import TensorDict\n{text}\n")[1] == []


def test_modules_that_are_missing():
    """A module that is not here, among its neighbours."""
    ((line, message),) = rewrite_program("import tensordict\nimport tensordict.prototype\n")[1]
    assert (line, "no module `prototype`" in message) == (2, True)


def test_migrate(tmp_path: Path, capsys: Any):
    """The diff comes first and writes nothing; `--force` writes; other folders stay alone."""
    file, clean = tmp_path / "a.py", tmp_path / "b.py"
    file.write_text("from tensordict import TensorDict\nTensorDict().half()\n")
    clean.write_text("x = 1\n")
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / "c.py").write_text("import tensordict\n")
    assert main(["migrate", str(tmp_path)]) == main(["migrate", str(tmp_path), "--diff"]) == 1
    out = capsys.readouterr().out
    assert "+from tensorclass import TensorDict" in out
    assert f"{file}:2: `half`" in out
    assert "1 file to be written with --force" in out
    assert file.read_text().startswith("from tensordict")
    assert main(["migrate", str(tmp_path), "--force"]) == 1
    assert file.read_text() == "from tensorclass import TensorDict\nTensorDict().half()\n"
    assert (tmp_path / ".venv" / "c.py").read_text() == "import tensordict\n"
    assert main(["migrate", str(clean)]) == 0
    assert "0 files" in capsys.readouterr().out


def test_migrate_refuses(tmp_path: Path, capsys: Any):
    """A path that is not there is wrong use; a file that can't be read is a finding."""
    assert main(["migrate", str(tmp_path / "no.py")]) == 2
    assert main(["migrate"]) == 2
    (tmp_path / "bad.py").write_text("import tensordict (\n")
    (tmp_path / "bytes.py").write_bytes(b"\xff\xfe")
    assert main(["migrate", str(tmp_path)]) == 1
    assert capsys.readouterr().out.count("can't be read") == 2


# ---- doctor ---------------------------------------------------------------------------------------------------------


def test_doctor(tmp_path: Path, monkeypatch: Any, capsys: Any):
    """What is installed and set up; what is missing is wrong, what is optional is not."""
    monkeypatch.chdir(tmp_path)
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    for word in ("python", "torch", "numpy", "pydantic", "extra testing", "tensorclass.mypy_plugin", "writes stubs"):
        assert word in out
    (tmp_path / "pyproject.toml").write_text('[tool.mypy]\nplugins = ["tensorclass.mypy_plugin"]\n')
    assert main(["doctor"]) == 0
    assert "plugin in pyproject.toml" in capsys.readouterr().out
    monkeypatch.setattr("tensorclass.cli._doctor._version", lambda name: {"torch": "2.5.1"}.get(name, "99"))
    assert main(["doctor"]) == 1
    assert "2.5.1 (2.6 or newer is needed)" in capsys.readouterr().out


def test_doctor_of_a_checkout(monkeypatch: Any, capsys: Any):
    """A checkout on the path that is not installed has no requirements to look up, and the command says so."""

    def missing(name: str) -> Any:
        raise PackageNotFoundError(name)

    monkeypatch.setattr("importlib.metadata.distribution", missing)
    assert main(["doctor"]) == 2
    told = capsys.readouterr().err
    assert "but is not installed: pip install -e" in told
    assert str(ROOT) in told


# ---- pictures --------------------------------------------------------------------------------------------------------


def test_pictures_and_open(tmp_path: Path, monkeypatch: Any, capsys: Any):
    """A picture is written and shown; a drawing is replaced, a file of the user's is not."""
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    target = program(tmp_path, "graph_open", RIGHT) + ":classifier"
    out = tmp_path / "b.svg"
    for _ in range(2):
        assert main(["graph", target, "--out", str(out), "--open"]) == 0, capsys.readouterr()
    assert out.read_bytes().startswith(b"<svg")
    assert opened == [out.as_uri()] * 2
    for name in ("a.svg", "a.html", "a.mmd"):
        assert main(["graph", target, "--out", str(tmp_path / name)]) == 0
        assert main(["graph", target, "--out", str(tmp_path / name)]) == 0
        (tmp_path / name).write_text("mine")
        assert main(["graph", target, "--out", str(tmp_path / name)]) == 2
        assert "`--force` replaces it" in capsys.readouterr().err
        assert main(["graph", target, "--out", str(tmp_path / name), "--force"]) == 0
    assert main(["graph", target, "--open"]) == 2
    assert "--open needs a file" in capsys.readouterr().err
