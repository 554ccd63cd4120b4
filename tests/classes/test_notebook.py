"""What IPython and `help` show of classes, batches and errors: asked of a shell in a process of its own."""

from __future__ import annotations

import json
import pydoc
import re
import subprocess
import sys
from typing import Any

import pytest
from torch import Tensor

from tensorclass import RaggedTensor, TensorClass, TensorDict, schema
from tensorclass.classes import _notebook as notebook
from tensorclass.typing import Float32

SESSION = '''
import json, sys
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.completer import provisionalcompleter

shell = InteractiveShell.instance()
shell.run_cell("""
import torch
from torch import Tensor, nn
from tensorclass import RaggedTensor, TensorClass, TensorDict, schema
from tensorclass.nn import TensorClassModule, TensorClassSequential
from tensorclass.typing import Float32

class Inner(TensorClass):
    zeta: Tensor

class Row(TensorClass):
    "A row."
    image: Float32[Tensor, "8 8"]
    inner: Inner | None = None

class Out(TensorClass):
    logits: Float32[Tensor, "2"]

batch = Row(image=torch.zeros(3, 8, 8), inner=Inner(zeta=torch.zeros(3), batch_size=3))
known = Row.inner
deep = TensorDict({"a": {"b": {"c": torch.zeros(3)}}}, [3])
loose = TensorDict(b=torch.zeros(3), a=torch.ones(3))
class Foreign:
    beta = 1
    alpha = 2
foreign = Foreign()
head = TensorClassModule(nn.Linear(8, 2), in_fields=Row.image, out_fields=Out.logits, name="head")
good = TensorClassSequential(TensorClassModule(
    nn.Sequential(nn.Flatten(), nn.Linear(64, 2)), in_fields=Row.image, out_fields=Out.logits, name="scores"
), input=Row, output=Out)
""")

def complete(text, jedi):
    shell.Completer.use_jedi = jedi
    with provisionalcompleter():
        return [c.text for c in shell.Completer.completions(text, len(text))]

def html(text):
    return shell.display_formatter.formatters["text/html"](eval(text, shell.user_ns))

asked = ["batch.", "batch.inner.", "x = batch.im", "Row.", "foreign.", 'batch["', 'loose["', "batch._st"]
asked += ["batch.image.sha", "Row.inner.", "known.", "Row.image.", 'batch["inner", "', 'deep["a", "b", "']
values = ["Row", "TensorClass", "schema(Row)", "Row.image", "RaggedTensor([torch.ones(3)])"]
values += ["good.explain(4)", "good", "batch.describe()", "batch"]
found = {
    "completions": [{text: complete(text, jedi)[:3] for text in asked} for jedi in (True, False)],
    "help": shell.object_inspect_mime("Row")["text/plain"],
    "html": {text: html(text) for text in values},
}
class Out:
    def __init__(self): self.text = ""
    def write(self, text): self.text += text
    def flush(self): pass
real, sys.stdout = sys.stdout, Out()
shell.run_cell("Row(imgae=1)")
found["error"], sys.stdout = sys.stdout.text, Out()
shell.run_cell("TensorClassSequential(head, input=Inner, output=Out)")
found["build"], sys.stdout = sys.stdout.text, Out()
shell.run_cell("1 / 0")
found["other"], sys.stdout = sys.stdout.text, Out()
shell.run_cell("good(batch.inner)")
found["call"], sys.stdout = sys.stdout.text, real
sent = found["sent"] = []
shell._showtraceback = lambda kind, error, lines: sent.append([kind.__name__, "".join(lines)])  # as kernels do
for cell in ("Row(imgae=1)", "1 / 0"):
    shell.run_cell(cell)
print("FOUND" + json.dumps(found))
'''


@pytest.fixture(scope="module")
def shell() -> Any:
    """What a session answers."""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", SESSION], capture_output=True, text=True, check=True)
    return json.loads(done.stdout.partition("FOUND")[2])


@pytest.mark.slow
def test_completion(shell: Any):
    """Fields come first with and without jedi, keys are completed, and objects of others are left alone."""
    for found in shell["completions"]:
        ends = {asked: [text.rpartition(".")[2] for text in texts] for asked, texts in found.items()}
        assert ends["batch."] == ["image", "inner", "abs"]
        assert ends["batch.inner."][:2] == ["zeta", "abs"]
        assert ends["x = batch.im"] == ["image"]
        assert ends["Row."] == ["image", "inner", "abs"]
        assert ends["foreign."] == ["alpha", "beta"]
        assert ends['batch["'] == ["image", "inner"]
        assert ends['batch["inner", "'] == ["zeta"]
        assert ends['deep["a", "b", "'] == ["c"]
        assert ends["Row.inner."] == ends["known."] == ["zeta"]
        assert ends["Row.image."] == []
        assert sorted(ends['loose["']) == ["a", "b"]
        assert ends["batch._st"][0] in ("_stacked", "_store")
        assert ends["batch.image.sha"][:1] == ["shape"]


@pytest.mark.slow
def test_question_mark(shell: Any):
    """`Row?` shows the docstring and the fields."""
    assert "A row." in shell["help"]
    assert 'image  Float32["8 8"]' in shell["help"]


@pytest.mark.slow
def test_html(shell: Any):
    """Classes, schemas, references and ragged tensors are tables; a base without fields has none."""
    found = shell["html"]
    assert found.pop("TensorClass") is None
    explained, drawn = found.pop("good.explain(4)"), found.pop("good")
    assert explained.startswith("<pre")
    assert all(text in explained for text in ("0 scores", "Row -&gt; Out", "[4, 8, 8]", "held after"))
    assert "<svg" in drawn
    assert "scores" in drawn
    assert all("<table" in text for text in found.values())
    assert "Float32[&quot;8 8&quot;]" in found["Row"]
    assert "3 to 3" in found["RaggedTensor([torch.ones(3)])"]


@pytest.mark.slow
def test_errors(shell: Any):
    """An error of the package shows the user's line and none of the package; others are as IPython shows them."""
    assert "did you mean `image`" in shell["error"]
    assert "imgae" in shell["error"]
    for text in (shell["error"], shell["build"]):
        assert "_init.py" not in text
        assert "site-packages" not in text
        assert "tensorclass/" not in text
    assert "\x1b[31merror[E101]" in shell["build"]
    assert re.search(r"--> Cell In\[\d+\], line \d+", shell["build"])
    assert "ZeroDivisionError" in shell["other"]
    assert "ArgumentError" in shell["call"]
    assert "good" in shell["call"]
    assert "torch/nn/modules" not in shell["call"]  # which calls every module


@pytest.mark.slow
def test_errors_are_messages_of_a_kernel(shell: Any):
    """A notebook gets an error as an error, as `nbconvert --execute` and the red box of a cell need it."""
    assert [kind for kind, _ in shell["sent"]] == ["SchemaError", "ZeroDivisionError"]
    assert "did you mean `image`" in shell["sent"][0][1]
    assert "_init.py" not in shell["sent"][0][1]


PLAIN = """
from tensorclass import TensorClass, TensorDict
TensorDict(a=[1.0, 2.0], batch_size=[2])[5]
1 / 0
import sys; sys.excepthook = lambda *error: print("MINE", error[0].__name__)
TensorDict(a=[1.0, 2.0], batch_size=[2])[5]
"""


@pytest.mark.slow
def test_errors_in_pythons_own_shell():
    """The frames of the package are left out there too; other errors, and a hook of the user's, stay."""
    command = [sys.executable, "-W", "ignore", "-i", "-q"]
    done = subprocess.run(command, input=PLAIN, capture_output=True, text=True, check=True)
    first, second = done.stderr.split("ZeroDivisionError")
    assert first.count('File "') == 2  # of each error the line that was typed
    assert "BatchIndexError: index 5 is out of range" in first
    assert "Traceback" not in second
    assert "MINE BatchIndexError" in done.stdout


class Row(TensorClass):
    """A row."""

    image: Float32[Tensor, "8 8"]
    label: Float32[Tensor, ""] | None = None

    def norm(self) -> Tensor:
        """The norm of each image."""
        return self.image.norm(dim=(-2, -1))


def test_help():
    """`help(Row)` begins with the fields, has what the class defines, and fits two screens."""
    text = pydoc.plain(pydoc.render_doc(Row))
    lines = text.splitlines()
    assert 'Row(image: Float32["8 8"], label:' in re.sub(r"[ |\n]+", " ", "\n".join(lines[3:6])).replace("( ", "(")
    assert "The norm of each image." in text
    assert len(lines) < 80
    assert {"image", "norm", "reshape", "__init__"} <= {*dir(Row)}


def test_keys():
    """What IPython asks for keys, of every kind of container."""
    assert Row.zeros(2)._ipython_key_completions_() == ["image"]
    assert TensorDict(a=1, b={"c": 2})._ipython_key_completions_() == ["a", "b", ("b", "c")]


def test_tables_escape():
    """Markup in docs and defaults is text."""

    class Odd(TensorClass):
        mark: str = "<script>"

    assert "<script>" not in notebook.of_schema(schema(Odd))
    assert "lengths" not in notebook.of_ragged(RaggedTensor([]))


def test_nothing_without_a_shell():
    """Without IPython nothing is registered and nothing imported."""
    code = "import sys, tensorclass; tensorclass.TensorDict; assert 'IPython' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
