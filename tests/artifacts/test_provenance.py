"""What is recorded of the machine; secrets are not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from trace_bench.artifacts import schema
from trace_bench.artifacts.provenance import PACKAGES, capture_env, capture_git


def test_secrets_are_masked_whole_and_counts_of_tokens_are_not() -> None:
    secret = "sk-very-secret"
    env = capture_env(
        {
            "OPENAI_API_KEY": secret,
            "HF_TOKEN": secret,
            "MODAL_TOKEN_SECRET": secret,
            "TRACE_BENCH_MAX_TOKENS": "4096",
            "TRACE_TOKENIZER": "x",
            "OPENAI_BASE_URL": f"https://user:{secret}@example.org/v1",
            "TRACE_CUSTOMLLM_URL": f"https://example.org/v1?api-key={secret}&version=1",
            "HOME": "/root",
            "UNRELATED_API_KEY": secret,
        },
        backend={"engine": "20.10"},
    )
    assert env.env == {
        "HF_TOKEN": "***",
        "MODAL_TOKEN_SECRET": "***",
        "OPENAI_API_KEY": "***",
        "OPENAI_BASE_URL": "https://***@example.org/v1",
        "TRACE_BENCH_MAX_TOKENS": "4096",
        "TRACE_CUSTOMLLM_URL": "https://example.org/v1?api-key=***&version=1",
        "TRACE_TOKENIZER": "x",
    }
    assert secret not in env.model_dump_json()
    assert "pydantic" in env.packages
    schema.validate("env", env.model_dump(mode="json"))


def test_git_state_is_recorded(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        command = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@example.org", *arguments]
        subprocess.run(command, check=True, capture_output=True)

    assert capture_git(tmp_path).commit is None
    git("init", "-b", "main")
    (tmp_path / "a").write_text("1")
    git("add", "a")
    git("commit", "-m", "first")
    clean = capture_git(tmp_path)
    assert clean.commit is not None
    assert len(clean.commit) == 40
    assert (clean.branch, clean.dirty) == ("main", False)
    (tmp_path / "a").write_text("2")
    assert capture_git(tmp_path).dirty is True


def test_what_a_package_says_of_itself_is_read_once_a_process() -> None:
    program = (
        "import importlib.metadata as metadata\n"
        "asked, inner = [], metadata.version\n"
        "metadata.version = lambda name: asked.append(name) or inner(name)\n"
        "from trace_bench.artifacts.provenance import package_versions\n"
        "print(package_versions() == package_versions() != {}, len(asked))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", str(len(PACKAGES))]
