"""Which modules the spawner imports ahead of a candidate that will import them.

The names come from the candidate's own source, and the import runs as uid 0 in the process that forks all others: it is
this list and nothing else. (``import numpy.f2py.__main__`` runs a program, and ends the process.)
"""

from __future__ import annotations

import re
import sys

PRELOADABLE = frozenset({
    "torch", "torch.nn", "torch.nn.functional", "triton", "triton.language",
    "numpy", "numpy.fft", "numpy.linalg", "numpy.ma", "numpy.polynomial", "numpy.random",
    "scipy", "scipy.cluster", "scipy.fft", "scipy.integrate", "scipy.interpolate", "scipy.linalg", "scipy.ndimage",
    "scipy.optimize", "scipy.signal", "scipy.sparse", "scipy.sparse.csgraph", "scipy.sparse.linalg", "scipy.spatial",
    "scipy.spatial.distance", "scipy.special", "scipy.stats",
})  # fmt: skip
LATE = {
    # NumPy 2 imports it on first use, which is the seeding in every phase and candidate: 15 ms each.
    "numpy": ("numpy.random",),
    # Kernels count their operations by it, and it imports half of Triton: 0.2 s each.
    "torch": ("torch.utils.flop_counter",),
    # Its interpreter imports them at the first launch of a kernel, when there are no files any more.
    "triton": ("triton.compiler.code_generator", "triton.experimental.gluon", "triton.language.extra.libdevice"),
}
"""What modules import only when they are used, and is to be there as well."""
_IMPORT = re.compile(r"^[ \t]*(?:from|import)[ \t]+((?:numpy|scipy|torch|triton)[\w.]*)", re.MULTILINE)


def worth_preloading(source: str) -> list[str]:
    """Names of `PRELOADABLE` that `source` seems to import, sorted; and NumPy where this process has it, as it may send
    arrays: once the source runs, nothing more can be imported to read them."""
    seen = set(_IMPORT.findall(source)) | ({"numpy"} & sys.modules.keys())
    return sorted(PRELOADABLE & seen)
