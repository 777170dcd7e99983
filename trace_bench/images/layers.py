"""Layers that trainers add to the family of a task: ``core+gepa`` is the family `core` with the layer `gepa` on top.

A layer is a folder of ``images/layers/`` with hashed requirements. An installed distribution that has trainers is added
by its name: ``core+acme-search`` (see `plugins`). Nothing that is added may change a package of what it stands on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from trace_bench.errors import ConfigError
from trace_bench.images.plugins import OPENTRACE, opentrace, plugin_named
from trace_bench.images.recipe import Family, load_families, read_toml, title_and_preload
from trace_bench.images.wheels import Pin, Target, read_pins

FOLDER = "layers"


@dataclass(frozen=True)
class Layer:
    """One folder of ``images/layers/``.

    Attributes:
        dockerfile: its own, else the one that all layers share.
    """

    name: str
    title: str
    dockerfile: Path
    requirements: Path
    preload: tuple[str, ...]


def load_layers(root: Path) -> dict[str, Layer]:
    """All layers of the recipes at `root` (the folder ``images/``), by name, in alphabetical order.

    Raises:
        ConfigError: a ``layer.toml`` is wrong; the message names file and key.
    """
    layers = {}
    for place in sorted((root / FOLDER).glob("*/layer.toml")):
        folder = place.parent
        title, preload = title_and_preload(place, read_toml(place))
        own = folder / "Dockerfile"
        layers[folder.name] = Layer(
            name=folder.name,
            title=title,
            dockerfile=own if own.is_file() else root / FOLDER / "Dockerfile",
            requirements=folder / "requirements.txt",
            preload=preload,
        )
    return layers


def family_named(name: str, root: Path | None = None) -> Family:
    """The family `name`, with what is added to it: ``core``, ``core+gepa`` …

    Raises:
        ConfigError: there is none of that name, or no such addition.
    """
    head, *additions = name.split("+")
    families = load_families(root)
    if head not in families:
        raise ConfigError(f"unknown image family {head!r}; choose one of {', '.join(families)}")
    family = families[head]
    if len(set(additions)) < len(additions):
        raise ConfigError(f"the image family {name!r} names an addition twice; name each once")
    layers = load_layers(family.root) if additions else {}
    for addition in additions:
        family = _with(family, addition, layers)
    return family


def _with(family: Family, addition: str, layers: Mapping[str, Layer]) -> Family:
    name = f"{family.name}+{addition}"
    plugin = plugin_named(addition)
    layer = layers.get(addition)
    if layer is not None and plugin is not None:
        raise ConfigError(f"the installed package {addition} has the name of an image layer; rename the package")
    if layer is not None:
        brought = opentrace() if layer.name == OPENTRACE else None
        return replace(
            family,
            name=name,
            title=f"{family.title}; {layer.title}{f' {brought.version}' if brought else ''}",
            dockerfile=layer.dockerfile,
            requirements=(layer.requirements,),
            parent=family,
            preload=tuple(dict.fromkeys((*family.preload, *layer.preload))),
            plugin=brought,
        )
    if plugin is None:
        raise ConfigError(
            f"image family {name!r}: {addition!r} is neither a layer ({', '.join(layers)}) nor an installed package "
            "with trainers"
        )
    return replace(
        family,
        name=name,
        title=f"{family.title}; package {plugin.name} {plugin.version}",
        dockerfile=family.root / FOLDER / "Dockerfile",
        requirements=plugin.requirements,
        parent=family,
        plugin=plugin,
    )


def added_pins(family: Family, target: Target) -> list[Pin]:
    """The pins that `family` installs on `target` in addition to those of its base.

    Raises:
        EnvironmentUnavailable: a file holds something that is not pinned with hashes.
        ConfigError: it would install another version of what is there.
    """
    there: dict[str, tuple[Pin, str]] = {}
    added: list[Pin] = []
    for member in family.lineage:
        for path in member.requirements:
            for pin in read_pins(path):
                if not target.fits(pin):
                    continue
                known, owner = there.setdefault(pin.key, (pin, member.name))
                if known.version != pin.version:
                    raise ConfigError(
                        f"{path} pins {pin.name}=={pin.version}, but {known.version} is what {owner} has, on which it "
                        f"stands; pin that version"
                    )
                if known is pin and member is family:
                    added.append(pin)
    return added
