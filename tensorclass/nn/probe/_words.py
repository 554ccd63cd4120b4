"""Formats the findings of probes: one diagnostic for each finding."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import prod
from pathlib import Path as File
from typing import Any

import torch
from torch import Tensor, nn

from ...core import Path
from ...errors import Problem, SchemaError
from ..check._declared import Report, Use
from ..check._known import INPUT, Place
from ..check._unify import plain_name
from ..parts._arity import signature_of
from ..parts._diagnostics import Diagnostic, Location
from ..parts._results import describe
from ..parts._slots import path_text
from ..parts._stage import Stage, module_of
from ._run import Outcome, Symptom
from ._sizes import names_of

SHAPED = ("E108", "E112", "E113", "E114", "E115", "E117", "W207")
"""The findings that a layer with the batch as second dim may cause."""
Shapes = Sequence[tuple[int, ...] | None]
"""The shape of one out field in each sweep."""


class Words:
    """Writes the diagnostics of a pipeline."""

    def __init__(self, report: Report, stages: Sequence[Stage], targets: Sequence[Any]) -> None:
        self.report = report
        self.stages = stages
        self.targets = targets
        self.unifier = report.state.unifier
        self.takes_batch_first: Callable[[int], bool] = lambda index: False
        """Tries a copy of a module with `batch_first=True`."""

    def who(self, index: int) -> str:
        """A module in a message."""
        return self.stages[index].at(index)

    def made_by(self, place: Place) -> str:
        """The origin of a value."""
        if place.writer == INPUT:
            return f"a field of the input {place.owner.__name__}"
        return f"made by {self.who(place.writer)}, {self.stages[place.writer].location}"

    def given(self, uses: Sequence[Use | None], values: Sequence[Any]) -> str:
        """The inputs of a run, for messages."""
        return "given " + (", ".join(_given_text(u, v) for u, v in zip(uses, values, strict=True) if u) or "nothing")

    def diagnostic(self, index: int, code: str, message: str, notes: Sequence[str] = (), hint: str = "") -> Diagnostic:
        """A diagnostic with the line that declares the module; names a batch-second layer as a possible cause."""
        layer = self._batch_second(index) if code in SHAPED else ""
        if layer and self.takes_batch_first(index):
            hint = f"{layer}: give it `batch_first=True`"
        elif layer:
            hint = f"{layer}; {hint}" if hint else layer
        return self.stages[index].finding(index, code, f"{self.who(index)} {message}", notes, hint)

    def _batch_second(self, index: int) -> str:
        """The first layer without `batch_first`, for messages; "" if there is none."""
        module = module_of(self.targets[index])
        layers = module.named_modules() if module is not None else ()
        for name, layer in layers:
            if getattr(layer, "batch_first", True) is False:
                who = f"`{name}` ({type(layer).__name__})" if name else f"{type(layer).__name__}"
                return f"{who} takes the batch as its second dim"
        return ""

    def rejected(self, index: int, error: Exception, given: str, hint: str) -> Diagnostic:
        """E108; E111 for a class-to-class module that returns another class than it declares."""
        problem = next(iter(error.problems), None) if isinstance(error, SchemaError) else None
        if problem is not None and problem.path == "the output":
            message = f"returns {problem.given}, declared {problem.declared}"
            return self.diagnostic(index, "E111", message, (given,), problem.hint)
        place = inner_module(error)
        inner = (f"raised in `{place[0]}`, {place[1]}",) if place else ()
        raised = f"{type(error).__name__}: {useful_line(error)}"
        notes = (given, raised, *inner, *user_line(error, self.stages[index].location))
        what = "the inputs it declares" if any(slot.known for slot in self.stages[index].reads) else "what it reads"
        return self.diagnostic(index, "E108", f"rejects {what}", notes, hint)

    def blind(self, error: Exception) -> str:
        """Why a module that ran on fake tensors is not probed: the operation, and the inner module that uses it."""
        place = inner_module(error)
        return f"it needs values ({useful_line(error)}{f' in `{place[0]}`, {place[1]}' if place else ''})"

    def only_size(
        self, index: int, variable: str, size: int, error: Exception | None, given: Sequence[Any]
    ) -> tuple[str, str]:
        """E122 and W205: the message and a hint. Errors of convolutions and batch norms mention channels themselves."""
        dim, declare = self.dim_text(variable), f"declare the size in {self.declaring_classes([variable])}"
        shapes = [list(x.shape[1:]) for x in given if isinstance(x, Tensor)]
        taken, entered = _channels(error, shapes)
        if error is None or taken != size or not entered:
            return (
                f"dim {dim} is {size}: the only size {self.who(index)} accepts",
                declare,
            )
        place = inner_module(error)
        where = f" (`{place[0]}`)" if place else ""
        message = f"dim {dim} is {size}: {self.who(index)}{where} takes {size} channels from {dim}; "
        move = f"`x.movedim(-1, {-len(entered)})`"
        hint = f"where channels come last, move them: {move}; else {declare}"
        return message + "the layout is channels first", hint

    def declared_size(self, index: int, variable: str, size: int) -> tuple[str, str]:
        """W205 for an output whose size is that of an open dim: the message and a hint."""
        message = f"dim {self.dim_text(variable)} is {size}: the size {self.who(index)} declares to write"
        return message, f"declare the size in {self.declaring_classes([variable])}"

    def one_size(self, index: int, one: str, other: str) -> tuple[str, str]:
        """E122 for two dims: the message and a hint."""
        dims = f"{self.dim_text(one)} and {self.dim_text(other)}"
        message = f"dims {dims} are one size: the only case {self.who(index)} accepts"
        if {path[:-1] for path in self._paths(one)} & {path[:-1] for path in self._paths(other)}:
            return message, f"declare both with one name in {self.declaring_classes([one, other])}"
        return (
            message,
            "declare both with one name: each call then compares them, as each instance is a scope of its own",
        )

    def _paths(self, variable: str) -> list[Path]:
        """The input fields that have a dim."""
        return [
            place.path
            for place in self.report.inputs.values()
            if any(variable in names_of(term) for term in self.unifier.resolve(place.terms))
        ]

    def dim_text(self, variable: str) -> str:
        """A dim of the input in a message, with a field that has it if the name is not enough."""
        plain, paths = plain_name(variable), self._paths(variable)
        return (
            f"`{plain}` of `{path_text(paths[0])}`" if paths and (len(paths[0]) > 1 or plain == "_") else f"`{plain}`"
        )

    def declaring_classes(self, variables: Sequence[str]) -> str:
        """The classes that declare dims of the input, for a hint that edits them."""
        holders = dict.fromkeys(path[:-1] for variable in variables for path in self._paths(variable))
        nested = {path: place.spec.nested for path, place in self.report.inputs.items()}
        places = dict[str, None]()
        for holder in holders:
            cls = nested.get(holder)
            others = [
                path for path, other in nested.items() if cls is not None and other is cls and path not in holders
            ]
            place = "the input class" if cls is None else f"`{cls.__name__}`"
            if others:  # the declaration of the class is theirs too
                place = f"a class for `{path_text(holder)}`, since {place} is that of `{path_text(others[0])}` too"
            places[place] = None
        return " and ".join(places) or "the input class"

    def one_scope(self, index: int, dim: str, names: Sequence[str]) -> Diagnostic:
        """N301 for a dim of one name in several nested instances, which no declaration can make one size."""
        fields = " and ".join(f"`{name}`" for name in names)
        message = f"`{dim}` of {fields} is one size: the only case {self.who(index)} accepts"
        hint = "each call checks it; a nested class is a scope of its own, so no declaration says so"
        return replace(self.diagnostic(index, "N301", "", (), hint), message=message)

    def multiples(self, index: int, refused: Mapping[str, int], step: int, outcome: Outcome) -> Diagnostic:
        """W210 for variables with the sizes that were refused."""
        dims = " and ".join(map(self.dim_text, refused))
        does = "rejects" if outcome.error is not None else "writes other sizes than it declares for"
        message = f"{does} sizes of {dims} that are not multiples of {step}, and the input leaves them open"
        tried = _sizes_text(refused)
        given = next((list(found.given) for found in outcome.findings), [])
        text = f"produced {given}" if outcome.error is None else useful_line(outcome.error)
        declared = " and ".join(dict.fromkeys(f"`{step}*{plain_name(name)}`" for name in refused))
        place = self.declaring_classes([*refused]) + (" and in that of the output" if outcome.error is None else "")
        place = "both classes" if place == "the input class and in that of the output" else place
        hint = f"declare {declared} in {place}, or pad in the module"
        return self.diagnostic(index, "W210", message, (f"with {tried}: {text}",), hint)

    def odd_sizes(self, index: int, refused: Mapping[str, int], error: Exception) -> Diagnostic:
        """W210 for a module whose inputs were rounded by modules before it."""
        dims, tried = " and ".join(map(self.dim_text, refused)), _sizes_text(refused)
        message = f"rejects odd sizes of {dims}, which modules before it round, and the input leaves them open"
        one = plain_name(next(iter(refused)))
        hint = f"declare multiples in {self.declaring_classes([*refused])}, such as `2*{one}`, or pad in a module"
        return self.diagnostic(index, "W210", message, (f"with {tried}: {useful_line(error)}",), hint)

    def swallowed(self, index: int, name: str, parameters: Sequence[str]) -> Diagnostic:
        """W208 for an argument that has no influence."""
        given = self.stages[index].how.parameters
        left = parameters[len(self.report.reads[index]) - len(given) :]  # the first ones are given by position
        others = ", ".join(f"`{one}`" for one in left if one not in given)
        message = f"has no parameter `{name}`: it goes into its `**` arguments, and has no influence on its outputs"
        hint = f"the parameters that nothing is given: {others}" if others else "leave it out of the in fields"
        return self.diagnostic(index, "W208", message, (), hint)

    def pairs(self, index: int, operation: str) -> Diagnostic:
        """W214."""
        message = f"combines every element of the batch with every other: {operation}"
        hint = "give both the same dims, `squeeze(-1)`; if it is meant, write `x.unsqueeze(1)`"
        return self.diagnostic(index, "W214", message, (), hint)

    def without_influence(self, index: int, name: str) -> Diagnostic:
        """W211."""
        message = f"reads `{name}`, which has no influence on its outputs"
        hint = "use it in the module, or leave it out of the in fields"
        return self.diagnostic(index, "W211", message, ("other values of it gave the same results",), hint)

    def left_out(self, index: int, error: Exception) -> str:
        """The parameters that no in field gives, if an error speaks of what is missing."""
        signature, how = signature_of(self.targets[index]), self.stages[index].how
        if signature is None or not re.search(r"specif|provid|requir|missing|None", str(error)):
            return ""
        positional = len(self.stages[index].reads) - len(how.parameters)
        given = (*list(signature.parameters)[:positional], *how.parameters)
        names = [f"`{n}`" for n, p in signature.parameters.items() if p.default is None and n not in given]
        return f"give it what it misses, `in_fields={{parameter: field}}`: {', '.join(names[:6])}" if names else ""

    def finding(
        self, index: int, found: Symptom, given: str, batch: int, expression: str, reads: Sequence[Any]
    ) -> Diagnostic:
        """The diagnostic for a wrong output, or for an unexpected change of an input; `reads` are its values."""
        use = self.report.writes[index][found.position] if self.report.writes[index] else None
        if found.code == "E109":
            return self._in_place(index, found, given)
        if found.code == "E110" or use is None:
            hint = "name an out field for each value that the module returns, and None for one to drop"
            hint = "the values of a mapping go to the out fields of their names" if "a mapping" in found.given else hint
            return self.diagnostic(index, "E110", str(found.given), (given,), hint)
        dims, now = use.place.spec.dims, self.unifier.text(use.place.terms)
        declared = f"declared {use.slot}" + (f' (here "{now}")' if dims and dims.names and now != str(dims) else "")
        writes = f"writes `{use.slot.name}`"
        if found.code == "E111":
            hint = _dtype_hint(use, found.given)
            return self.diagnostic(index, "E111", f"{writes} as {found.given}", (declared, given), hint)
        if found.code == "E112":
            return self._batch(index, found, writes, (declared, given) if use.slot.known else (given,), batch, reads)
        produced = f"produced {list(found.given)}"
        if found.code == "E113":
            counts = f"{len(found.given)} event dims, declared {found.expected}"
            hint = "declare the shape of one element, without batch dims, as the module makes it"
            if found.given[-1:] == (1,) and len(found.given) == found.expected + 1:
                hint = f"its last dim is 1: `squeeze(-1)` drops it, or {hint}"
            return self.diagnostic(index, "E113", f"{writes} with {counts}", (f"{declared}, {produced}", given), hint)
        token = _token(use, found.dim, len(found.given))
        message = f"{writes} with event dim {found.dim} = {found.given[found.dim or 0]}, declared {token}"
        message += f" = {found.expected}" if token != str(found.expected) else ""
        return self.diagnostic(index, "E114", message, (f"{declared}, {produced}", given), expression)

    def _in_place(self, index: int, found: Symptom, given: str) -> Diagnostic:
        name = path_text(found.given)
        whose = "the input" if found.given in self.report.inputs else "the pipeline"
        return self.diagnostic(
            index,
            "E109",
            f"changes `{name}` of {whose} in place",
            (given,),
            "work on a copy (`x.clone()`), or use the operation that makes a new tensor (`inplace=False`, no last `_`)",
        )

    def _batch(
        self, index: int, found: Symptom, writes: str, notes: tuple[str, ...], batch: int, reads: Sequence[Any]
    ) -> Diagnostic:
        shape = list(found.given)
        if not self.report.reads[index]:
            hint = "it has no in field to take the batch size from: let it read one, or declare a `Shared` field"
            return self.diagnostic(index, "E112", f"{writes} without the batch dim: shape {shape}", notes[:1], hint)
        message = f"{writes} without the batch dim: shape {shape} for a batch of {batch}"
        return self.diagnostic(index, "E112", message, notes, _lost_batch(shape, batch, reads))

    def follows(
        self, index: int, position: int, dim: int, shapes: Shapes, expression: str, crossed: str | None
    ) -> Diagnostic:
        """E115 and N305: a dim that only outputs have, and that is not a constant.

        `crossed` is None unless the dim is that of the batch: the operation that made it, "" if it is not known.
        """
        use = self.report.writes[index][position]
        assert use is not None
        token = _token(use, dim, len(shapes[0] or ()))
        sizes = ", ".join(str(shape[dim]) for shape in shapes if shape is not None and dim < len(shape))
        what = f"writes `{use.slot.name}` with event dim {dim} that follows the"
        notes = (f"declared {use.slot}", f"`{token}` is {sizes} for three inputs")
        if crossed is not None:
            hint = "each element is combined with every other, as in `a @ b.T` or `x[:, index]`"
            hint = f"{crossed} is broadcast; give both the same dims" if crossed else hint
            return self.diagnostic(index, "E115", f"{what} batch size", notes, hint)
        return self.diagnostic(index, "N305", f"{what} input", notes, expression)

    def another_size(self, index: int, position: int, name: str, wanted: int, made: int, sometimes: bool) -> Diagnostic:
        """W210 and W215 for an output that has a dim of the input in name, but not in size."""
        use = self.report.writes[index][position]
        assert use is not None
        message = f"writes `{use.slot.name}` with another `{name}` than the input has"
        notes = (f"declared {use.slot}", f"`{name}` of the input is {wanted}, that of the output {made}")
        if sometimes:
            hint = f"declare multiples in both classes, such as `2*{name}`, or pad in a module"
            return self.diagnostic(index, "W210", f"{message} for some sizes, which are left open", notes, hint)
        return self.diagnostic(index, "W215", message, notes, "declare the size that it has, or take another name")

    def single(self, index: int, found: Symptom, normal: Shapes, given: str) -> Diagnostic:
        """E116."""
        use = self.report.writes[index][found.position] if found.code != "E110" else None
        many = normal[0]
        shapes = f"shape {[2, *many] if many is not None else '?'} for a batch of 2"
        alone = f"{list(found.given) if found.code == 'E112' else found.given} for a batch of 1"
        name = f"`{use.slot.name}`" if use is not None else "its outputs"
        return self.diagnostic(
            index,
            "E116",
            f"writes {name} in another shape for a batch of one: {shapes}, {alone}",
            (given,),
            "a `squeeze()` without a dim takes the batch too; name the dim, `squeeze(-1)`",
        )

    def uneven(self, index: int, names: Sequence[str], reason: str) -> Diagnostic:
        """W209."""
        fields = ", ".join(f"`{name}`" for name in names)
        message = f"reads the ragged {fields} and is not probed: {reason}"
        hint = "its outputs are compared on the first call; call the pipeline on one batch before a long run"
        return self.diagnostic(index, "W209", message, (), hint)

    def sometimes(self, index: int, found: Symptom, given: str) -> Diagnostic:
        """N306."""
        use = self.report.writes[index][found.position]
        assert use is not None
        message = f"writes `{use.slot.name}` as declared only for some sizes of its input"
        notes = (f"declared {use.slot}, produced {list(found.given)}", given)
        hint = "narrow the dims of the input to sizes that the module supports"
        return self.diagnostic(index, "N306", message, notes, hint)


def _lost_batch(shape: list[int], batch: int, reads: Sequence[Any]) -> str:
    """What the shape of a result without the batch dim tells."""
    if not shape:
        return "one value for the batch? declare `Shared[Float32[Tensor, \"\"]]`; one per element: `reduction='none'`"
    if batch in shape[1:]:
        place = shape.index(batch)
        return f"dim {place} looks like the batch; the batch comes first, `movedim({place}, 0)`"
    events = [list(read.shape[1:]) for read in reads if isinstance(read, Tensor) and read.shape[:1] == (batch,)]
    if len(events) > 1 and shape[0] == batch * len(events):
        return f"dim 0 is the batch {len(events)} times, as `torch.cat` without a dim makes it: `torch.cat(..., -1)`"
    if any(shape == event for event in events) or any(shape[0] in event for event in events):
        return "an index or a reduction over dim 0 took it: `x[0]` for `x[:, 0]`, `mean(0)` for `mean(1)`"
    if any(shape[0] == batch * prod(event[:last]) for event in events for last in range(1, len(event) + 1)):
        return "the batch was flattened into dim 0: `flatten(1)` keeps it, and so does `flatten(-2)`"
    return "a mean, sum, squeeze or index may have taken it; name the dims it works on, counted from the end"


def _given_text(use: Use, value: Any) -> str:
    if not use.slot.known:
        parts = ", ".join(map(describe, value[:6])) if isinstance(value, tuple) else ""
        return f"{use.slot} = {f'({parts})' if parts else describe(value)}"
    return f"{use.slot} = {list(value.shape)}" if isinstance(value, Tensor) else str(use.slot)


def _token(use: Use, dim: int | None, rank: int) -> str:
    tokens = use.slot.spec.dims.tokens if use.slot.spec.dims is not None else ()
    position = dim or 0
    return str(tokens[position]) if len(tokens) == rank and position < rank else "..."


def _dtype_hint(use: Use, given: str) -> str:
    exact = use.place.dtype.exact if use.place.dtype is not None else None
    if use.slot.spec.dtype is None or exact is None or not isinstance(getattr(torch, given, None), torch.dtype):
        return "return a value of the declared type, or declare the type that the module returns"
    return f"convert with `.to({exact})` in the module, or declare {given.capitalize()}"


def _channels(error: Exception | None, shapes: Sequence[list[int]]) -> tuple[int, list[int]]:
    """The channels that a convolution or a batch norm takes, and the event shape that it was given; 0 for others."""
    conv = re.search(r"input\[([\d, ]+)\] to have (\d+) channels", str(error))
    if conv is not None:
        entered = [int(number) for number in conv[1].split(",")][1:]
        return int(conv[2]), entered if any(shape[-len(entered) :] == entered for shape in shapes) else []
    norm = re.search(r"running_mean should contain (\d+) elements not (\d+)", str(error))
    if norm is None:
        return 0, []
    size, taken = int(norm[1]), int(norm[2])
    last = (shape for shape in shapes if len(shape) > 1 and shape[0] == size and shape[-1] == taken)
    return taken, next(last, [])


def useful_line(error: BaseException) -> str:
    """The line of torch's error text that names the fault."""
    wrong: Sequence[Problem] = getattr(error, "problems", ())
    rows = [f"`{one.path}` is declared {one.declared}, given {one.given}" for one in wrong]
    rows = rows or [row.strip() for row in str(error).splitlines()]
    rows = [row for row in rows if row and not row.startswith(("Exception raised from", "While executing", "("))]
    line = rows[0] if rows else ""
    return line if len(line) <= 200 else line[:197] + "..."


def inner_module(error: BaseException) -> tuple[str, str] | None:
    """The path and the repr of the innermost submodule in which an error was raised."""
    frames = [frame.f_locals.get("self") for frame, _ in traceback.walk_tb(error.__traceback__)]
    modules = [owner for owner in frames if isinstance(owner, nn.Module)]
    if not modules or modules[-1] is modules[0]:
        return None
    name = next((name for name, module in modules[0].named_modules() if module is modules[-1]), "")
    text = repr(modules[-1])
    if "\n" in text:
        text = type(modules[-1]).__name__
    return (name, text) if name else None


def user_line(error: BaseException, declared: Location) -> list[str]:
    """The line of the user's code that raised the error, if it is not the line that declares the module."""
    packages = File(traceback.__file__).parent
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        file = File(frame.filename)
        ours = "site-packages" in file.parts or packages in file.parents or File(__file__).parents[2] in file.parents
        if not ours and not frame.filename.startswith("<") and frame.lineno:
            place = Location(frame.filename, frame.lineno)
            return [] if place == declared else [f"raised at {place}"]
    return []


def _sizes_text(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{plain_name(name)}={size}" for name, size in sizes.items())
