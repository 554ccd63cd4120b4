"""The command line as a whole: help, version, targets, errors without tracebacks."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tensorclass import __version__
from tensorclass.cli import main
from tensorclass.cli._main import COMMANDS, CommandError, parser_of
from tensorclass.cli._target import load_target


def test_help_lists_the_commands(capsys):
    """Without a command the help is printed and the status says that nothing ran."""
    assert main([]) == 2
    assert "commands" in capsys.readouterr().out


def test_version(capsys):
    """The version of the package that runs, installed or not."""
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"tensorclass {__version__}\n"


def test_unknown_command(capsys):
    """The answer names the nearest command, and all of them."""
    assert main(["chek"]) == 2
    told = capsys.readouterr().err
    assert "no command `chek`; did you mean `check`?" in told
    assert "verify" in told


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("graph", ["arguments are required: FILE.py", "example: tensorclass graph train.py:classifier --out"]),
        ("graph train.py --formt svg", ["usage: tensorclass graph", "no option `--formt`; did you mean `--format`?"]),
        ("graph train.py --ot=g.svg", ["no option `--ot`; did you mean `--out`?"]),
        ("doctor all", ["usage: tensorclass doctor", "one argument too many: `all`"]),
        ("--verson", ["no option `--verson`; did you mean `--version`?"]),
    ],
)
def test_wrong_arguments(line, told, capsys):
    """The answer is of the command that was called: the nearest option, and an example of a whole line."""
    assert main(line.split()) == 2
    shown = capsys.readouterr().err
    assert [text for text in told if text not in shown] == []


def test_examples_of_commands_are_lines_of_theirs(capsys):
    """Each command understands its example; `help NAME` is its help."""
    for name, command in COMMANDS.items():
        found, unknown = parser_of(name).parse_known_args([name, *command.example.split()])
        assert (found.parser.prog, unknown) == (f"tensorclass {name}", [])
    assert main(["help", "graph"]) == 0
    assert "usage: tensorclass graph" in capsys.readouterr().out


def test_target_in_a_file(tmp_path):
    """A file and a dotted attribute; the file's folder is on the path while it loads."""
    (tmp_path / "other_part.py").write_text("size = 3\n")
    file = tmp_path / "program_of_targets.py"
    file.write_text("import other_part\n\nclass Holder:\n    size = other_part.size\n")
    assert load_target(f"{file}:Holder.size") == 3
    assert str(tmp_path) not in sys.path
    with pytest.raises(CommandError, match="did you mean `Holder`"):
        load_target(f"{file}:Holdr")


def test_target_in_a_module():
    """A module by its dotted name; one that is missing is named."""
    assert load_target("collections.abc:Mapping").__name__ == "Mapping"
    with pytest.raises(CommandError, match="no module `no_such_module`"):
        load_target("no_such_module:x")
    with pytest.raises(CommandError, match="no file"):
        load_target("no/such/file.py:x")


def test_the_command_starts_without_torch():
    """What needs no torch does not wait for it."""
    code = "import sys; from tensorclass.cli import main; main(['--version']); assert 'torch' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_a_closed_pipe_ends_a_command_quietly():
    """As with `| head`: no traceback, and an exit status that says that not all was printed."""
    command = [sys.executable, "-m", "tensorclass", "doctor"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 1
