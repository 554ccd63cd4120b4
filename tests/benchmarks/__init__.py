"""Speed against `tensordict` and against the same work on raw tensors: `python -m tests.benchmarks`.

One idea: a row is a name, a statement for each candidate and a target. The clock, the test and the page read the rows.
"""
