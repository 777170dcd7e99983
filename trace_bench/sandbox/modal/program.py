"""The programs that run inside, as command lines: ``python3 -I -c`` and their source, compressed."""

from __future__ import annotations

import base64
import functools
import json
import zlib
from pathlib import Path
from typing import Any

from trace_bench.sandbox import archive
from trace_bench.sandbox.modal import bridge, holder

SOCKET = "/run/trace-bench/holder"
OUT = "/out"
_PACK = 'import struct\ndef pack(kind, payload): return struct.pack(">cI", kind, len(payload)) + payload\n'


def holder_command(spec: dict[str, Any]) -> list[str]:
    """The entry point; `spec` as of `holder.Holder`."""
    return [*_python(holder.__file__), json.dumps(spec)]


def join_command(socket: str = SOCKET, **first: Any) -> list[str]:
    """An exec that joins the holder, and says `first` to it."""
    return [*_python(bridge.__file__), socket, json.dumps(first)]


def collect_command(socket: str = SOCKET, out: str = OUT) -> list[str]:
    """An exec that brings /out."""
    return [*_python(archive.__file__, bridge.__file__), socket, "collect", out]


@functools.cache
def _python(*files: str) -> tuple[str, ...]:
    sources = [Path(file).read_text(encoding="utf-8") for file in files]
    # Each as a module of its own: all begin with an import from __future__.
    packed = base64.b85encode(zlib.compress(json.dumps(sources).encode(), 9)).decode()
    code = (
        "import base64,json,sys,zlib\n"
        f"{_PACK}"
        f"for s in json.loads(zlib.decompress(base64.b85decode('{packed}'))): exec(compile(s,'trace-bench','exec'))\n"
        "sys.exit(main())"
    )
    return ("python3", "-I", "-c", code)
