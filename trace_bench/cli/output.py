"""Names that commands still use for `trace_bench.display.console`."""

from __future__ import annotations

from trace_bench.display.console import emit_block as emit
from trace_bench.display.console import emit_json
from trace_bench.display.console import note_block as note
from trace_bench.display.text import escape_block as harmless

__all__ = ["emit", "emit_json", "harmless", "note"]
