"""What ``scripts/check-modal`` says of backends that do, and do not, what they should."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.integration.cli import REPOSITORY, write_config
from tests.sandbox.conformance import CHECKS
from trace_bench.cli import check_modal
from trace_bench.cli.check_modal import FIRST, main
from trace_bench.sandbox.base import Sandbox
from trace_bench.sandbox.local import LocalBackend, LocalSandbox

FEW = ("exit_codes_come_back", "find_works_by_labels_in_every_state")


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TRACE_BENCH_STATE_DIR", str(tmp_path / "sandboxes"))
    monkeypatch.setattr(check_modal, "FIRST", FEW)
    monkeypatch.setattr(check_modal, "SETTLING", 0.5)
    return write_config(tmp_path, tasks=["internal:numeric_param"], modal={"app": "ours"})


def _tried(config: Path, backend: Any, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(check_modal, "backend_of", lambda found: backend)
    return main(["--config", str(config), "--image", "none", "--minutes", "0", "--no-job"])


def test_the_essential_checks_are_checks_of_every_backend() -> None:
    assert set(FIRST) <= {check.name for check in CHECKS}
    script = (REPOSITORY / "scripts" / "check-modal").read_text()
    assert "trace_bench.cli.check_modal" in script


def test_a_backend_that_works_gets_a_good_verdict(
    config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _tried(config, LocalBackend(), monkeypatch) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("ok      account: ") and lines[1].startswith("ok      image: none")
    assert any(line.startswith("skipped control network") for line in lines), "it is no sandbox, and says so"
    assert [line for line in lines if FEW[0] in line] == [f"ok      {FEW[0]}"]
    assert f"skipped {len(CHECKS) - len(FEW)} further checks: the time is up; give --minutes more" in lines
    assert lines[-1].startswith("verdict: jobs run on this account")


def test_what_stays_behind_and_what_fails_is_in_the_verdict(
    config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Clinging(LocalBackend):
        """Removes nothing."""

        def create(self, request: Any) -> Sandbox:
            sandbox = super().create(request)
            monkeypatch.setattr(LocalSandbox, "remove", lambda _: None)
            return sandbox

    remove = LocalSandbox.remove
    try:
        assert _tried(config, Clinging(), monkeypatch) == 3
    finally:
        monkeypatch.setattr(LocalSandbox, "remove", remove)
        for sandbox in LocalBackend().find({}):
            sandbox.kill()
            sandbox.remove()
    out = capsys.readouterr().out
    assert "FAILED  nothing is left: AssertionError: " in out and "are still listed" in out
    assert out.splitlines()[-1].startswith("verdict: do not trust it: ") and "nothing is left" in out.splitlines()[-1]


def test_without_an_image_nothing_is_tried(
    config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(check_modal, "backend_of", lambda found: LocalBackend())
    monkeypatch.setattr("sys.argv", ["check-modal", "--config", str(config)])
    assert check_modal.guarded() == 2
    assert "image_registry" in capsys.readouterr().err
