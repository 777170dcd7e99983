"""JSON Schemas with a description of each property, taken from the docstring below the field of its model.

Pydantic's own option for this (``use_attribute_docstrings``) parses sources whenever the models are imported, and makes
the import of the records a third longer. Here they are parsed when a schema is made.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Mapping
from functools import cache
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core.core_schema import ModelSchema


def field_docstrings(model: type[BaseModel]) -> dict[str, str]:
    """The docstring below each field of `model`, base classes included; each a single line."""
    texts: dict[str, str] = {}
    for kind in reversed(model.__mro__):
        if issubclass(kind, BaseModel) and kind is not BaseModel:
            texts |= _docstrings(kind.__module__).get(kind.__name__, {})
    return texts


@cache
def _docstrings(module: str) -> Mapping[str, Mapping[str, str]]:
    """The docstrings below the fields of the classes of `module`, by class and field."""
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    return {node.name: _below_fields(node) for node in tree.body if isinstance(node, ast.ClassDef)}


def _below_fields(node: ast.ClassDef) -> dict[str, str]:
    texts: dict[str, str] = {}
    for field, below in zip(node.body, node.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(below, ast.Expr):
            match below.value:
                case ast.Constant(value=str(text)):
                    texts[field.target.id] = " ".join(text.replace("``", "`").split())
    return texts


def measure_of(value: Mapping[str, Any]) -> Mapping[str, str]:
    """``unit`` and ``better`` of the numbers in the property `value`: its own, or those of its parts."""
    if "unit" in value:
        return {key: value[key] for key in ("unit", "better") if key in value}
    parts = [value.get("items"), value.get("additionalProperties")]
    parts += [*value.get("anyOf", ()), *value.get("prefixItems", ())]
    return next((found for part in parts if isinstance(part, dict) and (found := measure_of(part))), {})


class DescribedSchema(GenerateJsonSchema):
    """Adds the docstrings of fields, and the units of numbers, to the descriptions of properties."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        """Leave out titles: they repeat the name of the property in other letters."""
        return False

    def model_schema(self, schema: ModelSchema) -> dict[str, Any]:
        """The schema of one model."""
        made = super().model_schema(schema)
        made["description"] = " ".join((inspect.getdoc(schema["cls"]) or "").replace("``", "`").split())
        texts = field_docstrings(schema["cls"])
        for name, field in schema["cls"].model_fields.items():
            value = made["properties"][field.alias or name]
            text = value.get("description") or texts.get(name, "")
            if text:
                value["description"] = text + measure_text(measure_of(value))
        return made


def measure_text(measure: Mapping[str, str]) -> str:
    """The sentences about a `measure` that end a description; empty without one."""
    return "".join(f" {key.capitalize()}: {measure[key]}." for key in ("unit", "better") if key in measure)
