"""What is wrong on the way to Modal is told in one sentence, with an exit code, before anything is written."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.integration.cli import cli, environment, write_config

pytest.importorskip("modal")
from tests.modal_server.server import ModalServer

JOB: dict[str, Any] = {"tasks": ["internal:numeric_param"], "trainers": ["NoOp"], "seeds": [1]}
REGISTRY = {"image_registry": "registry.example/lab"}
TOKENS = ("MODAL_TOKEN_ID", "MODAL_TOKEN_SECRET")
WITHOUT_MODAL = """
import sys
sys.modules["modal"] = None
from trace_bench.cli import main
sys.argv[0] = "trace-bench"
sys.exit(main())
"""


@pytest.fixture(scope="module")
def server() -> Any:
    with ModalServer("process") as found:
        yield found


def config_of(folder: Path, **config: Any) -> Path:
    return write_config(folder, **{**JOB, "backend": "modal", "modal": REGISTRY, **config})


def told(folder: Path, says: str, code: int, done: Any) -> None:
    assert done.returncode == code and re.search(says, done.stderr), done.stderr
    assert done.stdout == "" and done.stderr.count("\n") == 1 and done.stderr.startswith("error: "), done.stderr
    assert not (folder / "runs").exists()


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        (
            dict.fromkeys(TOKENS),
            "Modal does not accept the credentials .*modal token set, or MODAL_TOKEN_ID and MODAL_TOKEN_SECRET",
        ),
        ({"MODAL_TOKEN_SECRET": "as-of-another"}, "Modal does not accept the credentials .*modal token set"),
    ],
    ids=["no token", "a wrong token"],
)
def test_who_is_not_known_there_is_told_how_to_be(
    server: ModalServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: dict[str, str | None], says: str
) -> None:
    for name in TOKENS:
        monkeypatch.delenv(name, raising=False)
    env = {name: value for name, value in {**server.environment, **changed}.items() if value is not None}
    done = cli("run", "--config", str(config_of(tmp_path)), home=tmp_path, **env)
    told(tmp_path, says, 3, done)
    assert "as-of-another" not in done.stderr


@pytest.mark.parametrize(
    ("config", "code", "says"),
    [
        ({"modal": {}}, 2, r"config\.json, line 1: modal.image_registry: say where .* images push core --registry"),
        ({}, 3, r"core is not in registry\.example/lab; run `.*images push core --registry registry\.example/lab`"),
        ({"sandbox": {"gpus": 1}}, 2, r"line 1: sandbox.gpus: say which GPU Modal is to give"),
    ],
    ids=["no registry", "not pushed", "no GPU named"],
)
def test_what_a_config_lacks_is_named_where_it_lacks(
    server: ModalServer, tmp_path: Path, config: dict[str, Any], code: int, says: str
) -> None:
    done = cli("run", "--config", str(config_of(tmp_path, **config)), home=tmp_path, **server.environment)
    told(tmp_path, says, code, done)


def test_without_the_package_it_says_how_to_have_it(server: ModalServer, tmp_path: Path) -> None:
    """The package is hidden; that needs no environment without it."""
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_MODAL, "run", "--config", str(config_of(tmp_path))],
        capture_output=True, text=True, check=False, env=environment(tmp_path, **server.environment),
    )  # fmt: skip
    told(tmp_path, r"pip install 'trace-bench\[modal\]'", 3, done)
