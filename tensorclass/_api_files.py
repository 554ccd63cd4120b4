"""The public names for files, which `tensorclass/__init__.py` loads when a name is not among the others."""

from .io import DatasetWriter as DatasetWriter
from .io import MemoryMappedTensor as MemoryMappedTensor
from .io import TensorClassDataset as TensorClassDataset
from .io import TensorDictFuture as TensorDictFuture
from .io import append_memmap as append_memmap
from .io import convert as convert
from .io import from_consolidated as from_consolidated
from .io import is_memmap_archive as is_memmap_archive
from .io import load as load
from .io import load_memmap as load_memmap
from .io import memmap as memmap
from .io import pack_memmap as pack_memmap
from .io import refresh_archive_checksums as refresh_archive_checksums
from .io import save as save
from .io import unpack_memmap as unpack_memmap
from .io.exchange import *  # noqa: F403
