"""Plain dict recursion: what a program without a library would write for nested batches."""

from __future__ import annotations

from typing import Any

from torch import Tensor

Tree = dict[str, Any]


def copy(tree: Tree) -> Tree:
    """New dicts around the same tensors."""
    return {k: copy(v) if isinstance(v, dict) else v for k, v in tree.items()}


def cloned(tree: Tree) -> Tree:
    """New dicts around new tensors."""
    return {k: cloned(v) if isinstance(v, dict) else v.clone() if isinstance(v, Tensor) else v for k, v in tree.items()}


def outer(tree: Tree) -> Tree:
    """The entries that are no dicts."""
    return {k: v for k, v in tree.items() if not isinstance(v, dict)}


def row(tree: Tree, i: int | slice) -> Tree:
    """One row of every tensor that has rows."""
    return {k: row(v, i) if isinstance(v, dict) else v[i] if isinstance(v, Tensor) else v for k, v in tree.items()}


def keys(tree: Tree, prefix: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """The path of every leaf."""
    found: list[tuple[str, ...]] = []
    for k, v in tree.items():
        if isinstance(v, dict):
            found += keys(v, (*prefix, k))
        else:
            found.append((*prefix, k))
    return found


def values(tree: Tree) -> list[Any]:
    """Every leaf."""
    found: list[Any] = []
    for v in tree.values():
        if isinstance(v, dict):
            found += values(v)
        else:
            found.append(v)
    return found


def flatten(tree: Tree, prefix: str = "") -> Tree:
    """One level, with paths joined by dots."""
    flat: Tree = {}
    for k, v in tree.items():
        if isinstance(v, dict):
            flat |= flatten(v, f"{prefix}{k}.")
        else:
            flat[prefix + k] = v
    return flat


def unflatten(flat: Tree) -> Tree:
    """The levels that dotted keys name."""
    tree: Tree = {}
    for key, value in flat.items():
        node = tree
        *path, last = key.split(".")
        for part in path:
            node = node.setdefault(part, {})
        node[last] = value
    return tree


def update_(tree: Tree, other: Tree) -> None:
    """Copy the tensors of one tree into those of another."""
    for k, v in other.items():
        if isinstance(v, dict):
            update_(tree[k], v)
        else:
            tree[k].copy_(v)


def merge(tree: Tree, other: Tree) -> Tree:
    """Put the leaves of another tree into this one."""
    for k, v in other.items():
        if isinstance(v, dict):
            merge(tree[k], v)
        else:
            tree[k] = v
    return tree
