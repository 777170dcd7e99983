"""The JSON Schema of a config file, by which editors complete and check it.

It has every name of a key and every short form that `trace_bench.config.names` turns into the form of the models. It
refuses no config that the loader takes. The loader refuses more: what tasks and trainers do not know, and keys that
contradict each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trace_bench.config.described import DescribedSchema
from trace_bench.config.models import RunConfig
from trace_bench.config.names import ALIASES, BARE, OBJECTIVES, SINGLE, knobs_of, sections_of
from trace_bench.config.values import Section

Json = dict[str, Any]


def config_file_schema() -> Json:
    """The schema, without ``$schema``, ``$id`` and title."""
    made = RunConfig.model_json_schema(schema_generator=DescribedSchema)
    _short_forms(made)
    _other_names(made, RunConfig, "#")
    for section in inner_sections(RunConfig):
        _other_names(made["$defs"][section.__name__], section, f"#/$defs/{section.__name__}")
    return made


def inner_sections(section: type[Section]) -> set[type[Section]]:
    """Return all sections inside `section`, at any depth."""
    below = set(sections_of(section).values())
    return below.union(*map(inner_sections, below))


def _short_forms(made: Json) -> None:
    """Add what may stand in place of a list or a mapping to the properties of the whole."""
    properties = made["properties"]
    for name in BARE:
        bare = {"type": "string", "description": "The same as a mapping with this `model` or `id` alone."}
        properties[name]["items"] = {"anyOf": [bare, properties[name]["items"]]}
    del properties["seeds"]["minItems"]  # none are the default, with a warning
    _or(properties["objective"], {"enum": list(OBJECTIVES)})
    mirrors = made["$defs"]["MirrorsConfig"]["properties"]
    names = {"enum": list(mirrors)}
    _or(properties["mirrors"], names, {"type": "array", "items": names})


def _or(value: Json, *others: Json) -> None:
    """Let the property `value`, which refers to a section, be one of `others` too."""
    value["anyOf"] = [*others, {"$ref": value.pop("$ref")}]


def _other_names(part: Json, section: type[Section], place: str) -> None:
    """Add second names, knobs and names with hyphens to the schema `part` of `section`, which is at `place`."""
    properties: dict[str, Json] = part["properties"]
    properties.pop("knobs", None)
    required = part.pop("required", [])
    _correct(properties)
    names = {key: [key] for key in properties}
    for other, key in ALIASES.get(section, {}).items():
        properties[other] = _second_name(properties[key], key, single=other in SINGLE)
        names[key].append(other)
    scope = "for all trainers that take it" if section is RunConfig else "for all variants of this entry"
    properties |= {knob: {"description": f"Trainer parameter `{knob}`, {scope}."} for knob in knobs_of(section)}
    written = {name: name.replace("_", "[_-]") for name in properties}
    hyphens = {f"^(?!{name}$){pattern}$": name for name, pattern in written.items() if "_" in name}
    if hyphens:
        part["patternProperties"] = {key: {"$ref": f"{place}/properties/{name}"} for key, name in hyphens.items()}
    if plain := [key for key in required if len(names[key]) == 1]:
        part["required"] = plain
    if rules := [_one_of(group, group[0] in required) for group in names.values() if len(group) > 1]:
        part["allOf"] = rules


def _correct(properties: dict[str, Json]) -> None:
    """Remove defaults of whole sections, whose keys have their own, and place bounds that pydantic leaves beside the
    kinds of a value."""
    for value in properties.values():
        if "ge" in value:
            value["anyOf"][0]["minimum"] = value.pop("ge")
        if isinstance(value.get("default"), Mapping | list) and "$ref" in str(value):
            del value["default"]


def _second_name(value: Json, key: str, *, single: bool) -> Json:
    text = f"Another name of `{key}`. {value['description']}"
    if not single:
        return {**value, "description": text}
    whole = {name: item for name, item in value.items() if name not in ("description", "default")}
    return {"description": f"{text} It may be one entry without a list.", "anyOf": [value["items"], whole]}


def _one_of(names: list[str], required: bool) -> Json:
    """Of several names of one key, one is given: exactly one if the key is `required`, else at most one."""
    given: list[Json] = [{"required": [name]} for name in names]
    return {"oneOf": given if required else [*given, {"not": {"anyOf": given}}]}
