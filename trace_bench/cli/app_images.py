"""Declares the commands on images; `trace_bench.cli.app` takes them in."""

from __future__ import annotations

from typing import Annotated

import typer

from trace_bench.cli.options import Base, Families, Json
from trace_bench.cli.usage import help_without_command

images_app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    short_help="Build, check, push and pull the images that jobs run in.",
    help="The images that jobs run in: one per family, built from pinned recipes.",
    epilog="Example: trace-bench images build core llm4ad",
)


@images_app.callback(invoke_without_command=True)
def _images(ctx: typer.Context) -> None:
    help_without_command(ctx)


@images_app.command("build", epilog="Example: trace-bench images build core llm4ad")
def images_build(
    families: Families = None,
    base: Base = None,
    opentrace: Annotated[
        str | None,
        typer.Option(
            "--opentrace",
            metavar="PATH",
            help="A checkout or wheel of OpenTrace: FAMILY+opentrace is built too. Default: $OPENTRACE.",
        ),
    ] = None,
    toolchain: Annotated[
        str | None,
        typer.Option(
            "--toolchain",
            metavar="FILE",
            help="The archive that the family 'lean' needs, which is kept; 'base' if the base image has /opt/lean.",
        ),
    ] = None,
    sha256: Annotated[str | None, typer.Option("--checksum", metavar="HEX", help="SHA-256 of that file.")] = None,
    as_json: Json = False,
) -> None:
    """Build images and lock them."""
    from trace_bench.cli.images import build_command

    build_command(families or [], base, opentrace, toolchain, sha256, as_json=as_json)


@images_app.command(
    "list",
    short_help="Print the families, what is locked, and what has drifted.",
    epilog="Example: trace-bench images list",
)
def images_list(as_json: Json = False) -> None:
    """Print the families, what is locked for each, and whether it has drifted."""
    from trace_bench.cli.images import list_command

    list_command(as_json=as_json)


@images_app.command("verify", epilog="Example: trace-bench images verify core")
def images_verify(families: Families = None, as_json: Json = False) -> None:
    """Check that lock, recipe and engine agree."""
    from trace_bench.cli.images import verify_command

    verify_command(families or [], as_json=as_json)


@images_app.command("lock", epilog="Example: trace-bench images lock")
def images_lock() -> None:
    """Print the lock as JSON."""
    from trace_bench.cli.images import lock_command

    lock_command()


@images_app.command("push", epilog="Example: trace-bench images push core --registry 127.0.0.1:5000")
def images_push(
    registry: Annotated[str, typer.Option("--registry", metavar="HOST[:PORT][/PREFIX]", help="Where to.")],
    families: Families = None,
    as_json: Json = False,
) -> None:
    """Push images; from then on they run by the registry's digest."""
    from trace_bench.cli.images import push_command

    push_command(families or [], registry, as_json=as_json)


@images_app.command("pull", epilog="Example: trace-bench images pull 127.0.0.1:5000/trace-bench/core@sha256:…")
def images_pull(
    references: Annotated[
        list[str], typer.Argument(metavar="REPOSITORY@sha256:DIGEST", help="Images that `images push` made.")
    ],
    as_json: Json = False,
) -> None:
    """Pull images by digest and lock them."""
    from trace_bench.cli.images import pull_command

    pull_command(references, as_json=as_json)
