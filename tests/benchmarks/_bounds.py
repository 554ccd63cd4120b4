"""The least time of single operations: `python -m tests.benchmarks._bounds [--only NAME] [--rounds 25]`.

Operations that don't reach 1.15 times the speed of the anchor, beside the least code that keeps the same promises
(`_least`), in turns in one process. For pickles and `vmap` it is the same call of torch or Python with plain dicts.
"""

from __future__ import annotations

import argparse
import pickle
import warnings
from typing import Any

import torch

from . import _least
from ._clock import Statement, medians
from ._networks import network
from ._row import Candidate
from ._samples import SAMPLES, container, tensors

KINDS: dict[str, Candidate] = {"anchor": "anchor_dict", "ours": "our_dict", "least": "raw"}
OPERATIONS = {
    ("update_", "5 levels"): ("x.update_(y)", "least.update(x, y)"),
    ("exclude", "5 levels"): ("x.exclude('f0')", "least.exclude(x, 'f0')"),
    ("keys(True, True)", "5 levels"): ("list(x.keys(True, True))", "list(x.leaf_keys())"),
    ("loop over items()", "2"): ("for k, v in x.items(): pass",) * 2,
    ("deep copy", "8"): ("x.__deepcopy__({})",) * 2,
    ("deep copy", "nested"): ("x.__deepcopy__({})",) * 2,
    ("set_at_ at 2 rows", "1000 rows of 8"): (
        "x.set_at_('f0', y['f0'][:2], two)",
        "least.set_at(x, 'f0', y['f0'][:2], two)",
    ),
    ("set_at_ at 64 rows", "1000 rows of 8"): (
        "x.set_at_('f0', y['f0'][:64], many)",
        "least.set_at(x, 'f0', y['f0'][:64], many)",
    ),
    ("pickle", "8"): ("pickle.dumps(x)",) * 2,
    ("pickle", "5 levels"): ("pickle.dumps(x)",) * 2,
    ("vmap over parameters", "12 parameters"): ("batched(stacked, x)",) * 2,
    ("vmap over parameters", "64 parameters"): ("batched(stacked, x)",) * 2,
}


def statements(name: str, sample: str) -> dict[str, Statement]:
    """The statement of each candidate over data of its own."""
    made = {}
    for title, kind in KINDS.items():
        names: dict[str, Any] = {
            "least": _least,
            "pickle": pickle,
            "two": torch.tensor([0, 2]),
            "many": torch.arange(64),
        }
        if sample.endswith("parameters"):
            names |= network(kind, sample)
        else:
            shape = SAMPLES[sample]
            for seed, key in enumerate("xy"):
                data = tensors(shape, seed)
                bare = title == "least" and name != "pickle"
                names[key] = _least.nest(data, shape.batch) if bare else container(kind, shape, data)
        made[title] = Statement(OPERATIONS[name, sample][title == "least"], names)
    return made


def main(arguments: list[str] | None = None) -> None:
    """Measure and print a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="operations whose name contains this")
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--milliseconds", type=float, default=2)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    print("| operation | sample | anchor, µs | ours | least | anchor / ours | anchor / least |")
    print(f"|---|---|{'---:|' * 5}")
    for name, sample in OPERATIONS:
        if options.only in name:
            found = statements(name, sample)
            times = medians([*found.values()], options.rounds, round(options.milliseconds * 1e6))
            anchor, ours, least = [time / 1000 for time in times]
            cells = (f"{anchor:.3g}", f"{ours:.3g}", f"{least:.3g}", f"{anchor / ours:.2f}", f"{anchor / least:.2f}")
            print(f"| `{name}` | {sample} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
