# `from tensorclass.memmap import MemoryMappedTensor`, as checkers read it; the package answers at run time.
from ._api_files import MemoryMappedTensor as MemoryMappedTensor
