"""Scripts of a config: part of what a job is by their content, kept in the run, refused in one sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.execution.bench import Bench
from trace_bench.artifacts.layout import RunLayout
from trace_bench.config import load_config
from trace_bench.config.models import RunConfig
from trace_bench.errors import ConfigError
from trace_bench.execution.providers import providers_of
from trace_bench.matrix import models_of
from trace_bench.planning.scripts import with_scripts, write_scripts

RULES = "default: {text: hello}\n"


def script(path: Path, text: str = RULES) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


def completed(bench: Bench, **config: Any) -> RunConfig:
    return with_scripts(bench.load(**config))


def test_a_model_is_its_script_and_not_where_that_lies(bench: Bench, tmp_path: Path) -> None:
    one, same = script(tmp_path / "a" / "s.yaml"), script(tmp_path / "b" / "s.yaml")
    other = script(tmp_path / "c" / "s.yaml", RULES + "# changed\n")
    a, b, c = (models_of(completed(bench, llm={"model": f"scripted:{path}"})) for path in (one, same, other))
    assert a == b != c
    (identity,) = a
    assert (identity["id"], identity["provider"]) == ("scripted:s", "scripted")
    (named,) = models_of(completed(bench, llm={"model": f"scripted:{one}", "id": "mine"}))
    assert named["id"] == "mine" and named["sampling"] == identity["sampling"]


def test_a_scripted_model_in_mode_stub_is_used_without_a_warning(bench: Bench, tmp_path: Path) -> None:
    config = completed(bench, llm={"model": f"scripted:{script(tmp_path / 's.yaml')}"})
    with providers_of(config, {}) as providers:
        assert config.warnings == () and list(providers) == ["stub", "scripted:s"]
    assert "not used in mode stub" in bench.load(llm={"model": "m"}).warnings[0]
    assert completed(bench, llm={"model": "m"}).warnings, "what the config has to say is not lost"


def test_models_beside_each_other_have_jobs_of_their_own(bench: Bench, tmp_path: Path) -> None:
    models = ["stub", f"scripted:{script(tmp_path / 'a.yaml')}", f"scripted:{script(tmp_path / 'b.yaml')}"]
    config = completed(bench, llms=models)
    assert [model["id"] for model in models_of(config)] == ["stub", "scripted:a", "scripted:b"]
    with pytest.raises(ConfigError, match=r"llms\[1\] is 'gpt', but mode stub asks no provider"):
        completed(bench, llms=["stub", "gpt"])


def test_a_run_keeps_its_scripts_and_its_snapshot_runs_without_the_file(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = script(tmp_path / "s.yaml")
    config = with_scripts(bench.load(tasks=["internal:numeric_param"], llm={"model": f"scripted:{path}"}))
    monkeypatch.setattr(bench, "load", lambda **_: config)
    result = bench.run()
    assert result.ok and {row.model for row in result.rows} == {"scripted:s"}
    (kept,) = (result.layout.meta / "scripts").iterdir()
    assert kept.read_text() == RULES
    path.unlink()
    again = with_scripts(load_config(result.layout.config_snapshot))
    assert models_of(again) == models_of(config)
    write_scripts(again, RunLayout(tmp_path / "copy").make())
    assert (tmp_path / "copy" / "meta" / "scripts" / kept.name).read_text() == RULES


def test_a_script_that_changes_under_a_run_is_refused(bench: Bench, tmp_path: Path) -> None:
    path = script(tmp_path / "s.yaml")
    config = completed(bench, llm={"model": f"scripted:{path}"})
    path.write_text(RULES + "#\n")
    with pytest.raises(ConfigError, match=r"s\.yaml: this script has been changed"), providers_of(config, {}):
        pass


def test_mistakes_are_told_before_anything_is_planned(bench: Bench, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"llm\.model: the script .*none\.yaml does not exist; check its path"):
        completed(bench, llm={"model": f"scripted:{tmp_path / 'none.yaml'}"})
    with pytest.raises(ConfigError, match=r"s\.yaml, line 1: unknown key 'rule'; did you mean 'rules'"):
        completed(bench, llm={"model": f"scripted:{script(tmp_path / 's.yaml', 'rule: []')}"})
    with pytest.raises(ConfigError, match=r"llm\.options: a script takes no 'api_version'"):
        completed(bench, llm={"model": f"scripted:{script(tmp_path / 's.yaml')}", "options": {"api_version": "1"}})


def test_a_replay_does_not_need_rules_that_can_be_read(bench: Bench, tmp_path: Path) -> None:
    """A recorded run may have used keys of an earlier version."""
    older = script(tmp_path / "s.yaml", "default: {sequence: [a, b]}\n")
    llm = {"model": f"scripted:{older}"}
    with pytest.raises(ConfigError, match=r"s\.yaml, line 1: unknown key 'default\.sequence'"):
        completed(bench, llm=llm)
    config = bench.load(llm=llm).model_copy(update={"mode": "replay"})
    assert models_of(with_scripts(config))[0]["id"] == "scripted:s"


def test_a_shipped_script_is_found_from_any_folder(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    config = completed(bench, llm={"model": "scripted:configs/scripted/towards_best.yaml"})
    assert [model["id"] for model in models_of(config)] == ["scripted:towards_best"]
