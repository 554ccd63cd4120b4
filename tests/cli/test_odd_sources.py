"""`migrate` and `new` on odd sources: every one ends quickly, with a status, never with a traceback."""

from __future__ import annotations

import ast
import json
import random
import sys

import pytest
import torch

import tensorclass
from tensorclass import TensorDict
from tensorclass.cli import main

HEAD = "import tensordict\n"
ODD = {
    "hex codec": b"# -*- coding: hex -*-\n" + HEAD.encode(),
    "rot13 codec": b"# coding: rot13\nvzcbeg grafbeqvpg\n",
    "unknown codec": b"# coding: nowhere\n" + HEAD.encode(),
    "utf-7": b"# coding: utf-7\nimport tensordict\nx = '+AGEAYg-'\n",
    "utf-16 cookie": b"# coding: utf-16\n" + HEAD.encode(),
    "form feed": b"\x0c" + HEAD.encode() + b"x = 1\n",
    "form feed inside": b"x = 1\x0c\nimport tensordict\n\x0c\nfrom tensordict import TensorDict\n",
    "vertical tab in a text": "x = 'a\x0b\u2028b'\nimport tensordict\n".encode(),
    "carriage returns": b"x = 1\rimport tensordict\rfrom tensordict import stack\r",
    "mixed line ends": b"x = 1\r\nimport tensordict\rfrom tensordict import stack\n",
    "null bytes": b"import tensordict\n\0\n",
    "byte order mark": b"\xef\xbb\xbf" + HEAD.encode(),
    "not utf-8": b"import tensordict\n\xff\xfe\n",
    "tab": b"import\ttensordict\n",
    "continued": b"import \\\n    tensordict\nfrom \\\n tensordict \\\n import TensorDict\n",
    "no blanks": b"import torch,tensordict\nif 1:import tensordict.nn;import tensordict as td\n",
    "brackets": b"from tensordict import (\n    # a comment\n    TensorDict, stack,\n)\n",
    "other letters": "import ｔensordict\nfrom ｔensordict import TensorDict\n".encode(),
    "wide letters before": "é = 'ü𝄞'; import tensordict; ö = tensordict.TensorDict\n".encode(),
    "star": b"from tensordict import *\n",
    "the module itself": b"from tensordict import __main__, __doc__\nimport tensordict.__main__\n",
    "unary minuses": HEAD.encode() + b"x = " + b"-" * 50_000 + b"1\n",
    "attributes": HEAD.encode() + b"x = a" + b".b" * 20_000 + b"\n",
    "brackets in brackets": HEAD.encode() + b"x = " + b"[" * 5_000 + b"]" * 5_000 + b"\n",
    "sum": HEAD.encode() + b"x = " + b"+".join([b"a"] * 20_000) + b"\n",
    "calls": HEAD.encode() + b"x = " + b"tensordict.stack(" * 500 + b"0" + b")" * 500 + b"\n",
    "imports on one line": b"import tensordict;" * 20_000 + b"\n",
    "long list": HEAD.encode() + b"x = [" + b"1," * 100_000 + b"]\n",
    "long text": HEAD.encode() + b"x = '" + b"a" * 1_000_000 + b"'\n",
    "long line of blanks": HEAD.encode() + b" " * 1_000_000 + b"\n",
    "unknown names": b"from tensordict import " + b", ".join(b"n%d" % i for i in range(2_000)) + b"\n",
    "empty": b"",
    "escapes": b"import tensordict\nx = tensordict.\x1b[2J\n",
    "an open text": b"import tensordict\nx = '''abc\n",
    "an open bracket": b"import tensordict\nx = (\n",
    "bad indent": b"import tensordict\n  x\n y\n",
}
CELL = {"cell_type": "code", "source": ["import tensordict\n", "x = 1"]}
NOTEBOOKS = {
    "null": None,
    "a list": [],
    "no cells": {"cells": None},
    "null cells": {"cells": [None, CELL, 3, [], {}]},
    "null source": {"cells": [{"cell_type": "code", "source": None}, CELL]},
    "numbers as source": {"cells": [{"cell_type": "code", "source": [1, None]}, CELL]},
    "null type": {"cells": [{"cell_type": None, "source": "x"}, CELL]},
    "no source": {"cells": [{"cell_type": "code"}, CELL]},
    "lone surrogate": {"cells": [{"cell_type": "code", "source": "import tensordict; x = '\ud800'"}]},
    "magic": {"cells": [{"cell_type": "code", "source": "%%bash\nrm x"}, {"cell_type": "code", "source": "!ls\nx?"}]},
    "blanks": {"cells": [CELL, {"cell_type": "code", "source": " " * 200_000}]},
    "empty source": {"cells": [{"cell_type": "code", "source": ""}, {"cell_type": "code", "source": []}, CELL]},
}


def _status(capsys, *arguments):
    """The status of a command; what it printed has no control characters but line ends."""
    status = main(list(arguments))
    out, err = capsys.readouterr()
    assert all(letter.isprintable() or letter in "\n\t" for letter in out + err)
    assert status in (0, 1, 2)
    assert "Traceback" not in out + err
    return status, out


@pytest.mark.parametrize("name", ODD)
def test_odd_programs_migrate_or_are_named(tmp_path, capsys, name):
    """A program is rewritten so that it still parses, or named as unreadable."""
    file = tmp_path / "odd.py"
    file.write_bytes(ODD[name])
    _, out = _status(capsys, "migrate", str(file))
    readable = "can't be read" not in out
    _status(capsys, "migrate", str(file), "--force")
    after = file.read_bytes()
    if not readable:
        assert after == ODD[name]
    elif after != ODD[name]:
        ast.parse(after)
        assert b"tensorclass" in after
        assert len(after.splitlines()) == len(ODD[name].splitlines())


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_odd_notebooks_migrate_or_are_named(tmp_path, capsys, name):
    """Cells that are not code with text are left alone; the others are rewritten."""
    file = tmp_path / "odd.ipynb"
    file.write_text(json.dumps(NOTEBOOKS[name]))
    _status(capsys, "migrate", str(file))
    _status(capsys, "migrate", str(file), "--force")
    given = NOTEBOOKS[name]
    if isinstance(given, dict) and given["cells"] and CELL in given["cells"]:
        found = json.loads(file.read_text())["cells"]
        assert found[given["cells"].index(CELL)]["source"][0] == "import tensorclass as tensordict\n"


PROGRAM = b"""# coding: utf-8
from tensordict import TensorDict, tensorclass
import tensordict.nn as nn, tensordict
@tensorclass
class A:
    x: int
td = TensorDict({"a": 1}, [3]); td.memmap("x"); nn.TensorDictModule(f, in_keys=["\xc3\xa9"])
"""


def _mutated(rng, data):
    """Some bytes of a source, changed, removed, repeated or swapped for odd ones."""
    pieces = [
        b"\0",
        b"\x0c",
        b"\r",
        b"\t",
        b"\\\n",
        b"\xff",
        b"'",
        b"(",
        b"]",
        b";",
        b"import ",
        b"tensordict",
        b"#",
        b"\n",
    ]
    out = bytearray(data)
    for _ in range(rng.randint(1, 6)):
        at = rng.randrange(len(out) + 1)
        match rng.randrange(4):
            case 0:
                out[at:at] = rng.choice(pieces)
            case 1:
                del out[at : at + rng.randint(1, 20)]
            case 2:
                out[at:at] = out[at : at + rng.randint(1, 40)]
            case _:
                out[at : at + 1] = bytes([rng.randrange(256)])
    return bytes(out)


@pytest.mark.parametrize("seed", range(4))
def test_mutated_programs_never_crash(tmp_path, capsys, seed):
    """Random changes of a program and of a notebook end with a status; what is rewritten parses."""
    rng = random.Random(seed)
    book = json.dumps({"cells": [{"cell_type": "code", "source": PROGRAM.decode().splitlines(True)}]}).encode()
    for number in range(60):
        file = tmp_path / ("p.ipynb" if number % 3 == 2 else "p.py")
        given = _mutated(rng, book if file.suffix == ".ipynb" else PROGRAM)
        file.write_bytes(given)
        _status(capsys, "migrate", str(file), "--force")
        if file.suffix == ".py" and file.read_bytes() != given:
            ast.parse(file.read_bytes())


# ---- new -------------------------------------------------------------------------------------------------------------

KEYS = [
    "²", "x²", "class", "None", "match", "__class__", "__init__", "__slots__", "_", "__", "", " ", "a b", "a-b",
    "1a", "ﬁ", "fi", "é", "e\u0301", "\x1b[2J", "a\nb", "'", '"', "\\", "\u202e", "self", "cls", "batch_size",
    "device", "int", "print", "Tensor", "TensorDict", "mro", "١", "名", "𝒳", "_private", "a" * 500, "names", "keys",
    "field", "tensorclass",
]  # fmt: skip


def _class_of(text, name):
    space = {"__name__": "written"}
    exec(compile(text, "written.py", "exec", dont_inherit=True), space)
    return space[name]


@pytest.mark.parametrize("key", KEYS)
def test_any_key_gives_a_module_that_runs(tmp_path, capsys, monkeypatch, key):
    """A name that Python or the library refuses is changed, so that the written module can be imported."""
    monkeypatch.setitem(sys.modules, "written", sys.modules[__name__])
    file = tmp_path / "data.json"
    file.write_text(json.dumps([{key: 1, "other": 2.0, "n": {key: 3}}] * 2))
    status, out = _status(capsys, "new", "Made", "--from", str(file))
    if status != 2:
        made = _class_of(out, "Made")
        assert len(made.__tensorclass_schema__.fields) == 3


def test_all_odd_keys_at_once(tmp_path, capsys, monkeypatch):
    """Keys whose names agree after the change stay apart."""
    monkeypatch.setitem(sys.modules, "written", sys.modules[__name__])
    file = tmp_path / "data.safetensors"
    TensorDict({key: torch.zeros(2) for key in KEYS if key}, batch_size=[2]).save(file)
    _, out = _status(capsys, "new", "Made", "--from", str(file))
    assert len(_class_of(out, "Made").__tensorclass_schema__.fields) == len({*KEYS}) - 1


SOURCES = {
    "a.json": [
        "", "null", "3", "[]", "[null]", "[1]", '{"a": null}', "[" * 2000 + "]" * 2000, "[{}]", "\x1b[2J",
        '{"a":' * 500 + "1" + "}" * 500, '[{"a": 1}, {"a": "x"}]', '{"a": {"b": []}}', '[{"a": 1e400}]',
    ],
    "a.jsonl": ["", "\n\n", "{}", "{", '{"a": 1}\n{"a": [1, 2]}', "\x1b"],
    "a.csv": ["", "a,a\n1,2", "a\n", "a,b\n1", '"', "\x1b[2J\n1", "²,class\n1,2"],
    "a.pt": ["", "no", "\x80\x02."],
    "a.safetensors": ["", "x" * 20],
    "a.parquet": ["", "PAR1PAR1"],
    "a.txt": ["", "text"],
    "a.h5": ["", "text"],
}  # fmt: skip


@pytest.mark.parametrize(("name", "text"), [(name, text) for name, texts in SOURCES.items() for text in texts])
def test_odd_data_gives_a_class_or_a_message(tmp_path, capsys, name, text):
    """Empty, damaged and deeply nested data ends with a status."""
    file = tmp_path / name
    file.write_text(text)
    _status(capsys, "new", "Made", "--from", str(file))


# ---- what is printed -------------------------------------------------------------------------------------------------

BAD = "a\x1b]0;title\x07\nb\x9b2J\u202e\u2028c"


def test_keys_are_escaped_wherever_they_are_printed(tmp_path, capsys):
    """Keys of a file can't move the cursor, add lines or turn the direction of text."""
    data = TensorDict({BAD: torch.zeros(2), "n": TensorDict({BAD: torch.ones(2)}, [2])}, [2])
    file = tmp_path / "odd.safetensors"
    data.save(file, checksums=True)
    for text in (repr(data), str(data.describe()), data._repr_html_(), repr(tensorclass.load(file))):
        assert all(letter.isprintable() or letter == "\n" for letter in text)
        assert "a\\x1b]0;title\\x07\\nb\\x9b2J\\u202e\\u2028c" in text
    _, out = _status(capsys, "inspect", str(file))
    assert out.count("\\x1b]0;") >= 2
    for wrong in (lambda: data["n", BAD + "x"], lambda: data.set(("n", BAD, "x"), 1), lambda: data.rename_key_(BAD, 3)):
        with pytest.raises(Exception) as caught:
            wrong()
        assert all(letter.isprintable() or letter == "\n" for letter in str(caught.value))
    with open(file, "r+b") as raw:
        raw.seek(-1, 2)
        raw.write(b"\1")
    status, out = _status(capsys, "verify", str(file))
    assert status == 1
    assert "\\x1b" in out


def test_saved_schemas_are_escaped(tmp_path, capsys):
    """The names in a saved schema can't add lines to what `diff` prints."""
    field = {"name": "x", "kind": "tensor", "dtype": "Float32", "dims": "", "optional": False, "join": "stack",
             "init": True, "kw_only": False}  # fmt: skip
    good = {"name": "A", "fields": [field]}
    odd = [
        {"name": BAD, "fields": []}, {**good, "name": BAD}, {**good, "fields": [{**field, "name": BAD}]},
        {**good, "fields": [{**field, "dims": BAD}]}, {**good, "fields": [{**field, "kind": BAD}]}, {"fields": 3},
        {**good, "fields": [{**field, "name": BAD}, {**field, "name": f"{BAD}2"}]}, {"fields": {"a": 1}},
        {"fields": [None]}, {"name": 3, "fields": {"x": {"kind": BAD}}}, [], None, {BAD: {"a": 1}, "B": {}},
    ]  # fmt: skip
    for number, given in enumerate(odd):
        one, other = tmp_path / f"{number}.json", tmp_path / "good.json"
        one.write_text(json.dumps(given))
        other.write_text(json.dumps(good))
        for form in ("text", "markdown", "json"):
            _, out = _status(capsys, "diff", str(one), str(other), "--format", form)
            assert form == "json" or "title" not in out or "\\x1b]0;title\\x07\\nb" in out
            _status(capsys, "diff", str(other), str(one), "--format", form)
