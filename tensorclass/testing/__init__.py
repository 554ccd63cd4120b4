"""Test data and comparisons: strategies for hypothesis, readable differences, a pytest plugin that prints them.

Nothing here loads torch or hypothesis before it is called: the pytest plugin costs nothing where it is not used.
"""

from ._doors import Same as Same
from ._doors import assert_close as assert_close
from ._doors import batches as batches
from ._doors import same as same
