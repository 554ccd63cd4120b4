"""Printing: the compact and the detailed form, the options, the HTML table, and a printed container read back."""

from __future__ import annotations

import threading
from html.parser import HTMLParser
from typing import Any
from unittest import TestCase

import pytest
import tensordict
import torch
from hypothesis import given
from torch import Tensor

import tensorclass
from tensorclass import (
    NonTensorStack,
    PerElement,
    Shared,
    TensorClass,
    TensorDict,
    get_printoptions,
    parse_tensor_dict_string,
    print_directory_tree,
    set_printoptions,
)
from tensorclass.typing import Float32, Int64
from tests.ops._anchor import Tree, trees


class Pose(TensorClass):
    angle: Float32[Tensor, ""]


class Frame(TensorClass):
    pose: Pose
    image: Float32[Tensor, "2 2"]
    label: Int64[Tensor, ""]
    scale: Shared[Float32[Tensor, "3"]]
    name: PerElement[str]
    note: str = "plain"
    mask: Float32[Tensor, ""] | None = None


def frame(size: int = 3) -> Frame:
    """A batch with every kind of field."""
    return Frame(
        pose=Pose(torch.zeros(size)),
        image=torch.zeros(size, 2, 2),
        label=torch.arange(size),
        scale=torch.ones(3),
        name=["a"] * size,
    )


def sample(library: Any = tensorclass) -> Any:
    """The same small container in a library."""
    inner = library.TensorDict({"c": torch.ones(3, dtype=torch.int64)}, batch_size=[3])
    return library.TensorDict({"a": torch.zeros(3, 4), "b": inner}, batch_size=[3])


def one_line(text: str) -> str:
    """A printed form without its line breaks."""
    return " ".join(text.split()).replace("{ ", "{")


# ---- text --------------------------------------------------------------------------------------------------------


def test_compact_form_tells_dtype_and_event_shape() -> None:
    """One line: batch size, device and names once, then what each element holds."""
    data = TensorDict(a=torch.zeros(3, 4), b={"c": torch.ones(3, dtype=torch.int64), "s": "x"}, batch_size=[3])
    assert repr(data) == "TensorDict(batch_size=[3], fields={a: f32[4], b: {c: i64[], s: str = 'x'}})"
    named = TensorDict(a=torch.zeros(3), batch_size=[3], device="cpu", names=["t"])
    assert repr(named) == "TensorDict(batch_size=[3], device=cpu, names=['t'], fields={a: f32[]})"


def test_compact_form_of_a_typed_class_names_nested_classes_and_kinds() -> None:
    """Nested classes, shared tensors and objects for each element are told apart; absent fields are left out."""
    text = repr(frame())
    assert text.startswith("Frame(batch_size=[3], fields={")
    for part in ("pose: Pose{angle: f32[]}", "image: f32[2,2]", "scale: Shared[f32[3]]", "name: PerElement[str]"):
        assert part in text
    assert "mask" not in text


def test_long_lines_break_and_nested_ones_with_them() -> None:
    """No line of a broken form is longer than the width."""
    inner = {f"field_number_{i}": torch.zeros(2, 3) for i in range(8)}
    data = TensorDict({"first": inner, "second": {"third": inner}}, batch_size=[2])
    with set_printoptions(width=60):
        lines = repr(data).splitlines()
    assert max(map(len, lines)) <= 60
    assert lines[:3] == ["TensorDict(batch_size=[2], fields={", "    first: {", "        field_number_0: f32[3],"]


@given(trees())
def test_compact_form_is_the_anchors_where_it_fits_one_line(tree: Tree) -> None:
    """Same text as the anchor prints, but for its order of keys and the values of one element."""
    ours, theirs = tree.both()
    with set_printoptions(sort_keys="alphabetical", width=10_000, show_values=False):
        mine = repr(ours)
    assert mine == one_line(repr(theirs))


@pytest.mark.parametrize(
    "options",
    [
        {"compact": False},
        {"compact": False, "verbose": False},
        {"show_shape": False},
        {"show_is_shared": False},
        {"show_grad": True},
        {"show_is_contiguous": True, "show_is_view": True},
        {"show_storage_size": True},
        {"compact": False, "show_dtype": False},
        {"compact": False, "show_batch_size": False},
        {"compact": False, "show_device": False},
        {"plain": True},
        {"verbose": False, "show_dtype": True, "compact": False},
        {"show_device": False, "show_batch_size": False},
        {"compact": True, "show_shape": False},
    ],
    ids=str,
)
def test_options_do_what_the_anchors_do(options: dict[str, bool]) -> None:
    """The detailed form and every option that changes it give the anchor's text."""
    with set_printoptions(**options, width=30), tensordict.set_printoptions(**options):
        mine, theirs = repr(sample()), repr(sample(tensordict))
    assert one_line(mine) == one_line(theirs)


def test_detailed_form_of_a_typed_class_reads_like_a_call() -> None:
    """Fields stand as keyword arguments, values that are no tensors as they are."""
    with set_printoptions(compact=False):
        lines = repr(frame()).splitlines()
    assert lines[0] == "Frame("
    assert lines[1] == "    pose=Pose("
    image = "Tensor(shape=torch.Size([3, 2, 2]), device=cpu, dtype=torch.float32, is_shared=False)"
    assert f"    image={image}," in lines
    assert "    note='plain'," in lines
    assert "    name=NonTensorStack(['a', 'a', 'a'])," in lines


def test_keys_print_in_the_order_asked_for() -> None:
    """Declared order by default; alphabetical or by any key function on request."""
    data = TensorDict(b=torch.zeros(4, 1), a=torch.zeros(4, 2), cc=torch.zeros(4, 3), batch_size=[4])
    assert "{b: f32[1], a: f32[2], cc: f32[3]}" in repr(data)
    with set_printoptions(sort_keys="alphabetical"):
        assert "{a: f32[2], b: f32[1], cc: f32[3]}" in repr(data)
    with set_printoptions(sort_keys=lambda key: -len(key)):
        assert "{cc: f32[3], b: f32[1], a: f32[2]}" in repr(data)


def test_values_that_refuse_to_print_do_not_break_the_container() -> None:
    """A `__repr__` that raises, or that is a book, is cut."""

    class Rude:
        def __repr__(self) -> str:
            raise RuntimeError("no")

    data = TensorDict({"rude": Rude(), "book": "x" * 10_000})
    with set_printoptions(compact=False):
        text = repr(data)
    assert "Rude instance" in text
    assert len(text) < 500
    assert "Rude instance" in str(data._repr_html_())


def test_tensors_of_every_layout_print() -> None:
    """Sparse, nested and meta tensors, with every option on; what a layout lacks is left out."""
    ragged = torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)], layout=torch.jagged)
    data = TensorDict(r=ragged, s=torch.eye(3).to_sparse(), m=torch.zeros(2, device="meta"), e=torch.zeros(0))
    assert "r: f32[2,-1]" in repr(data)
    assert "[2, -1]" in str(data._repr_html_())
    with set_printoptions(show_storage_size=True, show_is_view=True, show_grad=True, plain=True):
        text = repr(data)
    assert "s: Tensor(shape=torch.Size([3, 3])" in text
    assert text.count("storage_size=") == 2


# ---- options -----------------------------------------------------------------------------------------------------


def test_options_end_with_their_block_also_by_an_error() -> None:
    """Nested blocks add up, and each restores what it found."""
    before = get_printoptions()
    with set_printoptions(compact=False):
        with set_printoptions(show_grad=True):
            assert (get_printoptions()["compact"], get_printoptions()["show_grad"]) == (False, True)
        with pytest.raises(KeyError), set_printoptions(show_grad=True):
            TensorDict()["x"]
        assert get_printoptions()["show_grad"] is False
    assert get_printoptions() == before


def test_options_decorate_functions_also_recursive_ones() -> None:
    """Every call has a block of its own."""

    @set_printoptions(compact=False)
    def read(depth: int) -> list[bool]:
        return [get_printoptions()["compact"], *(read(depth - 1) if depth else [])]

    assert read(2) == [False, False, False]
    assert get_printoptions()["compact"] is True


def test_options_belong_to_one_thread() -> None:
    """What one thread sets for good, another one never sees."""
    seen: list[bool] = []

    def work() -> None:
        set_printoptions(compact=False).set()
        seen.append(get_printoptions()["compact"])

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [False]
    assert get_printoptions()["compact"] is True


def test_every_option_of_the_anchor_has_its_default_here() -> None:
    """The same names and values; only the order of keys is ours."""
    ours, theirs = get_printoptions(), tensordict.get_printoptions()
    assert theirs.keys() <= ours.keys()
    assert {key: ours[key] for key in theirs if key != "sort_keys"} == {
        key: value for key, value in theirs.items() if key != "sort_keys"
    }


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"compct": False}, TypeError, ["compct", "did you mean `compact`"]),
        ({"compact": "no"}, TypeError, ["compact", "True or False", "'no'"]),
        ({"width": 0}, ValueError, ["width", "positive", "0"]),
        ({"sort_keys": "size"}, ValueError, ["sort_keys", "alphabetical", "insertion", "'size'"]),
    ],
    ids=str,
)
def test_wrong_options_are_refused(options: dict[str, Any], error: type[Exception], words: list[str]) -> None:
    """When they are given, not when something prints."""
    with pytest.raises(error) as caught:
        set_printoptions(**options)
    assert all(word in str(caught.value) for word in words)


# ---- HTML --------------------------------------------------------------------------------------------------------

_VOID = {"br", "hr", "img"}


class Strict(HTMLParser):
    """Tags that are closed in the order in which they are opened, and the text between them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.text: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        if tag not in _VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def parsed(container: Any) -> Strict:
    """The HTML of a container, well formed."""
    parser = Strict(container._repr_html_())
    assert parser.open == []
    return parser


def test_html_shows_fields_in_a_table_that_folds() -> None:
    """Name, dtype, shape, device and memory of each field; nested containers in tables of their own."""
    parser = parsed(TensorDict({"a": torch.zeros(3, 4), "b": {"c": torch.zeros(3)}}, batch_size=[3]))
    cells = ["field", "dtype", "shape", "device", "memory", "value", "a", "float32", "[3, 4]", "cpu", "48 B"]
    assert [text for text in parser.text if text in cells][:11] == cells
    assert parser.seen.count("details") == parser.seen.count("table") == 2
    assert "b: TensorDict" in parser.text
    assert "batch_size=[3], 60 B" in parser.text


def test_html_of_a_typed_class_shows_its_declaration() -> None:
    """The printed schema stands next to the table; that of an untyped container has none."""
    assert str(tensorclass.schema(Frame)) in parsed(frame()).text
    assert "pre" not in parsed(TensorDict(a=torch.zeros(2))).seen


def test_html_escapes_everything_that_users_name() -> None:
    """Keys and values never become tags."""
    evil = "<script>alert('x')</script>&"
    data = TensorDict({evil: torch.zeros(2), "value": evil, "deep": {evil: evil}, "names": NonTensorStack(evil)})
    with set_printoptions(width=10):
        parser = parsed(data)
    assert set(parser.seen) <= {"div", "details", "summary", "b", "span", "table", "thead", "tbody", "tr", "th", "td"}
    assert evil in parser.text


def test_html_counts_an_expanded_tensor_once() -> None:
    """Memory is what the elements take, not what they would take without sharing."""
    data = TensorDict(a=torch.zeros(1, 4).expand(1000, 4), e=torch.zeros(1000, 0), batch_size=[1000])
    text = parsed(data).text
    assert "16 B" in text
    assert "0 B" in text


@pytest.mark.parametrize("options", [{"html": False}, {"compact": False}], ids=str)
def test_html_gives_way_to_text(options: dict[str, bool]) -> None:
    """A notebook falls back on the printed form."""
    with set_printoptions(**options):
        assert sample()._repr_html_() is None


# ---- read back ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("compact", [True, False])
@given(tree=trees())
def test_a_printed_container_is_read_back(compact: bool, tree: Tree) -> None:
    """Keys, shapes, dtypes and batch sizes come back, also from lines that were broken."""
    data = tree.make(tensorclass)
    zeros = data.apply(torch.zeros_like)
    for width in (20, 100):
        with set_printoptions(compact=compact, width=width):
            back = parse_tensor_dict_string(repr(data))
            assert repr(back) == repr(zeros)
        assert not any(leaf.count_nonzero() for leaf in back._leaves())


@given(trees())
def test_what_the_anchor_printed_is_read_back(tree: Tree) -> None:
    """Logs of programs that used the anchor stay useful."""
    ours, theirs = tree.both()
    for compact in (True, False):
        with tensordict.set_printoptions(compact=compact):
            back = parse_tensor_dict_string(repr(theirs))
        with set_printoptions(sort_keys="alphabetical", show_values=False):
            assert repr(back) == repr(ours)


def test_device_names_and_classes_are_read_back() -> None:
    """A typed class comes back as an untyped container of the same structure."""
    data = TensorDict(a=torch.zeros(2), batch_size=[2], device="meta", names=["t"])
    back = parse_tensor_dict_string(repr(data))
    assert (back.device, back.names, back["a"].device.type) == (torch.device("meta"), ["t"], "meta")
    pair = TensorDict(pose=Pose(torch.zeros(2)), batch_size=[2])
    assert parse_tensor_dict_string(repr(pair))["pose", "angle"].shape == (2,)
    with set_printoptions(compact=False):
        assert parse_tensor_dict_string(repr(pair))["pose", "angle"].dtype is torch.float32


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("junk", ["class", "character 0", "junk"]),
        ("TensorDict(fields={a: f32[]})", ["batch_size"]),
        ("TensorDict(batch_size=[2], fields={s: str})", ["`s`", "neither a tensor nor a container"]),
        ("TensorDict(batch_size=[2], fields={a: x32[2]})", ["`a`", "dtype"]),
        ("TensorDict(batch_size=[2], fields={a: f32[-1]})", ["`a`", "shape"]),
        ("TensorDict(batch_size=[2], fields={a: f32[2]}", ["`)` is expected"]),
        ("TensorDict(batch_size=[2], fields={a: f32[2]}) more", ["nothing follows", "more"]),
    ],
)
def test_text_that_is_no_container_is_refused(text: str, words: list[str]) -> None:
    """The message shows the place."""
    with pytest.raises(ValueError) as caught:
        parse_tensor_dict_string(text)
    assert all(word in str(caught.value) for word in words)


# ---- directories -------------------------------------------------------------------------------------------------


def test_a_directory_prints_as_a_tree(tmp_path: Any) -> None:
    """Names in order, four columns a level, the size of all files first; every line is logged."""
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "c.bin").write_bytes(b"x" * 2048)
    (tmp_path / "a.bin").write_bytes(b"")
    with TestCase().assertLogs("tensorclass", "INFO") as logs:
        text = print_directory_tree(tmp_path, indent="> ")
    tree = ["> directory size: 2.0 KiB", f"> {tmp_path.name}/", ">     a.bin", ">     b/", ">         c.bin"]
    assert text.splitlines() == tree
    assert [record.getMessage() for record in logs.records] == tree
    assert print_directory_tree(tmp_path / "a.bin", display_metadata=False) == "a.bin"
    with pytest.raises(FileNotFoundError, match="nothing"):
        print_directory_tree(tmp_path / "nothing")
