"""Round trips as steps of the machine: a container goes into another form and comes back."""

from __future__ import annotations

import copy
import io
import pickle
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch


def saved(batch: Any) -> Any:
    """What `torch.load` reads."""
    file = io.BytesIO()
    torch.save(batch, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


def filed(write: str, suffix: str) -> Callable[[Any], Any]:
    """Through a file."""

    def way(batch: Any) -> Any:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"file{suffix}"
            getattr(batch, write)(path)
            read = {"save": "load", "to_h5": "from_h5"}[write]
            return getattr(type(batch), read)(path, **({"mmap": False} if write == "save" else {}))

    return way


EXACT: dict[str, Callable[[Any], Any]] = {
    "pickle": lambda b: pickle.loads(pickle.dumps(b)),
    "torch.save": saved,
    "save": filed("save", ".safetensors"),
}
"""What keeps everything: members of stacks, batch sizes of nested containers, names, locks."""
LOOSE: dict[str, Callable[[Any], Any]] = {
    "a deep copy": copy.deepcopy,
    "to_dict": lambda b: type(b).from_dict(b.to_dict(), batch_size=b.batch_size),
    "to_tensordict": lambda b: type(b).from_tensordict(b.to_tensordict()),
    "state_dict": lambda b: b.clone().load_state_dict(b.state_dict()),
    "to_json": lambda b: type(b).from_json(b.to_json()),
}
