"""Recipes: all that goes into an image, as content hashes, and the key that they add up to.

The key of an image is a hash over contents only (Dockerfiles, hashed requirements, worker sources, build
arguments and the identity of the base). Neither times, places, owners nor image ids enter it, so two machines
that build one recipe on one base get one key.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from trace_bench.errors import ConfigError, EnvironmentUnavailable
from trace_bench.images.archives import kept
from trace_bench.images.hashes import digest, is_residue
from trace_bench.images.plugins import Plugin
from trace_bench.resources import data_dir, files_below, package_dir

PARTS = ("base", "dockerfile", "requirements", "worker", "arguments", "plugins")
"""What a key is made of, in the order in which drift is reported. ``plugins`` is there only where there are some."""

WORKER_SOURCES = ("__init__.py", "errors.py", "suites", "trainers", "worker")
"""What of the package runs inside a sandbox, relative to it."""

_FORMAT = "trace-bench image 1"


@dataclass(frozen=True)
class Family:
    """The recipe of an image: a folder of ``images/``, or such a family with additions (see `layers`).

    Attributes:
        name: of the folder; with additions ``family+layer``, ``family+distribution`` …
        title: for people.
        root: the folder ``images/`` that the recipe is from.
        dockerfile: adds the requirements to the parent.
        requirements: files with hashed pins of what this family adds to its parent. Without any it adds no image of its
            own below the worker's.
        parent: the family whose dependencies this one stands on; None stands on the base itself.
        archive: what a user has to download for it, in words (see `archives`); empty if nothing.
        debian: names Debian packages, one a line, that are added to a base made of such; any other has to have them.
        preload: modules that the supervisor imports before it forks the phases.
        plugin: an installed distribution whose files go beside the worker.
    """

    name: str
    title: str
    root: Path
    dockerfile: Path
    requirements: tuple[Path, ...]
    parent: Family | None = None
    debian: Path | None = None
    preload: tuple[str, ...] = ()
    plugin: Plugin | None = None
    archive: str = ""

    @property
    def repository(self) -> str:
        """The name of its images: a tag's repository knows no plus sign, and no family two underscores."""
        return f"trace-bench/{self.name.replace('+', '__')}"

    @property
    def bootstrap(self) -> Path:
        """Hashed pin of the installer, the same for all families."""
        return self.root / "bootstrap.txt"

    @property
    def worker_dockerfile(self) -> Path:
        """Adds the worker to any family."""
        return self.root / "worker.Dockerfile"

    @property
    def packages(self) -> tuple[Path, ...]:
        """Files that name what it adds to its parent: `requirements`, and `debian`."""
        return (*self.requirements, *([self.debian] if self.debian is not None else []))

    @property
    def contents(self) -> list[bytes]:
        """The content of its recipe beside the Dockerfile: pins, names of packages, and the hash of its archive."""
        archive = kept(self.name) if self.archive else None
        return [*(_read(path) for path in self.packages), *([archive.sha256.encode()] if archive else [])]

    @property
    def lineage(self) -> tuple[Family, ...]:
        """From the family that stands on the base down to this one."""
        return (*(self.parent.lineage if self.parent else ()), self)

    @property
    def plugins(self) -> tuple[Plugin, ...]:
        """The plug-ins of the family and its ancestors."""
        return tuple(f.plugin for f in self.lineage if f.plugin is not None)

    @property
    def plugin_versions(self) -> dict[str, str]:
        """Version of each, by name."""
        return {plugin.name: plugin.version for plugin in self.plugins}

    @property
    def arguments(self) -> dict[str, str]:
        """Build arguments besides the base."""
        return {"PRELOAD": ",".join(self.preload)}

    @cached_property
    def recipe(self) -> Recipe:
        """Read once; take a new `load_families` to see later changes."""
        return Recipe.of(self)


@dataclass(frozen=True)
class Recipe:
    """Content hashes (SHA-256, hex) of all that an image of `family` is made of, save its base."""

    family: str
    dockerfile: str
    requirements: str
    worker: str
    arguments: str
    plugins: str = ""

    @classmethod
    def of(cls, family: Family) -> Recipe:
        """Read the recipe of `family` as it stands.

        Raises:
            EnvironmentUnavailable: a file of the recipe is missing.
        """
        lineage = family.lineage
        dockerfiles = [*(f.dockerfile for f in lineage if f.requirements), family.worker_dockerfile]
        requirements = [_read(family.bootstrap), *(content for f in lineage for content in f.contents)]
        return cls(
            family=family.name,
            dockerfile=digest([_read(path) for path in dockerfiles]),
            requirements=digest(requirements),
            worker=worker_sources_hash(),
            arguments=digest([json.dumps(family.arguments, sort_keys=True).encode()]),
            plugins="".join(plugin.content_hash for plugin in family.plugins),
        )

    def parts(self, base: str) -> dict[str, str]:
        """The hash of each part, named as in `PARTS`; `base` is the identity of the base."""
        named = {"base": base} | {part: str(getattr(self, part)) for part in PARTS if part != "base"}
        return {part: named[part] for part in PARTS if named[part]}


def image_key(recipe: Recipe, base: str) -> str:
    """The key (64 hex digits) of what `recipe` builds on the base with the identity `base`."""
    return key_of_parts(recipe.family, recipe.parts(base))


def key_of_parts(family: str, parts: Mapping[str, str]) -> str:
    """The key of an image from its recorded parts."""
    return digest([_FORMAT.encode(), family.encode(), json.dumps(dict(parts), sort_keys=True).encode()])


def dependencies_key(family: Family, base: str) -> str:
    """The key of `family` without the worker: of the layer that changes seldom and that children stand on."""
    adding = [f for f in family.lineage if f.requirements]
    contents = [content for f in adding for content in (_read(f.dockerfile), *f.contents)]
    return digest([_FORMAT.encode(), b"dependencies", base.encode(), _read(family.bootstrap), *contents])


def load_families(root: Path | None = None) -> dict[str, Family]:
    """All families under `root` (default: the ``images/`` of this installation), by name, in alphabetical
    order.

    Raises:
        ConfigError: a ``family.toml`` is wrong; the message names file and key.
        EnvironmentUnavailable: the installation has no recipes.
    """
    try:
        folder = root if root is not None else data_dir("images")
    except FileNotFoundError as error:
        raise EnvironmentUnavailable(str(error)) from error
    raw = {path.parent.name: read_toml(path) for path in sorted(folder.glob("*/family.toml"))}
    if not raw:
        raise EnvironmentUnavailable(f"{folder} holds no image family; reinstall the package")
    families: dict[str, Family] = {}
    for name in raw:
        _load(name, folder, raw, families, ())
    return dict(sorted(families.items()))


def worker_sources(package: Path | None = None) -> dict[str, Path]:
    """The sources of the package that an image contains: ``{path below the package, with slashes: file}``, sorted."""
    root = package if package is not None else package_dir()
    found: list[str] = []
    for name in WORKER_SOURCES:
        path = root / name
        found.extend([f"{name}/{file}" for file in files_below(path)] if path.is_dir() else [name])
    kept = ((name, root / name) for name in sorted(found) if not is_residue(name))
    return {name: path for name, path in kept if path.is_file()}


def worker_sources_hash(package: Path | None = None) -> str:
    """Content hash (64 hex digits) of worker, suites and trainers; also part of each job's fingerprint."""
    chunks: list[bytes] = []
    for name, path in worker_sources(package).items():
        chunks += [name.encode(), _read(path)]
    return digest(chunks)


def _load(
    name: str,
    folder: Path,
    raw: Mapping[str, dict[str, object]],
    families: dict[str, Family],
    below: tuple[str, ...],
) -> Family:
    if name in families:
        return families[name]
    place = folder / name / "family.toml"
    table = raw[name]
    title, preload = title_and_preload(place, table, ("parent", "archive"))
    parent, archive = table.get("parent"), table.get("archive", "")
    if not isinstance(archive, str):
        raise ConfigError(f"{place}: archive must be text: what a user must download")
    if parent is not None and (not isinstance(parent, str) or parent not in raw):
        raise ConfigError(f"{place}: parent {parent!r} is not a family; choose one of {', '.join(raw)}")
    if parent in (*below, name):
        raise ConfigError(f"{place}: parent {parent!r} makes a circle; a family stands on the base in the end")
    families[name] = Family(
        name=name,
        title=title,
        root=folder,
        dockerfile=place.parent / "Dockerfile",
        requirements=(place.parent / "requirements.txt",),
        debian=debian if (debian := place.parent / "debian.txt").is_file() else None,
        parent=_load(parent, folder, raw, families, (*below, name)) if isinstance(parent, str) else None,
        preload=preload,
        archive=archive,
    )
    return families[name]


def title_and_preload(
    place: Path, table: Mapping[str, object], more: tuple[str, ...] = ()
) -> tuple[str, tuple[str, ...]]:
    """What ``family.toml`` and ``layer.toml`` have in common, besides which they may have the keys `more`.

    Raises:
        ConfigError: an unknown key, or a value that is none; with the file.
    """
    known = ("title", *more, "preload")
    if unknown := sorted(set(table) - set(known)):
        raise ConfigError(f"{place}: unknown key {unknown[0]!r}; it knows {', '.join(known[:-1])} and {known[-1]}")
    title, preload = table.get("title"), table.get("preload", [])
    if not isinstance(title, str) or not title:
        raise ConfigError(f"{place}: title must be a text; describe it in a few words")
    if not isinstance(preload, list) or not all(
        isinstance(m, str) and m.replace(".", "_").isidentifier() for m in preload
    ):
        raise ConfigError(f"{place}: preload must be a list of module names")
    return title, tuple(preload)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise EnvironmentUnavailable(
            f"{path} of the image recipe cannot be read ({error.strerror}); reinstall the package"
        ) from error


def read_toml(path: Path) -> dict[str, object]:
    try:
        return tomllib.loads(_read(path).decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {error}; correct the file") from error
