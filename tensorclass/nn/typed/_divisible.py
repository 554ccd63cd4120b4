"""Divisible of a pipeline as pipelines: slices, the modules for some fields, other out fields."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from torch import nn

from ...errors import BatchIndexError, BuildError
from ..check._identity import FieldValues, Unclear
from ..parts._slots import Slot, slots_of
from ._subsequence import class_of_picked, finals, known_slots, leaves, needed_stages, needs, passed_fields, reachable

if TYPE_CHECKING:
    from ._sequential import TensorClassSequential


class Divisible:
    """What a pipeline does with its modules besides running them."""

    _plain: ClassVar[type[Any]]
    """The class of a part."""
    if TYPE_CHECKING:
        __len__: Callable[[], int]
        _stages: tuple[Any, ...]
        _members: tuple[tuple[str, int, int], ...]
        _values: FieldValues
        _report: Any
        _title: Callable[[], str]
        _written: Callable[[], list[Slot]]
        _check: Callable[[], Any]
        _build: Callable[..., None]
        _modules: dict[str, Any]
        input_class: type[Any]
        output_class: type[Any]
        _declared_output: type[Any]
        add_module: Callable[[str, nn.Module | None], None]
        get_submodule: Callable[[str], nn.Module]

    def _selected(self, fields: Any) -> Any:
        """A class of some fields of the input, of the output or between."""
        wanted = self._find(fields, "fields")
        given = [*map(self._values.read, leaves(self.input_class)), *self._written()]
        known_slots(self._title(), wanted, given, "select_out_fields")
        return class_of_picked(wanted)

    def _find(self, fields: Any, role: str) -> list[Slot]:
        """The values that fields in an argument name."""
        try:
            return [self._values.read(slot) for slot in slots_of(fields, role)]
        except Unclear as several:
            raise BuildError(f"{role}: a field may be any of {several}; name one of them") from None

    def _slice(self, index: slice) -> TensorClassSequential[Any, Any]:
        chosen = range(len(self))[index]  # pyright: ignore[reportArgumentType]  # the pipeline has a length
        if not chosen or chosen.step != 1:
            raise BatchIndexError(f"{index} picks no row of modules of a pipeline with {len(self)}")  # pyright: ignore[reportArgumentType]  # the pipeline has a length
        start, stop = self._members[chosen[0]][1], self._members[chosen[-1]][2]
        wanted = needs(self._stages[stop:], self._ends()) if stop < len(self._stages) else None
        return self._part(range(start, stop), wanted)

    def _ends(self) -> list[Slot]:
        """The output fields of the whole pipeline."""
        paths = {slot.path for slot in [*passed_fields(self.input_class, leaves(self.input_class)), *self._written()]}
        return [slot for slot in map(self._values.read, leaves(self.output_class)) if slot.path in paths]

    def select_subsequence(self, *, in_fields: Any = None, out_fields: Any = None) -> TensorClassSequential[Any, Any]:
        """Select the modules that can run from some fields and that compute some fields; the new pipeline shares them.

        Args:
            in_fields: An input or intermediate field, or a sequence of them: only modules are kept that need no other
                fields. The input class has the fields that the modules read; batches with more fields are accepted too.
            out_fields: A field or a sequence of them: only modules are kept that these fields depend on. The output
                class has these fields; by default it is that of the pipeline, if it is still complete.

        Raises:
            BuildError: for unknown fields, and if no module is left.
        """
        kept: Sequence[int] = range(len(self._stages))
        wanted: list[Slot] | None = None
        starts: list[Slot] = []
        given = [*map(self._values.read, leaves(self.input_class)), *self._written()]
        if in_fields is not None:
            starts = self._find(in_fields, "in_fields")
            known_slots(self._title(), starts, [*given, *needs(self._stages, ())], "in_fields")
            kept = reachable(self._stages, kept, starts)
        if out_fields is not None:
            wanted = self._find(out_fields, "out_fields")
            known_slots(self._title(), wanted, given, "out_fields")
            kept = needed_stages(self._stages, kept, wanted)
        if not kept:
            first = ", ".join(slot.label for slot in starts) or "the input"
            last = ", ".join(slot.label for slot in wanted or ()) or "the output"
            raise BuildError(f"no module of {self._title()} leads from {first} to {last}")
        brought = needs([self._stages[index] for index in kept], self._ends())
        if wanted is None and len(passed_fields(self.input_class, brought)) < len(brought):
            wanted = finals(self._stages, kept, self._report.sources.values())
        return self._part(kept, wanted, narrow=True)

    def _part(
        self, kept: Sequence[int], wanted: Sequence[Slot] | None, narrow: bool = False
    ) -> TensorClassSequential[Any, Any]:
        """A pipeline of some of the stages; complete nested pipelines are kept.

        With `narrow`, its input class has only the fields that it reads.
        """
        stages = [self._stages[index] for index in kept]
        part = self._bare(kept)
        part.output_class = part._declared_output = self.output_class if wanted is None else class_of_picked(wanted)
        missing = needs(stages, self._ends() if wanted is None else wanted)
        inside = len(passed_fields(self.input_class, missing)) == len(missing)
        part.input_class = self.input_class if inside and not narrow else class_of_picked(missing)
        part._build(part._declared(), warn=False)  # probed as part of this pipeline; `part.check()` probes it again
        if inside and part.input_class is not self.input_class:
            part._others[self.input_class] = part.on(self.input_class)  # now, since torch.compile can't trace it later
        return part

    def _bare(self, kept: Sequence[int]) -> TensorClassSequential[Any, Any]:
        """A pipeline with some of the modules, before it has its classes."""
        part: TensorClassSequential[Any, Any] = object.__new__(self._plain)
        nn.Module.__init__(part)
        names = ("_probe", "_name", "_layout", "training")
        part.__dict__.update({name: self.__dict__[name] for name in names}, _fresh=True, _members=(), _stages=())
        for name, start, stop in self._members:
            chosen = [index for index in kept if start <= index < stop]
            part._adopt(self, name, chosen, len(chosen) == stop - start)
        return part

    def _adopt(self, other: Divisible, name: str, kept: Sequence[int], whole: bool) -> None:
        """Take over modules of another pipeline, as a whole or one by one under the same names."""
        start = len(self._stages)
        self._stages += tuple(other._stages[index] for index in kept)
        if whole and name in other._modules:
            self.add_module(name, other.get_submodule(name))
        for stage in self._stages[start:]:
            owner, _, last = stage.name.rpartition(".")
            if not whole and stage.function is None:
                holder: Any = self
                for step in owner.split(".") if owner else ():
                    if step not in holder._modules:
                        holder.add_module(step, nn.Module())
                    holder = holder.get_submodule(step)
                holder.add_module(last, other.get_submodule(stage.name))
        spans = [(start, len(self._stages))] if whole else [(i, i + 1) for i in range(start, len(self._stages))]
        self._members += tuple((name, *span) for span in spans)
