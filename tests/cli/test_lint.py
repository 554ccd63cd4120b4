"""`tensorclass lint`: what is found, in every format, and what the command says if mypy can't run."""

from __future__ import annotations

import json
import os
from pathlib import Path
from textwrap import dedent

import pytest

from tensorclass.cli import _lint as command
from tensorclass.cli._main import main
from tensorclass.errors import MissingExtraError
from tensorclass.typecheck import _lint
from tensorclass.typecheck._lint import LintError, LintFinding, lint

PROGRAM = """
    import torch
    from torch import Tensor
    from tensorclass import tensorclass
    from tensorclass.typing import Float32, Int64

    @tensorclass
    class Steps:
        ids: Int64[Tensor, "t"]
        score: Float32[Tensor, "t"]

    def swap(steps: Steps):
        steps.ids = steps.score
        number: int = "text"
        return Steps(steps.score, steps.ids)
"""
FOUND = [
    LintFinding("src/a.py", 3, 5, 'Steps: "ids" is 100 %', "tensorclass-dtype"),
    LintFinding("src/a.py", 4, 1, "tensorclass.mypy_plugin failed here (KeyError: 'x')", "", "note"),
]


def _stubbed(monkeypatch: pytest.MonkeyPatch, found: list[LintFinding]) -> None:
    monkeypatch.setattr(command, "lint", lambda *args, **kwargs: found)


@pytest.mark.slow
def test_a_file_is_analyzed_as_by_the_plugin(tmp_path: Path) -> None:
    """Untyped functions too; what mypy says about other things is there with `every`; a second run gives the same."""
    file = tmp_path / "steps.py"
    file.write_text(dedent(PROGRAM).lstrip(), "utf-8")
    found = lint([file], cache=tmp_path / "cache")
    assert [(one.line, one.code) for one in found] == [
        (12, "tensorclass-dtype"), (14, "tensorclass-dtype"), (14, "tensorclass-dtype"),
    ]  # fmt: skip
    assert lint([file], cache=tmp_path / "cache") == found
    assert [one.code for one in lint([file], every=True, cache=tmp_path / "cache") if one.line == 13] == ["assignment"]
    file.write_text("def f(:\n", "utf-8")
    broken = lint([file], cache=tmp_path / "cache")
    assert (broken[0].line, {one.code for one in broken}) == (1, {"syntax"})


@pytest.mark.slow
@pytest.mark.parametrize("line", ["x = (yield)", "class A:\n    x = [(yield)]"])
def test_what_does_not_compile_is_named_with_its_place(tmp_path: Path, line: str) -> None:
    """Also where mypy's parser accepts it and its analysis stops; not as a message that mypy stopped."""
    (tmp_path / "odd.py").write_text(f"import gone\n{line}\n", "utf-8")
    found = lint(["odd.py"], cache=tmp_path / "cache", root=tmp_path)
    assert {(one.path, one.line, one.code) for one in found} == {("odd.py", 2 + line.count("\n"), "syntax")}


TYPOS = """
    from steps import Steps, make
    from tensorclass.nn import stage
    from torch import Tensor

    class Other:
        def read(self):
            return self.score

    class Longer(Steps):
        def read(self):
            return self.scores

    def narrow(score: Tensor) -> Tensor:
        return score

    def f(steps: Steps, longer: Longer):
        steps.idz
        longer.read()
        make().scoree
        Steps.scores
        steps.replace(scor=steps.score)
        stage(narrow, Steps.ids, Steps.score)
        number: int = steps
        Steps(steps.ids)
        [1].idz
"""


@pytest.mark.slow
def test_what_mypy_itself_says_about_typed_classes_is_found(tmp_path: Path) -> None:
    """Misspelled fields of classes of this and other files, and arguments that don't fit, but nothing about others."""
    for name, text in (("steps", PROGRAM + "\n    def make() -> Steps: ...\n"), ("typos", TYPOS)):
        (tmp_path / f"{name}.py").write_text(dedent(text).lstrip(), "utf-8")
    found = lint(["typos.py"], cache=tmp_path / "cache", root=tmp_path)
    assert [(one.line, one.code) for one in found] == [
        (11, "attr-defined"), (17, "attr-defined"), (19, "attr-defined"), (20, "attr-defined"),
        (21, "call-arg"), (22, "arg-type"), (24, "call-arg"),
    ]  # fmt: skip


def test_text(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One line for each finding; exit status 1 for a mistake, 0 for nothing and for notes."""
    _stubbed(monkeypatch, FOUND)
    assert main(["lint", str(tmp_path)]) == 1
    out, err = capsys.readouterr()
    assert out.splitlines()[0] == 'src/a.py:3:5: error: Steps: "ids" is 100 % [tensorclass-dtype]'
    assert err == "1 finding\n"
    _stubbed(monkeypatch, FOUND[1:])
    assert main(["lint", str(tmp_path)]) == 0


def test_json(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A list of findings with place, code and text."""
    _stubbed(monkeypatch, FOUND)
    assert main(["lint", "--format=json", str(tmp_path)]) == 1
    assert [LintFinding(**row) for row in json.loads(capsys.readouterr().out)] == FOUND


def test_sarif(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One run with its rules and results."""
    _stubbed(monkeypatch, FOUND)
    main(["lint", "--format=sarif", str(tmp_path)])
    made = json.loads(capsys.readouterr().out)
    assert made["version"] == "2.1.0"
    results = made["runs"][0]["results"]
    assert [one["level"] for one in results] == ["error", "note"]
    assert results[0]["ruleId"] == "tensorclass-dtype"
    place = results[0]["locations"][0]["physicalLocation"]
    assert place == {"artifactLocation": {"uri": "src/a.py"}, "region": {"startLine": 3, "startColumn": 5}}


def test_github(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Workflow commands with escaped text."""
    _stubbed(monkeypatch, FOUND)
    main(["lint", "--format=github", str(tmp_path)])
    first, second = capsys.readouterr().out.splitlines()
    assert first == '::error file=src/a.py,line=3,col=5,title=tensorclass-dtype::Steps: "ids" is 100 %25'
    assert second.startswith("::notice ")


def test_what_stops_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit status 2 for a missing file, for mypy that ends early, and without mypy."""
    assert main(["lint", str(tmp_path / "none.py")]) == 2
    assert "none.py: no such file or folder" in capsys.readouterr().err

    def fail(*args: object, **kwargs: object) -> list[LintFinding]:
        raise LintError("INTERNAL ERROR")

    monkeypatch.setattr(command, "lint", fail)
    assert main(["lint", str(tmp_path)]) == 2
    assert "mypy stopped: INTERNAL ERROR" in capsys.readouterr().err
    monkeypatch.setattr(_lint, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match="runs on mypy"):
        lint([tmp_path])


def test_watch(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It looks again after a change, and ends when it is interrupted."""
    _stubbed(monkeypatch, FOUND[:1])
    file = tmp_path / "a.py"
    file.write_text("x = 1\n", "utf-8")
    looks = iter(["x = 2\n", ""])

    def sleep(seconds: float) -> None:
        text = next(looks)
        if not text:
            raise KeyboardInterrupt
        file.write_text(text, "utf-8")
        os.utime(file, ns=(1, 1))

    monkeypatch.setattr("tensorclass.cli._stubs.time.sleep", sleep)
    assert main(["lint", "--watch", str(tmp_path)]) == 0
    assert capsys.readouterr().out.count("[tensorclass-dtype]") == 2
