"""Guards of compiled functions: `python -m tests.benchmarks._guards`.

Of each operation, the guards that torch runs before a call: of raw code over a dict of two tensors, of ours, and of
the least code that keeps the promises of a batch (`_least`). Then the same without guards on globals, which torch
leaves out on request: what modules of the package hold never changes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch._dynamo.eval_frame import _debug_get_cache_entry_list

from tensorclass import TensorClass, TensorDict
from tensorclass.typing import Float32

from . import _least

LEAF = re.compile(r"^[|\s]*\+- (?!GuardManager|RootGuardManager)[A-Z_]+:", re.MULTILINE)


class Pair(TensorClass):
    """Two tensors."""

    f0: Float32[Tensor, "5"]
    f1: Float32[Tensor, "5"]


OPERATIONS: dict[str, tuple[Callable[..., Any], ...]] = {
    "x[0]": (lambda x: {k: v[0] for k, v in x.items()}, lambda x: x[0], lambda x: _least.at(x, 0)),
    "x + 1": (lambda x: {k: v + 1 for k, v in x.items()}, lambda x: x + 1, lambda x: _least.plus(x, 1)),
    "stack of 2": (
        lambda x: {k: torch.stack([v, v]) for k, v in x.items()},
        lambda x: torch.stack([x, x]),
        lambda x: _least.stack([x, x]),
    ),
}
"""Raw code, ours, and the least code."""


def guards(run: Callable[..., Any], x: Any, without_globals: bool) -> int:
    """The number of guards of a function that was compiled for an argument."""
    torch._dynamo.reset()
    options: Any = {"guard_filter_fn": torch.compiler.skip_guard_on_globals_unsafe} if without_globals else None
    torch.compile(run, backend="eager", fullgraph=True, options=options)(x)
    (entry,) = _debug_get_cache_entry_list(run.__code__)
    return len(LEAF.findall(str(entry.guard_manager)))


def main() -> None:
    """Count and print a table in Markdown."""
    data = {name: torch.rand(3, 4, 5) for name in ("f0", "f1")}
    print("| operation | raw | TensorDict | typed | least | without globals: raw | TensorDict | typed | least |")
    print(f"|---|{'---:|' * 8}")
    for name, (raw, ours, least) in OPERATIONS.items():
        batches = TensorDict(data, [3, 4]), Pair(f0=data["f0"], f1=data["f1"]), _least.make(data, (3, 4))
        kinds = ((raw, data), *zip((ours, ours, least), batches, strict=True))
        found = [guards(run, x, without) for without in (False, True) for run, x in kinds]
        print(f"| `{name}` | {' | '.join(map(str, found))} |")


if __name__ == "__main__":
    main()
