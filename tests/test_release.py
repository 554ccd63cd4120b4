"""What a release is made of: its metadata, its extras, the archives, and the workflows that publish it."""

from __future__ import annotations

import ast
import gzip
import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.metadata import Metadata
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests._sources import PACKAGE, ROOT, sources, text_files

tomllib = pytest.importorskip("tomllib", reason="Python 3.10 reads no TOML")
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PROVIDES = {"cloudpickle": "distributed", "dask": "distributed", "streaming": "mosaicml-streaming"}
"""Module -> the package of an extra that brings it, where the names differ."""
TIME = "1700000000"
TOOLS: list[str] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["build-system"]["requires"]


def brought(extra: str) -> set[str]:
    """The packages that an extra asks for, those of the extras that it names included."""
    requirements = [Requirement(line) for line in PROJECT["optional-dependencies"][extra]]
    nested = {name for r in requirements if r.name == "tensorclass" for part in r.extras for name in brought(part)}
    return nested | {str(canonicalize_name(r.name)) for r in requirements if r.name != "tensorclass"}


def test_messages_name_extras_that_bring_the_package():
    """`pip install 'tensorclass[hdf5]'` in a message mends the program: the extra exists and brings the package."""
    calls = [
        [argument.value if isinstance(argument, ast.Constant) else "" for argument in node.args]
        for source in sources(PACKAGE)
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "optional" and len(node.args) == 3
    ]
    named = {(module.partition(".")[0], extra) for module, _, extra in calls if module}
    assert ("h5py", "hdf5") in named
    assert [one for one in named if PROVIDES.get(one[0], one[0]) not in brought(one[1])] == []


def test_pages_name_extras_that_exist():
    """In every text, `tensorclass[name]` is an extra."""
    named = {
        (name, extra.strip())
        for name, text in text_files() if name.startswith(("docs/", "README", "tensorclass/"))
        for found in re.findall(r"tensorclass\[([a-z]+(?:,[a-z]+)*)\]", text) for extra in found.split(",")
    }  # fmt: skip
    assert len(named) > 3
    assert {one for one in named if one[1] not in PROJECT["optional-dependencies"]} == set()


def test_the_page_of_installing_lists_the_extras():
    """Each extra of users has its line; those of contributors have none."""
    page = (ROOT / "docs" / "install.md").read_text("utf-8").partition("## Versions")[0]
    for_contributors = {"bench", "test", "docs", "dev", "release"}
    assert {name for name in PROJECT["optional-dependencies"] if f"`{name}`" not in page} == for_contributors


def test_classifiers_agree_with_the_table_of_versions():
    """The Pythons of the metadata are those that the page says were tried."""
    page = (ROOT / "docs" / "install.md").read_text("utf-8")
    row = re.findall(r"^\| Python \|(.*)\|$", page, re.M)[0]
    told = {name for name in PROJECT["classifiers"] if re.search(r":: 3\.\d", name)}
    assert told == {f"Programming Language :: Python :: {name}" for name in re.findall(r"3\.\d+", row)}


def test_one_home():
    """Links to the repository and the documentation are those of the metadata."""
    hosts = {"/".join(url.split("/")[:3]) for url in PROJECT["urls"].values()}
    assert {"Documentation", "Repository", "Changelog", "Issues"} <= PROJECT["urls"].keys()
    home = PROJECT["urls"]["Repository"]
    assert home in (ROOT / "CITATION.cff").read_text("utf-8")
    assert home in (ROOT / "docs" / "site" / "mkdocs.yml").read_text("utf-8")
    found = {url for _, text in text_files() for url in re.findall(r"https://[a-z.]*tensorclass\.example", text)}
    assert found == hosts
    assert "security@tensorclass.example" in (ROOT / "SECURITY.md").read_text("utf-8")


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_call_make(path):
    """What a workflow runs is a target that a contributor can run, and every job has a limit or only publishes."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.M))
    workflow = yaml.safe_load(path.read_text("utf-8"))
    assert workflow["permissions"] == {"contents": "read"}
    for job in workflow["jobs"].values():
        commands = [step["run"] for step in job["steps"] if "run" in step]
        assert ("timeout-minutes" in job) == bool(commands)
        for command in commands:
            make, *called = [word for word in command.partition("ARGS=")[0].split() if word]
            assert make == "make"
            assert set(called) <= targets
        assert all("@" in step["uses"] for step in job["steps"] if "uses" in step)


def test_workflows_are_valid():
    """Actionlint accepts them: events, expressions, the inputs of actions."""
    program = Path(sysconfig.get_path("scripts")) / "actionlint"
    done = subprocess.run([program, *WORKFLOWS], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_a_tag_publishes():
    """Publishing needs the tag, the tests and the checked archives; it stores no token."""
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text("utf-8"))
    assert workflow[True] == {"push": {"tags": ["v*"]}}  # YAML reads `on` as a bool
    commands = [step.get("run") for step in workflow["jobs"]["build"]["steps"]]
    assert [command for command in commands if command] == ["make released", "make test", "make dist"]
    publish = workflow["jobs"]["publish"]
    assert publish["needs"] == "build"
    assert publish["permissions"] == {"id-token": "write"}
    assert not any("secrets" in path.read_text("utf-8") for path in WORKFLOWS)


@pytest.fixture(scope="module")
def builds(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The folders of two builds of the same sources, which lie elsewhere and were written at other times."""
    backend = tmp_path_factory.mktemp("backend")
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(backend), *TOOLS]
    subprocess.run(install, check=True)
    folders = []
    for when in (1_600_000_000, 1_650_000_000):
        checkout = tmp_path_factory.mktemp("checkout")
        shutil.copytree(PACKAGE, checkout / "tensorclass", ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("pyproject.toml", "README.md", "LICENSE"):
            shutil.copy(ROOT / name, checkout)
        for path in checkout.rglob("*"):
            os.utime(path, (when, when))
        environment = {**os.environ, "PYTHONPATH": str(backend), "SOURCE_DATE_EPOCH": TIME}
        build = [sys.executable, "-m", "hatchling", "build"]
        subprocess.run(build, cwd=checkout, env=environment, check=True, capture_output=True)
        folders.append(checkout / "dist")
    return folders


@pytest.mark.slow
def test_two_builds_are_equal(builds):
    """With the same `SOURCE_DATE_EPOCH`, archives are the same bytes, wherever and whenever they were built."""
    first, second = ({p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in f.iterdir()} for f in builds)
    assert len(first) == 2
    assert first == second


@pytest.mark.slow
def test_the_metadata_is_valid(builds):
    """An index accepts it: the fields are valid, the links absolute, and the description is the README."""
    (wheel,) = builds[0].glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        found = Metadata.from_email(archive.read(name), validate=True)
        assert all(info.date_time[:3] == (2023, 11, 14) for info in archive.infolist())
    assert found.description_content_type == "text/markdown"
    home = f"{PROJECT['urls']['Repository']}/blob/main/"
    readme = (ROOT / "README.md").read_text("utf-8")
    linked = re.findall(r"\]\(([^()\s]+)\)", found.description)
    assert len(linked) > 20
    assert [
        link
        for link in linked
        if not (link.startswith(home) and (ROOT / link[len(home) :].partition("#")[0]).is_file())
    ] == []
    assert found.description.replace(home, "") == readme
    assert found.license_expression == "MIT"
    assert set(found.provides_extra or ()) == set(PROJECT["optional-dependencies"])
    (sdist,) = builds[0].glob("*.tar.gz")
    with gzip.open(sdist) as unzipped, tarfile.open(fileobj=unzipped) as archive:
        held = {name.partition("/")[2].partition("/")[0] for name in archive.getnames()}
    assert held == {"tensorclass", "pyproject.toml", "README.md", "LICENSE", "PKG-INFO", ".gitignore"} & held
    assert {"tensorclass", "README.md", "LICENSE", "PKG-INFO"} <= held
