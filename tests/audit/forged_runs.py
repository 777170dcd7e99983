"""Ways of tampering with what a run is: its jobs, its lock, its config, limits and controls, its tables and files."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from typing import Any

from tests.audit.forger import Forger, Forgery, forgery

RUN_FORGERIES: list[Forgery] = []
finds: Callable[..., Any] = partial(forgery, RUN_FORGERIES)


# -------------------------------------------------------------------------------------------------------------- jobs


@finds("tables.manifest", "")
def a_job_that_is_gone(forger: Forger) -> None:
    shutil.rmtree(forger.failed.root)
    forger.tables()


@finds("identity.matrix", "")
def a_bad_seed_that_is_hidden(forger: Forger) -> None:
    """With its entry in the manifest, and its lines in the journal."""
    shutil.rmtree(forger.failed.root)
    job_id = forger.failed.job_id
    with forger.json(forger.run.manifest) as manifest:
        manifest["jobs"] = [entry for entry in manifest["jobs"] if entry["job_id"] != job_id]
    with forger.lines(forger.run.events) as events:
        events[:] = [line for line in events if line.get("job_id") != job_id]
    forger.tables()


@finds("identity.config", "config_hash")
def all_of_a_seed_that_is_hidden_and_the_config_changed(forger: Forger) -> None:
    with forger.json(forger.run.manifest) as manifest:
        gone = {entry["job_id"] for entry in manifest["jobs"] if entry["seed"] == 2}
        manifest["jobs"] = [entry for entry in manifest["jobs"] if entry["job_id"] not in gone]
    for job_id in gone:
        shutil.rmtree(forger.run.job(job_id).root)
    with forger.lines(forger.run.events) as events:
        events[:] = [line for line in events if line.get("job_id") not in gone]
    with forger.yaml(forger.run.config_snapshot) as config:
        config["seeds"] = [1]
    forger.tables()


@finds("files.places", "0" * 12)
def a_job_that_was_put_in(forger: Forger) -> None:
    """Of the best one, under a name that no job has."""
    shutil.copytree(forger.good.root, forger.run.job("0" * 12).root)
    for path in (forger.run.job("0" * 12).meta, forger.run.job("0" * 12).results):
        with forger.json(path) as value:
            value["job_id"] = "0" * 12


@finds("identity.job_ids", "0" * 12)
def a_job_that_was_put_in_and_planned(forger: Forger) -> None:
    a_job_that_was_put_in(forger)
    with forger.json(forger.run.manifest) as manifest:
        (entry,) = [entry for entry in manifest["jobs"] if entry["job_id"] == forger.good.job_id]
        manifest["jobs"].append({**entry, "job_id": "0" * 12})
    forger.tables()


@finds("files.places", "job_id")
def a_job_in_the_place_of_another(forger: Forger) -> None:
    shutil.rmtree(forger.other.root)
    shutil.copytree(forger.good.root, forger.other.root)


@finds("files.places", "run_id")
def a_job_of_another_run(forger: Forger) -> None:
    forger.meta(run_id="20260102-030405-another")
    forger.row(run_id="20260102-030405-another")
    forger.tables()


@finds("files.places", "job_id")
def rows_of_two_jobs_that_are_swapped(forger: Forger) -> None:
    one, two = forger.good.results.read_bytes(), forger.other.results.read_bytes()
    forger.good.results.write_bytes(two)
    forger.other.results.write_bytes(one)


@finds("derivation.results", "feedback")
def rows_of_two_jobs_that_are_swapped_with_their_names_mended(forger: Forger) -> None:
    rows_of_two_jobs_that_are_swapped(forger)
    for job, theirs in ((forger.good, forger.other), (forger.other, forger.good)):
        text = job.results.read_text().replace(theirs.job_id, job.job_id)
        job.results.write_text(text)
        with forger.json(job.meta) as meta:
            forger.row(job, seed=meta["seed"], fingerprint=meta["fingerprint"])
    forger.tables()


@finds("files.places", "run_id")
def a_run_under_another_id(forger: Forger) -> None:
    with forger.json(forger.run.manifest) as manifest:
        manifest["run_id"] = "20260102-030405-another"


@finds("conduct.seeds", "seed")
def another_seed(forger: Forger) -> None:
    for change in (forger.meta, forger.row, forger.entry):
        change(seed=7)
    forger.tables()


@finds("identity.job_ids", "")
def another_model(forger: Forger) -> None:
    with forger.json(forger.good.meta) as meta:
        meta["model"]["id"] = "stub"
    forger.row(model="stub")
    forger.entry(model="stub")
    forger.tables()


@finds("identity.job_ids", "")
def other_parameters(forger: Forger) -> None:
    for path, key in ((forger.good.meta, "params"), (forger.good.results, "resolved_trainer_kwargs")):
        with forger.json(path) as value:
            value[key]["num_steps"] = 1
    with forger.json(forger.run.manifest) as manifest:
        for entry in manifest["jobs"]:
            if entry["job_id"] == forger.good.job_id:
                entry["resolved_trainer_kwargs"]["num_steps"] = 1
    forger.tables()


@finds("derivation.history", "best_score")
def another_direction(forger: Forger) -> None:
    with forger.json(forger.good.meta) as meta:
        meta["score_direction"] = meta["objective"]["score_direction"] = "minimize"
    forger.row(score_direction="minimize")
    forger.entry(score_direction="minimize")
    forger.tables()


@finds("identity.fingerprints", "")
def another_fingerprint(forger: Forger) -> None:
    for change in (forger.meta, forger.row, forger.entry):
        change(fingerprint="0" * 64)
    forger.tables()


# -------------------------------------------------------------------------------------------- lock and environment


@finds("identity.images", "key")
def another_image_of_a_job(forger: Forger) -> None:
    with forger.json(forger.good.meta) as meta:
        meta["image"]["key"] = "sha256:" + "0" * 64
    forger.row(image_key="sha256:" + "0" * 64)
    forger.tables()


@finds("identity.images", "key")
def another_image_in_the_lock(forger: Forger) -> None:
    with forger.json(forger.run.lock) as lock:
        lock["images"]["llm4ad"]["key"] = "sha256:" + "0" * 64


@finds("identity.fingerprints", "")
def another_image_everywhere(forger: Forger) -> None:
    key = "sha256:" + "0" * 64
    with forger.json(forger.run.lock) as lock:
        lock["images"]["llm4ad"]["key"] = key
    for job in forger.run.job_dirs():
        with forger.json(job.meta) as meta:
            meta["image"]["key"] = key
        forger.row(job, image_key=key)
    forger.tables()


@finds("identity.config", "config_hash")
def another_task_hash_in_the_lock(forger: Forger) -> None:
    with forger.json(forger.run.lock) as lock:
        lock["tasks"] = dict.fromkeys(lock["tasks"], "0" * 64)


@finds("identity.fingerprints", "")
def another_task_hash_of_a_job(forger: Forger) -> None:
    forger.meta(task_hash="0" * 64)


@finds("identity.packages", "pydantic")
def another_version_of_a_package_in_the_lock(forger: Forger) -> None:
    with forger.json(forger.run.lock) as lock:
        lock["packages"]["pydantic"] = "1.0"


@finds("identity.packages", "pydantic")
def another_version_of_a_package_in_the_environment(forger: Forger) -> None:
    with forger.json(forger.run.env) as env:
        env["packages"]["pydantic"] = "1.0"


@finds("identity.fingerprints", "")
def another_hash_of_the_code(forger: Forger) -> None:
    forger.lock(sources_hash="0" * 64)


@finds("identity.packages", "code_version")
def another_version_of_the_code(forger: Forger) -> None:
    forger.lock(code_version="9.9.9")


@finds("held_out.", "salt")
def another_salt(forger: Forger) -> None:
    forger.lock(salt="0" * 32)


@finds("held_out.salt", ".salt")
def a_salt_that_was_left(forger: Forger) -> None:
    forger.run.salt.write_text("0" * 32)


@finds("held_out.salt", "salt")
def a_salt_that_was_published_while_a_job_was_to_run(forger: Forger) -> None:
    forger.failed.results.unlink()
    forger.entry(forger.failed, status="not_executed", reason="interrupted")


@finds("identity.job_ids", "of the lock")
def another_sampling_of_a_model_in_the_lock(forger: Forger) -> None:
    with forger.json(forger.run.lock) as lock:
        lock["models"][0]["sampling"] = {"temperature": 0.0}


@finds("identity.job_ids", "of the lock")
def a_model_that_is_gone_from_the_lock(forger: Forger) -> None:
    with forger.json(forger.run.lock) as lock:
        del lock["models"][0]


@finds("conduct.scripts", "")
def other_rules_of_a_scripted_model(forger: Forger) -> None:
    for script in sorted((forger.run.meta / "scripts").iterdir()):
        script.write_text("default: {text: hello}\n")


# ----------------------------------------------------------------------------------------------- config and conduct


@finds("identity.config", "config_hash")
def another_config(forger: Forger) -> None:
    with forger.yaml(forger.run.config_snapshot) as config:
        config["trainers"][0]["params_variants"][0]["num_steps"] = 1


@finds("conduct.limits", "score_timeout")
def a_limit_that_was_relaxed_for_one_job(forger: Forger) -> None:
    with forger.json(forger.good.meta) as meta:
        meta["limits"]["score_timeout"] = 6000.0


@finds("identity.config", "config_hash")
def a_limit_that_was_relaxed_in_the_config_too(forger: Forger) -> None:
    a_limit_that_was_relaxed_for_one_job(forger)
    with forger.yaml(forger.run.config_snapshot) as config:
        config["score_timeout"] = 6000.0


@finds("conduct.limits", "calls")
def a_budget_that_was_raised_for_one_job(forger: Forger) -> None:
    with forger.json(forger.good.meta) as meta:
        meta["budget"]["calls"] = 5000


@finds("identity.fingerprints", "")
def a_budget_that_was_raised_everywhere(forger: Forger) -> None:
    for job in forger.run.job_dirs():
        with forger.json(job.meta) as meta:
            meta["budget"]["calls"] = 5000
    with forger.yaml(forger.run.config_snapshot) as config:
        config["budget"]["calls"] = 5000


@finds("conduct.budgets", "calls")
def a_budget_that_would_have_been_too_small(forger: Forger) -> None:
    with forger.json(forger.good.meta) as meta:
        meta["budget"]["calls"] = 1


@finds("conduct.controls", "")
def a_control_that_is_said_to_be_in_force(forger: Forger) -> None:
    with forger.json(forger.good.meta) as meta:
        (network,) = [control for control in meta["controls"] if control["name"] == "network"]
        network["in_force"] = True


@finds("conduct.controls", "")
def a_control_that_is_not_mentioned(forger: Forger) -> None:
    with forger.json(forger.good.meta) as meta:
        meta["controls"] = [control for control in meta["controls"] if control["name"] != "network"]


@finds("conduct.controls", "host")
def a_host_that_the_run_did_not_have(forger: Forger) -> None:
    forger.meta(host="elsewhere")


@finds("conduct.controls", "attempts[2].host")
def an_attempt_on_a_host_that_the_run_did_not_have(forger: Forger) -> None:
    with forger.json(forger.run.env) as env:
        env["backend"]["hosts"] = {"near": {}, "far": {}}
    for path in forger.run.jobs.glob("*/job_meta.json"):
        with forger.json(path) as meta:
            meta["attempts"][-1]["host"] = meta["host"] = "near" if len(meta["attempts"]) == 1 else "elsewhere"


@finds("conduct.controls", "integrity")
def an_unprotected_job_that_is_said_to_be_protected(forger: Forger) -> None:
    for job in (forger.good, forger.other):
        forger.meta(job, integrity="protected")
        forger.row(job, integrity="protected")
        forger.entry(job, integrity="protected")
    forger.tables()


@finds("conduct.journal", "job.end")
def a_line_of_the_journal_that_is_gone(forger: Forger) -> None:
    with forger.lines(forger.run.events) as events:
        events[:] = [e for e in events if (e["event"], e.get("job_id")) != ("job.end", forger.good.job_id)]


@finds("conduct.journal", "after run.end")
def a_journal_without_a_start(forger: Forger) -> None:
    """As if the run had never been started a second time."""
    with forger.lines(forger.run.events) as events:
        starts = [n for n, event in enumerate(events) if event["event"] == "run.start"]
        del events[starts[1]]


@finds("conduct.journal", "")
def a_journal_that_is_gone(forger: Forger) -> None:
    forger.run.events.unlink()


# ---------------------------------------------------------------------------------------------------------- tables


@finds("tables.results_csv", "score_final")
def another_cell_of_the_table(forger: Forger) -> None:
    with forger.json(forger.good.results) as row:
        score = repr(row["score_best"])
    text = forger.run.results_csv.read_text()
    forger.run.results_csv.write_text(text.replace(f",{score},", ",500.0,", 1))


@finds("tables.parquet", "score_best")
def another_value_in_the_parquet_table(forger: Forger) -> None:
    import pyarrow
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(forger.run.results_parquet)
    place = table.schema.get_field_index("score_best")
    better = pyarrow.array([None if value is None else value + 1 for value in table["score_best"].to_pylist()])
    table = table.set_column(place, table.schema.field(place), better)
    pyarrow.parquet.write_table(table, forger.run.results_parquet)


@finds("tables.summary", "failed")
def fewer_failures_in_the_summary(forger: Forger) -> None:
    with forger.json(forger.run.summary) as summary:
        summary["counts"] = {"ok": 4, "failed": 0, "interrupted": 0, "skipped": 0}


@finds("tables.leaderboard", "")
def a_row_of_the_leaderboard_that_was_put_in(forger: Forger) -> None:
    header = forger.run.leaderboard.read_text().splitlines()[0]
    cells = ["1"] + [""] * header.count(",")
    forger.run.leaderboard.write_text(f"{header}\n{','.join(cells)}\n")


@finds("tables.leaderboard", "leaderboard.md")
def a_page_that_is_gone(forger: Forger) -> None:
    forger.run.leaderboard_md.unlink()


@finds("tables.leaderboard", "leaderboard.md")
def another_word_on_the_page(forger: Forger) -> None:
    with forger.run.leaderboard_md.open("a") as page:
        page.write("\nWe lead by far.\n")


@finds("tables.manifest", "status")
def another_ending_in_the_manifest(forger: Forger) -> None:
    forger.entry(forger.failed, status="ok", reason="completed")


def never_run(forger: Forger, reason: str) -> None:
    """A failed job had no turn: its folder and its lines are gone."""
    job = forger.failed
    forger.entry(job, status="not_executed", reason=reason)
    shutil.rmtree(job.root)
    with forger.lines(forger.run.events) as events:
        events[:] = [line for line in events if line.get("job_id") != job.job_id]
        events[-1]["finished"] -= 1
    forger.lock(salt=None)
    forger.tables()


@finds("tables.manifest", "no budget")
def a_failed_job_that_a_budget_is_said_to_have_kept_from_running(forger: Forger) -> None:
    never_run(forger, "the run's budget of 5 calls is used up")


@finds("tables.manifest", "no failure ends the run")
def a_failed_job_that_another_one_is_said_to_have_kept_from_running(forger: Forger) -> None:
    never_run(forger, f"fail_fast: job {forger.good.job_id} failed")


@finds("identity.config", "mirrors")
def a_server_that_whoever_repeats_the_run_would_write_to(forger: Forger) -> None:
    with forger.yaml(forger.run.config_snapshot) as config:
        config["mirrors"] = {"mlflow": {"tracking_uri": "http://127.0.0.1:9"}}


@finds("tables.summary", "")
def a_table_that_is_gone(forger: Forger) -> None:
    forger.run.summary.unlink()


# ----------------------------------------------------------------------------------------------------------- files


@finds("files.links", "stdout.log")
def a_link_in_the_place_of_a_file(forger: Forger) -> None:
    forger.good.stdout.unlink()
    forger.good.stdout.symlink_to("/etc/hostname")


@finds("files.schemas", "results.json")
def a_key_that_no_schema_has(forger: Forger) -> None:
    forger.row(score_best_of_all=500.0)


@finds("files.schemas", "llm.jsonl")
def a_cassette_of_the_wrong_form(forger: Forger) -> None:
    with forger.lines(forger.good.cassette) as calls:
        calls[0]["prompt_tokens"] = "many"


@finds("secrets.none", "stdout.log")
def a_key_that_was_left(forger: Forger) -> None:
    with forger.good.stdout.open("a") as file:
        file.write("\nusing key sk-proj-" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5bC7d" + "\n")


@finds("tables.", "")
def a_manifest_that_is_gone(forger: Forger) -> None:
    forger.run.manifest.unlink()
