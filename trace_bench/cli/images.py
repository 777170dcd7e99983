"""``images build|list|verify|lock|push|pull``."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict

from trace_bench.cli.output import emit, emit_json, note
from trace_bench.cli.tables import emit_rows
from trace_bench.errors import ConfigError, ExitCode, TraceBenchError
from trace_bench.images.archives import keep, kept
from trace_bench.images.build import build
from trace_bench.images.lock import ImagePin, lock_path, read_lock
from trace_bench.images.pins import list_images, verify
from trace_bench.images.plugins import OPENTRACE
from trace_bench.images.recipe import load_families
from trace_bench.images.registry import pull, push
from trace_bench.trainers.opto_scan import VARIABLE, location


def build_command(
    families: Sequence[str],
    base: str | None,
    opentrace: str | None,
    toolchain: str | None,
    sha256: str | None,
    *,
    as_json: bool,
) -> None:
    """Build `families` (all if empty) and lock them; where a copy of OpenTrace is named, those that are named with it
    too. `toolchain` is kept for the family that needs one.
    """
    known = load_families()
    if toolchain is not None:
        takes = [name for name in families if name in known and known[name].archive]
        if len(takes) != 1:
            those = ", ".join(name for name, family in known.items() if family.archive)
            raise ConfigError(f"--toolchain: name one family that needs it ({those}), as in 'images build lean'")
        keep(takes[0], toolchain, sha256)
    elif sha256 is not None:
        raise ConfigError("--checksum is the hash of --toolchain FILE; name that too, or leave it out")
    if opentrace is not None:
        os.environ[VARIABLE] = opentrace
    named = list(families)
    if location() is not None:
        named += [f"{name}+{OPENTRACE}" for name in families if OPENTRACE not in name.split("+")]
    for name, family in known.items():
        if not named and family.archive and not kept(name):
            note(f"left out: {name}, which needs {family.archive} (--toolchain FILE)")
    ready = [name for name, family in known.items() if not family.archive or kept(name)]
    _each(named or ready, lambda name: build(name, base=base, progress=note), as_json=as_json)


def list_command(*, as_json: bool) -> None:
    """One line per family: with tabs in a pipe, in columns on a terminal."""
    rows = list_images()
    if as_json:
        emit_json([asdict(row) for row in rows])
        return
    cells = []
    for row in rows:
        key = row.pin.key.removeprefix("sha256:")[:12] if row.pin else "-"
        state = "not built"
        if row.pin is not None:
            state = {True: "ready", False: "missing in the engine", None: "no engine answers"}[row.present]
            if row.drift:
                state += f", drift in {', '.join(row.drift)}"
        cells.append((row.family, key, state, row.title))
    emit_rows(("family", "key", "state", "title"), cells, elastic={"title": 16})


def verify_command(families: Sequence[str], *, as_json: bool) -> None:
    """Every family named must agree; without names, every family that is locked."""
    _each(families or sorted(read_lock().images), lambda name: verify(name), as_json=as_json)


def lock_command() -> None:
    """The lock as it stands."""
    path = lock_path()
    emit(path.read_text(encoding="utf-8").rstrip("\n") if path.is_file() else json.dumps({}))


def push_command(families: Sequence[str], registry: str, *, as_json: bool) -> None:
    """Push `families`, or all that are locked."""
    _each(families or sorted(read_lock().images), lambda name: push(name, registry, progress=note), as_json=as_json)


def pull_command(references: Sequence[str], *, as_json: bool) -> None:
    """Pull by digest."""
    _each(references, lambda reference: pull(reference, progress=note), as_json=as_json)


def _each(names: Sequence[str], action: Callable[[str], ImagePin], *, as_json: bool) -> None:
    pins = []
    for name in names:
        pin = action(name)
        pins.append(pin)
        if not as_json:
            emit(f"{pin.family}\t{pin.key.removeprefix('sha256:')[:12]}\t{pin.ref}")
    if as_json:
        emit_json([asdict(pin) for pin in pins])
    if not names:
        raise NothingLocked("no image is locked here; run `trace-bench images build`")


class NothingLocked(TraceBenchError):
    """There is nothing to verify or to push."""

    exit_code = ExitCode.ENVIRONMENT
