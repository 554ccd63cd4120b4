"""Test data and comparisons: strategies for hypothesis, readable differences, and a pytest plugin that prints them.

Torch and hypothesis are only imported by calls, so the pytest plugin costs nothing if it is not used.
"""

from ._doors import Same as Same
from ._doors import assert_close as assert_close
from ._doors import batches as batches
from ._doors import same as same
