"""Work with the images that jobs run in: one per family, built from pinned recipes.

Example: trace-bench images build core llm4ad
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from trace_bench.cli.options import Json
from trace_bench.display.console import emit_block, emit_json, emit_rows, note
from trace_bench.display.table import Table
from trace_bench.errors import ConfigError, ExitCode, TraceBenchError

if TYPE_CHECKING:
    from trace_bench.images.lock import ImagePin

Families = Annotated[list[str] | None, Argument(metavar="FAMILY", help="Image families; all if none is named.")]


def build(
    families: Families = None,
    base: Annotated[str | None, Option("--base", metavar="IMAGE", help="Build on this base image.")] = None,
    opentrace: Annotated[
        str | None,
        Option(
            "--opentrace",
            metavar="PATH",
            help="Build FAMILY+opentrace too, with this checkout or wheel of OpenTrace. Default: $OPENTRACE.",
        ),
    ] = None,
    toolchain: Annotated[
        str | None,
        Option(
            "--toolchain",
            metavar="FILE",
            help="Keep this archive, which the family 'lean' needs; 'base' if the base image has /opt/lean.",
        ),
    ] = None,
    sha256: Annotated[str | None, Option("--checksum", metavar="HEX", help="Expect this SHA-256 of that file.")] = None,
    as_json: Json = False,
) -> None:
    """Build images and lock them.

    Example: trace-bench images build core llm4ad
    """
    from trace_bench.images import build as building
    from trace_bench.images.archives import keep, kept
    from trace_bench.images.plugins import OPENTRACE
    from trace_bench.images.recipe import load_families
    from trace_bench.trainers.opto_scan import VARIABLE, location

    named, known = list(families or []), load_families()
    if toolchain is not None:
        takes = [name for name in named if name in known and known[name].archive]
        if len(takes) != 1:
            those = ", ".join(name for name, family in known.items() if family.archive)
            raise ConfigError(f"--toolchain: name one family that needs it ({those}), as in 'images build lean'")
        keep(takes[0], toolchain, sha256)
    elif sha256 is not None:
        raise ConfigError("--checksum is the hash of --toolchain FILE; name that too, or leave it out")
    if opentrace is not None:
        os.environ[VARIABLE] = opentrace
    if location() is not None:
        named += [f"{name}+{OPENTRACE}" for name in named if OPENTRACE not in name.split("+")]
    for name, family in known.items():
        if not named and family.archive and not kept(name):
            note(f"left out: {name}, which needs {family.archive} (--toolchain FILE)")
    ready = [name for name, family in known.items() if not family.archive or kept(name)]
    _each(named or ready, lambda name: building.build(name, base=base, progress=note), as_json=as_json)


def list_(as_json: Json = False) -> None:
    """Print the families, what is locked, and what has drifted.

    Example: trace-bench images list
    """
    from trace_bench.images.pins import list_images

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
    emit_rows(Table.of(("family", "key", "state", "title"), cells, shrink={"title": 16}))


def verify(families: Families = None, as_json: Json = False) -> None:
    """Check that lock, recipe and engine agree.

    Example: trace-bench images verify core
    """
    from trace_bench.images import pins

    _each(families or _locked(), lambda name: pins.verify(name), as_json=as_json)


def lock() -> None:
    """Print the lock as JSON.

    Example: trace-bench images lock
    """
    from trace_bench.images.lock import lock_path

    path = lock_path()
    emit_block(path.read_text(encoding="utf-8").rstrip("\n") if path.is_file() else json.dumps({}))


def push(
    registry: Annotated[str, Option("--registry", metavar="HOST[:PORT][/PREFIX]", help="Push to this registry.")],
    families: Families = None,
    as_json: Json = False,
) -> None:
    """Push images; from then on they run by the registry's digest.

    Example: trace-bench images push core --registry 127.0.0.1:5000
    """
    from trace_bench.images import registry as registries

    _each(families or _locked(), lambda name: registries.push(name, registry, progress=note), as_json=as_json)


def pull(
    references: Annotated[
        list[str], Argument(metavar="REPOSITORY@sha256:DIGEST", help="Images that `images push` made.")
    ],
    as_json: Json = False,
) -> None:
    """Pull images by digest and lock them.

    Example: trace-bench images pull 127.0.0.1:5000/trace-bench/core@sha256:…
    """
    from trace_bench.images import registry as registries

    _each(references, lambda reference: registries.pull(reference, progress=note), as_json=as_json)


COMMANDS = (build, list_, verify, lock, push, pull)


def _locked() -> list[str]:
    from trace_bench.images.lock import read_lock

    return sorted(read_lock().images)


def _each(names: Sequence[str], action: Callable[[str], ImagePin], *, as_json: bool) -> None:
    """Do `action` for each of `names`, and print the pins that it returns.

    Raises:
        NothingLocked: there are no names.
    """
    pins = []
    for name in names:
        pin = action(name)
        pins.append(pin)
        if not as_json:
            emit_block(f"{pin.family}\t{pin.key.removeprefix('sha256:')[:12]}\t{pin.ref}")
    if as_json:
        emit_json([asdict(pin) for pin in pins])
    if not names:
        raise NothingLocked("no image is locked here; run `trace-bench images build`")


class NothingLocked(TraceBenchError):
    """No image is locked that could be verified or pushed."""

    exit_code = ExitCode.ENVIRONMENT
