"""`tensorclass doctor`: checks the installation and the setup, and shows fixes."""

from __future__ import annotations

import argparse
import json
import platform
import re
from collections.abc import Iterator
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from ._main import CommandError

Row = tuple[str, str, str]
"""The state ("ok", "wrong", or "-" for optional parts), the subject, and the text."""
REQUIREMENT = re.compile(r"([\w.-]+)[^;>=<]*(?:>=([\d.]+))?[^;]*(?:;.*extra == [\"'](\w+)[\"'])?")
LEFT_OUT = ("test", "docs", "bench", "dev", "release")


def configure(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command: none."""


def run(arguments: argparse.Namespace) -> int:
    """Print one line for each finding; 1 if something is wrong."""
    try:
        rows = [*_package(), *_requirements(), *_checkers(Path())]
    except metadata.PackageNotFoundError:
        here = Path(__file__).parents[2]
        raise CommandError(f"tensorclass runs from {here}, but is not installed: pip install -e '{here}'") from None
    widths = [max(len(row[i]) for row in rows) for i in (0, 1)]
    for mark, what, text in rows:
        print(f"{mark.ljust(widths[0])}  {what.ljust(widths[1])}  {text}")
    return int(any(mark == "wrong" for mark, _, _ in rows))


def _package() -> Iterator[Row]:
    """The rows about Python and about this package."""
    python = platform.python_version()
    yield ("ok" if _numbers(python) >= (3, 10) else "wrong"), "python", f"{python} (3.10 or newer is needed)"
    own = metadata.distribution("tensorclass")
    here = Path(__file__).parents[1]
    url = json.loads(own.read_text("direct_url.json") or "{}")
    text, mark = f"{own.version} in {here}", "ok"
    if url.get("dir_info", {}).get("editable"):
        source = Path(url.get("url", "").removeprefix("file://"))
        text = f"{own.version}, editable, in {here}"
        if here.parent.resolve() != source.resolve():
            mark, text = "-", f"{own.version} runs from {here}; the editable install is {source}"
    yield mark, "tensorclass", text


def _requirements() -> Iterator[Row]:
    """The requirements of the package, then the packages of its extras."""
    extras: dict[str, list[str]] = {}
    for line in metadata.requires("tensorclass") or ():
        found = REQUIREMENT.match(line)
        name, least, extra = found.groups() if found else ("", None, None)
        if extra is not None:
            extras.setdefault(extra, []).append(name)
            continue
        version = _version(name)
        old = version is not None and least is not None and _numbers(version) < _numbers(least)
        wanted = f" ({least} or newer is needed)" if least else ""
        yield ("wrong" if version is None or old else "ok"), name, f"{version or 'is not installed'}{wanted}"
    for extra, names in sorted(extras.items()):
        if extra not in LEFT_OUT:
            missing = [name for name in names if _version(name) is None]
            text = f"`pip install 'tensorclass[{extra}]'` brings {', '.join(missing)}" if missing else ", ".join(names)
            yield ("-" if missing else "ok"), f"extra {extra}", text


def _checkers(folder: Path) -> Iterator[Row]:
    """Whether mypy uses the plugin, and whether there are stubs for pyright."""
    files = [folder / name for name in ("mypy.ini", ".mypy.ini", "pyproject.toml", "setup.cfg")]
    texts = {file.name: file.read_text("utf-8", "replace") for file in files if file.is_file()}
    named = [name for name, text in texts.items() if "tensorclass.mypy_plugin" in text]
    advice = 'add `plugins = ["tensorclass.mypy_plugin"]` to its configuration'
    if find_spec("mypy") is None:
        yield "-", "mypy", "is not installed"
    else:
        yield ("ok" if named else "-"), "mypy", f"{_version('mypy')}, {f'plugin in {named[0]}' if named else advice}"
    stubs = any((folder / "stubs").rglob("*.pyi")) if (folder / "stubs").is_dir() else False
    text = "stubs in stubs/" if stubs else "`tensorclass stubs src` writes stubs for classes in the decorator form"
    yield ("ok" if stubs else "-"), "pyright", text


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version.partition("+")[0])[:3]))
