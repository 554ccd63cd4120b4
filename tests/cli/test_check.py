"""`tensorclass check`: exit status, diagnostics without a traceback, JSON for other programs."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tensorclass.cli import main
from tests.cli._program import RIGHT, UNFIT, WARNS, WRONG, program


def test_right(tmp_path, capsys):
    """A right pipeline gives 0; without a name all pipelines of the module are checked, each once."""
    file = program(tmp_path, "check_right", RIGHT)
    assert main(["check", f"{file}:classifier"]) == 0
    assert f"{file}:classifier: Image -> Prediction: " in capsys.readouterr().out
    assert main(["check", file]) == 0
    out = capsys.readouterr().out
    assert out.count("Image -> Prediction: ") == 1
    assert "alias" not in out


def test_function(tmp_path, capsys):
    """A function without parameters is called for its pipeline."""
    assert main(["check", program(tmp_path, "check_function", RIGHT) + ":make"]) == 0
    assert ":make: Image -> Prediction" in capsys.readouterr().out


def test_wrong(tmp_path, capsys):
    """Errors of the build are printed as diagnostics, with status 1 and no traceback."""
    file = program(tmp_path, "check_wrong", WRONG)
    assert main(["check", f"{file}:classifier"]) == 1
    out, err = capsys.readouterr()
    assert "error[E101]: module 0 `head` reads `h`, which nothing before it provides" in out
    assert "check_wrong.py:18" in out
    assert "1 error" in out
    assert "Traceback" not in out + err
    assert err == ""


def test_warnings(tmp_path, capsys):
    """Warnings are printed and keep status 0; they are not printed twice."""
    assert main(["check", program(tmp_path, "check_warns", WARNS)]) == 0
    out, err = capsys.readouterr()
    assert out.count("warning[W201]") == 1
    assert "1 warning" in out
    assert err == ""


def test_several_targets(tmp_path, capsys):
    """One wrong target is enough for status 1; the others are checked all the same."""
    right, wrong = program(tmp_path, "check_one", RIGHT), program(tmp_path, "check_two", WRONG)
    assert main(["check", wrong, f"{right}:classifier"]) == 1
    out = capsys.readouterr().out
    assert "E101" in out
    assert f"{right}:classifier" in out


def test_json(tmp_path, capsys):
    """One object for each pipeline, with records of what was found."""
    right, wrong = program(tmp_path, "check_json", RIGHT), program(tmp_path, "check_json_wrong", WRONG)
    assert main(["check", "--format", "json", wrong, right]) == 1
    first, second = json.loads(capsys.readouterr().out)
    assert (first["ok"], second["ok"]) == (False, True)
    assert first["diagnostics"][0]["code"] == "E101"
    assert first["diagnostics"][0]["severity"] == "error"
    assert first["diagnostics"][0]["name"] == "head"
    assert (second["target"], second["title"]) == (f"{right}:classifier", "Image -> Prediction")


def test_no_probe(tmp_path, capsys):
    """Without probing, the declarations alone are checked; with it, what a module refuses is found."""
    file = program(tmp_path, "check_unfit", UNFIT)
    assert main(["check", "--no-probe", file]) == 0
    capsys.readouterr()
    assert main(["check", file]) == 1
    assert "E108" in capsys.readouterr().out


def test_values(tmp_path, capsys):
    """`--values` runs the check of values too."""
    assert main(["check", "--values", program(tmp_path, "check_values", RIGHT)]) == 0
    assert "Image -> Prediction: " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "name", "words"),
    [
        (RIGHT, ":clasifier", "did you mean `classifier`?"),
        (RIGHT, ":Image", "is the class Image, not a TensorClassSequential"),
        (RIGHT, ":broken", "can't be run: KeyError: 'no such thing'"),
        ("x = 1\n", "", "has no TensorClassSequential"),
        ("import no_such_package\n", "", "ModuleNotFoundError: No module named 'no_such_package'"),
        ("def f(:\n", "", "SyntaxError"),
        ("raise ValueError('stop here')\n", "", "ValueError: stop here"),
    ],
)
def test_what_can_not_be_checked(tmp_path, capsys, text, name, words):
    """Status 2 and one line that says why."""
    file = program(tmp_path, f"check_bad_{abs(hash((text, name)))}", text)
    assert main(["check", file + name]) == 2
    out, err = capsys.readouterr()
    assert words in err
    assert err.startswith("tensorclass: ")
    assert "Traceback" not in out + err


def test_missing_file_and_arguments(capsys):
    """Argparse's status is 2 too."""
    assert main(["check", "no/such/file.py"]) == 2
    assert "no file" in capsys.readouterr().err
    assert main(["check"]) == 2
    assert main(["check", "--format", "xml", "x.py"]) == 2


@pytest.mark.slow
@pytest.mark.parametrize(("text", "status"), [(RIGHT, 0), (WRONG, 1)])
def test_in_a_shell(tmp_path, text, status):
    """The command as CI runs it, with a relative path."""
    program(tmp_path, "check_shell", text)
    call = [sys.executable, "-c", "import sys; from tensorclass.cli import main; sys.exit(main())", "check"]
    environment = {**os.environ, "PYTHONPATH": os.getcwd()}
    done = subprocess.run(
        [*call, "check_shell.py"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == status, done.stderr
    assert "Traceback" not in done.stderr
