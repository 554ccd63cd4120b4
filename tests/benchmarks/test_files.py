"""The benchmark of files runs at a small size, and its candidates read what they saved. Nothing here is timed."""

from __future__ import annotations

import pytest
import torch

from tests._marks import rest_is_slow
from tests.benchmarks import _tables
from tests.benchmarks._files import candidates, measure, table, works


@pytest.mark.filterwarnings("ignore")  # of the anchor
@pytest.mark.parametrize("work", rest_is_slow(works(0.0005)), ids=lambda work: work.name)
def test_candidates_agree(work, tmp_path):
    """Each opens the tensors that it saved; the table has a line for each, and for each target."""
    for name, (write, read) in candidates(work.tensors, tmp_path).items():
        write()
        found = read()
        for key, tensor in work.tensors.items():
            assert torch.equal(found[key], tensor), (name, key)
    found = measure(work, tmp_path, 1)
    lines = table(work, found).splitlines()
    assert len(lines) == 1 + len(found) + len(work.save_targets) + len(work.open_targets)


def test_tables(capsys, tmp_path):
    """The benchmark of tables runs, compares all, and what it reads is what was written."""
    for write, read in _tables.candidates(3, tmp_path).values():
        write()
        assert len(read()) == 3
    _tables.main(["--rows", "2", "--rounds", "1", "--folder", str(tmp_path)])
    assert capsys.readouterr().out.count("ours takes") == 6
