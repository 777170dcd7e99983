"""Trainers of other packages: which files of an installed distribution go into an image, for training alone."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import Distribution, EntryPoint
from pathlib import Path

from trace_bench.artifacts.provenance import capture_git
from trace_bench.errors import ConfigError, EnvironmentUnavailable
from trace_bench.images.hashes import digest, is_residue
from trace_bench.trainers import opto_scan
from trace_bench.trainers.base import Trainer
from trace_bench.trainers.registry import entry_points_of, load_trainer

COMPILED = (".so", ".pyd", ".dylib", ".dll")
OPENTRACE = "opentrace"
TAKEN = ("trace_bench", "opto")
"""Packages of the image that no plug-in may hide."""


@dataclass(frozen=True)
class Plugin:
    """An installed distribution with trainers.

    Attributes:
        name: of the distribution, normalised (PEP 503).
        files: what goes beside the worker: path there, with slashes, to the file here.
        requirements: files with hashed pins of what its trainers need besides; each stands beside a trainer's module.
    """

    name: str
    version: str
    files: Mapping[str, Path | bytes]
    requirements: tuple[Path, ...]

    @cached_property
    def content_hash(self) -> str:
        """64 hex digits, of paths and contents."""
        chunks: list[bytes] = []
        for name, file in self.files.items():
            try:
                chunks += [name.encode(), file if isinstance(file, bytes) else file.read_bytes()]
            except OSError as error:
                raise EnvironmentUnavailable(
                    f"{name} of the package {self.name} cannot be read ({error.strerror}); install the package again"
                ) from error
        return digest(chunks)


def opentrace() -> Plugin:
    """The copy of OpenTrace that the user named, in place of trace-opt: what lies beside the worker comes first.

    Raises:
        ConfigError: none is named, or what is named is none.
    """
    if (place := opto_scan.location()) is None:
        raise ConfigError(f"no copy of OpenTrace is named; set {opto_scan.VARIABLE} to a checkout or a wheel of it")
    files = opto_scan.files_of(place)
    version = " ".join(word for word in (opto_scan.version_of(files), _revision(place)) if word)
    return Plugin(OPENTRACE, version, files, ())


def plugin_named(name: str) -> Plugin | None:
    """The installed distribution `name`; None if there is none that has trainers.

    Raises:
        ConfigError: it cannot go into an image, or requirements that a trainer of it names are not there.
    """
    points = entry_points_of(name)
    if not points:
        return None
    distribution = next(point.dist for point in points if point.dist is not None)
    tops = sorted({point.module.partition(".")[0] for point in points})
    if hidden := [top for top in tops if top in TAKEN]:
        raise ConfigError(f"the package {name} brings a module {hidden[0]!r}, which images have; rename it")
    files: Mapping[str, Path] = _recorded(distribution)
    if any(top not in {path.partition("/")[0].removesuffix(".py") for path in files} for top in tops):
        files = dict(_found(name, tops))  # an editable install records where the package lies, not its files
    files = {path: files[path] for path in sorted(files)}
    if compiled := [path for path in files if path.endswith(COMPILED) or ".so." in path]:
        raise ConfigError(
            f"the package {name} is not pure Python ({compiled[0]}), and what was compiled for this machine does not "
            "fit an image; put its compiled part into a package of its own and name that in `requirements`"
        )
    requirements = sorted({path for point in points for path in _requirements(point)})
    return Plugin(name, distribution.version, files, tuple(requirements))


def _revision(place: Path) -> str:
    """The commit of a checkout, as far as it is one."""
    if not (place / ".git").exists():
        return ""
    git = capture_git(place)
    return f"git {git.commit[:12]}{'-dirty' if git.dirty else ''}" if git.commit else ""


def _recorded(distribution: Distribution) -> dict[str, Path]:
    """The installed files, without metadata, scripts and byte code."""
    found: dict[str, Path] = {}
    for entry in distribution.files or ():
        top, path = entry.parts[0], Path(str(distribution.locate_file(entry)))
        if top in ("..", "/") or top.endswith((".dist-info", ".egg-info", ".pth")) or top.startswith("__editable__"):
            continue
        if not is_residue(entry.as_posix()) and path.is_file():
            found[entry.as_posix()] = path
    return found


def _found(name: str, tops: list[str]) -> Iterator[tuple[str, Path]]:
    """The files of the top-level packages or modules `tops`, from where they lie."""
    for top in tops:
        spec = importlib.util.find_spec(top)
        if spec is None or spec.origin is None:
            raise ConfigError(
                f"the files of the package {name} cannot be found out: {top} is a namespace that several packages may "
                "share; install it otherwise than editable"
            )
        origin = Path(spec.origin)
        if not spec.submodule_search_locations:
            yield origin.name, origin
            continue
        for path in origin.parent.rglob("*"):
            relative = path.relative_to(origin.parent.parent).as_posix()
            if path.is_file() and not is_residue(relative):
                yield relative, path


def _requirements(point: EntryPoint) -> Iterator[Path]:
    try:
        trainer: type[Trainer] = load_trainer(point.name)
    except ConfigError:
        return  # cannot be run; listed with the reason
    named = getattr(trainer, "requirements", None)
    if named is None:
        return
    module = sys.modules[trainer.__module__].__file__
    path = Path(module or "").parent / str(named)
    if not path.is_file():
        raise ConfigError(f"trainer {point.name!r} names requirements {named!r}, but there is no {path}; correct it")
    yield path
