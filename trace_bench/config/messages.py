"""Turns what the models find wrong into sentences that name the key, say what was expected, and how to repair
it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trace_bench.arguments import describe, hint
from trace_bench.config.llms import LlmConfig
from trace_bench.config.models import RunConfig, SandboxConfig, TaskConfig, TrainerConfig
from trace_bench.config.names import ALIASES, SECTIONS, keys_of, section_at
from trace_bench.config.source import Path_, Problem, Source
from trace_bench.config.values import Section

_BOUNDS = {
    "greater_than_equal": ("ge", "at least"),
    "greater_than": ("gt", "more than"),
    "less_than_equal": ("le", "at most"),
    "less_than": ("lt", "less than"),
}
_NOUNS = {
    "string_type": "a string",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "list_type": "a list",
    "dict_type": "a mapping of keys to values",
    "model_type": "a mapping of keys to values",
    "model_attributes_type": "a mapping of keys to values",
    "finite_number": "a finite number",
}
_NEEDED = {
    ("tasks",): "a config names at least one task",
    ("tasks", "id"): "a task entry names its task, such as 'id: internal:numeric_param'",
    ("trainers", "id"): "a trainer entry names its trainer, such as 'id: PrioritySearch'",
}

_NEVER = frozenset((
    "privileged", "network", "network_mode", "networks", "ports", "dns", "extra_hosts", "pid", "pid_mode", "ipc",
    "ipc_mode", "uts", "uts_mode", "userns", "userns_mode", "cgroup", "cgroupns_mode", "cgroup_parent",
    "security_opt", "seccomp", "apparmor", "no_new_privileges", "cap_add", "cap_drop", "capabilities", "devices",
    "device_requests", "device_cgroup_rules", "volumes", "volumes_from", "mounts", "mount", "binds", "bind",
    "docker_sock", "socket", "user", "group_add", "env", "environment", "env_file", "read_only", "init",
    "oom_kill_disable", "oom_score_adj", "restart", "sysctls", "ulimits", "shm_size", "entrypoint", "command",
))  # fmt: skip
"""What containers can be given elsewhere. Here no config asks for it: it would let a job out, or others in."""


def sentence(source: Source, error: Mapping[str, Any]) -> Problem:
    """One of pydantic's errors as a problem of the config."""
    path: Path_ = tuple(error["loc"])
    shown = source.shown(path)
    kind, value, context = error["type"], error.get("input"), error.get("ctx", {})
    text: str
    if kind == "extra_forbidden":
        return source.problem(path, _unknown(source, path))
    if kind == "missing":
        needed = _NEEDED.get(tuple(part for part in path if isinstance(part, str)), "add it")
        text = f"is missing; {needed}"
        return source.problem(path[:-1], f"{shown} {text}")
    if kind == "value_error":
        text = str(context["error"])
    elif kind == "literal_error":
        text = f"must be {_one_of(context['expected'])}, not {describe(value)}"
        if isinstance(value, str):
            near = hint(value, context["expected"].replace("'", "").replace(" or ", ", ").split(", "))
            text += near if "did you mean" in near else ""
    elif kind in _BOUNDS:
        key, words = _BOUNDS[kind]
        text = f"must be {words} {context[key]}, not {describe(value)}"
    elif kind in ("too_short", "string_too_short"):
        text = "is empty; name at least one, or leave the key out if it has a default"
    elif kind in _NOUNS:
        text = f"must be {_NOUNS[kind]}, not {describe(value)}"
        text += _remedy(kind, value, path)
    else:
        text = f"is wrong: {error['msg']}"
    return source.problem(path, f"{shown} {text}" if shown else text)


def _unknown(source: Source, path: Path_) -> str:
    *above, key = path
    section = section_at(tuple(above)) or RunConfig
    if section is SandboxConfig and str(key).replace("-", "_").lower() in _NEVER:
        return (
            f"{source.shown(path)}: rights, namespaces, networks, mounts, devices and settings of a sandbox are fixed; "
            "take it out (sandbox.allow_weaker names the controls that can be given up)"
        )
    if (section, key) == (LlmConfig, "dspy_model"):  # of the Trace-Bench prototype
        return f"unknown key {source.shown(path)!r}; DSPyTrainer asks llm.model, as all trainers do: delete it"
    return f"unknown key {source.shown(path)!r}{_elsewhere(str(key), section) or _nearest(str(key), section)}"


def _nearest(key: str, section: type[Section]) -> str:
    """The nearest key of `section`. A second name of a key is suggested only where no first name is near."""
    every = keys_of(section)
    first = hint(key, [name for name in every if name not in ALIASES.get(section, {})])
    return first if "did you mean" in first else hint(key, every)


def _elsewhere(key: str, section: type[Section]) -> str:
    """The message about a key that is spelt right and stands in the wrong place."""
    plain = key.replace("-", "_")
    if section is not RunConfig and plain in keys_of(RunConfig):
        return f"; {key!r} is a key of the top level"
    homes: dict[str, type[Section]] = {"a task entry": TaskConfig, "a trainer entry": TrainerConfig, **SECTIONS}
    # Second names are short words (`key`, `name`, `trainer`), which are mistaken for something else more often.
    home = next((name for name, other in homes.items() if other is not section and plain in other.model_fields), None)
    return f"; {key!r} is a key of {home}" if home else ""


def _one_of(expected: str) -> str:
    return expected if " or " not in expected else f"one of {expected.replace(' or ', ', ')}"


def _remedy(kind: str, value: Any, path: Path_) -> str:
    if kind == "string_type" and isinstance(value, int | float):
        return "; put it in quotes"
    if kind in ("int_type", "float_type", "bool_type") and isinstance(value, str):
        if kind == "bool_type" and value.lower() in ("yes", "no", "on", "off", "y", "n"):
            return f"; write {'true' if value.lower() in ('yes', 'on', 'y') else 'false'}"
        return "; take it out of quotes" if value.strip().replace(".", "", 1).isdigit() else ""
    if kind in ("tuple_type", "list_type") and not isinstance(value, dict):
        is_plain = isinstance(value, str | int) and len(str(value)) < 40 and str(value).isprintable()
        return f"; write [{value}]" if is_plain and not isinstance(value, bool) else ""
    return ""
