"""The repository around the code: one version, pinned dependencies, working commands, links that lead somewhere."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, metadata, packages_distributions, requires, version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests._sources import PACKAGE, ROOT, sources, text_files, tracked_files

FOLDERS = {".ci", ".github", "changelog.d", "docs", "examples", "stubs", "tensorclass", "tests"}
FILES = {
    ".gitignore",
    ".pre-commit-config.yaml",
    ".pre-commit-hooks.yaml",
    "CITATION.cff",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "LICENSE",
    "Makefile",
    "README.md",
    "SECURITY.md",
    "constraints.txt",
    "pyproject.toml",
}
TARGETS = [
    "demo",
    "test",
    "lint",
    "types",
    "generated",
    "unit",
    "slow",
    "bench",
    "size",
    "docs",
    "api-check",
    "dist",
    "released",
    "format",
    "clean",
]
# Written in pieces, or this file would name them.
REGISTRIES = ["pypi" + ".org", "python" + "hosted", "npmjs" + ".org", "download.pytorch" + ".org"]
FOREIGN_TOOLS = {"uv.lock", "poetry.lock", "setup.py", "setup.cfg", "requirements.txt"}
UNPINNED = {"mosaicml-streaming"}
"""Its releases ask for older versions of numpy than the one that the tests run with; a stand-in is tested."""
LINK = re.compile(r"(?<!!)\[[^\]]*\]\((?!\w+:)(?P<target>[^)#\s]+)(?:#[^)]*)?\)")


def _read(name: str) -> str:
    return (ROOT / name).read_text("utf-8")


def _pins() -> dict[str, str]:
    """Package -> pinned version, as constraints.txt has them."""
    lines = [line.partition("#")[0].strip() for line in _read("constraints.txt").splitlines()]
    requirements = [Requirement(line) for line in lines if line]
    return {canonicalize_name(r.name): str(r.specifier) for r in requirements}


def _own_requirements() -> Iterator[Requirement]:
    for line in metadata("tensorclass").get_all("Requires-Dist") or ():
        requirement = Requirement(line)
        if requirement.name != "tensorclass":
            yield requirement


def test_top_level_is_known():
    """The top level holds what docs and CI know about, nothing left lying."""
    names = {path.relative_to(ROOT).parts for path in tracked_files()}
    assert {parts[0] for parts in names if len(parts) > 1} <= FOLDERS
    assert {parts[0] for parts in names if len(parts) == 1} == FILES


def test_one_version():
    """`__version__` is the only place: the build reads it, and the changelog begins with it."""
    number = version("tensorclass")
    tree = ast.parse((PACKAGE / "__init__.py").read_text("utf-8"))
    assigned = {ast.unparse(node.targets[0]): node.value for node in tree.body if isinstance(node, ast.Assign)}
    assert ast.literal_eval(assigned["__version__"]) == number
    assert number not in _read("pyproject.toml").partition("[project.scripts]")[0]
    assert f"\n## {number}" in _read("CHANGELOG.md")


def test_every_dependency_is_pinned():
    """What the package or an extra asks for stands in constraints.txt, at a version that it accepts."""
    pins = _pins()
    for requirement in _own_requirements():
        if requirement.name in UNPINNED:
            continue
        pin = pins.get(canonicalize_name(requirement.name), "")
        assert pin.startswith("=="), f"{requirement.name} is not pinned in constraints.txt"
        assert requirement.specifier.contains(pin.removeprefix("==")), f"{requirement} does not accept {pin}"


def test_the_page_names_the_versions():
    """The table of versions has what pyproject.toml requires and what constraints.txt pins."""
    rows = re.findall(r"^\| (\w[\w ]*) \| ([\d.]*) ?\| ([\d.]+)", _read("docs/install.md"), re.M)
    table = {name.split()[0]: (least, tried) for name, least, tried in rows}
    pins = _pins()
    least = {r.name: next(iter(r.specifier)).version for r in _own_requirements() if r.marker is None}
    assert {"torch", "numpy", "pydantic", "typing_extensions", "mypy", "pyright"} <= table.keys()
    for name, (oldest, tried) in table.items():
        package = str(canonicalize_name(name))
        if name != "Python":
            assert tried == pins[package].removeprefix("=="), name
            assert oldest == least.get(package, least.get(name, "")), name
    assert f">={table['Python'][0]}" in _read("pyproject.toml")


def _imported(source: Path) -> Iterator[str]:
    """Top-level modules that a file imports, also by `import_module("name")`."""
    for node in ast.walk(ast.parse(source.read_text("utf-8"))):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [node.module or ""]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("import_module", "importorskip")):
            names = [str(ast.literal_eval(node.args[0]))] if isinstance(node.args[0], ast.Constant) else []
        yield from (name.partition(".")[0] for name in names if not name.startswith("."))


def _required() -> set[str]:
    """The packages that pyproject.toml asks for, and those that they ask for in turn, extras included."""
    found: set[tuple[str, str]] = set()
    waiting = {(r.name, extra) for r in _own_requirements() for extra in ("", *r.extras)}
    while waiting:
        found.add(one := waiting.pop())
        try:
            needed = [Requirement(line) for line in requires(one[0]) or ()]
        except PackageNotFoundError:
            continue
        needed = [r for r in needed if r.marker is None or r.marker.evaluate({"extra": one[1]})]
        waiting |= {(r.name, extra) for r in needed for extra in ("", *r.extras)} - found
    return {canonicalize_name(name) for name, _ in found}


def test_every_import_is_required():
    """A fresh machine has each package that the sources, tests and examples import, since an extra names it."""
    installed = packages_distributions()
    required = _required()
    missing = {
        (name, str(path.relative_to(ROOT)))
        for path in tracked_files()
        if path.suffix == ".py"
        for name in _imported(path)
        if name in installed
        and name != PACKAGE.name
        and not {canonicalize_name(one) for one in installed[name]} & required
    }
    assert not missing


def test_runtime_dependencies_are_few():
    """A user's program installs these and what they need; everything else is an extra."""
    names = {canonicalize_name(requirement.name) for requirement in _own_requirements() if requirement.marker is None}
    assert names == {"torch", "numpy", "pydantic", "typing-extensions"}


@pytest.mark.parametrize("target", TARGETS)
def test_make_knows_the_target(target):
    """Every command that the documents name is one."""
    done = subprocess.run(["make", "--dry-run", target], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_ci_runs_the_tests():
    """The entry point of CI is a program that shells accept and that calls `make test`."""
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    subprocess.run(["bash", "-n", str(script)], check=True)
    assert "set -euo pipefail" in _read(".ci/run")
    assert "\nmake test " in _read(".ci/run")


@pytest.mark.parametrize(
    ("exits", "calls", "code"),
    [
        ((0, 0), ["test", "slow"], 0),
        ((2, 0, 0), ["test", "unit again", "slow"], 0),
        ((2, 2), ["test", "unit again"], 2),
        ((0, 2, 0), ["test", "slow", "slow again"], 0),
        ((0, 2, 2), ["test", "slow", "slow again"], 2),
    ],
)
def test_ci_runs_a_failing_test_once_more(tmp_path, exits, calls, code):
    """What fails again fails the run; what fails only beside other tests is named, and does not."""
    (tmp_path / "repo" / ".ci").mkdir(parents=True)
    script = shutil.copy(ROOT / ".ci" / "run", tmp_path / "repo" / ".ci")
    make = tmp_path / "make"
    make.write_text('#!/bin/sh\necho "$1 ${2:+again}" >> ../calls\nexit $(sed -n "$(wc -l < ../calls)p" ../exits)\n')
    make.chmod(0o755)
    (tmp_path / "exits").write_text("".join(f"{one}\n" for one in exits))
    environment = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(["bash", script], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    assert [line.strip() for line in (tmp_path / "calls").read_text().splitlines()] == calls
    assert ("flaky" in done.stdout) == (code == 0 and "again" in " ".join(calls))


def test_templates_of_issues():
    """Each says for what it is, and asks for a program or a message."""
    forms = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.md"))
    heads = [dict(re.findall(r"^(\w+): (.+)$", form.read_text("utf-8").split("---\n")[1], re.M)) for form in forms]
    assert len(forms) >= 3
    assert all(head.keys() == {"name", "about", "labels"} for head in heads)
    assert len({head["name"] for head in heads}) == len(forms)
    assert all("```" in form.read_text("utf-8") for form in forms)
    assert "changelog.d/" in _read(".github/PULL_REQUEST_TEMPLATE.md")


def test_one_set_of_tools():
    """pip, hatchling and make; no second lock file, no second place for settings."""
    assert not {path.name for path in tracked_files()} & FOREIGN_TOOLS


@pytest.mark.parametrize("host", REGISTRIES)
def test_no_registry_is_named(host):
    """Where packages come from is the machine's choice."""
    assert [name for name, text in text_files() if host in text] == []


def test_package_is_marked_typed():
    """Checkers read inline types only beside `py.typed`."""
    assert (PACKAGE / "py.typed").is_file()


def test_links_lead_somewhere():
    """Relative links of every Markdown file name a file of the repository; programs have none."""
    tracked = set(tracked_files())
    broken = []
    for page in (path for path in tracked if path.suffix == ".md"):
        text = re.sub(r"^ *```.*?^ *```", "", page.read_text("utf-8"), flags=re.M | re.S)
        for link in LINK.finditer(text):
            if (page.parent / link["target"]).resolve() not in tracked:
                broken.append(f"{page.relative_to(ROOT)}: {link['target']}")
    assert broken == []


def test_links_are_recognised():
    """Relative targets are read without their anchor; URLs and images are left out."""
    text = "[a](x.md) [b](sub/y.md#part) [c](https://host/z.md) ![d](d.png) [e](#here)"
    assert [link["target"] for link in LINK.finditer(text)] == ["x.md", "sub/y.md"]


def test_site_shows_every_page():
    """A page of docs/ that is not in the navigation would never be found."""
    navigation = set(re.findall(r"^ +- [^:\n]+: (\S+\.md)$", _read("docs/site/mkdocs.yml"), re.M))
    docs = ROOT / "docs"
    pages = {
        path.relative_to(docs).as_posix() for path in tracked_files() if path.suffix == ".md" and docs in path.parents
    }
    assert pages - navigation == set()


def test_tests_are_plain_functions():
    """No test classes, and every test says what must hold."""
    wrong = []
    for source in sources(ROOT / "tests"):
        for node in ast.walk(source.tree):
            if isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
                wrong.append(f"{source.name}:{node.lineno}: a class")
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_") and not ast.get_docstring(node):
                wrong.append(f"{source.name}:{node.lineno}: no docstring")
    assert wrong == []


def test_import_stays_light():
    """Importing the package brings in no optional package, no compiler and not the anchor."""
    heavy = ["tensordict", "jaxtyping", "sklearn", "tqdm", "mypy", "hypothesis", "h5py", "torch._dynamo.eval_frame"]
    before = "import sys, torch, numpy, pydantic; known = set(sys.modules)"
    program = f"{before}; import tensorclass; print(*(set({heavy!r}) & (set(sys.modules) - known)))"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


@pytest.mark.slow
def test_wheel_holds_the_package(tmp_path):
    """A wheel built from the checkout has every source file and the type marker, and nothing but the package."""
    checkout = tmp_path / "checkout"
    shutil.copytree(PACKAGE, checkout / "tensorclass", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, checkout)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(tmp_path), "."]
    subprocess.run(command, cwd=checkout, check=True)
    (wheel,) = tmp_path.glob("tensorclass-*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    expected = {path.relative_to(ROOT).as_posix() for path in tracked_files() if PACKAGE in path.parents}
    assert {"tensorclass/py.typed", "tensorclass/mypy_plugin.py", "tensorclass/cli/differences.txt"} <= expected
    assert expected <= names
    assert {name.partition("/")[0].partition("-")[0] for name in names} == {"tensorclass"}


SMALL = """
import sys
from importlib.abc import MetaPathFinder


class NoExtras(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name in ("pandas", "pyarrow", "polars", "h5py", "zarr", "datasets", "ray", "dask", "matplotlib"):
            raise ModuleNotFoundError(name)


sys.meta_path.insert(0, NoExtras())

import torch
from torch import Tensor, nn
from tensorclass import load, tensorclass
from tensorclass.nn import TensorClassModule, TensorClassSequential
from tensorclass.typing import Float32


@tensorclass
class Row:
    x: Float32[Tensor, "3"]
    y: Float32[Tensor, "4"] | None = None


layer = TensorClassModule(nn.Linear(3, 4), in_fields=Row.x, out_fields=Row.y)
Row(x=torch.zeros(2, 3)).save("row.safetensors")
if __name__ == "__main__":
    print(layer(Row.load("row.safetensors")).y.shape)
"""
"""A program without extras, which pretends that none is installed."""


@pytest.mark.slow
def test_release_installs_into_an_empty_environment(tmp_path):
    """The sdist holds what a wheel needs: installed from it, the package, its types and its command are there."""
    checkout, built, backend = tmp_path / "checkout", tmp_path / "built", tmp_path / "backend"
    shutil.copytree(PACKAGE, checkout / "tensorclass", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, checkout)
    pip = [sys.executable, "-m", "pip"]
    subprocess.run(
        [*pip, "install", "--quiet", "--target", str(backend), "hatchling", "hatch-fancy-pypi-readme"], check=True
    )
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    build = [sys.executable, "-m", "hatchling", "build", "--directory", str(built)]
    subprocess.run(build, cwd=checkout, env={**clean, "PYTHONPATH": str(backend)}, check=True, capture_output=True)
    assert {path.suffix for path in built.iterdir()} == {".gz", ".whl"}
    (sdist,) = built.glob("*.tar.gz")
    venv.create(tmp_path / "venv", with_pip=False)
    python = tmp_path / "venv" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    subprocess.run([*pip, "--python", str(python), "install", "--quiet", "--no-deps", str(sdist)], check=True)
    where = "import sysconfig; print(sysconfig.get_path('purelib'))"
    done = subprocess.run([str(python), "-c", where], capture_output=True, text=True, check=True)
    site = Path(done.stdout.strip())
    assert (site / "tensorclass" / "py.typed").is_file()
    # The packages that it depends on, behind its own files on the path.
    (site / "packages.pth").write_text(sysconfig.get_path("purelib"), "utf-8")
    program = "import tensorclass; print(tensorclass.__file__, tensorclass.__version__)"
    done = subprocess.run(
        [str(python), "-c", program], cwd=tmp_path, env=clean, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [str(site / "tensorclass" / "__init__.py"), version("tensorclass")]
    (tmp_path / "small.py").write_text(SMALL, "utf-8")

    def printed(*command: str) -> str:
        return subprocess.run(command, cwd=tmp_path, env=clean, capture_output=True, text=True, check=True).stdout

    assert printed(str(python), "small.py") == "torch.Size([2, 4])\n"
    command = str(python.with_name("tensorclass"))
    assert "inspect" in printed(command, "--help")
    printed(command, "stubs", "small.py")
    assert "class Row" in (tmp_path / "small.pyi").read_text("utf-8")
    (tmp_path / "old.py").write_text("from tensordict import TensorDict\n", "utf-8")
    assert "1 file to be written" in printed(command, "migrate", "old.py")


TYPED = """
import torch
from torch import Tensor
from tensorclass import TensorClass, TensorDict
from tensorclass.utils import unravel_key


class Point(TensorClass):
    x: Tensor


reveal_type(Point(torch.zeros(2), batch_size=[2])[0].x)
reveal_type(TensorDict(a=torch.zeros(2)).clone())
reveal_type(unravel_key("a"))
Point(y=3)
"""


@pytest.fixture(scope="module")
def editable(tmp_path_factory):
    """The interpreter of an environment with nothing but an editable install, beside the packages of this one."""
    folder = tmp_path_factory.mktemp("editable")
    venv.create(folder / "venv", with_pip=False)
    python = folder / "venv" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    quiet = ["-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps", "--editable", str(ROOT)]
    subprocess.run([sys.executable, *quiet], check=True)
    where = "import sysconfig; print(sysconfig.get_path('purelib'))"
    done = subprocess.run([str(python), "-c", where], capture_output=True, text=True, check=True)
    Path(done.stdout.strip(), "packages.pth").write_text(sysconfig.get_path("purelib"), "utf-8")
    return python


@pytest.mark.slow
def test_an_editable_install_is_a_path(editable, tmp_path):
    """Plain `pip install -e .` adds the checkout to the path, which checkers follow, and runs."""
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    program = "import tensorclass; print(tensorclass.__file__)"
    done = subprocess.run(
        [str(editable), "-c", program], cwd=tmp_path, env=clean, capture_output=True, text=True, check=True
    )
    assert Path(done.stdout.strip()) == PACKAGE / "__init__.py"
    entries = [path.read_text("utf-8").strip() for path in editable.parent.parent.rglob("_editable_impl_*.pth")]
    assert entries == [str(ROOT)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "command", [["mypy", "--python-executable"], ["pyright", "--pythonpath"]], ids=lambda command: command[0]
)
def test_an_editable_install_is_typed_elsewhere(command, editable, tmp_path):
    """A checker that runs outside of the checkout finds the types, and a wrong call."""
    (tmp_path / "program.py").write_text(TYPED, "utf-8")
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "MYPYPATH")}
    call = [sys.executable, "-m", *command, str(editable), "program.py"]
    done = subprocess.run(call, cwd=tmp_path, env=clean, capture_output=True, text=True, check=False)
    found = [line for line in done.stdout.splitlines() if "Type of" in line or "Revealed type" in line]
    assert [name in line for name, line in zip(("Tensor", "TensorDict", "tuple[str"), found, strict=True)] == [True] * 3
    wrong = [line for line in done.stdout.splitlines() if "error:" in line or " - error" in line]
    last = len(TYPED.splitlines())
    assert wrong, done.stdout
    assert all(f"program.py:{last}:" in line for line in wrong), done.stdout
