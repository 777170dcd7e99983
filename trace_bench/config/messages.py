"""Turns errors of the models into sentences with key, expected and actual value, and remedy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from trace_bench.arguments import describe, hint
from trace_bench.config.llms import LlmConfig
from trace_bench.config.models import RunConfig, SandboxConfig, TaskConfig, TrainerConfig
from trace_bench.config.names import ALIASES, BARE, keys_of, section_at, sections_of
from trace_bench.config.source import Path_, Problem, Source
from trace_bench.config.values import Section

_EMPTY = "is empty; name at least one, or leave the key out if it has a default"
_NO_MAPPING = "must be a mapping of keys to values, not {value}"
_SENTENCES = {
    "value_error": "{error}",
    "literal_error": "must be {one_of}, not {value}{near}",
    "greater_than_equal": "must be at least {ge}, not {value}",
    "greater_than": "must be more than {gt}, not {value}",
    "less_than_equal": "must be at most {le}, not {value}",
    "less_than": "must be less than {lt}, not {value}",
    "too_short": _EMPTY,
    "string_too_short": _EMPTY,
    "string_type": "must be a string, not {value}{quotes}",
    "int_type": "must be a whole number, not {value}{unquoted}",
    "int_from_float": "must be a whole number, not {value}",
    "float_type": "must be a number, not {value}{unquoted}",
    "finite_number": "must be a finite number, not {value}",
    "bool_type": "must be true or false, not {value}{boolean}",
    "tuple_type": "must be a list, not {value}{list}",
    "list_type": "must be a list, not {value}{list}",
    "dict_type": _NO_MAPPING,
    "model_type": _NO_MAPPING,
    "model_attributes_type": _NO_MAPPING,
}
"""The sentence for each kind of pydantic's errors, after the key. In braces: pydantic's context, and `_remedies`."""
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
"""Settings of containers that no config can have: they would open a sandbox to the outside."""


def problems_of(source: Source, error: ValidationError) -> list[Problem]:
    """Return pydantic's errors as problems of the config."""
    # Pydantic does not count wrong entries of a list, and so also calls the list too short.
    errors = [e for e in error.errors(include_url=False) if e["type"] != "too_short" or not e["input"]]
    return [sentence(source, dict(e)) for e in errors]


def sentence(source: Source, error: Mapping[str, Any]) -> Problem:
    """Return one of pydantic's errors as a problem of the config."""
    path: Path_ = tuple(error["loc"])
    shown = source.shown(path)
    kind, value, context = error["type"], error.get("input"), error.get("ctx", {})
    if kind == "extra_forbidden":
        return source.problem(path, _unknown(source, path))
    if kind == "missing":
        needed = _NEEDED.get(tuple(part for part in path if isinstance(part, str)), "add it")
        return source.problem(path[:-1], f"{shown} is missing; {needed}")
    if kind in _SENTENCES:
        text = _SENTENCES[kind].format_map({**_remedies(value, context), "value": describe(value), **context})
    else:
        text = f"is wrong: {error['msg']}"
    return source.problem(path, f"{shown} {text}" if shown else text)


def _remedies(value: Any, context: Mapping[str, Any]) -> dict[str, str]:
    """Return the parts of sentences that depend on the value; empty where a remedy does not fit it."""
    choices = str(context.get("expected", "")).replace(" or ", ", ")
    near = hint(value, choices.replace("'", "").split(", ")) if isinstance(value, str) else ""
    word = value.strip().lower() if isinstance(value, str) else ""
    unquoted = "; take it out of quotes" if word.replace(".", "", 1).isdigit() else ""
    boolean = {"yes": "true", "on": "true", "y": "true", "no": "false", "off": "false", "n": "false"}.get(word)
    is_entry = len(value) < 40 if isinstance(value, str) else type(value) is int and abs(value) < 10**30
    return {
        "one_of": f"one of {choices}" if ", " in choices else choices,
        "near": near if "did you mean" in near else "",
        "quotes": "; put it in quotes" if isinstance(value, int | float) else "",
        "unquoted": unquoted,
        "boolean": f"; write {boolean}" if boolean else unquoted,
        "list": f"; write [{value}]" if is_entry and str(value).isprintable() else "",
    }


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
    homes: dict[str, type[Section]] = {"a task entry": TaskConfig, "a trainer entry": TrainerConfig}
    homes |= {name: other for name, other in sections_of(RunConfig).items() if name not in BARE}
    # Second names are short words (`key`, `name`, `trainer`), which are mistaken for something else more often.
    names = [name for name, other in homes.items() if other is not section and plain in other.model_fields]
    return f"; {key!r} is a key of {', '.join(names)}" if names else ""
