"""Run programs for `tensordict` unchanged: while it is installed, `import tensordict` gives names of this package.

`python -m tensorclass.compat script.py`, `install()` or `pytest -p tensorclass.compat.pytest`. See docs/compat.md.
"""

from ._install import install as install
from ._install import installed as installed
from ._names import VERSION as VERSION
