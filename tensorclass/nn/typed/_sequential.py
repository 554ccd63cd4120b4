"""A pipeline of typed modules: checked when it is built, run by one generated forward."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import MISSING, replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NoReturn, TypeVar, overload

from torch import Tensor, nn
from torch.compiler import is_compiling
from typing_extensions import Self, Unpack

from ..._flags import flags
from ...core import Setting
from ...errors import ArgumentError, BatchIndexError, BuildError, defined_again
from ..check._declared import Report, check
from ..check._first import FirstCall
from ..check._identity import Identified, identify
from ..check._module_order import Listed, topological
from ..parts._diagnostics import Diagnostic, PipelineWarning, build_error
from ..parts._hooks import Hooked
from ..parts._keyed_base import TensorDictModuleBase
from ..parts._results import blame
from ..parts._skipping import skip_existing, skip_mode
from ..parts._slots import Slot, is_tensorclass_type
from ..parts._stage import Batch, Stage, TensorClassModule, as_module, check_name
from ..probe._prober import influences, probe, relearn
from ._calls import Probing, as_class, as_probing, fit_pipeline, frame_of, name_numbers, refusal
from ._class_module import TensorClassModuleBase
from ._densities import Densities
from ._divisible import Divisible
from ._forward import Program, fillable, generate
from ._pipeline_options import Ordered, Placing, StagesApart, layout_of
from ._resolving import Forward, OpenListing, Staged, WithEnds, opened
from ._shown import Shown
from ._subsequence import Ends, inline_stages, needs, passed_fields, skipping

In = TypeVar("In", contravariant=True)  # noqa: PLC0105  # users read these names in types
Out = TypeVar("Out", covariant=True)  # noqa: PLC0105
State = TypeVar("State")
Other = TypeVar("Other")
_CLASSES = 16
"""The number of other input classes for which a pipeline keeps generated code."""
PROBING: Setting[bool] = Setting("probing", True)
"""Whether pipelines may probe when they are built; False under `tensorclass check --no-probe`."""


@flags
class TensorClassSequential(StagesApart, Divisible, Densities, Shown, Hooked, Generic[In, Out]):
    """A pipeline: typed modules in order, from a batch of one class to a batch of another.

    The declared fields are followed through the modules when the pipeline is built: missing inputs, wrong dtypes,
    shapes and symbolic dims, wrong numbers of arguments, double writes and unwritten outputs are reported together,
    before there is data. The wrapped `nn.Module`s are registered directly, so parameters, `state_dict`, hooks,
    `train()` and `to()` work as in an `nn.Sequential`. The input is never changed.

    Args:
        modules: `TensorClassModule`s in the order in which they run. Another pipeline is replaced by its modules;
            fields that it writes but doesn't return are private to it.
        input: The typed class of the input.
        output: The typed class of the output; by default `input`, with the `produced()` fields filled in.
        probe: True also runs every module on fake tensors, False checks only the declarations, `"run"` runs copies of
            the modules on real tensors.
        sort: Whether to sort the modules into an order in which they can run; they may then be listed in any order.
        partial: Whether to skip a module if an in field is None and its parameter does not accept None. Modules that
            depend on it are skipped too; their outputs must be optional or `produced()` fields.
        skip_existing: Whether to skip a module if the batch already has its out fields: optional fields of the input,
            and `produced()` fields if the output has the same class. A module with `update=True` always runs.
        name: The name of the pipeline as a module of another one.
        layout: A `tensorclass.parallel.Layout`: the placements of its fields are followed through the modules, which
            torch has parallelised over the same mesh or parts of it. The pipeline takes distributed batches.

    Raises:
        BuildError: has every finding of the check in `.diagnostics`; docs/errors.md explains the codes.

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
    >>> bool(classifier.check().diagnostics), classifier.in_fields, classifier.out_fields[1]
    (False, (Image.pixels: Float32["64"],), Prediction.digit: Int64[""])
    >>> classifier.explain(batch_size=32).peak, classifier.graph().count("-->")
    (8192, 4)
    >>> len(classifier.select_subsequence(out_fields=Prediction.logits))
    1
    >>> len(classifier.select_out_fields(Prediction.digit).reset_out_fields())
    2
    """

    def __class_getitem__(cls, item: Any) -> Any:
        """The type with its classes; calling it gives them to the constructor."""
        return WithEnds(cls, item)

    _made: ClassVar[Sequence[str]] = ("_program", "_report", "_skipping", "_others", "_parts", "_values", "diagnostics")
    """The attributes that `_build` sets."""
    input_class: type[Any]
    output_class: type[Any]
    diagnostics: tuple[Diagnostic, ...]
    """All findings of the build check, including warnings and notes."""

    @overload
    def __init__(
        self, first: First[In], /, *modules: Member, input: type[In], output: type[Out], **options: Unpack[Ordered]
    ) -> None: ...
    @overload
    def __init__(
        self: TensorClassSequential[State, State],
        first: First[State],
        /,
        *modules: Member,
        input: type[State],
        **options: Unpack[Ordered],
    ) -> None: ...
    @overload
    def __init__(
        self, *modules: Member, sort: bool, input: type[In], output: type[Out], **options: Unpack[Ordered]
    ) -> None: ...
    @overload
    def __init__(
        self: TensorClassSequential[State, State],
        *modules: Member,
        sort: bool,
        input: type[State],
        **options: Unpack[Ordered],
    ) -> None: ...
    @overload
    def __init__(
        self,
        first: First[In],
        /,
        *modules: Member | Tensor,
        input: type[In],
        output: type[Out],
        probe: Probing = ...,
        sort: bool = ...,
        partial: bool = ...,
        skip_existing: bool = ...,
        name: str | None = ...,
        **stages: Staged,
    ) -> None: ...
    @overload
    def __init__(
        self,
        *values: Tensor,
        input: type[In],
        output: type[Out],
        probe: Probing = ...,
        sort: bool = ...,
        partial: bool = ...,
        skip_existing: bool = ...,
        name: str | None = ...,
        **stages: Staged,
    ) -> None: ...
    @overload
    def __init__(
        self, first: Forward[In, Any], /, *modules: Any, input: type[In], output: type[Out], **options: Unpack[Ordered]
    ) -> None: ...
    @overload
    def __init__(
        self,
        *values: Tensor,
        input: type[In],
        output: None = ...,
        probe: Probing = ...,
        sort: bool = ...,
        partial: bool = ...,
        skip_existing: bool = ...,
        name: str | None = ...,
        **stages: Staged,
    ) -> None: ...
    @overload
    def __init__(
        self,
        model: Forward[In, Out],
        /,
        *,
        input: None = ...,
        output: None = ...,
        probe: Probing = ...,
        partial: bool = ...,
        skip_existing: bool = ...,
        name: str | None = ...,
    ) -> None: ...
    @overload
    def __init__(
        self,
        function: Callable[[In], Out],
        /,
        *,
        input: None = ...,
        output: None = ...,
        probe: Probing = ...,
        partial: bool = ...,
        skip_existing: bool = ...,
        name: str | None = ...,
    ) -> None: ...
    @overload
    def __init__(
        self,
        *members: Any,
        input: None = ...,
        output: type[Out],
        probe: Probing = ...,
        sort: bool = ...,
        partial: bool = ...,
        skip_existing: bool = ...,
        name: str | None = ...,
        **stages: Staged,
    ) -> None: ...
    @overload
    def __init__(
        self,
        *members: Any,
        input: None = ...,
        output: None = ...,
        probe: Probing = ...,
        sort: bool = ...,
        partial: bool = ...,
        skip_existing: bool = ...,
        name: str | None = ...,
        **stages: Staged,
    ) -> None: ...
    @overload
    def __init__(self, *, input: type[In], output: type[Out], **stages: Staged) -> None: ...
    @overload
    def __init__(self, **stages: Staged) -> None: ...
    def __init__(  # type: ignore[misc]  # a keyword `first` is a stage of that name
        self,
        *modules: Any,
        input: type[Any] | None = None,
        output: type[Any] | None = None,
        probe: Probing = True,
        sort: bool = False,
        partial: bool = False,
        skip_existing: bool = False,
        name: str | None = None,
        layout: Placing | None = None,
        **stages: Any,
    ) -> None:
        super().__init__()
        if layout is not None and not hasattr(layout, "follow"):
            raise ArgumentError(f"layout= takes a tensorclass.parallel.Layout, got a {type(layout).__name__}")
        self._name = check_name(name)
        self._probe = as_probing(probe)
        probing = self._probe is not False and PROBING.get()
        members, input, output = opened(modules, stages, input, output, probing)
        self._layout = layout_of(layout, [getattr(member, "_layout", None) for _, member in members])
        self.input_class = as_class(input, "input")
        self.output_class = self._declared_output = as_class(output, "output")
        self._members: tuple[tuple[str, int, int], ...] = ()
        self._stages: tuple[Stage, ...] = ()
        taken: dict[str, int] = {}
        for index in self._order(members) if sort else range(len(members)):
            self._add(members[index], partial, skip_existing, taken)
        self._fresh = True
        self._build(self._check(), warn=True)

    def _order(self, members: Sequence[OpenListing]) -> list[int]:
        groups = [_stages_of(*member, index)[:2] for index, member in enumerate(members)]
        every = [stage for _, stages in groups for stage in stages]
        placed = iter(identify(every, [self.input_class], self.output_class, self._title(), at_once=True).stages)
        nodes = []
        for name, group in groups:
            stages = [next(placed) for _ in group]
            writes = {s.path: s for stage in stages for s in stage.written if not s.within}
            update, location = any(stage.update for stage in stages), stages[0].location
            nodes.append(Listed(name, location, tuple(needs(stages, ())), tuple(writes.values()), update))
        return topological(nodes, self.input_class, self._title())

    def _add(self, listed: OpenListing, partial: bool, skip_existing: bool, taken: dict[str, int]) -> None:
        """Register a member under its name if it is a module, and add its stages."""
        index, start = len(self._members), len(self._stages)
        name, stages, registered = _stages_of(*listed, index)
        if taken.setdefault(name, index) != index:
            both = f"modules {taken[name]} and {index} are both named `{name}` ({stages[0].location})"
            raise BuildError(f"{both}; give one another `name=`")
        if hasattr(self, name):
            raise BuildError(f"name={name!r} would hide an attribute of the pipeline; take another name")
        if registered is not None:
            self.add_module(name, registered)
        self._members += ((name, start, start + len(stages)),)
        self._stages += tuple(
            replace(s, partial=s.partial or partial, skip_existing=s.skip_existing or skip_existing) for s in stages
        )

    def _declared(self) -> Report:
        return check(self._identify(), self._targets(), self.input_class, self.output_class)

    def _identify(self, *alike: type) -> Identified:
        """Find which fields are one value; the input class also stands for the classes `alike`."""
        found = identify(self._stages, [self.input_class, *alike], self.output_class, self._title())
        self._stages, self._values = found.stages, found.values
        return found

    def _check(self) -> Report:
        report = self._declared()
        if self._probe is False or not PROBING.get():
            return report
        targets = self._targets()
        report = probe(
            report,
            self._stages,
            targets,
            self.output_class,
            real=self._probe == "run",
            laid_out=self._layout is not None,
        )
        return self._with_placements(report, targets, run=True)

    def _with_placements(self, report: Report, targets: Sequence[Callable[..., Any]], run: bool) -> Report:
        """The report with placements, and with what calls modules over a part of the mesh."""
        if self._layout is None or report.placed is not None:
            return report
        return self._layout.follow(report, self._stages, targets, (self.input_class, self.output_class), run=run)

    def check(self, *, values: bool = False) -> Report:
        """Check the pipeline again in its current state: submodules may have been replaced or trained.

        Args:
            values: Whether to run copies of the modules on real values too, to find out whether one element of the
                batch influences another.

        Raises:
            BuildError: has every finding in `.diagnostics`.
        """
        report = self._check()
        if values and not any(d.severity == "error" for d in report.diagnostics):
            found = influences(report, self._stages, self._targets(), self.output_class)
            report = replace(report, diagnostics=(*report.diagnostics, *found))
        self._build(report, warn=True)
        return report

    def _build(self, report: Report, warn: bool) -> None:
        """Raise or warn of what the checks found, and generate the forward functions."""
        report = self._with_placements(
            report, self._targets(), run=False
        )  # a part, a copy, or a pipeline that is not probed
        self.diagnostics = report.diagnostics
        if any(d.severity == "error" for d in report.diagnostics):
            raise build_error(f"the pipeline {self._title()} is wrong", report.diagnostics)
        for diagnostic in report.diagnostics:
            if warn and diagnostic.severity == "warning" and diagnostic.module is not None:
                file, line = self._stages[diagnostic.module].location
                warnings.warn_explicit(str(diagnostic), PipelineWarning, file, line)
        self._report = report
        self._others: dict[type, TensorClassSequential[Any, Out]] = {}
        self._parts = {}
        self._program = self._generate()
        self._may_skip = any(fillable(slot, self.input_class, self.output_class) for slot in self._written())
        # Generated here, because torch.compile can't trace the generation.
        self._skipping: dict[Any, Program] = {True: self._generate(skip=True)} if self._may_skip else {}

    def _generate(self, seen: FirstCall | None = None, skip: Any = False) -> Program:
        stages = self._stages if skip is False else [skipping(stage, skip) for stage in self._stages]
        return generate(stages, self.input_class, self.output_class, self._report, seen)

    def _program_now(self) -> Program:
        """The program under `set_skip_existing`."""
        key = skip_mode()
        if key is False:
            return self._program
        if key not in self._skipping:
            self._skipping[key] = self._generate(skip=key)
        return self._skipping[key]

    if TYPE_CHECKING:

        def __call__(self, batch: In) -> Out:
            """Run the pipeline on a batch."""
            ...

        def __getattr__(self, name: str) -> nn.Module:
            """The wrapped module of a stage."""
            ...

    def forward(self, batch: Any = MISSING, *more: Any, **fields: Any) -> Any:
        """Run the modules on a batch and return a new instance of the output class.

        Raises:
            TypeError: for anything but one batch, and for a batch of another class that lacks fields that the modules
                read.
            SchemaError: if a module returns a value that doesn't fit its declaration. Intermediate fields are compared
                on the first call, the output on every call.
        """
        if more or fields:
            self._refuse(batch, None, more, fields)
        # The first call compares what every module returns with what it declares. `is_compiling` is asked before all
        # else: in traced code a look at `_fresh` would be a guard, which the first eager call breaks.
        first = not is_compiling() and self._fresh and not (self._may_skip and skip_existing())
        if first:
            program = self._generate(FirstCall(self._report, self._stages, batch))
        else:
            program = self._program_now() if self._may_skip else self._program
        try:
            result = program.run(self, batch)
        except Exception as error:  # the user's modules may raise anything
            self._blame(error, program)
            raise
        if first:
            self._fresh = False
        return result

    def _blame(self, error: Exception, program: Program) -> None:
        """Add to an error the name and arguments of its module, from the frame of the generated code."""
        found = frame_of(error.__traceback__, program)
        if found is None or found[1] not in program.calls:
            return
        frame, line = found
        position, names = program.calls[line]
        stage = program.stages[position]
        index = next(i for i, own in enumerate(self._stages) if own.name == stage.name)
        values = [frame.f_locals.get(name) for name in names]
        blame(error, f"{stage.at(index)} ({stage.location})", stage.reads, values)

    def _of_another_class(self, batch: Any) -> Any:
        """Run on a batch of another class with the fields that the modules read; each class is checked once."""
        cls = type(batch)
        if cls not in self._others:
            if not is_tensorclass_type(cls) or defined_again(cls, self.input_class):
                self._refuse(batch)
            try:
                other = self.on(cls)
            except BuildError as error:
                self._refuse(batch, error)
            self._others = {**dict(list(self._others.items())[-_CLASSES:]), cls: other}
        return self._others[cls].forward(batch)

    def on(self, input: type[Other]) -> TensorClassSequential[Other, Out]:
        """The same pipeline for batches of another class, typed and checked for that class; it shares the modules.

        The class must have every field that the modules read, and every field that the output takes from the input.
        Calls with such a batch have the same effect; `on` informs type checkers, and checks early.

        Args:
            input: A typed class.

        Raises:
            BuildError: if the class lacks a field, or declares it in a way that the modules can't accept.

        >>> import torch
        >>> from torch import Tensor, nn
        >>> from tensorclass import TensorClass
        >>> from tensorclass.typing import Float32, Int64
        >>> class Image(TensorClass):
        ...     pixels: Float32[Tensor, "64"]
        >>> class Digits(TensorClass):
        ...     pixels: Float32[Tensor, "64"]
        ...     label: Int64[Tensor, ""]
        >>> class Prediction(TensorClass):
        ...     logits: Float32[Tensor, "10"]
        >>> head = TensorClassModule(nn.Linear(64, 10), in_fields=Digits.pixels, out_fields=Prediction.logits)
        >>> trained = TensorClassSequential(head, input=Digits, output=Prediction)
        >>> trained.on(Image)(Image(torch.zeros(5, 64))).logits.shape
        torch.Size([5, 10])
        """
        cls = as_class(input, "input")
        other = self._bare(range(len(self._stages)))
        other._modules = self._modules  # shared, so that a submodule that is replaced in one is replaced in both
        other.input_class, other.output_class, other._declared_output = cls, self.output_class, self._declared_output
        slots = passed_fields(self.input_class, needs(self._stages, self._ends()))
        found = other._identify(self.input_class)
        other._build(fit_pipeline(self._report, slots, found, self._targets(), cls, self.output_class), warn=False)
        return other

    def _refuse(self, batch: object, error: BuildError | None = None, *given: Any) -> NoReturn:
        raise ArgumentError(refusal(self._title(), self.input_class, batch, error, *given)) from None

    def _target(self, stage: Stage) -> Callable[..., Any]:
        """The current callable of a stage: a submodule may have been replaced."""
        if stage.function is not None:
            return stage.function
        module = self.get_submodule(stage.name)
        target: Callable[..., Any] = module if stage.method is None else getattr(module, stage.method)
        return target

    def _targets(self) -> list[Callable[..., Any]]:
        return [self._target(stage) for stage in self._stages]

    def _written(self) -> list[Slot]:
        return [slot for stage in self._stages for slot in stage.written if not slot.within]

    @property
    def in_fields(self) -> tuple[Any, ...]:
        """References to the fields of a batch that the modules read."""
        return tuple(slot.ref for slot in passed_fields(self.input_class, needs(self._stages, ())))

    @property
    def out_fields(self) -> tuple[Any, ...]:
        """References to the fields that the modules write, without private fields of nested pipelines."""
        return tuple({slot.path: slot.ref for slot in self._written()}.values())

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[Member]:
        return (self[index] for index in range(len(self)))

    @overload
    def __getitem__(self, index: int) -> Member: ...
    @overload
    def __getitem__(self, index: slice) -> TensorClassSequential[Any, Any]: ...
    def __getitem__(self, index: Any) -> Any:
        """The typed module or nested pipeline at an index, or a pipeline of the modules of a slice.

        The input class of a slice is that of the pipeline if it has all fields that the modules read, else a class with
        the fields that they and the output need. The output class is that of the pipeline if the slice writes all of
        it, else a class with the fields that later modules need. Modules are shared; `p[:2]`, then `p[2:]`, is `p`.
        """
        if isinstance(index, slice):
            return self._slice(index)
        if not isinstance(index, int) or isinstance(index, bool):
            raise ArgumentError(f"a pipeline is indexed by the number of a module or a slice, got {index!r:.200}")
        if not -len(self) <= index < len(self):
            raise BatchIndexError(f"module {index} of a pipeline with {len(self)} modules")
        name, start, _ = self._members[index]
        stage = self._stages[start]
        whole = self._modules.get(name)
        if isinstance(whole, (TensorClassModuleBase, TensorClassSequential)):
            return whole
        return as_module(stage, self._target(stage))

    def select_out_fields(self, *fields: Any) -> TensorClassSequential[In, Any]:
        """Return only these fields, from now on; every module still runs. `reset_out_fields` undoes it.

        Args:
            fields: Fields of the output, of the input, or intermediate ones.

        Raises:
            BuildError: for unknown fields.
        """
        return self._return(self._selected(fields))

    def reset_out_fields(self) -> Self:
        """Return the output class of the constructor again."""
        return self._return(self._declared_output)

    def _return(self, output: type[Any]) -> Self:
        before, self.output_class = self.output_class, output
        try:
            self._build(self._check(), warn=False)
        except BuildError:
            self.output_class = before
            raise
        return self

    def __getstate__(self) -> dict[str, Any]:
        """Everything but the generated code and the report of the check, which are recreated."""
        state = {name: value for name, value in self.__dict__.items() if name not in self._made}
        return {**state, "_probed": self._report.probed}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]  # torch does not annotate it
        probed = self.__dict__.pop("_probed")
        # A copy is not probed again, and the user has seen the warnings when the pipeline was built.
        self._build(relearn(self._declared(), probed), warn=False)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any, **kwargs: Any) -> None:
        """Accept the keys of an `nn.Sequential` too: numbers instead of names."""
        name_numbers(state_dict, prefix, [(name, self._modules.get(name)) for name, _, _ in self._members])
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)


TensorClassSequential._plain = TensorClassSequential


def _stages_of(keyword: str | None, member: Any, index: int) -> tuple[str, list[Stage], nn.Module | None]:
    """The name of a member, its stages, and the module to register under the name."""
    if isinstance(member, TensorClassSequential):
        name = keyword or member._name or f"pipeline_{index}"
        ends = Ends(member.input_class, member.output_class, member._report.sources)
        return name, inline_stages(member._stages, name, ends), member
    stage, registered = member._stage_at(index)
    stage = replace(stage, name=keyword or stage.name)
    return stage.name, [stage], registered


Typed = TensorClassModule[Any] | TensorClassModuleBase[Any, Any] | TensorClassSequential[Any, Any]
"""The members of a pipeline."""
Member = Typed | TensorDictModuleBase
"""The arguments of a pipeline by position."""
First = (
    TensorClassModule[Batch] | TensorClassModuleBase[Any, Any] | TensorClassSequential[Any, Any] | TensorDictModuleBase
)
"""The first member of a pipeline."""
