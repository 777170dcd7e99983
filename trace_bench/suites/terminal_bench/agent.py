"""Harbor's agent Terminus-2 with a prompt template of ours.

It runs inside Harbor, whose Python has none of this package: it imports Harbor and the standard library alone.
"""

from __future__ import annotations

from pathlib import Path

from harbor.agents.terminus_2.terminus_2 import Terminus2, Terminus2Options


class TemplatedTerminus2Options(Terminus2Options):  # type: ignore[misc]  # harbor is not followed by the type checker
    """The options of Terminus-2, and the path of the file with the prompt template."""

    prompt_template_path: str


class TemplatedTerminus2(Terminus2):  # type: ignore[misc]
    """Terminus-2 that reads its prompt template from a file.

    The template is a `str.format` string with the fields ``instruction`` and ``terminal_state``. Terminus-2 has no
    option for it, so this class overrides the private method that names the file (Harbor 0.24).
    """

    options_model = TemplatedTerminus2Options
    options: TemplatedTerminus2Options

    def _get_prompt_template_path(self) -> Path:
        return Path(self.options.prompt_template_path)
