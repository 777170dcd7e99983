"""One sandbox of a Podman engine: what it says and does otherwise than one of Docker (`trace_bench.sandbox.podman`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from trace_bench.sandbox import podman
from trace_bench.sandbox.base import ExitStatus
from trace_bench.sandbox.container import OUT
from trace_bench.sandbox.docker_sandbox import DockerSandbox


class PodmanSandbox(DockerSandbox):
    """A container of Podman with its volume."""

    _no_process = "can only kill running"
    _last_lines = "all"
    """A long line comes in several pieces, and is lost where only the last lines are asked for."""

    def facts(self) -> dict[str, Any]:
        with self._errors("inspect a sandbox"):
            return podman.in_dockers_words(self._inspect(), self._engine.libpod(f"containers/{self._there()}/json"))

    def last_words(self) -> str:
        said = super().last_words()
        if podman.NO_COMMAND not in said:
            return said
        return f"{said}{' '.join(self._inspect()['Config'].get('Entrypoint') or [])}\n"

    def collect(self) -> Iterator[bytes]:
        with self._errors("archive /out"):
            yield from podman.archive(OUT.strip("/"), self._archive)
            self._inspect()  # of what was removed meanwhile the archive says nothing

    def _ended(self, state: Mapping[str, Any]) -> ExitStatus:
        ended = super()._ended(state)
        return replace(ended, code=127) if ended.code == 1 and podman.NO_COMMAND in self.last_words() else ended
