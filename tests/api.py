"""What broke in the public interface since a release: `make api-check` compares the sources with the last tag.

The page about stability, as the release had it, says which names are promised. A changed name of the stable ones fails
the check; the others are listed. Nothing is imported: griffe reads the sources.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

import griffe

from tests._sources import ROOT

PAGE = Path("docs") / "stability.md"
BINDING = "Stable"
KINDS = (BINDING, "Provisional", "Kept for those who migrate")


def promised(text: str) -> dict[str, dict[str, list[str]]]:
    """Kind -> module -> the names that the page about stability lists."""
    found = {}
    for part in text.split("\n## ")[1:]:
        lists = re.findall(r"\*\*`([\w.]+)`:\*\* (.*?)\n\n", part + "\n\n", re.S)
        found[part.partition("\n")[0]] = {room: re.findall(r"`(\w+)`", names) for room, names in lists}
    return found


def read_package(checkout: Path) -> griffe.Module:
    """The package of a checkout, with its imports followed."""
    loader = griffe.GriffeLoader(search_paths=[checkout], allow_inspection=False)
    package = loader.load("tensorclass", try_relative_path=False)
    loader.resolve_aliases(implicit=True)
    assert isinstance(package, griffe.Module)
    return package


def public_part(package: griffe.Module, rooms: dict[str, list[str]]) -> griffe.Module:
    """A module for the names that a page lists; a name of no object of the sources is left out."""
    part = griffe.Module("public")
    for room, names in rooms.items():
        for name in names:
            try:
                target = package[f"{room}.{name}".partition(".")[2]]
                final = target.final_target if isinstance(target, griffe.Alias) else target
            except (KeyError, griffe.AliasResolutionError):
                continue
            part.set_member(f"{room}.{name}".replace(".", ":"), griffe.Alias(name, final, parent=part))
    return part


def changes(old: Path, new: Path) -> dict[str, list[str]]:
    """Kind -> what broke between two checkouts, by the page of the older one."""
    before, after = read_package(old), read_package(new)
    return {
        kind: [
            told(breakage)
            for breakage in griffe.find_breaking_changes(public_part(before, rooms), public_part(after, rooms))
        ]
        for kind, rooms in promised((old / PAGE).read_text("utf-8")).items()
    }


def told(breakage: griffe.Breakage) -> str:
    """The name, the argument if one is meant, and what happened to it."""
    values = [value.name for value in (breakage.old_value, breakage.new_value) if isinstance(value, griffe.Parameter)]
    return f"{breakage.obj.path}{f'({values[0]})' if values else ''}: {breakage.kind.value}"


def main(given: list[str]) -> int:
    """Print what broke since a tag, by default the last one; the exit status is 1 if a stable name did."""
    tag = given[0] if given else git("describe", "--tags", "--abbrev=0", "--match", "v*")
    if not tag:
        print("no release yet: there is nothing to compare with")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(f"git archive {tag} tensorclass {PAGE} | tar -x -C {folder}", shell=True, cwd=ROOT, check=True)
        found = changes(Path(folder), ROOT)
    for kind, lines in found.items():
        print(f"{kind}: {len(lines)} changes since {tag}", *lines, sep="\n  ")
    return 1 if found[BINDING] else 0


def git(*words: str) -> str:
    """What git prints; nothing if it fails."""
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
