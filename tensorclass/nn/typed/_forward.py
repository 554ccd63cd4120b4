"""Generates the forward of a pipeline: local variables, freed after their last use, and one construction of the output.

A pipeline of two modules becomes

    def forward(self, batch):
        if not isinstance(batch, Input): return self._of_another_class(batch)
        M = self._modules
        v0 = batch.image
        v1 = M['linear_0'](v0)
        v0 = None
        ...
        return Output(logits=v1, digit=v2, batch_size=batch._batch_size, names=batch._names)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, NoReturn

from torch import Tensor
from torch.utils.checkpoint import checkpoint

from ...classes._compile import compile_function
from ...core import Path
from ...errors import ModuleError, Problem, SchemaError
from ..check._identity import source_of
from ..check._known import ByPath
from ..check._narrowing import narrowing
from ..parts._how import moved, spread
from ..parts._results import describe, fill, outputs, single
from ..parts._slots import Slot, fields_of, has_path, is_unnamed, specs_along
from ..parts._stage import Stage


class GeneratedCall(NamedTuple):
    """The call in a line of generated code, so that an error there can be explained."""

    stage: int
    values: tuple[str, ...]


@dataclass(frozen=True)
class Program:
    """The generated forward, and the calls in its lines."""

    run: Callable[[Any, Any], Any]
    calls: dict[int, GeneratedCall]
    source: str
    stages: Sequence[Stage]


@dataclass
class Writer:
    """Generates one forward; `checked` adds the comparisons of the first call."""

    stages: Sequence[Stage]
    input: type
    output: type
    gates: Sequence[Sequence[int]]
    narrowed: Sequence[str]
    sources: Mapping[str, str]
    bridges: Mapping[int, Any]
    checked: bool = False
    lines: list[str] = field(default_factory=list)
    names: dict[str, Any] = field(default_factory=dict)
    calls: dict[int, GeneratedCall] = field(default_factory=dict)
    state: ByPath[str] = field(default_factory=ByPath[str])
    last: dict[str, int] = field(default_factory=dict)
    written: set[Path] = field(default_factory=set)
    owners: dict[str, tuple[Any, int]] = field(default_factory=dict)
    """For each variable, the class of its value if it is an instance, and the depth of its path."""
    conditional: set[Path] = field(default_factory=set)

    def source(self) -> str:
        """The source: one pass finds the last use of each variable, the second writes the code."""
        self._body({})
        last: dict[int, list[str]] = {}
        for name, use in self.last.items():
            last.setdefault(use, []).append(name)
        self.lines, self.calls, self.state, self.last, self.written = [], {}, ByPath(), {}, set()
        self.conditional = set()
        self._body(last)
        return "\n".join(["def forward(self, batch):", *("    " + line for line in self.lines)]) + "\n"

    def _body(self, last: dict[int, list[str]]) -> None:
        """Write the lines of the forward function, module by module."""
        self.names.update(Input=self.input, Output=self.output)
        self.owners = {"batch": (self.input, 0)}
        self.lines += ["if not isinstance(batch, Input): return self._of_another_class(batch)", *self.narrowed]
        self.lines.append("M = self._modules")
        for inner in dict.fromkeys(stage.name.rpartition(".")[0] for stage in self.stages):
            if inner:  # its modules are called one by one, so its own hooks would not run
                owner = module_source(inner)
                self.lines.append(f"if {owner}._forward_hooks or {owner}._forward_pre_hooks: hooked({inner!r})")
        for index, stage in enumerate(self.stages):
            self._stage(index, stage)
            self._drop(index, last)
        self.lines.append(f"return {self._result(len(self.stages))}")

    # ---- one module ----------------------------------------------------------------------------------------------

    def _stage(self, index: int, stage: Stage) -> None:
        """Write the lines of one module: its inputs, the test of whether it runs, and its call."""
        arguments = [self._load(index, position, slot) for position, slot in enumerate(stage.reads)]
        arguments += [self._load(index, None, slot) for slot in self._spare(index, stage)]
        tests = [f"{arguments[position]} is not None" for position in self.gates[index]]
        filled = stage.skip_existing and not stage.update
        filled = filled and all(
            fillable(s, self.input, self.output) and s.path not in self.written for s in stage.written
        )
        before = [self._before(slot, index, filled) for slot in stage.writes] if tests or filled else []
        targets = [self._target(slot, index) for slot in stage.writes]
        if filled:
            kept = [target for slot, target in zip(stage.writes, targets, strict=True) if slot is not None]
            tests.append(f"({' or '.join(f'{name} is None' for name in kept)})")
        self.lines += [f"{target} = {value}" for target, value in zip(targets, before, strict=False)]
        start = len(self.lines) + bool(tests)
        if tests:
            self.lines.append(f"if {' and '.join(tests)}:")
        self._call(index, stage, arguments, targets)
        if tests:
            self.lines[start:] = ["    " + line for line in self.lines[start:]]
            self.conditional.update(slot.path for slot in stage.written)

    def _call(self, index: int, stage: Stage, arguments: list[str], targets: list[str]) -> None:
        """Write the call of a module, and the lines that check its results."""
        self.names |= {f"W{index}": stage.writes, f"L{index}": stage.at(index)}
        self.names |= {f"D{index}": stage.how.device}
        self.names.setdefault(f"O{index}", stage.how.over)
        callee = self._callee(index, stage)
        call = stage.how.source(callee, arguments, f"D{index}", f"O{index}")
        if index in self.bridges:
            how = f"H{index}" if stage.how.over is None else f"O{index}"
            self.names |= {f"H{index}": stage.how, f"P{index}": self.bridges[index]}
            call = f"P{index}.run({how}, {callee}, ({', '.join([*arguments, ''])}))"
        self.calls[len(self.lines) + 3] = GeneratedCall(index, tuple(arguments))
        if len(targets) == 1:
            self.lines.append(f"{targets[0]} = {call}")
            if stage.writes[0] is not None and stage.writes[0].spec.kind.is_dense:
                self.lines.append(
                    f"if type({targets[0]}) is not Tensor: {targets[0]} = single({targets[0]}, W{index}[0], L{index})"
                )
        else:
            self.lines += [f"result = {call}", f"{', '.join(targets)} = outputs(result, W{index}, L{index})"]
            self.lines.append("result = None")
        if self.checked:
            self.lines += [f"seen.wrote({index}, {position}, {target})" for position, target in enumerate(targets)]

    def _spare(self, index: int, stage: Stage) -> list[Slot]:
        """The spare fields of a module that have a value when it runs."""
        over = stage.how.over
        if over is None or over.names is None:
            return []
        known = [slot for slot in stage.spare if slot.path not in self.conditional]
        found = [slot for slot in known if slot.path in self.state or self._in_input(slot.path)]
        self.names[f"O{index}"] = over.reading([*over.names, *(slot.ref._path[0] for slot in found)])
        return found

    def _callee(self, index: int, stage: Stage) -> str:
        if stage.function is not None:
            self.names[f"f{index}"] = stage.function
            return f"f{index}"
        return module_source(stage.name) + (f".{stage.method}" if stage.method is not None else "")

    def _before(self, slot: Slot | None, index: int, filled: bool) -> str:
        """The previous value of an out field, for a skipped module."""
        if slot is None:
            return "None"
        if filled:
            return f"existing(batch, {slot.path!r})"
        known = slot.path in self.state or self._in_input(slot.path) or self._enclosing(slot.path) != "batch"
        return self._load(index, None, slot) if known else "None"

    def _load(self, index: int, position: int | None, slot: Slot) -> str:
        """The variable of an in field; a field of the input gets one at its first use."""
        known = self.state.get(slot.path)
        if known is None:
            base = self._enclosing(slot.path)
            owner, start = self.owners[base]
            known = f"v{len(self.last)}"
            self.lines.append(f"{known} = {attribute(base, slot.path[start:], owner)}")
            self.state[slot.path] = known
            self.owners[known] = (slot.spec.nested, len(slot.path))
            self._use(base, index)
            if self.checked and base == "batch" and position is not None:
                self.lines.append(f"seen.read({index}, {position}, {known})")
        self._use(known, index)
        return known + "".join(f"[{item!r}]" for item in slot.items)

    def _target(self, slot: Slot | None, index: int) -> str:
        """The variable that an output is assigned to; values under the same path are dropped."""
        if slot is None:
            name = f"v{len(self.last)}"
            self._use(name, index)
            return name
        for path in self.state.overlapping(slot.path):
            del self.state[path]
        name = f"v{len(self.last)}"
        self.state[slot.path] = name
        self.written.add(slot.path)
        self.owners[name] = (slot.spec.nested, len(slot.path))
        self._use(name, index)
        return name

    def _use(self, name: str, index: int) -> None:
        if name != "batch":
            self.last[name] = index

    def _drop(self, index: int, last: dict[int, list[str]]) -> None:
        dead = last.get(index)
        if dead:
            self.lines.append(f"{' = '.join(dead)} = None")

    def _enclosing(self, path: Path) -> str:
        """The variable of the nested instance of a field; by default the batch itself."""
        found = (self.state[path[:n]] for n in range(len(path) - 1, 0, -1) if path[:n] in self.state)
        return next(found, "batch")

    # ---- the output ----------------------------------------------------------------------------------------------

    def _result(self, end: int) -> str:
        if is_unnamed(self.output):
            return self._bare_result(end)
        if self.output is self.input:
            return self._fill_written((), "batch", end)
        return self._construction_of(self.output, "Output", (), end, ", names=batch._names")

    def _bare_result(self, end: int) -> str:
        """The values of the last module themselves."""
        if all(spec.kind.is_open for spec in fields_of(self.output).values()):
            name = self._value(self._source((), next(iter(fields_of(self.output)))), None, end)
            return f"bare({name}, batch._batch_size, {self.stages[-1].at(len(self.stages) - 1)!r})"
        made = self._construction_of(self.output, "Output", (), end)
        return f"values_of({made})"

    def _fill_written(self, prefix: Path, base: str, end: int) -> str:
        """The input with the written fields filled in."""
        entries = []
        for name in fields_of(specs_along(self.input, prefix)[-1].nested if prefix else self.input):
            path = self._source(prefix, name)
            if path in self.written:
                entries.append(f"{name!r}: {self._final(path, end)}")
            elif any(other[: len(path)] == path for other in self.written):
                entries.append(f"{name!r}: {self._fill_written(path, f'{base}.{name}', end)}")
        return self._fill(base, entries)

    def _fill(self, base: str, entries: list[str]) -> str:
        """Fields that a skipped module did not write keep their values."""
        values = f"{{{', '.join(entries)}}}"
        return f"fill({base}, {f'present({values})' if self.conditional else values})"

    def _construction_of(self, cls: Any, alias: str, prefix: Path, end: int, extra: str = "") -> str:
        given: list[tuple[str, str]] = []
        later: list[tuple[str, str]] = []
        for name, spec in fields_of(cls).items():
            value = self._value(self._source(prefix, name), spec.nested, end)
            if value is not None:
                (given if spec.init else later).append((name, value))
        arguments = "".join(f"{name}={value}, " for name, value in given)
        size = "" if prefix and self._may_have_further_dims(cls) else "batch_size=batch._batch_size"
        made = f"{alias}({arguments}{size}{extra})"
        return self._fill(made, [f"{n!r}: {v}" for n, v in later]) if later else made

    def _may_have_further_dims(self, cls: Any) -> bool:
        """Whether nested instances may have more batch dims than the batch, and their tensors show how many."""
        known = (spec for spec in fields_of(cls).values() if spec.kind.is_dense and spec.kind.is_batched)
        shown = any(spec.dims is not None and spec.dims.rank is not None for spec in known)
        return shown and any(spec.nested is not None for spec in fields_of(self.input).values())

    def _source(self, prefix: Path, name: str) -> Path:
        """The path of the value of an output field."""
        return (*prefix, name) if prefix else source_of((name,), self.sources)

    def _value(self, path: Path, nested: type | None, end: int) -> str | None:
        """The source of an output field; None for the default of the constructor."""
        known = self._final(path, end)
        if known is not None:
            return known
        if nested is not None and any(other[: len(path)] == path for other in self.written):
            alias = f"N{len(self.names)}"  # numbered: names made of paths could collide, as `a.b_c` and `a_b.c` would
            self.names[alias] = nested
            return self._construction_of(nested, alias, path, end)
        return attribute("batch", path, self.input) if self._in_input(path) else None

    def _final(self, path: Path, end: int) -> str | None:
        if path in self.state:
            self._use(self.state[path], end)
            return self.state[path]
        base = self._enclosing(path)
        if base == "batch":
            return None
        self._use(base, end)
        owner, start = self.owners[base]
        return attribute(base, path[start:], owner)

    def _in_input(self, path: Path) -> bool:
        return has_path(self.input, path) and not any(spec.produced for spec in specs_along(self.input, path))


def bare(value: Any, size: Any, label: str) -> Any:
    """The value of the last module; a tensor has the batch dims, or is one number for the batch.

    Raises:
        SchemaError: for a tensor of another shape.
    """
    if isinstance(value, Tensor) and value.ndim and value.shape[: len(size)] != size:
        hint = f"keep the batch dims {list(size)} first, or return one number for the batch"
        raise SchemaError.of(label, [Problem("the result", f"batch size {list(size)}", describe(value), hint)])
    return value


def values_of(result: Any) -> Any:
    """The fields of a class of results: one value, or a tuple."""
    values = tuple(getattr(result, name) for name in fields_of(type(result)))
    return values[0] if len(values) == 1 else values


def fillable(slot: Slot, input: type, output: type) -> bool:
    """Whether an input batch may already have a value for a field that a module writes."""
    if slot.within or not has_path(input, slot.path):
        return False
    spec = specs_along(input, slot.path)[-1]
    return spec.optional or (spec.produced and output is input)


def module_source(name: str) -> str:
    """The source for a registered module; every dot is a nested module."""
    return "M" + "._modules".join(f"[{part!r}]" for part in name.split("."))


def hooked(name: str) -> NoReturn:
    """Raise the error for a hook of a nested pipeline, which would not run."""
    raise ModuleError(
        f"the nested pipeline `{name}` has forward hooks, which would not run: its modules are called one by one as "
        "modules of the outer pipeline; register the hooks on them"
    )


def existing(batch: Any, path: Path) -> Any:
    """The value at a path of a batch; None if it was not written."""
    for part in path:
        spec = type(batch).__tensorclass_schema__.fields[part]
        batch = None if spec.produced and part not in batch._store._live() else getattr(batch, part)
        if batch is None:
            break
    return batch


def present(values: dict[str, Any]) -> dict[str, Any]:
    """The fields that were written."""
    return {name: value for name, value in values.items() if value is not None}


def attribute(base: str, path: Path, owner: Any) -> str:
    """The source that reads a path; None if a class on the way is None."""
    specs = specs_along(owner, path)
    if any(spec.optional for spec in specs[:-1]):
        return f"dig({base}, {path!r})"
    return ".".join([base, *path])


def dig(value: Any, path: Path) -> Any:
    """Read a path through fields that may be None."""
    for part in path:
        if value is None:
            return None
        value = getattr(value, part)
    return value


HELPERS = (Tensor, single, outputs, fill, dig, hooked, moved, spread, existing, present, bare, values_of, checkpoint)
"""The globals of generated code, by name."""


def generate(stages: Sequence[Stage], input: type, output: type, report: Any, seen: Any = None) -> Program:
    """The forward of a pipeline, compiled.

    Args:
        stages: The modules in order.
        input: The class that it takes.
        output: The class that it returns.
        report: The result of the build check; narrowed inputs are enforced.
        seen: Compares values with declarations, for the first call.
    """
    checks, names = narrowing(report)
    writer = Writer(stages, input, output, report.gates, checks, report.sources, report.bridges, seen is not None)
    writer.names.update(names, seen=seen)
    source = writer.source()
    run = compile_function(source, "forward", output, writer.names, globals())
    return Program(run, writer.calls, source, stages)
