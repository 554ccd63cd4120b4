"""`graph()` and `explain()`: well-formed, nothing overlaps, what is printed is what happens."""

from __future__ import annotations

import itertools
import re
import xml.etree.ElementTree as ElementTree

import pytest
import torch
from torch import Tensor, nn

from tensorclass import TensorClass
from tensorclass.errors import ModuleError
from tensorclass.nn import TensorClassSequential, stage
from tensorclass.nn.typed._drawing import picture
from tensorclass.typing import Float, Float32
from tests.nn._pipelines import Digits, Hidden, Prediction, classifier, digits, stages, step
from tests.nn.test_sequencer import Sum, Wide, graph, nested, state_pipeline, wide

SVG = "{http://www.w3.org/2000/svg}"


def chain(length: int) -> list[tuple[int, int]]:
    """A chain with an edge past everything."""
    return [*((i, i + 1) for i in range(length - 1)), (0, length - 1)]


GRAPHS = [
    (2, [(0, 1)]),
    (6, chain(6)),
    (7, [(0, 1), (0, 2), (0, 3), (1, 4), (2, 4), (3, 5), (4, 6), (5, 6), (0, 5), (1, 6)]),
    (9, [(i, j) for i in range(9) for j in range(i + 1, 9) if (i * j + i + j) % 3 != 1]),
    (4, [(0, 1), (0, 2), (1, 3)]),
    (3, [(0, 2)]),
    (1, []),
]


def rects(drawing: str) -> list[tuple[float, ...]]:
    """The boxes of a drawing: left, top, right, bottom; chips left out."""
    root = ElementTree.fromstring(drawing)
    found = []
    for rect in root.iter(f"{SVG}rect"):
        if rect.get("class") != "chip":
            x, y, width, height = (float(rect.attrib[name]) for name in ("x", "y", "width", "height"))
            found.append((x, y, x + width, y + height))
    return found


@pytest.mark.parametrize(("count", "edges"), GRAPHS)
def test_no_line_runs_through_a_box(count, edges):
    """Boxes do not overlap, and lines keep out of boxes and of lines beside them."""
    drawing = picture(
        [f"node {'x' * (7 * i % 5)}" for i in range(count)], [(*edge, f"f{edge[1]}") for edge in edges], {}
    )
    boxes = rects(drawing)
    assert len(boxes) == count
    for one, other in itertools.combinations(boxes, 2):
        assert one[3] < other[1] or other[3] < one[1]
    upright = []
    for path in ElementTree.fromstring(drawing).iter(f"{SVG}path"):
        points = [tuple(map(float, point.split())) for point in re.findall(r"-?[\d.]+ -?[\d.]+", path.attrib["d"])]
        assert not any(a < x < c and b < y < d for x, y in points for a, b, c, d in boxes)
        rows = [y for _, y in points]
        assert rows == sorted(rows)
        if "L" in path.attrib["d"]:
            upright.append((points[3][0], points[3][1], points[4][1]))
            assert points[3][0] > max(right for _, _, right, _ in boxes)
    for (x, top, bottom), (other, above, below) in itertools.combinations(upright, 2):
        assert x != other or bottom <= above or below <= top


@pytest.mark.parametrize("pipeline", [classifier, graph, nested, state_pipeline], ids=lambda f: f.__name__)
def test_svg(pipeline):
    """Well-formed, a box for every node, a line for every field and reader, everything inside of the view."""
    built = pipeline()
    drawing = built.graph("svg")
    root = ElementTree.fromstring(drawing)
    left, top, width, height = map(float, root.attrib["viewBox"].split())
    boxes = rects(drawing)
    assert len(boxes) == len(built._stages) + 2
    assert all(left <= a and top <= b and c <= left + width and d <= top + height for a, b, c, d in boxes)
    mermaid = built.graph()
    lines = sum(row.count(",") + 1 for row in mermaid.splitlines() if "-->" in row)
    assert len(list(root.iter(f"{SVG}path"))) == lines
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert built.input_class.__name__ in texts
    assert any(stage.name in str(text) for stage in built._stages for text in texts)
    assert "http" not in drawing.replace("http://www.w3.org/2000/svg", "")


def test_html_stands_alone():
    """A page with the drawing and the table, nothing fetched, names escaped."""
    page = graph().graph("html")
    assert page.startswith("<!doctype html>")
    assert "<svg" in page
    assert "held after" in page
    assert not re.search(r"(src|href)=", page)
    assert "Wide -&gt; Sum" in page
    assert graph()._repr_html_().startswith("<div")


def test_unknown_format():
    """The formats are named."""
    with pytest.raises(ModuleError, match="'mermaid', 'svg' or 'html'"):
        graph().graph("png")  # type: ignore[arg-type]  # what a user may write


def test_explain():
    """Sizes, bytes and what is held after each module."""
    found = classifier().explain(32, classes=10)
    assert [step.title for step in found.steps] == ["input Digits", "0 flatten_0", "1 encoder", "2 head", "3 argmax_3"]
    head = found.steps[3]
    assert [(v.name, v.dtype, v.shape, v.nbytes) for v in head.writes] == [("logits", "float32", (32, 10), 1280)]
    assert [v.name for v in found.steps[4].held] == ["logits", "digit"]
    assert found.peak == 32 * 64 * 4
    assert sum(step.parameters for step in found.steps) == 4 * (64 * 16 + 16 + 16 * 10 + 10)
    rows = str(found).splitlines()
    assert rows[0] == "Digits -> Prediction, batch size [32]"
    assert any("1 encoder" in row and "[32, 16]" in row and row.endswith("2.0 KiB: h") for row in rows)


def test_explain_without_sizes():
    """Open dims stay names, what can't be counted is `?`, and unknown names are refused."""

    class Image(TensorClass):
        image: Float32[Tensor, "3 h w"]
        rest: Float[Tensor, "..."]

    class Small(TensorClass):
        small: Float32[Tensor, "3 h//2 w//2"]

    pipeline = TensorClassSequential(step(nn.MaxPool2d(2), Image.image, Small.small), input=Image, output=Small)
    text = str(pipeline.explain([2, 5]))
    assert "[2, 5, 3, h//2, w//2]" in text
    assert "[2, 5, ...]" in text
    assert "most held ?" in text
    assert pipeline.explain(h=48, w=80).steps[1].writes[0].nbytes == 3 * 24 * 40 * 4
    with pytest.raises(ModuleError, match="no dim of the pipeline is called `wide`"):
        pipeline.explain(wide=3)
    with pytest.raises(ModuleError, match="the size of a dim is a whole number"):
        pipeline.explain(h=-1)


def test_explain_names_the_scope_of_a_dim_and_the_values_of_a_mapping():
    """Two dims of one name are called by their scopes; sizes take both names; tensors of a mapping have rows."""

    class Series(TensorClass):
        x: Float32[Tensor, "t 3"]

    class Pair(TensorClass):
        past: Series
        future: Series

    class Sums(TensorClass):
        past_sum: Float32[Tensor, "t"]
        future_sum: Float32[Tensor, "u"]

    def summed(x):
        return {"sum": x.sum(-1), "size": len(x), "twice": x.repeat(1, 2, 1)}

    for which in ("past", "future"):
        pipeline = TensorClassSequential[Pair, Sums](
            kept=stage(lambda x: x.sum(-1), Pair.past.x, out=Sums.past_sum),
            parts=stage(summed, getattr(Pair, which).x),
            last=stage(lambda parts: parts["sum"], out=Sums.future_sum),
        )
        start, kept, parts, _ = pipeline.explain(2).steps
        assert [value.shape for value in start.writes] == [(2, "past.t", 3), (2, "future.t", 3)]
        assert kept.writes[0].shape == (2, "past.t")
        found = {value.name: (value.dtype, value.shape) for value in parts.writes}
        assert found == {
            "parts": ("dict", None),
            "parts['sum']": ("float32", (2, f"{which}.t")),
            "parts['twice']": ("float32", (2, f"2*{which}.t", 3)),
        }
        sized = pipeline.explain(2, **{"past.t": 5, "future.t": 7}).steps
        size = {"past": 5, "future": 7}[which]
        assert [value.nbytes for value in sized[2].writes] == [4 * 2 * (size + 2 * size * 3), 8 * size, 48 * size]
        assert [value.shape for value in pipeline.explain(t=4).steps[0].writes] == [(4, 3), (4, 3)]
        with pytest.raises(ModuleError, match=r"no dim of the pipeline is called `path\.t`; did you mean `past.t`"):
            pipeline.explain(**{"path.t": 4})


def test_explain_uses_what_probes_saw():
    """A size that a module has whatever the input is, and the dtype of a family, need not be given."""

    class Open(TensorClass):
        z: Float[Tensor, "n"]

    found = classifier().explain(2)
    assert found.steps[3].writes[0].shape == (2, 10)
    assert found.peak == 2 * 64 * 4
    pipeline = TensorClassSequential(step(nn.Linear(4, 7), Wide.a, Open.z), input=Wide, output=Open)
    value = pipeline.explain(3).steps[1].writes[0]
    assert (value.dtype, value.shape, value.nbytes) == ("float32", (3, 7), 84)
    bare = TensorClassSequential(step(nn.Linear(4, 7), Wide.a, Open.z), input=Wide, output=Open, probe=False)
    assert bare.explain(3).steps[1].writes[0].shape == (3, "n")


def test_explain_agrees_with_a_run():
    """The shapes and bytes that are printed are those of a call."""
    pipeline, batch = graph(), wide(7)
    result = pipeline(batch)
    written = {v.name: v for step in pipeline.explain(7).steps for v in step.writes}
    for name, value in result.items():
        assert written[name].shape == tuple(value.shape)
        assert written[name].nbytes == value.numel() * value.element_size()
    assert (Sum, Wide) == (pipeline.output_class, pipeline.input_class)


def test_explain_of_an_overwrite():
    """After an overwrite the new value is the one that is held."""

    class Out(TensorClass):
        h: Float32[Tensor, "16"]

    pipeline = TensorClassSequential(
        *stages()[:2], step(nn.Tanh(), Hidden.h, Hidden.h, update=True), input=Digits, output=Out
    )
    steps = pipeline.explain(digits(2).batch_size).steps
    assert [[v.name for v in s.held] for s in steps] == [["image"], ["flat"], ["h"], ["h"]]
    assert torch.Size([2]) == digits(2).batch_size
    assert Prediction is not Out
