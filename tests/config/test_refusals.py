"""What would let a job out of its sandbox is no setting: no config can ask for it, in whatever words."""

from __future__ import annotations

from pathlib import Path

import pytest

from trace_bench.config import load_config
from trace_bench.config.messages import _NEVER
from trace_bench.config.models import SandboxConfig
from trace_bench.errors import ConfigError, ExitCode
from trace_bench.sandbox.base import SandboxRequest

TASKS = "tasks: [internal:numeric_param]\n"
WEAKER = [
    "privileged: true",
    "network: host",
    "network-mode: bridge",
    "pid_mode: host",
    "ipc: host",
    "uts: host",
    "userns_mode: host",
    "security_opt: [seccomp=unconfined]",
    "seccomp: unconfined",
    "apparmor: unconfined",
    "cap_add: [SYS_ADMIN]",
    "devices: [/dev/kvm]",
    "volumes: ['/var/run/docker.sock:/var/run/docker.sock']",
    "mounts: [{source: /, target: /host}]",
    "binds: ['/:/host']",
    "user: root",
    "env: {OPENAI_API_KEY: x}",
    "read_only: false",
    "restart: always",
    "command: [sh]",
]


def refused(tmp_path: Path, text: str) -> str:
    path = tmp_path / "config.yaml"
    path.write_text(TASKS + text)
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    assert caught.value.exit_code == ExitCode.USAGE
    return str(caught.value)


@pytest.mark.parametrize("setting", WEAKER)
def test_what_no_config_can_ask_for(tmp_path: Path, setting: str) -> None:
    key = setting.partition(":")[0]
    for text, line in (
        (f"sandbox:\n  {setting}\n", 3),
        (f"task_entry: 1\nsandbox: {{{setting}}}\n", 3),
    ):
        said = refused(tmp_path, text)
        assert f"line {line}: sandbox.{key}: rights, namespaces" in said and "take it out" in said
        assert "Traceback" not in said


def test_nor_can_the_entry_of_a_task(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("tasks:\n  - id: internal:numeric_param\n    sandbox:\n      privileged: true\n")
    with pytest.raises(ConfigError, match=r"line 4: tasks\[0\].sandbox.privileged: rights, namespaces.*; take it out"):
        load_config(path)


def test_what_is_refused_is_no_setting() -> None:
    """Neither in the config nor in what a backend is asked for."""
    assert not _NEVER & SandboxConfig.model_fields.keys()
    assert not (_NEVER - {"command"}) & SandboxRequest.__dataclass_fields__.keys()  # the command is the worker's
