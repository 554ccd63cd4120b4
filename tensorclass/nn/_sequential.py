"""A pipeline of typed modules: checked when it is built, one generated forward when it is called."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, overload

import torch
from torch import nn

from ..errors import BuildError
from ._check import Report, check
from ._diagnostics import Diagnostic, PipelineWarning, build_error
from ._drawing import mermaid
from ._first import FirstCall
from ._forward import Program, generate
from ._results import reraise
from ._slots import Slot, is_tensorclass_type
from ._stage import Stage, TensorClassModule, default_name, fields_text

In = TypeVar("In", contravariant=True)  # noqa: PLC0105  # users read these names in types
Out = TypeVar("Out", covariant=True)  # noqa: PLC0105
State = TypeVar("State")
Probing = bool | Literal["run"]


class TensorClassSequential(nn.Module, Generic[In, Out]):
    """Typed modules in order, from a batch of one class to a batch of another.

    The declared fields are followed through the modules when the pipeline is built: unmet reads, dtypes, shapes with
    their symbolic dims, arity, double writes and unwritten outputs are reported together, before there is data. The
    wrapped `nn.Module`s are registered directly, so parameters, `state_dict`, hooks, `train()` and `to()` are those of
    an `nn.Sequential`. The input is never changed.

    Args:
        modules: `TensorClassModule`s in the order in which they run.
        input: The tensorclass that the pipeline takes.
        output: The tensorclass that it returns; by default `input`, with the `produced()` fields filled in.
        probe: Whether every module is tried on fake tensors too: `True`, `False` for the declarations alone, or
            `"run"` to run copies of the modules on real ones.

    Raises:
        BuildError: with every finding of the check in `.diagnostics`; docs/errors.md explains the codes.

    >>> import torch
    >>> from torch import Tensor, nn
    >>> from tensorclass import TensorClass
    >>> from tensorclass.typing import Float32, Int64
    >>> class Image(TensorClass):
    ...     pixels: Float32[Tensor, "64"]
    >>> class Prediction(TensorClass):
    ...     logits: Float32[Tensor, "classes"]
    ...     digit: Int64[Tensor, ""]
    >>> classifier = TensorClassSequential(
    ...     TensorClassModule(nn.Linear(64, 10), in_fields=Image.pixels, out_fields=Prediction.logits),
    ...     TensorClassModule(lambda z: z.argmax(-1), in_fields=Prediction.logits, out_fields=Prediction.digit),
    ...     input=Image,
    ...     output=Prediction,
    ... )
    >>> classifier(Image(torch.zeros(5, 64))).digit.shape
    torch.Size([5])
    """

    input_class: type[Any]
    output_class: type[Any]
    diagnostics: tuple[Diagnostic, ...]
    """Everything that the build check found, warnings and notes included."""

    @overload
    def __init__(
        self: TensorClassSequential[State, State], *modules: TensorClassModule, input: type[State],
        probe: Probing = ...,
    ) -> None: ...  # fmt: skip
    @overload
    def __init__(
        self, *modules: TensorClassModule, input: type[In], output: type[Out], probe: Probing = ...
    ) -> None: ...
    def __init__(
        self, *modules: TensorClassModule, input: type[Any], output: type[Any] | None = None, probe: Probing = True
    ) -> None:
        super().__init__()
        self._probe = _as_probing(probe)
        self.input_class = _as_class(input, "input")
        self.output_class = input if output is None else _as_class(output, "output")
        self._stages = self._register(_as_stages(modules))
        self._fresh = True
        self._build(self._check(), warn=True)

    def _register(self, modules: tuple[TensorClassModule, ...]) -> tuple[Stage, ...]:
        """Register what holds parameters under the names of the stages."""
        stages: list[Stage] = []
        for index, module in enumerate(modules):
            stage, registered = module._stage_at(index)
            twin = next((i for i, other in enumerate(stages) if other.name == stage.name), None)
            if twin is not None:
                raise BuildError(
                    f"modules {twin} and {index} are both named `{stage.name}` ({stage.location}); "
                    "give one another `name=`"
                )
            if hasattr(self, stage.name):
                raise BuildError(f"name={stage.name!r} would hide an attribute of the pipeline; take another name")
            if registered is not None:
                self.add_module(stage.name, registered)
            stages.append(stage)
        return tuple(stages)

    def _check(self) -> Report:
        targets = [self._target(stage) for stage in self._stages]
        return check(self._stages, targets, self.input_class, self.output_class)

    def check(self, *, values: bool = False) -> Report:
        """Check the pipeline again as it is now: its submodules may have been replaced or trained.

        Args:
            values: Whether copies of the modules are also run on real values, to see whether one element of the batch
                influences another.

        Raises:
            BuildError: with every finding in `.diagnostics`.
        """
        self._build(self._check(), warn=True)
        return self._report

    def _build(self, report: Report, warn: bool) -> None:
        self.diagnostics = report.diagnostics
        if any(d.severity == "error" for d in report.diagnostics):
            raise build_error(f"the pipeline {self._title()} is wrong", report.diagnostics)
        for diagnostic in report.diagnostics:
            if warn and diagnostic.severity == "warning" and diagnostic.module is not None:
                file, line = self._stages[diagnostic.module].location
                warnings.warn_explicit(str(diagnostic), PipelineWarning, file, line)
        self._report = report
        self._program = self._generate()
        self._run = self._program.run

    def _generate(self, seen: FirstCall | None = None) -> Program:
        return generate(self._stages, self.input_class, self.output_class, self._report, self._refuse, seen)

    # ---- calling -------------------------------------------------------------------------------------------------

    if TYPE_CHECKING:

        def __call__(self, batch: In) -> Out:
            """Run the pipeline on a batch."""
            ...

    def forward(self, batch: Any) -> Any:
        """Run the modules on a batch and return a new instance of the output class.

        Raises:
            TypeError: for a batch that is not of the input class.
            SchemaError: when a module returns what it does not declare; intermediate fields are compared with their
                declarations on the first call, the output on every call.
        """
        try:
            if not torch.compiler.is_compiling() and self._fresh:
                return self._first(batch)
            return self._run(self, batch)
        except Exception as error:  # whatever the user's modules raise
            self._explain(error, self._program)
            raise

    def _first(self, batch: Any) -> Any:
        """The first call compares what every module returns with what it declares."""
        size = getattr(batch, "batch_size", torch.Size())
        program = self._generate(FirstCall(self._report, self._stages, size))
        try:
            result = program.run(self, batch)
        except Exception as error:  # whatever the user's modules raise
            self._explain(error, program)
            raise
        self._fresh = False
        return result

    def _explain(self, error: Exception, program: Program) -> None:
        """Name the module in which an error arose; the frame of the generated code knows which, and its arguments."""
        found = _frame_of(error.__traceback__, program)
        if found is None or found[1] not in program.calls:
            return
        frame, line = found
        index, names = program.calls[line]
        stage = self._stages[index]
        values = [frame.f_locals.get(name) for name in names]
        reraise(error, f"module {index} `{stage.name}` ({stage.location})", stage.reads, values)

    def _refuse(self, batch: object) -> None:
        given = type(batch).__name__
        name = self.input_class.__name__
        hint = f"{name}.from_tensordict(...)" if hasattr(batch, "keys") else f"{name}(...)"
        raise TypeError(f"the pipeline {self._title()} takes a {name}, got {given}; make one with `{hint}`")

    # ---- what it is made of --------------------------------------------------------------------------------------

    def _target(self, stage: Stage) -> Callable[..., Any]:
        """What a stage calls now: a submodule may have been replaced."""
        if stage.function is not None:
            return stage.function
        module = self._modules[stage.name]
        target: Callable[..., Any] = module if stage.method is None else getattr(module, stage.method)  # type: ignore[assignment]  # never None
        return target

    def __len__(self) -> int:
        return len(self._stages)

    def __iter__(self) -> Iterator[TensorClassModule]:
        return (self[index] for index in range(len(self)))

    def __getitem__(self, index: int) -> TensorClassModule:
        """The typed module at an index."""
        if not isinstance(index, int) or isinstance(index, bool):
            raise TypeError(f"a pipeline is indexed by the number of a module, got {index!r}")
        if not -len(self) <= index < len(self):
            raise IndexError(f"module {index} of a pipeline with {len(self)} modules")
        stage = self._stages[index]
        module = TensorClassModule(
            self._target(stage), [slot.ref for slot in stage.reads], _refs(stage.writes), name=stage.name,
            update=stage.update,
        )  # fmt: skip
        module.location = stage.location
        return module

    def mermaid(self) -> str:
        """The pipeline as Mermaid text: modules are nodes, fields are edges.

        GitHub, MkDocs and most notebooks draw it from a code block with the language `mermaid`.
        """
        kinds = [default_name(self._target(stage)) for stage in self._stages]
        return mermaid(self._stages, kinds, self.input_class, self.output_class)

    def _title(self) -> str:
        return f"{self.input_class.__name__} -> {self.output_class.__name__}"

    def __repr__(self) -> str:
        rows = [f"TensorClassSequential({self._title()}"]
        for index, stage in enumerate(self._stages):
            target = self._modules[stage.name] if stage.function is None else stage.name
            text = repr(target).replace("\n", "\n    ") if stage.function is None else "function"
            rows.append(f"  ({index}) {stage.name}: {fields_text(stage.reads)} -> {fields_text(stage.writes)}  {text}")
        return "\n".join([*rows, ")"])

    # ---- copies and checkpoints ----------------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        """Everything but the generated code and what the check knows, which are made again."""
        made = ("_run", "_program", "_report", "diagnostics")
        return {name: value for name, value in self.__dict__.items() if name not in made}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]  # torch does not annotate it
        self._build(self._check(), warn=False)  # the user has seen the warnings when the pipeline was built

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any, **kwargs: Any) -> None:
        """Take the keys of an `nn.Sequential` too: numbers for names, module by module."""
        renamed = self._names_for_numbers({m[1] for k in state_dict if (m := _numbered(prefix, k))})
        for key in list(state_dict):
            match = _numbered(prefix, key)
            if match and match[1] in renamed:
                state_dict[f"{prefix}{renamed[match[1]]}{match[2]}"] = state_dict.pop(key)
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)

    def _names_for_numbers(self, numbers: set[str]) -> dict[str, str]:
        """The module for each number: by its place in the pipeline, else by order among those with parameters."""
        stateful = {
            str(i): s.name for i, s in enumerate(self._stages) if s.name in self._modules and _keys(self, s.name)
        }
        if numbers <= stateful.keys():
            return stateful
        ordered = sorted(numbers, key=int)
        return dict(zip(ordered, stateful.values(), strict=True)) if len(ordered) == len(stateful) else {}


def _keys(pipeline: nn.Module, name: str) -> bool:
    module = pipeline.get_submodule(name)
    return bool(module.state_dict())


def _numbered(prefix: str, key: str) -> re.Match[str] | None:
    return re.fullmatch(rf"{re.escape(prefix)}(\d+)(\..+)", key)


def _refs(writes: tuple[Slot | None, ...]) -> Any:
    return [None if slot is None else slot.ref for slot in writes]


def _frame_of(traceback: TracebackType | None, program: Program) -> tuple[FrameType, int] | None:
    """The frame of the generated code in a traceback, and its line."""
    while traceback is not None:
        if traceback.tb_frame.f_code is program.run.__code__:
            return traceback.tb_frame, traceback.tb_lineno
        traceback = traceback.tb_next
    return None


def _as_probing(probe: object) -> Probing:
    if isinstance(probe, bool) or probe == "run":
        return probe
    raise BuildError(f'probe= takes True, False or "run"; got {probe!r}')


def _as_class(cls: object, role: str) -> type[Any]:
    if is_tensorclass_type(cls):
        return cls
    what = f"the class {cls.__name__}" if isinstance(cls, type) else f"{type(cls).__name__} {cls!r:.60}"
    raise BuildError(f"{role}= takes a tensorclass, the class itself; got {what}")


def _as_stages(modules: tuple[object, ...]) -> tuple[TensorClassModule, ...]:
    if not modules:
        raise BuildError("a pipeline needs at least one TensorClassModule")
    for index, module in enumerate(modules):
        if isinstance(module, TensorClassModule):
            continue
        if is_tensorclass_type(module):
            raise BuildError(
                f"module {index} is the class {module.__name__}; classes are given as `input=` and `output=`"
            )
        if isinstance(module, TensorClassSequential):
            raise BuildError(f"module {index} is a pipeline: put its modules in, `*inner` in the place of `inner`")
        raise BuildError(
            f"module {index} is a {type(module).__name__}, not a TensorClassModule: say which fields it reads and "
            "writes, `TensorClassModule(module, in_fields=..., out_fields=...)`"
        )
    return modules  # type: ignore[return-value]  # each was tested above
