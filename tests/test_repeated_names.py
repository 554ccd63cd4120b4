"""One private name has one meaning: no class and no file of the package has the name of another."""

from __future__ import annotations

import ast
from collections import Counter

from tests._sources import sources

SAME_IDEA = {
    "_access.py", "_algebra.py", "_annotations.py", "_base.py", "_check.py", "_columns.py", "_compare.py",
    "_contracts.py", "_convert.py", "_device.py", "_diff.py", "_dtypes.py", "_explain.py", "_facts.py", "_fields.py",
    "_frames.py", "_functions.py", "_index.py", "_inspect.py", "_joins.py", "_json.py", "_keys.py", "_modes.py",
    "_names.py", "_probabilistic.py", "_pytree.py", "_ragged.py", "_rows.py", "_sequential.py", "_shape.py",
    "_values.py", "_write.py", "_new.py", "utils.py", "__main__.py", "_errors.py", "_lint.py", "_methods.py",
    "_sizes.py", "_walks.py", "_losses.py", "_sequences.py",
}  # fmt: skip
"""What two rooms do about one thing: `ops/_index.py` and `store/lazy/_index.py`."""


def test_names_are_not_repeated() -> None:
    """No two classes share a name; a name that two files share is on the list, which has no others."""
    files = Counter(source.name.rpartition("/")[2] for source in sources())
    classes = Counter(node.name for source in sources() for node in source.tree.body if isinstance(node, ast.ClassDef))
    assert {name for name, count in classes.items() if count > 1} == set()
    repeated = {name for name, count in files.items() if count > 1} - {"__init__.py"}
    assert repeated == SAME_IDEA
