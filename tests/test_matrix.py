"""`make matrix`: versions that can't be installed are rows that say so; with the pinned versions every test runs."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from packaging.version import Version

from tests import _versions, matrix
from tests._sources import ROOT

pytest_plugins = ["pytester"]
PINS = dict(
    line.partition(";")[0].strip().split("==")
    for line in (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    if "==" in line.partition("#")[0]
)


def program(path: Path, text: str) -> None:
    """A shell script in the place of a Python."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


NO_TORCH = """[ "$1" = -c ] && exit 0
mkdir -p "$3/bin"
printf '#!/bin/sh\\necho ERROR: no matching distribution >&2; exit 1' > "$3/bin/python"
chmod +x "$3/bin/python"
"""
"""A Python that makes an environment whose pip finds nothing."""
READY = """case "$*" in
*pip*) ;;
*-c*) echo 9.1.4 2.6.0 1.26.4 2.9.2 4.16.0 ;;
*) echo "$@"; echo "== {result} in 2.00s =="; exit {status} ;;
esac
"""
"""An environment whose tests end in that way."""


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine that has no Python but those that a test puts into the folder."""
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.defpath}")
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    monkeypatch.setattr(matrix, "ROOT", tmp_path)
    versions = {name: (f"9.{i}", "2.6.0", "1.*", "2.9.2", "4.*") for i, name in enumerate("abc")}
    monkeypatch.setattr(matrix, "COMBINATIONS", versions)
    return tmp_path


def test_a_missing_version_is_a_row(elsewhere: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No Python, a shim that fails, an index without torch: three rows that say so, and no failure."""
    program(elsewhere / "bin" / "python9.1", "echo 'pyenv: python9.1: command not found' >&2; exit 127")
    program(elsewhere / "pyenv" / "versions" / "9.2.7" / "bin" / "python", NO_TORCH)
    assert matrix.main([]) == 0
    table = capsys.readouterr().out.rpartition("\n\n")[2].splitlines()[2:]
    assert table == [
        "| 9.0 | 2.6.0 | 1.* | 2.9.2 | 4.* | not tried: no Python 9.0 here |",
        "| 9.1 | 2.6.0 | 1.* | 2.9.2 | 4.* | not tried: no Python 9.1 here |",
        "| 9.2 | 2.6.0 | 1.* | 2.9.2 | 4.* | not tried: the index has no torch==2.6.0 for this Python |",
    ]
    assert not (elsewhere / "build" / "matrix" / "c").exists()


@pytest.mark.parametrize(("status", "result"), [(0, "1 passed"), (1, "1 failed")])
def test_a_combination_is_a_row(elsewhere: Path, capsys: pytest.CaptureFixture[str], status: int, result: str) -> None:
    """The row has the versions that are installed and what pytest says at its end; a failure is the exit status."""
    folder = elsewhere / "build" / "matrix"
    program(elsewhere / "bin" / "python9.1", "exit 0")
    program(folder / "b" / "bin" / "python", READY.format(status=status, result=result))
    (folder / "b" / "ready").touch()
    assert matrix.main(["b", "--tests", "tests/schema", "--every", "3"]) == status
    where = ", see build/matrix/b.log" if status else ""
    row = f"| 9.1.4 | 2.6.0 | 1.26.4 | 2.9.2 | 4.16.0 | {result} in 2.00s{where} |"
    assert capsys.readouterr().out.splitlines()[0] == row
    assert "--every 3" in (log := (folder / "b.log").read_text())
    assert "tests/schema\n" in log


def test_a_combination_that_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong name is refused before anything is installed."""
    with pytest.raises(SystemExit):
        matrix.main(["oldset"])
    assert "no combination oldset; there are oldest" in capsys.readouterr().err


def test_suites_and_versions() -> None:
    """The tests of the matrix exist. It has the oldest versions that pyproject.toml allows, the pinned, newer ones."""
    assert [suite for suite in matrix.SUITES if not (ROOT / suite).exists()] == []
    project = (ROOT / "pyproject.toml").read_text("utf-8")
    python, *versions = matrix.COMBINATIONS["oldest"]
    assert f'requires-python = ">={python}"' in project
    for package, version in zip(matrix.PACKAGES, versions, strict=True):
        least = project.partition(f'"{package}>=')[2].partition('"')[0]
        assert Version(version).release[:2] == Version(least).release, package
    torches = {name: Version(versions[1]) for name, versions in matrix.COMBINATIONS.items()}
    assert Version(PINS["torch"]) == torches["pinned"] < torches["newest"] == max(torches.values())


def test_nothing_is_skipped_with_the_pinned_versions() -> None:
    """No test needs a newer version than constraints.txt has, so there every test runs."""
    pins = {**PINS, "Python": "3.11"}
    least = [
        ("torch", str(_versions.COMPILES)),
        ("torch", str(_versions.ANCHORED)),
        *(one[:2] for one in _versions.LACKS),
    ]
    for path in (ROOT / "tests").rglob("*.py"):
        least += re.findall(r'needs_package\("(\w+)", "([\d.]+)"', path.read_text("utf-8"))
    assert ("pyarrow", "26") in least
    assert [one for one in least if Version(one[1]) > Version(pins[one[0]])] == []


def test_tests_that_need_a_newer_version_are_skipped(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each with the reason; the others run. What is called of an absent anchor skips the test that calls it."""
    monkeypatch.setattr(_versions, "TORCH", Version("2.6"))
    monkeypatch.setattr(_versions, "LACKS", (("torch", "2.9", "joins", "test_joins"),))
    monkeypatch.setattr(_versions, "version", lambda name: "25.0.1")
    pytester.makeconftest(
        "from tests import _versions\n\ndef pytest_collection_modifyitems(items): _versions.mark(items)"
    )
    pytester.makepyfile("""
        import pytest
        from tests import _versions
        anchor = _versions.Absent

        @anchor.tensorclass(autocast=True)
        class Declared(anchor.Base): pass

        def test_joins(): assert False
        def test_runs(): assert not isinstance(3, anchor.TensorDict)
        @_versions.needs_package("pyarrow", "26", "nulls")
        def test_nulls(): assert False
        def test_compiled(): _versions._not_compiled(len)
        @pytest.mark.parametrize("use", [lambda: anchor(), lambda: anchor.a.b(), lambda: list(anchor.a),
                                         lambda: anchor.a[str], lambda: type("A", (anchor,), {})])
        def test_anchor(use): use(); assert False
    """)
    monkeypatch.delenv("PYTEST_CURRENT_TEST")  # of this test
    done = pytester.runpytest_inprocess("-rs", "-p", "no:cacheprovider")
    done.assert_outcomes(passed=1, skipped=8)
    for reason in ("torch 2.9: joins", "pyarrow 26: nulls", "torch 2.13: compiled or", "torch 2.11: the anchor"):
        done.stdout.fnmatch_lines(f"*needs {reason}*")
