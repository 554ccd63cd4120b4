"""A pipeline as a picture, as a table and as text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from torch import nn

from ..check._declared import Report
from ..parts._stage import Stage, default_name, fields_text
from ._drawing import Format, draw
from ._explain import Explanation, explain


class Shown:
    """How a pipeline shows what it does."""

    if TYPE_CHECKING:
        _stages: tuple[Stage, ...]
        _targets: Callable[[], list[Callable[..., Any]]]
        _report: Report
        input_class: type[Any]
        output_class: type[Any]
        get_submodule: Callable[[str], nn.Module]

    def graph(self, format: Format = "mermaid") -> str:
        """Draw the pipeline: modules are nodes, fields are edges.

        Args:
            format: "mermaid" returns text that GitHub, MkDocs and most notebooks draw from a `mermaid` code block;
                "svg" returns a picture, "html" a self-contained page with the picture and the table of `explain()`.
        """
        kinds = [default_name(target) for target in self._targets()]
        sources = self._report.sources
        return draw(self._stages, kinds, self.input_class, self.output_class, sources, self.explain(), format)

    def _repr_html_(self) -> str:
        return f"<div style='overflow:auto'>{self.graph('svg')}</div>"

    def explain(self, batch_size: int | Sequence[int] = (), **sizes: int) -> Explanation:
        """Explain the state of the pipeline after every module: fields, dtypes, shapes, memory.

        Args:
            batch_size: The batch dims; by default, sizes are those of one element.
            sizes: Sizes of named dims, such as `h=48`. Nested classes may have dims of one name, which are then called
                by their field: `**{"past.t": 7}`; `t=7` is the size of all.

        Raises:
            ModuleError: for the size of a dim that the pipeline doesn't have.
        """
        batch = (batch_size,) if isinstance(batch_size, int) else tuple(batch_size)
        return explain(self._stages, self._targets(), self._report, self.input_class, self.output_class, batch, sizes)

    def _title(self) -> str:
        return f"{self.input_class.__name__} -> {self.output_class.__name__}"

    def __repr__(self) -> str:
        rows = [f"TensorClassSequential({self._title()}"]
        for index, stage in enumerate(self._stages):
            target = self.get_submodule(stage.name) if stage.function is None else stage.name
            text = repr(target).replace("\n", "\n    ") if stage.function is None else "function"
            rows.append(f"  ({index}) {stage.name}: {fields_text(stage.reads)} -> {fields_text(stage.writes)}  {text}")
        return "\n".join([*rows, ")"])
