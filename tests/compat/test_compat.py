"""The layer for programs of `tensordict`: each program runs in a process of its own, with and without it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tensorclass.compat.__main__ import main
from tests._sources import ROOT

HERE = Path(__file__).parent


def run(*arguments: str, code: int = 0) -> str:
    """The output of a Python process in the repository."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == code, done.stderr
    return done.stdout if code == 0 else done.stderr


@pytest.mark.slow
def test_a_program_prints_the_same():
    """Private names, lenient classes, wrapped reads, error texts and subclasses give what `tensordict` gives."""
    program = str(HERE / "_program.py")
    assert run("-m", "tensorclass.compat", program) == run(program)


@pytest.mark.slow
def test_spawned_workers_have_the_layer():
    """A spawned worker finds the same modules, and pickles pass between both."""
    program = str(HERE / "_spawning.py")
    assert run("-m", "tensorclass.compat", program) == run(program) == "[2.0, 2.0]\n"


DOORS = """
import sys
from tensorclass.compat import install, installed
from tensorclass.errors import page_of
assert not installed() and "tensordict" not in sys.modules
install()
install()
import importlib.metadata, tensorclass, tensordict, tensordict.memmap, tensordict.nn as nn
assert installed() and tensordict.TensorDict is tensorclass.TensorDict and nn.TensorDictModule
assert tensordict.__version__ == importlib.metadata.version("tensordict") == "0.15.3"
assert tensordict.nn is nn and callable(tensordict.memmap) and callable(tensordict.tensorclass)
assert importlib.metadata.version("torch")
assert not hasattr(tensordict.utils, "_no_such_name")
from tensordict.store import TensorDictStore
assert not isinstance(1, TensorDictStore)
for statement in (
    "from tensordict.utils import _no_such_name", "import tensordict._private", "from tensordict import LazyTensor",
    "from tensordict.nn import TensorDictModul", "import tensordict.prototype", "from tensordict.base import _none",
    "from tensordict.nn.probabilistic import set_interaction_typ", "import tensordict._torch_func",
    "from tensordict.tensorclass import _x", "import tensordict.nn.nothing", "tensordict.nn.Nothing",
):
    try:
        exec(statement)
    except (ImportError, AttributeError) as error:
        name = statement.split()[-1].rpartition(".")[2]
        assert name in str(error) and "0.15.3" in str(error) and page_of("compat") in str(error), error
    else:
        raise AssertionError(statement)
"""


@pytest.mark.slow
def test_install():
    """`install` gives the modules and the version; a name that does not exist is refused by name, version and page."""
    run("-c", DOORS)


@pytest.mark.slow
def test_it_refuses_beside_the_original():
    """After `import tensordict` it is too late, and the error says what to do."""
    text = run("-c", "import tensordict, tensorclass.compat as c; c.install()", code=1)
    assert "already imported" in text
    assert "python -m tensorclass.compat" in text


@pytest.mark.slow
def test_off_unless_asked_for():
    """Importing the package, or the layer itself, changes nothing."""
    program = """
import tensorclass, tensorclass.nn, tensorclass.compat, sys
assert not any(type(finder).__module__.startswith("tensorclass.compat") for finder in sys.meta_path)
assert not hasattr(tensorclass.TensorDict, "_fast_apply")
assert tensorclass.TensorDict(s="x").pop("s") == "x"
import tensordict
assert tensordict.TensorDict is not tensorclass.TensorDict
"""
    run("-c", program)


@pytest.mark.slow
def test_pytest_plugin(tmp_path):
    """`-p tensorclass.compat.pytest` installs it for a suite."""
    suite = tmp_path / "test_suite.py"
    suite.write_text(
        "import tensorclass, tensordict\n\ndef test():\n    assert tensordict.TensorDict is tensorclass.TensorDict\n"
    )
    options = ("-p", "no:cacheprovider", "-p", "no:xdist", "--rootdir", str(tmp_path), "-c", "/dev/null")
    assert "1 passed" in run("-m", "pytest", "-q", "-p", "tensorclass.compat.pytest", *options, str(suite))


def test_usage():
    """Without a script, or with one that does not exist, the command says how it is called."""

    assert main([]) == main(["none.py"]) == 2
    assert main(["--help"]) == 0
