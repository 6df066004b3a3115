"""Memory that a step frees stays with the process, for the next step."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from functools import cache

from askew.core.files import MEGABYTE

# Numbers of glibc's malloc.h, and what they are set to. By default glibc hands blocks of 128 KB and more back to the
# system as soon as they are freed, and a step asks for dozens of them: the system clears every page again. Of training
# on a CPU with all clients at once that was 13 to 27% (benchmarks/freed_memory.py); resident memory stays as it was.
M_MMAP_THRESHOLD, M_TRIM_THRESHOLD = -3, -1
LARGEST_KEPT = 32 * MEGABYTE  # of one block; the most that all versions of glibc take
KEPT = 256 * MEGABYTE  # in all, at the end of the heap


@cache
def keep_freed_memory() -> bool:
    """Tell glibc, once in a process; whether it took it. Not where there is another C library, nor where the user has
    set glibc's allocator by environment variables."""
    if sys.platform != "linux" or any(name.startswith("MALLOC_") or name == "GLIBC_TUNABLES" for name in os.environ):
        return False
    with contextlib.suppress(AttributeError, OSError):
        mallopt = ctypes.CDLL(None).mallopt
        return bool(mallopt(M_MMAP_THRESHOLD, LARGEST_KEPT) and mallopt(M_TRIM_THRESHOLD, KEPT))
    return False
