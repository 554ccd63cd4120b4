"""What is known of each operation, without torch: one table that the package, its generator and the checkers read.

To add a pointwise operation of torch, add its row to `_table.py` and run `python -m tensorclass.ops._generate`.
To add a method of rows that takes names of fields, write it in `ops/_by_row.py` and add its row to `BY_FIELD`.
"""

from ._functions import JOINS as JOINS
from ._functions import LIKE as LIKE
from ._functions import PARTS as PARTS
from ._functions import POINTWISE as POINTWISE
from ._functions import RESHAPING as RESHAPING
from ._functions import TORCH_FUNCTIONS as TORCH_FUNCTIONS
from ._groups import BY_FIELD as BY_FIELD
from ._groups import COMBINING as COMBINING
from ._groups import FLOATING as FLOATING
from ._groups import IN_PLACE as IN_PLACE
from ._groups import SCALED as SCALED
from ._reduce_table import REDUCTIONS as REDUCTIONS
from ._reduce_table import Reduction as Reduction
from ._table import BITWISE as BITWISE
from ._table import COMPARISONS as COMPARISONS
from ._table import ROWS as ROWS
from ._table import UNSUPPORTED as UNSUPPORTED
from ._table import Numbers as Numbers
from ._table import Row as Row
