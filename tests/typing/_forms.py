"""The programs of the folder `programs` in other forms: this library's decorator, and the three of the original.

Nothing of the original is imported. A program is rewritten: its classes stand below the other base or decorator, fields
say `Tensor`, and lines that have no like there are replaced by the lines `# anchor: ...` below them, or left out with
their program where these say `none`. In such lines `# E` marks what a checker should report.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.typing._checkers import Found, fresh, run_checker
from tests.typing._notation import Program, Section, parse_program, programs, sections

FORMS = {
    "decorator": "`@tensorclass`, here",
    "original_base": "`TensorClass`, original",
    "original_typed": "`TypedTensorDict`, original",
    "original_decorator": "`@tensorclass`, original",
}
PLAIN = ("mypy", "pyright", "ty", "pyrefly")
CLASS = re.compile(r"^class (?P<name>\w+)\((?P<bases>[^\n]*)\):(?P<rest>.*)$", re.M)
OPTION = re.compile(r', (frozen)=True|\["(\w+)"\]')
ORIGINAL = """\
import torch
from torch import Tensor, nn
from tensordict import TensorClass, TensorDict, TypedTensorDict, tensorclass
from tensordict.nn import TensorDictModule, TensorDictSequential
"""


@dataclass(frozen=True)
class Score:
    """What a checker reports of a form: wrong programs of those that there are, and right ones."""

    caught: int
    wrong: int
    flagged: int
    right: int

    @property
    def percent(self) -> str:
        """How many of the wrong programs are reported."""
        return f"{100 * self.caught / self.wrong:.1f} %"

    def __str__(self) -> str:
        return f"{self.percent} of {self.wrong}, {self.flagged} of {self.right}"


def scores() -> dict[tuple[str, str], Score]:
    """What each checker without a plugin reports of each form."""
    written = {form: [parse_program(path) for path in _write(form)] for form in FORMS}
    paths = [program.path for found in written.values() for program in found]
    return {
        (form, checker): _score(found, said)
        for checker in PLAIN
        for said in [run_checker(checker, paths)]
        for form, found in written.items()
    }


def _score(found: list[Program], said: Found) -> Score:
    # what is partly unknown, pyright's strict mode says of the original's own signatures: not counted
    known = {
        path: {line for line, codes in lines.items() if not all("Unknown" in code for code in codes)}
        for path, lines in said.items()
    }
    every = [
        (part.kind, part.reported(program, known.get(program.path, set())))
        for program in found
        for part in sections(program)
    ]
    caught, flagged = ([seen for kind, seen in every if kind == wanted] for wanted in ("wrong", "right"))
    return Score(sum(caught), len(caught), sum(flagged), len(flagged))


def _write(form: str) -> Iterator[Path]:
    folder = fresh(form)
    for program in programs("programs"):
        path = folder / program.path.name
        path.write_text(rendered(program, form), "utf-8")
        yield path


def rendered(program: Program, form: str) -> str:
    """The text of a program in another form."""
    lines = program.text.splitlines()
    parts = sections(program)
    head = "\n".join(lines[: parts[0].lines.start - 1])
    if form == "decorator":
        return _classes(
            program.text.replace("from tensorclass import ", "from tensorclass import tensorclass, ", 1), form
        )
    bodies = [_section(part, lines) for part in parts]
    text = "\n".join([_head(head), *filter(None, bodies)])
    return _classes(_fields(re.sub(r"# E$", "# E: - | - | -", text, flags=re.M)), form) + "\n"


def _section(part: Section, lines: list[str]) -> str | None:
    """A program as it is, or with the lines of its own; None when there are none."""
    body = [lines[number - 1] for number in part.lines]
    own = [line.removeprefix("# anchor: ") for line in body if line.startswith("# anchor: ")]
    if own == ["none"]:
        return None
    return "\n".join([body[0], *own] if own else body)


def _head(text: str) -> str:
    """The classes and values that programs share, without what stands on this library's modules."""
    kept = [ORIGINAL]
    for statement in ast.parse(text).body:
        source = ast.get_source_segment(text, statement) or ""
        decorators = [ast.unparse(one) for one in getattr(statement, "decorator_list", ())]
        if "from tensorclass" not in source and not re.search(
            r"TensorClass(Module|Seq)|module\(", source + " ".join(decorators)
        ):
            kept.append(source)
    return "\n".join(["# pyright: strict", *kept, *re.findall(r"^# anchor: (.*)$", text, re.M)])


def _fields(text: str) -> str:
    text = re.sub(r"\b(?:Float|Float32|Int64)\[Tensor, \"[^\"]*\"\]", "Tensor", text)
    return text.replace("PerElement[str]", "str").replace(": Tensor = produced()", ": Tensor | None = None")


def _classes(text: str, form: str) -> str:
    """The classes below another base or decorator, and so the children of classes."""
    names = {"TensorClass"}

    def other(found: re.Match[str]) -> str:
        bases, name = found["bases"], found["name"]
        if not names & set(re.findall(r"\w+", re.sub(r"TensorClassModuleBase\[.*\]", "", bases))):
            return found[0]
        names.add(name)
        options = [first or second for first, second in OPTION.findall(bases)] if form.startswith("original") else []
        keywords = ", ".join(f"{option}=True" for option in options) or ", ".join(re.findall(r"\w+=[^,]+", bases))
        if form.startswith("original"):
            bases = OPTION.sub("", bases)
        bare = [base for base in re.split(r", (?![^\[]*\])", bases) if "=" not in base and base != "TensorClass"]
        if form.endswith("decorator"):
            call = f"@tensorclass({keywords})" if keywords else "@tensorclass"
            return f"{call}{found['rest']}\nclass {name}{'(' + ', '.join(bare) + ')' if bare else ''}:{found['rest']}"
        base = "TypedTensorDict" if form == "original_typed" else "TensorClass"
        if "TensorClass" in bases.split(", "):
            bare = [base + "".join(f'["{option}"]' for option in options), *bare]
        return f"class {name}({', '.join(bare)}):{found['rest']}"

    return CLASS.sub(other, text)
