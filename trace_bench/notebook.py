"""A run in a Jupyter notebook: one display that is updated while jobs run and stays when they have ended."""

from __future__ import annotations

import contextvars
import io
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from trace_bench.cli.live import LiveTable
from trace_bench.secrets import known

WIDTH, HEIGHT = 110, 60
"""Of the table, in characters."""
MOST_LINES = 100
"""Lines above the table, at most: failures, retries, warnings."""
_PRE = (
    "<pre style=\"white-space:pre;overflow-x:auto;line-height:normal;font-family:Menlo,'DejaVu Sans Mono',consolas,"
    "'Courier New',monospace\">{code}</pre>"
)


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook, which shows HTML and can update it."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None) is not None


class NotebookTable(LiveTable):
    """The live table of a terminal as HTML. Create it in the thread of the cell that shows it.

    Args:
        publish: shows a bundle ``{media type: text}`` and, when it is called again, shows another in its place. None is
            the cell's output.
    """

    def __init__(
        self,
        shown_warnings: Sequence[str] = (),
        *,
        publish: Callable[[dict[str, str]], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(shown_warnings, console=_recorder(), clock=clock)
        self._publish = publish or _Output()
        self._cell = contextvars.copy_context()
        """Says to Jupyter which cell the output of another thread belongs to."""
        self._lines: list[Text] = []
        self._shown: dict[str, str] = {}

    def _draw(self) -> None:
        self._cell.run(self._draw_with, self._show)
        self._flush()
        self._cell.run(self._show)

    def _flush(self) -> None:
        while self._above:
            self._lines.append(self._above.popleft())
        if self._drawer is None:  # the run never began
            self._show()

    def _show(self) -> None:
        console = _recorder()
        left_out = len(self._lines) - MOST_LINES
        if left_out > 0:
            console.print(f"… {left_out} earlier lines")
        for line in self._lines[-MOST_LINES:]:
            console.print(line, soft_wrap=True)
        if self._drawer is not None:
            console.print(self._picture())
        text = console.export_text(clear=False)
        html = console.export_html(code_format=_PRE, inline_styles=True)
        bundle = {"text/plain": known.text(text), "text/html": known.text(html)}
        if text.strip() and bundle != self._shown:
            self._publish(bundle)
            self._shown = bundle


def _recorder() -> Console:
    return Console(
        file=io.StringIO(), record=True, width=WIDTH, height=HEIGHT, force_terminal=True, force_jupyter=False,
        color_system="truecolor", highlight=False, markup=False, emoji=False, legacy_windows=False,
    )  # fmt: skip


class _Output:
    """The output of the current cell."""

    def __init__(self) -> None:
        self._handle: Any = None

    def __call__(self, bundle: dict[str, str]) -> None:
        from IPython.display import display

        if self._handle is None:
            self._handle = display(bundle, raw=True, display_id=True)
        else:
            self._handle.update(bundle, raw=True)
