"""The ``hf`` suite: prompts and small agents, judged on public data sets of the Hugging Face hub."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trace_bench.suites.base import Columns, MadeTasks, Suite
from trace_bench.suites.data_files import FOLDER
from trace_bench.suites.hf import described
from trace_bench.suites.splits import SPLITS

if TYPE_CHECKING:
    from trace_bench.suites.data_sets import DataCopy, DataSet


class QuestionSuite(Suite):
    """Tasks with a table ``[qa]``."""

    def completed(self, raw: Mapping[str, Any], folder: Path) -> dict[str, Any]:
        return described.described(raw)

    def needed_files(self, raw: Mapping[str, Any]) -> Iterable[str]:
        return [f"{FOLDER}/{split}/rows.jsonl" for split in SPLITS] if raw["qa"].get("rows") == "folder" else []

    def data_sets(self, tasks: Iterable[tuple[str, Mapping[str, Any]]]) -> Sequence[DataSet]:
        from trace_bench.suites.hf.fetching import wanted_by
        from trace_bench.suites.spec_tables import QaSpec

        known = ((name, QaSpec.model_validate(raw["qa"])) for name, raw in tasks if "qa" in raw)
        return wanted_by((name, qa) for name, qa in known if qa.rows == "hub")

    def data_files(self, raw: Mapping[str, Any], *, fetched: bool) -> tuple[tuple[str, bytes], ...]:
        from trace_bench.suites.hf.data import packed
        from trace_bench.suites.spec_tables import QaSpec

        return packed(QaSpec.model_validate(raw["qa"]), rows=fetched)

    def data_copies(self) -> Sequence[DataCopy]:
        from trace_bench.suites.hf import frozen

        return frozen.everything()

    def new_tasks(self, source: Path) -> MadeTasks:
        from trace_bench.suites.hf.entries import task_folders

        return task_folders(source)

    def task_of_examples(self, source: Path, columns: Columns, metric: str, seed: int, title: str) -> dict[str, str]:
        from trace_bench.suites.hf.own_examples import task_texts

        return task_texts(source, columns, metric, seed, title)


SUITE = QuestionSuite(
    name="hf",
    title="Question answering and code: public data sets of the Hugging Face hub",
    image="core",
    root="hf",
    builder="trace_bench.suites.hf.problem:build",
    tables=("qa",),
)
