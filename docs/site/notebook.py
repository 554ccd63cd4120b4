"""Run the quickstart notebook and store the outputs of its cells in it: `python docs/site/notebook.py`.

A test runs the same cells and compares the outputs; the site renders the notebook as a page.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import sys
import types
from pathlib import Path
from typing import Any

QUICKSTART = Path(__file__).parents[1] / "quickstart.ipynb"


def executed(notebook: dict[str, Any]) -> dict[str, Any]:
    """Return the notebook with the outputs of a fresh run, as Jupyter stores them."""
    module = types.ModuleType("quickstart")
    sys.modules[module.__name__] = module  # classes look their module up
    count, cells = 0, []
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            count += 1
            outputs = _run("".join(cell["source"]), f"cell {count}", count, module.__dict__)
            cell = {**cell, "execution_count": count, "outputs": outputs}
        cells.append(cell)
    del sys.modules[module.__name__]
    return {**notebook, "cells": cells}


def _run(source: str, name: str, count: int, namespace: dict[str, Any]) -> list[dict[str, Any]]:
    """Run a cell; return its printed output and the value of its last expression, as Jupyter stores them."""
    tree, printed, value = ast.parse(source), io.StringIO(), None
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, name, "exec"), namespace)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), name, "eval"), namespace)
    outputs: list[dict[str, Any]] = []
    if printed.getvalue():
        outputs.append({"name": "stdout", "output_type": "stream", "text": printed.getvalue().splitlines(True)})
    if value is not None:
        data = {"text/plain": repr(value).splitlines(True)}
        html = getattr(value, "_repr_html_", lambda: None)()
        data |= {"text/html": html.splitlines(True)} if html else {}
        outputs.append({"data": data, "execution_count": count, "metadata": {}, "output_type": "execute_result"})
    return outputs


def markdown(notebook: dict[str, Any]) -> str:
    """Return the notebook as a Markdown page: text, programs, and the outputs below each program."""
    parts = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        for output in cell.get("outputs", ()):
            data = output.get("data", {"text/plain": output.get("text")})
            html = [line for line in data.get("text/html", ()) if line.strip()]  # an empty line would end the HTML
            plain = "".join(data["text/plain"]).rstrip()
            parts.append(
                f'<div class="shown">{"".join(html)}</div>' if html else f"``` {{.text .prints}}\n{plain}\n```"
            )
    return "\n\n".join(parts) + "\n"


def read() -> dict[str, Any]:
    """Read the notebook from its file."""
    found: dict[str, Any] = json.loads(QUICKSTART.read_text("utf-8"))
    return found


if __name__ == "__main__":
    QUICKSTART.write_text(json.dumps(executed(read()), indent=1, ensure_ascii=False) + "\n", "utf-8")
