"""Write the page of the reference about all schemas, ``docs/reference/schemas.md``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from trace_bench.config.described import measure_of, measure_text

Schema = Mapping[str, Any]
_HEAD = """# Schemas

<!-- Written by `python -m trace_bench.artifacts.schema --write`, from the models. Change the docstrings there. -->

Every file of a run has a JSON Schema (draft 2020-12). `trace-bench schema NAME` prints it, with an example; the files
are in `schemas/`. [Files of a run](files.md) names the schema of each file. A [config](config.md) has a schema too,
`config`, for [editors](config.md#in-an-editor). Unknown properties are refused, and numbers are finite.

**Unit** is the unit of a number, and of each number in a list or mapping. An evaluation runs one candidate on one
example. A score is in the natural unit of its task; `score_direction` of the job says whether higher or lower is
better. Properties marked * are required.
"""
_NAMES = {"integer": "integer", "number": "number", "string": "text", "boolean": "true, false", "null": "null"}


def page(schemas: Mapping[str, Schema], table: Schema) -> str:
    """The text of the page.

    Args:
        schemas: each schema by its name.
        table: the table schema of ``results.csv``.
    """
    parts = _Parts(schemas)
    lines = [_HEAD, "## results.csv", "", f"{table['description']} Rows fit the schema [results](#results).", ""]
    lines += ["| column | type | unit | meaning |", "|---|---|---|---|"]
    lines += [_row(f"`{field['name']}`", _column_type(field), field) for field in table["fields"]]
    for name, schema in schemas.items():
        lines += ["", f"## {name}", "", f"Schema of {schema['title']}.", ""]
        lines += ["The properties are the columns above."] if name == "results" else parts.lines(name, schema)
    for name, owner, part in parts.all():
        lines += ["", f"### {name}", "", part.get("description", ""), "", *parts.lines(owner, part)]
    return "\n".join(lines).rstrip("\n") + "\n"


class _Parts:
    """The parts that schemas have in common, and their headings."""

    def __init__(self, schemas: Mapping[str, Schema]) -> None:
        self._found: dict[str, tuple[str, Schema]] = {}
        self._names: dict[tuple[str, str], str] = {}
        for owner, schema in schemas.items():
            for name, part in schema.get("$defs", {}).items():
                known = self._found.get(name)
                title = name if known is None or known[1] == part else f"{name} of {owner}"
                self._found.setdefault(title, (owner, part))
                self._names[owner, name] = title

    def all(self) -> Iterator[tuple[str, str, Schema]]:
        """Heading, owner and schema of each part that is an object, by heading."""
        for title, (owner, part) in sorted(self._found.items()):
            if "properties" in part:
                yield title, owner, part

    def lines(self, owner: str, schema: Schema) -> list[str]:
        """The table of the properties of `schema`, a part of the schema `owner`."""
        if "properties" not in schema:
            return [f"Type: {self._type(owner, schema)}."]
        required = schema.get("required", ())
        rows = [
            _row(f"`{name}`{'*' if name in required else ''}", self._type(owner, value), value)
            for name, value in schema["properties"].items()
        ]
        return ["| property | type | unit | meaning |", "|---|---|---|---|", *rows]

    def _type(self, owner: str, value: Schema) -> str:
        if "$ref" in value:
            title = self._names[owner, name := value["$ref"].rpartition("/")[2]]
            part = self._found[title][1]
            if "properties" in part:
                return f"[{title}](#{title.lower().replace(' ', '-')})"
            return self._type(owner, part) if part else "any" if name == "JsonValue" else name
        if "enum" in value:
            return ", ".join(f"`{word}`" for word in value["enum"])
        if "const" in value:
            return f"`{value['const']}`"
        if "anyOf" in value:
            return " or ".join(dict.fromkeys(self._type(owner, kind) for kind in value["anyOf"]))
        match value.get("type"):
            case "array":
                items: Schema = value.get("items") or next(iter(value.get("prefixItems", ())), {})
                return f"list of {self._type(owner, items)}"
            case "object":
                inner = value.get("additionalProperties")
                return f"mapping of {self._type(owner, inner)}" if isinstance(inner, dict) else "mapping"
            case str(kind):
                return _NAMES[kind]
        return "any"


def _column_type(field: Schema) -> str:
    words = field.get("constraints", {}).get("enum")
    if words:
        return ", ".join(f"`{word}`" for word in words)
    return "JSON" if field["type"] == "object" else _NAMES[field["type"]]


def _row(name: str, kind: str, value: Schema) -> str:
    measure = dict(measure_of(value))
    text = value.get("description", "").removesuffix(measure_text(measure))
    unit = measure.pop("unit", "")
    return "| " + " | ".join(_cell(part) for part in (name, kind, unit, text + measure_text(measure))) + " |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
