"""Pack modules of this package into a command line that a bare Python can run.

The sandbox may have no copy of this package. The modules that run inside are therefore passed as compressed source to
``python3 -I -c``. They may import the standard library and each other, by their full names.
"""

from __future__ import annotations

import base64
import functools
import json
import zlib
from pathlib import Path
from types import ModuleType

_BOOTSTRAP = (
    "import base64,json,sys,types,zlib\n"
    "for n,s in json.loads(zlib.decompress(base64.b85decode('{packed}'))):\n"
    " m=sys.modules[n]=types.ModuleType(n);exec(compile(s,n,'exec'),m.__dict__)\n"
    "sys.exit(m.main())"
)


@functools.cache
def python_arguments(*modules: ModuleType) -> tuple[str, ...]:
    """Arguments for a Python interpreter that define `modules` in this order and call ``main`` of the last one."""
    sources = [(module.__name__, Path(str(module.__file__)).read_text(encoding="utf-8")) for module in modules]
    packed = base64.b85encode(zlib.compress(json.dumps(sources).encode(), 9)).decode()
    return ("-I", "-c", _BOOTSTRAP.format(packed=packed))
