"""Every command, every kind of file in the place of its arguments: an answer in time, and nothing written elsewhere."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tensorclass.cli._main import main
from tests._sources import ROOT
from tests._users import open_folder
from tests.cli._program import RIGHT, WRONG
from tests.typecheck.test_stubs import HEAD

pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs the special files of POSIX")

DECLARED = HEAD + "@tensorclass\nclass A:\n    x: Tensor\n"


def _link(to: str) -> Callable[[Path], object]:
    return lambda path: path.symlink_to(to)


def _socket(path: Path) -> None:
    here = os.getcwd()
    os.chdir(path.parent)  # a socket has a short path
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(here)


def _huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(2**33)  # without a byte on the disk


KINDS: dict[str, Callable[[Path], object]] = {
    "missing": lambda path: None,
    "a folder": Path.mkdir,
    "a pipe": os.mkfifo,
    "a socket": _socket,
    "a link to a device": _link("/dev/zero"),
    "a link to a terminal": _link("/dev/tty"),
    "a dangling link": _link("nowhere/at/all"),
    "a link to itself": lambda path: path.symlink_to(path.name),
    "a link to its folder": _link("."),
    "binary": lambda path: path.write_bytes(bytes(range(256)) * 9),
    "null bytes": lambda path: path.write_bytes(b"\0" * 9),
    "another encoding": lambda path: path.write_text("# coding: nonsense\nx = 1\n", "utf-8"),
    "nested deeply": lambda path: path.write_text("x = " + "(" * 20_000 + ")" * 20_000, "utf-8"),
    "nested lists": lambda path: path.write_text("[" * 100_000, "utf-8"),
    "long operands": lambda path: path.write_text("x = " + "+".join("1" * 60_000), "utf-8"),
    "huge": _huge,
}
UNREADABLE = "unreadable"
COMMANDS = {
    "check": "check {0}.py", "explain": "explain {0}.py", "graph": "graph {0}.py", "inspect": "inspect {0}.py",
    "inspect a class": "inspect {0}.py:A", "diff": "diff {0}.py {0}.py", "diff of a schema": "diff {0}.json {0}.json",
    "diff of one in a schema": "diff {0}.json:A {0}.json:A", "stubs": "stubs {0}.py", "stubs of a folder": "stubs .",
    "stubs of a stub": "stubs {0}.pyi",
}  # fmt: skip
TIMEOUT = 60
EACH = """
import contextlib, io, json, os, sys, traceback
from tensorclass.cli._main import main
root = os.geteuid() == 0
for folder, line, stranger in json.load(sys.stdin):
    os.chdir(folder)
    if root:
        os.seteuid(65534 if stranger else 0)
    errors = io.StringIO()
    with contextlib.redirect_stderr(errors), contextlib.redirect_stdout(io.StringIO()):
        try:
            status = main(line.split())
        except BaseException:
            status = traceback.format_exc()
    print(json.dumps([status, errors.getvalue()]), flush=True)
"""
"""One process for all commands, since most of their time is the import of torch."""


def listing(folder: Path) -> dict[str, tuple[int, int]]:
    """What a folder holds, links not followed."""
    return {str(path.relative_to(folder)): (path.lstat().st_mode, path.lstat().st_size) for path in folder.rglob("*")}


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*KINDS, UNREADABLE])
def test_arguments(kind):
    """Exit status 1 or 2 with a message of some lines, never a traceback, a wait or a file more than before."""
    with open_folder() as folder:
        check_arguments(kind, folder)


def check_arguments(kind, outer):
    """Every command with one kind of file."""
    unreadable, calls = kind == UNREADABLE, []
    for command, line in COMMANDS.items():
        folder = outer / command.replace(" ", "_")
        folder.mkdir()
        calls.append((str(folder), line.format("odd"), unreadable))
        for place in [folder / f"odd{suffix}" for suffix in (".py", ".json", ".pyi")]:
            if unreadable:
                place.write_text(DECLARED, "utf-8")
                place.chmod(0)
            else:
                KINDS[kind](place)
    before = listing(outer)
    # A stranger may not import what the commands need: they run once as who may.
    first = [(folder, line.replace("stubs", "stubs --check"), False) for folder, line, _ in calls if unreadable]
    done = subprocess.run(
        [sys.executable, "-c", EACH],
        input=json.dumps(first + calls),
        cwd=outer,
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
    )
    answers = [json.loads(row) for row in done.stdout.splitlines()][len(first) :]
    assert len(answers) == len(calls), done.stderr
    for (_, line, _), (status, told) in zip(calls, answers, strict=True):
        empty = line == "stubs ." or (line.startswith("stubs") and "folder" in kind)  # nothing to do is no fault
        assert status in ((0, 1, 2) if empty else (1, 2)), f"{line}: {status}: {told}"
        assert len(told) < 5000, line
        assert told.strip() or status == 0, line
    assert listing(outer) == before


TARGETS = [
    "a folder", "a pipe", "a socket", "a link to a device", "a dangling link", "a link to itself",
    "a link to its folder",
]  # fmt: skip


@pytest.mark.parametrize("kind", TARGETS)
def test_stubs_are_written_over_files_only(kind, tmp_path, capsys):
    """What has the name of a stub stays as it is, beside a module and below --out."""
    (tmp_path / "a.py").write_text(DECLARED, "utf-8")
    (tmp_path / "out").mkdir()
    KINDS[kind](tmp_path / "a.pyi")
    KINDS[kind](tmp_path / "out" / "a.pyi")
    before = listing(tmp_path)
    assert main(["stubs", str(tmp_path / "a.py")]) == 1
    assert main(["stubs", str(tmp_path / "a.py"), "--out", str(tmp_path / "out")]) == 1
    assert main(["stubs", str(tmp_path / "a.py"), "--check"]) == 1
    assert capsys.readouterr().err.count("only a file is written over") == 2
    assert listing(tmp_path) == before


@pytest.mark.parametrize("kind", TARGETS)
def test_graphs_are_written_over_files_only(kind, tmp_path, capsys):
    """As stubs."""
    file = tmp_path / "graph_odd.py"
    file.write_text(RIGHT, "utf-8")
    KINDS[kind](tmp_path / "a.svg")
    before = listing(tmp_path)
    assert main(["graph", f"{file}:classifier", "--out", str(tmp_path / "a.svg")]) == 2
    assert "only a file is written over" in capsys.readouterr().err
    assert {name: at for name, at in listing(tmp_path).items() if "pycache" not in name} == before


def test_stubs_stay_below_what_was_asked_for(tmp_path, capsys):
    """A folder below --out that is a link to elsewhere is not written to, and nothing is made there."""
    package = tmp_path / "src" / "pack" / "inner"
    package.mkdir(parents=True)
    for folder in (package, package.parent):
        (folder / "__init__.py").write_text("", "utf-8")
    (package / "a.py").write_text(DECLARED, "utf-8")
    for name in ("elsewhere", "out"):
        (tmp_path / name).mkdir()
    (tmp_path / "out" / "pack").symlink_to(tmp_path / "elsewhere")
    assert main(["stubs", str(package / "a.py"), "--out", str(tmp_path / "out")]) == 1
    assert "a link leads out of" in capsys.readouterr().err
    assert list((tmp_path / "elsewhere").iterdir()) == []
    (tmp_path / "asked").symlink_to(tmp_path / "elsewhere")  # the folder that was asked for may be a link itself
    assert main(["stubs", str(package / "a.py"), "--out", str(tmp_path / "asked")]) == 0
    assert (tmp_path / "elsewhere" / "pack" / "inner" / "a.pyi").is_file()


def test_files_are_written_as_a_whole(tmp_path, monkeypatch):
    """A write that fails leaves the old file and no other; the mode of a file is kept."""
    place = tmp_path / "a.pyi"
    (tmp_path / "a.py").write_text(DECLARED, "utf-8")
    assert main(["stubs", str(tmp_path / "a.py")]) == 0
    place.chmod(0o640)
    first = place.read_text("utf-8")
    (tmp_path / "a.py").write_text(DECLARED + "    y: Tensor\n", "utf-8")
    before = listing(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", lambda old, new: (_ for _ in ()).throw(OSError(28, "No space left on device")))
        assert main(["stubs", str(tmp_path / "a.py")]) == 1
    assert place.read_text("utf-8") == first
    assert listing(tmp_path) == before
    assert main(["stubs", str(tmp_path / "a.py")]) == 0
    assert "y: Tensor" in place.read_text("utf-8")
    assert place.stat().st_mode & 0o777 == 0o640


def test_special_files_in_a_folder_of_modules(tmp_path, capsys):
    """They are reported, and the other modules have their stubs."""
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / "zero.py").symlink_to("/dev/zero")
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "a.py").write_text(DECLARED, "utf-8")
    assert main(["stubs", str(tmp_path)]) == 1
    errors = capsys.readouterr().err
    assert errors.count("not a regular file") == 2
    assert (tmp_path / "a.pyi").is_file()


def test_modules_in_another_encoding(tmp_path):
    """A module says in which encoding it is; its stub is in UTF-8."""
    text = "# -*- coding: latin-1 -*-\n" + DECLARED.replace("class A:", 'class A:\n    """Gr\xf6\xdfe."""')
    (tmp_path / "a.py").write_bytes(text.encode("latin-1"))
    (tmp_path / "b.py").write_bytes(b"\xef\xbb\xbf" + DECLARED.encode())
    assert main(["stubs", str(tmp_path)]) == 0
    assert {path.name for path in tmp_path.glob("*.pyi")} == {"a.pyi", "b.pyi"}


@pytest.mark.parametrize("name", ["a.jpg", "a.PDF", "a.svgz", "a.json", "a.png"])
def test_formats_of_graphs(name, tmp_path, capsys):
    """A name that says something else than the formats is refused before anything is built."""
    assert main(["graph", "nothing.py", "--out", str(tmp_path / name)]) == 2
    assert f"a graph is not written as {Path(name).suffix}: name the file `*.svg`, `*.html`" in capsys.readouterr().err


@pytest.mark.parametrize(("form", "name"), [("html", "a.svg"), ("svg", "a.html"), ("mermaid", "a.svg")])
def test_formats_and_names_agree(form, name, tmp_path, capsys):
    """The option and the suffix say the same."""
    assert main(["graph", "nothing.py", "--format", form, "--out", str(tmp_path / name)]) == 2
    assert f"would hold {form}" in capsys.readouterr().err


def test_classes_beside_a_wrong_pipeline(tmp_path, capsys, monkeypatch):
    """Classes of a module are shown although its pipeline can't be built, and compared."""
    file = tmp_path / "wrong_beside.py"
    file.write_text(WRONG, "utf-8")
    assert main(["inspect", f"{file}:Image"]) == 0
    told = capsys.readouterr()
    assert 'Float32["64"]' in told.out
    assert "stopped with an error; the output covers it up to there" in told.err
    assert "E101" in told.err
    assert main(["inspect", str(file)]) == 0
    assert 'Float32["classes"]' in capsys.readouterr().out
    assert main(["diff", f"{file}:Image", f"{file}:Image"]) == 0
    monkeypatch.chdir(tmp_path)
    capsys.readouterr()
    assert main(["inspect", "wrong_beside:Image"]) == 0
    assert main(["inspect", f"{file}:Absent"]) == 2


def test_modules_that_leave(tmp_path, capsys):
    """A module that ends the process is told, and does not decide the exit status."""
    (tmp_path / "leaves.py").write_text("import sys\nsys.exit(0)\n", "utf-8")
    assert main(["inspect", str(tmp_path / "leaves.py")]) == 2
    assert "calls `sys.exit(0)`" in capsys.readouterr().err


def test_a_file_of_data_is_no_module(tmp_path, monkeypatch, capsys):
    """`bad.json` is not the module `json` of the package `bad`, whose program would run."""
    monkeypatch.chdir(tmp_path)
    Path("bad.py").write_text("raise SystemExit('ran')\n", "utf-8")
    Path("bad.json").write_text("{}", "utf-8")
    for command in ("inspect", "check", "explain"):
        assert main([command, "bad.json"]) == 2
        assert "`bad.json` is neither a Python file nor one of `save`" in capsys.readouterr().err


@pytest.mark.parametrize("target", ["a.csv", "a.parquet", "a.json", "a.h5"])
def test_convert_names_the_file_that_is_wrong(target, tmp_path, capsys):
    """A source that can't be read is not told as a target that can't be written."""
    (tmp_path / "source").mkdir()
    assert main(["convert", str(tmp_path / "source"), str(tmp_path / target)]) == 2
    assert "source" in capsys.readouterr().err
    assert not (tmp_path / target).exists()


def test_wrong_use_is_two(tmp_path, monkeypatch, capsys):
    """Sizes below zero, and a target that is the source."""
    monkeypatch.chdir(tmp_path)
    Path("right.py").write_text(RIGHT, "utf-8")
    Path("a.csv").write_text("a\n1\n", "utf-8")
    for line, told in [
        ("explain right.py:classifier --batch-size -1", "whole numbers from 0"),
        ("convert a.csv a.csv --force", "source and target are the same"),
    ]:
        assert main(line.split()) == 2
        assert told in capsys.readouterr().err
    assert Path("a.csv").read_text("utf-8") == "a\n1\n"
