"""Generate the parts of the site that Markdown lacks: the API reference, titles of programs that raise, pictures.

The reference has a page for each topic and covers every public name. A comment `raises: ErrorName` above a program
becomes its title; a comment `shows: expression` is replaced by the notebook display of that value.
"""

from __future__ import annotations

import contextlib
import importlib.util
import inspect
import io
import re
import sys
import types
from functools import cache
from html import escape
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
FENCE = re.compile(
    r"(?P<raises><!-- raises: (?P<name>\w+) -->\n)?^```(?P<language>\w+)\n(?P<code>.*?)^```$",
    re.M | re.S,
)
ANCHOR = re.compile(
    r'(?P<before> id="| name="|href="(?P<page>[\w./-]*)#|"location":"(?P<found>[\w./-]*)#)(?P<path>tensorclass\.[\w.]+)'
)
BOOST = {"faq.md": 30, "api": 0.3}
"""What the search shows first: an answer, then a page, then the reference, whose headings are words that people use."""
SHOWS = re.compile(r"^<!-- shows: (?P<what>.+) -->$", re.M)


class Topic(NamedTuple):
    """A page of the reference: public names of a module, or the methods of base classes of every container."""

    title: str
    text: str
    room: str = "tensorclass"
    """The module whose names the page shows."""
    homes: tuple[str, ...] = ("",)
    """Modules that define the names; if several topics of a module match, the longest prefix wins."""
    methods: tuple[str, ...] = ()
    """Base classes; the page shows the members that every container inherits from them."""


def _methods(title: str, text: str, *bases: str) -> Topic:
    return Topic(title, text, "", (), tuple(f"tensorclass.{base}" for base in bases))


TOPICS = {
    "classes": Topic(
        "Classes and fields",
        "Declare a class. For the methods of every container, see the pages whose titles begin with *Methods*.",
        homes=("tensorclass.classes", "tensorclass._schema"),
    ),
    "containers": Topic(
        "Containers and entries",
        "`TensorDict`, its variants, and non-tensor entries.",
        homes=("tensorclass.store", "tensorclass.core._base", "torch.nn.parameter", "tensorclass.ops._exports"),
    ),
    "functions": Topic(
        "Functions over containers",
        "Join, compare, convert, group; keys; settings.",
        homes=(
            "tensorclass.ops", "tensorclass.core", "tensorclass._config", "logging", "",
            "tensorclass.store._bridges", "tensorclass.store._collate", "tensorclass.store._convert",
            "tensorclass.store._helpers", "tensorclass.store._pad", "tensorclass.store._parse",
            "tensorclass.store._sequences", "tensorclass.store.lazy._functions", "tensorclass.store.lazy._legacy",
        ),
    ),
    "files": Topic("Files and datasets", "Save, load, map into memory, datasets.", homes=("tensorclass.io",)),
    "exchange": Topic(
        "Tables and other formats", "Arrow, frames, HDF5, zarr, JSON.", homes=("tensorclass.io.exchange",)
    ),
    "methods-shape": _methods(
        "Methods: shape, index, join",
        "Every container has these methods; they act on the batch dims.",
        "ops._shape.ShapeOps", "ops._index.IndexOps", "ops._join.JoinOps", "ops._stacks.LazyOps", "ops._names.NameOps",
        "store._pad.PadOps",
    ),
    "methods-entries": _methods(
        "Methods: entries",
        "Read, write, lock and walk the entries of a container.",
        "core._base.TensorCollection", "ops._container.Container", "ops._mapping.MappingOps", "ops._reading.ReadingOps",
        "ops._keys.KeyOps", "ops._apply.ApplyOps", "ops._inplace.InplaceOps", "store.entries._non_tensor.NonTensorOps",
    ),
    "methods-arithmetic": _methods(
        "Methods: arithmetic",
        "Each acts on every tensor of a container.",
        "ops._pointwise.PointwiseOps",
    ),
    "methods-reductions": _methods(
        "Methods: reductions and gradients",
        "Reductions act on the batch dims.",
        "ops._reductions.ReductionOps", "ops._autograd.AutogradOps",
    ),
    "methods-memory": _methods(
        "Methods: devices, dtypes, memory",
        "Move, cast and make tensors.",
        "ops._device.DeviceOps", "ops._casts.CastMethods", "ops._new.NewOps", "store._consolidate.PackOps",
    ),
    "methods-rows": _methods(
        "Methods: rows and conversions",
        "Sort, sample and summarize rows; convert to and from the types of other libraries.",
        "ops._by_row.RowOps", "classes._conveniences.Conveniences", "classes._example.ExampleMethods",
        "classes._algebra.AlgebraMethods", "classes._pydantic.JsonMethods", "ops._conversions.ConversionOps",
        "ops._export_ops.ExportOps", "ops._state.StateOps", "store._bridges.BridgeOps", "classes._base.TypedContainer",
    ),
    "methods-files": _methods(
        "Methods: files, tables, many workers",
        "Save, load, map over rows, send.",
        "store._saving.SavingOps", "store._scale.ScaleOps", "store._tables.TableOps",
    ),
    "nn": Topic(
        "Pipelines and modules",
        "Typed modules and pipelines; `tensorclass.nn`.",
        "tensorclass.nn",
        ("tensorclass.nn", ""),
    ),
    "nn-keyed": Topic(
        "Keyed modules",
        "Modules that are wired by keys; `tensorclass.nn`.",
        "tensorclass.nn",
        (
            "tensorclass.nn.keyed", "tensorclass.nn.parts._keyed_base", "tensorclass.nn.functional_modules",
            "tensorclass.store",
        ),
    ),
    "nn-distributions": Topic(
        "Distributions",
        "Distributions, and how modules sample from them; `tensorclass.nn`.",
        "tensorclass.nn",
        ("tensorclass.nn.distributions",),
    ),
    "typing": Topic("Dtypes for annotations", "`tensorclass.typing`.", "tensorclass.typing"),
    "testing": Topic("Test data and comparisons", "`tensorclass.testing`.", "tensorclass.testing"),
    "errors": Topic(
        "Exceptions",
        "`tensorclass.errors`: the errors that the package raises; [errors](../errors.md) explains the codes.",
        "tensorclass.errors",
    ),
}  # fmt: skip


def public(room: str) -> dict[str, Any]:
    """Return the public names of a module, classes first."""
    module = import_module(room)
    listed = hasattr(module, "__all__")
    names = module.__all__ if listed else [name for name in vars(module) if not name.startswith("_")]
    found = {name: getattr(module, name) for name in names if name.isidentifier()}
    own = {
        name: value
        for name, value in found.items()
        if not inspect.ismodule(value) and (listed or _home(value).startswith("tensorclass"))
    }
    return dict(sorted(own.items(), key=lambda item: (not inspect.isclass(item[1]), item[0].lower())))


def _home(value: Any) -> str:
    """Return the module that defines a class or function; other values count as defined by `tensorclass`."""
    return getattr(inspect.unwrap(value), "__module__", None) or "" if callable(value) else "tensorclass"


def topic_of(room: str, value: Any) -> str:
    """Return the topic whose `homes` match best."""
    home = getattr(inspect.unwrap(value) if callable(value) else value, "__module__", None) or ""
    fits = [
        (len(start), name)
        for name, topic in TOPICS.items()
        if topic.room == room
        for start in topic.homes
        if home == start or home.startswith(f"{start}.") or not start
    ]
    return max(fits)[1]


def names_of(name: str) -> dict[str, Any]:
    """Return the public names that a page shows."""
    room = TOPICS[name].room
    return {key: value for key, value in public(room).items() if topic_of(room, value) == name} if room else {}


def page(name: str) -> str:
    """Return the Markdown of one page; mkdocstrings inserts the documentation."""
    topic = TOPICS[name]
    parts = [f"# {topic.title}", topic.text]
    for base in topic.methods:
        parts.append(f"::: {base}\n    options:\n        show_root_heading: false\n        show_root_toc_entry: false")
        parts[-1] += "\n        show_bases: false"
    for key, value in names_of(name).items():
        documented = (inspect.isclass(value) or inspect.isroutine(value)) and _home(value).startswith("tensorclass")
        if not documented or not getattr(value, "__doc__", None) or "<locals>" in value.__qualname__:
            parts.append(f"## {key}\n\n```python\n{key} = {str(value)[:200]}\n```")
            continue
        target = inspect.unwrap(value)
        rows = f"\n        heading: {key}\n        toc_label: {key}"
        parts.append(f"::: {target.__module__}.{target.__qualname__}\n    options:{rows}")
    return "\n\n".join(parts) + "\n"


def marked(text: str) -> str:
    """Return the text of a page with titles on programs that raise, and CSS classes on printed output."""
    before: list[Any] = [None]

    def mark(fence: re.Match[str]) -> str:
        language, above = fence["language"], before[0]
        before[0] = fence
        if fence["name"]:
            return f'``` {{.{language} .raises title="raises {fence["name"]}"}}\n{fence["code"]}```'
        below = above is not None and above["language"] == "python" and not text[above.end() : fence.start()].strip()
        if language == "text" and below:
            return f"``` {{.text .prints{' .error' if above['name'] else ''}}}\n{fence['code']}```"
        return fence[0]

    return FENCE.sub(mark, text)


def shown(text: str, path: str) -> str:
    """Return the text of a page with each comment `shows: expression` replaced by the HTML of the expression."""
    if not SHOWS.search(text):
        return text
    module = types.ModuleType("page")
    sys.modules[module.__name__] = module  # classes look their module up
    parts, start = [], 0
    with contextlib.redirect_stdout(io.StringIO()):
        for marker in SHOWS.finditer(text):
            for fence in FENCE.finditer(text, start, marker.start()):
                _run(fence, path, text, module.__dict__)
            value = eval(marker["what"], module.__dict__)
            html = re.sub(r"\n[ \t]*(?=\n)", "\n&#8203;", _html(value))  # an empty line would end the HTML
            parts += [text[start : marker.start()], f'<div class="shown">{html}</div>']
            start = marker.end()
    del sys.modules[module.__name__]
    return "".join(parts) + text[start:]


def _html(value: Any) -> str:
    """Return the HTML that a notebook shows for a value."""
    notebook = import_module("tensorclass.classes._notebook")
    if hasattr(type(value), "_repr_html_"):
        return str(value._repr_html_())
    return str(notebook.of_class(value)) if isinstance(value, type) else f"<pre>{escape(str(value))}</pre>"


def _run(fence: re.Match[str], path: str, text: str, namespace: dict[str, Any]) -> None:
    """Run one program of a page. If it must raise, store the error as `error` in the namespace."""
    if fence["language"] != "python":
        return
    line = text.count("\n", 0, fence.start("code"))
    try:
        exec(compile("\n" * line + fence["code"], path, "exec"), namespace)
    except Exception as error:
        if type(error).__name__ != fence["name"]:
            raise
        namespace["error"] = error


def on_config(config: Any) -> Any:
    """Show the version next to the site name."""
    config.site_name = f"tensorclass {import_module('tensorclass').__version__}"
    return config


@cache
def anchors(name: str) -> dict[str, str]:
    """Return, for one page, where the documented objects are defined -> the public path that its anchors show."""
    from_methods = {base: f"tensorclass.{_owner(base)}" for base in TOPICS[name].methods}
    targets = {
        f"{target.__module__}.{target.__qualname__}": f"{TOPICS[name].room}.{key}"
        for key, value in names_of(name).items()
        if hasattr(target := inspect.unwrap(value) if callable(value) else value, "__qualname__")
    }
    return from_methods | targets


def _owner(base: str) -> str:
    """Return the public class that inherits the methods of a base class."""
    package = import_module("tensorclass")
    module, _, name = base.rpartition(".")
    found = getattr(import_module(module), name)
    return next(
        key for key in ("TensorClass", "TensorDict", "NonTensorData") if issubclass(getattr(package, key), found)
    )


def public_path(name: str, private: str) -> str:
    """Return the anchor of a page of the reference for the path of a definition."""
    owners = anchors(name)
    start = next((start for start in _starts(private) if start in owners), "")
    return owners[start] + private[len(start) :] if start else private


def _starts(path: str) -> list[str]:
    """Return a path, and the paths of what it is in, the longest first."""
    parts = path.split(".")
    return [".".join(parts[:count]) for count in range(len(parts), 0, -1)]


def with_public_anchors(html: str, own: str) -> str:
    """Return a page, or a list of locations, whose anchors and links to the reference have public paths."""

    def put(found: re.Match[str]) -> str:
        page = re.search(r"([\w-]+)/$", found["page"] or found["found"] or "")
        name = page[1] if page else own
        return found[0] if name not in TOPICS else f"{found['before']}{public_path(name, found['path'])}"

    return ANCHOR.sub(put, html)


def on_post_page(output: str, page: Any, config: Any) -> str:
    """Show public paths in the anchors of a page."""
    return with_public_anchors(output, Path(page.file.src_uri).stem)


def on_post_build(config: Any) -> None:
    """Show public paths in what the search finds."""
    found = Path(config.site_dir, "search", "search_index.json")
    found.write_text(with_public_anchors(found.read_text("utf-8"), ""), "utf-8")


def _beside(name: str) -> Any:
    """Import a module from this folder."""
    spec = importlib.util.spec_from_file_location(f"site_{name}", HERE / f"{name}.py")
    module = importlib.util.module_from_spec(spec)  # type: ignore[arg-type]  # the file is there
    spec.loader.exec_module(module)  # type: ignore[union-attr]  # as above
    return module


def on_files(files: Any, config: Any) -> Any:
    """Add the pages and the style to the site."""
    file = import_module("mkdocs.structure.files").File
    for name in TOPICS:
        files.append(file.generated(config, f"api/{name}.md", content=page(name)))
    notebook = _beside("notebook")
    files.append(file.generated(config, "quickstart.md", content=notebook.markdown(notebook.read())))
    files.append(file.generated(config, "site.css", content=(HERE / "site.css").read_text("utf-8")))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Insert the pictures and titles of one page."""
    page.meta["search"] = {"boost": BOOST.get(page.file.src_uri.partition("/")[0], 1)}
    text = markdown.replace("(quickstart.ipynb)", "(quickstart.md)")  # pages link to the file that GitHub shows
    return marked(shown(text, page.file.src_uri))
