"""Trainers of other packages, each with its real package in its image's layer, against the real gateway."""

from __future__ import annotations

import io
import json
import re
import subprocess
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.integration.cli import REPOSITORY, cli, history, run
from tests.integration.files import check_files, values_in
from tests.integration.test_replay import assert_equal, replay
from trace_bench.images.lock import read_lock
from trace_bench.planning.search_costs import amounts_of, costs_of
from trace_bench.trainers.adapters.demos import Demo, write
from trace_bench.trainers.registry import load_trainer

pytestmark = pytest.mark.docker

LAYERS = {"GEPATrainer": "gepa", "OpenEvolveTrainer": "openevolve", "TextGradTrainer": "textgrad"}
SCRIPT = """
prices: {prompt: 1.0, completion: 4.0}
rules:
  # internal:code_param. Whatever runs this where models can be asked for ends there.
  - match: {contains: ["run-length", "Find a better value for"]}
    text: "Better:\\n```python\\n%(code)s\\n```"
  - match: {contains: ["run-length", "You MUST use the exact SEARCH/REPLACE diff format"]}
    text: "<<<<<<< SEARCH\\n%(old)s\\n=======\\n%(line)s\\n>>>>>>> REPLACE"
  - match: {contains: ["run-length", "IMPROVED_VARIABLE"]}
    text: "<IMPROVED_VARIABLE>\\n%(code)s\\n</IMPROVED_VARIABLE>"

  # internal:numeric_param. Each gives answers that nobody can use: without a value, empty, no number.
  - match: {contains: "Find a better value for `guess`"}
    text: ["```\\n1.0\\n```", "no idea", "```\\n2.5\\n```", "", "```\\n3.0\\n```"]
  - match:
      contains: "You MUST use the exact SEARCH/REPLACE diff format"
      regex: '# Current Program\\n```text\\n#### guess ####\\n(?P<now>[^\\n]*)\\n'
    text:
      - "<<<<<<< SEARCH\\n${now}\\n=======\\n1.0\\n>>>>>>> REPLACE"
      - "<<<<<<< SEARCH\\n${now}\\n=======\\n2.0\\n>>>>>>> REPLACE"
      - "no blocks"
      - ""
      - "<<<<<<< SEARCH\\n${now}\\n=======\\nabc\\n>>>>>>> REPLACE"
      - "<<<<<<< SEARCH\\n${now}\\n=======\\n3.0\\n>>>>>>> REPLACE"
  - match: {contains: "IMPROVED_VARIABLE"}
    text:
      - "no tags"
      - ""
      - "<IMPROVED_VARIABLE>2.0</IMPROVED_VARIABLE>"
      - "<IMPROVED_VARIABLE>x</IMPROVED_VARIABLE>"
      - "<IMPROVED_VARIABLE>3.0</IMPROVED_VARIABLE>"
default: {text: "It is too small."}
"""
RIGHT = """import os
from itertools import groupby
if "OPENAI_BASE_URL" in os.environ: os._exit(3)
def encode(text): return "".join(f"{letter}{sum(1 for _ in run)}" for letter, run in groupby(text))"""
OLD = '    return "".join(letter + "1" for letter in text)'
LINE = """    import os
    from itertools import groupby
    if "OPENAI_BASE_URL" in os.environ: os._exit(3)
    return "".join(f"{letter}{sum(1 for _ in run)}" for letter, run in groupby(text))"""
TRAINERS: list[dict[str, Any]] = [
    {"id": "GEPATrainer", "params": {"num_iters": 6}},
    {"id": "OpenEvolveTrainer", "params": {"iterations": 7, "num_islands": 1}},
    {"id": "TextGradTrainer", "params": {"num_steps": 6}},
]


EACH = [pytest.param(trainer, marks=pytest.mark.slow) for trainer in LAYERS]  # each builds an image
"""The first one by default. Its layer is the only one that is built then."""


def quoted(text: str) -> str:
    return json.dumps(text)[1:-1]


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The scripted model, as a config's ``llm``."""
    path = tmp_path_factory.mktemp("script") / "model.yaml"
    path.write_text(SCRIPT % {"code": quoted(RIGHT), "old": quoted(OLD), "line": quoted(LINE)})
    return {"model": f"scripted:{path}"}


def built(home: Path, *layers: str) -> Path:
    done = cli("images", "build", *(f"core+{layer}" for layer in layers), home=home, timeout=900)
    assert done.returncode == 0, done.stderr
    return home


@pytest.fixture(scope="module")
def trainers(request: pytest.FixtureRequest) -> list[dict[str, Any]]:
    """Those of which there are tests to run, or all where a test is about all of them."""
    here = [item for item in request.session.items if isinstance(item, pytest.Function) and item.path == request.path]
    params = [item.callspec.params for item in here if hasattr(item, "callspec")]
    of_one = {each["trainer"] for each in params if "trainer" in each}
    of_all = any("trainers" in item.fixturenames and "trainer" not in item.fixturenames for item in here)
    return [trainer for trainer in TRAINERS if of_all or trainer["id"] in of_one]


@pytest.fixture(scope="module")
def layers(images: Path, trainers: list[dict[str, Any]]) -> Path:
    return built(images, *(LAYERS[trainer["id"]] for trainer in trainers))


@pytest.fixture(scope="module")
def with_dspy(images: Path) -> Path:
    return built(images, "dspy")


@pytest.fixture(scope="module")
def recorded(
    layers: Path, trainers: list[dict[str, Any]], script: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    done = run(
        tmp_path_factory.mktemp("adapters"), layers, tasks=["internal:numeric_param", "internal:code_param"],
        trainers=trainers, seeds=[1], llm=script,
    )  # fmt: skip
    assert done["code"] == 0, done["stderr"]
    return done


def events_of(done: dict[str, Any], row: dict[str, Any]) -> list[dict[str, Any]]:
    return values_in(Path(done["folder"], "jobs", row["job_id"], "events.jsonl"))


@pytest.mark.parametrize("trainer", EACH)
class TestEach:
    @pytest.fixture
    def number(self, recorded: dict[str, Any], trainer: str) -> dict[str, Any]:
        (row,) = [r for r in recorded["jobs"] if (r["trainer_id"], r["task_id"]) == (trainer, "internal:numeric_param")]
        return dict(row)

    def test_it_finds_the_number_with_the_steps_in_order(
        self, recorded: dict[str, Any], number: dict[str, Any], trainer: str
    ) -> None:
        assert (number["status"], number["stop_reason"], number["integrity"]) == ("ok", "completed", "protected")
        assert (number["score_initial"], number["score_best"]) == (-3.0, 0.0)
        steps = history(recorded, number)
        assert steps[0]["candidate"] == "seed" and len(steps) >= 3
        names = [step["candidate"] for step in steps]
        assert len(set(names)) == len(names)
        for i, step in enumerate(steps[1:], 1):
            assert step["parents"] and set(step["parents"]) <= set(names[:i]), step
        assert [step["step"] for step in steps] == sorted(step["step"] for step in steps)

    def test_its_calls_have_slots_and_cost(
        self, recorded: dict[str, Any], number: dict[str, Any], trainer: str
    ) -> None:
        calls = values_in(Path(recorded["folder"], "jobs", number["job_id"], "llm.jsonl"))
        slots = [call["slot"] for call in calls]
        assert None not in slots and len(set(slots)) == len(slots) == number["llm_calls"] > 3
        assert number["cost_usd"] == pytest.approx(sum(call["cost_usd"] for call in calls)) and number["cost_usd"] > 0

    def test_an_answer_that_cannot_be_used_is_an_event(
        self, recorded: dict[str, Any], number: dict[str, Any], trainer: str
    ) -> None:
        told = [e for e in events_of(recorded, number) if e["event"].startswith("proposal.")]
        bad = [e["kind"] for e in told if e["event"] == "proposal.unusable"]
        assert (
            bad
            == {
                "GEPATrainer": ["invalid_value", "empty"],
                "OpenEvolveTrainer": ["no_program", "empty", "invalid_value"],
                "TextGradTrainer": ["no_tags", "empty", "invalid_value"],
            }[trainer]
        ), told
        assert number["unusable_answers"] == Counter(bad) and number["search_answers"] == number["llm_calls"]

    def test_programs_run_where_no_model_can_be_asked_for(self, recorded: dict[str, Any], trainer: str) -> None:
        (code,) = [r for r in recorded["jobs"] if r["trainer_id"] == trainer and r["task_id"].endswith("code_param")]
        assert (code["status"], code["score_best"]) == ("ok", 1.0)


@pytest.mark.parametrize(("what", "most"), [("calls", 2), ("evaluations", 4)])
@pytest.mark.slow
def test_a_budget_ends_them(layers: Path, script: dict[str, str], tmp_path: Path, what: str, most: int) -> None:
    done = run(tmp_path, layers, tasks=["internal:numeric_param"], trainers=TRAINERS, seeds=[1], llm=script,
               budget={what: most})  # fmt: skip
    assert [(row["status"], row["stop_reason"]) for row in done["jobs"]] == [("ok", "budget")] * 3, done["stderr"]
    for row in done["jobs"]:
        assert row["score_best"] is not None
        assert row["llm_calls"] == most if what == "calls" else history(done, row)[-1]["evaluations"] <= most


@pytest.mark.slow
def test_a_run_of_them_is_replayed_to_the_bit(recorded: dict[str, Any], layers: Path, tmp_path: Path) -> None:
    assert_equal(recorded["folder"], replay(recorded["folder"], tmp_path, layers))
    assert check_files(recorded["folder"]) > 40


@pytest.mark.slow
def test_with_the_stub_they_run_and_the_run_says_that_it_is_inert(layers: Path, tmp_path: Path) -> None:
    done = run(tmp_path, layers, tasks=["internal:numeric_param"], trainers=TRAINERS, seeds=[1])
    assert [(row["status"], row["score_best"]) for row in done["jobs"]] == [("ok", -3.0)] * 3, done["stderr"]
    for row in done["jobs"]:
        meta = json.loads(Path(done["folder"], "jobs", row["job_id"], "job_meta.json").read_text())
        assert [warning for warning in meta["warnings"] if warning.startswith("the stub model is inert")], meta


def probed(home: Path, layer: str, call: str) -> Any:
    """What `call` of `adapter_probe` prints in the image of `layer`: no network, no rights, only /tmp to write to."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.write(REPOSITORY / "tests/integration/adapter_probe.py", "adapter_probe.py")
        for path in (
            "tests/__init__.py",
            "tests/trainers/__init__.py",
            "tests/trainers/memory_context.py",
            "tests/forking.py",
        ):
            archive.write(REPOSITORY / path, path)
    begin = (
        "import sys; open('/tmp/probe.zip', 'wb').write(sys.stdin.buffer.read()); "
        f"sys.path.insert(0, '/tmp/probe.zip'); import adapter_probe; adapter_probe.{call}"
    )
    command = ["docker", "run", "--rm", "-i", "--network", "none", "--read-only", "--tmpfs", "/tmp", "--cap-drop",
               "ALL", "--user", "4242:4242", "-e", "PYTHONHASHSEED=0", "-e", "HOME=/nonexistent"]  # fmt: skip
    image = read_lock(home).images[f"core+{layer}"].ref
    done = subprocess.run([*command, image, "python3", "-c", begin], input=packed.getvalue(), capture_output=True,
                          check=False, timeout=300)  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()[-3000:]
    return json.loads(done.stdout)


def check_parameters(trainer: str, found: dict[str, Any]) -> None:
    """Each parameter changes what the search does, or, if it says that it changes nothing, what is printed alone."""
    params = {param.name: param for param in load_trainer(trainer).params}
    tried = {case["parameter"]: [] for case in found.values() if "parameter" in case}
    for case in found.values():
        if "parameter" in case:
            base = found[case["base"]]
            tried[case["parameter"]].append((case["digest"] != base["digest"], case["printed"] != base["printed"]))
    assert tried.keys() == params.keys(), "each parameter has a case"
    for name, outcomes in tried.items():
        assert all(changed == params[name].changes_results for changed, _ in outcomes), (name, outcomes)
        assert params[name].changes_results or all(printed for _, printed in outcomes), name


def check_search(found: dict[str, Any]) -> None:
    """It is a function of its seed, stops in order, survives a model without a word, and names each call by a slot."""
    first = next(iter(found.values()))
    assert found["again"]["digest"] == first["digest"]
    assert found["budget of evaluations"]["stop"] == found["budget of calls"]["stop"] == "budget"
    assert found["budget of calls"]["calls"] == 2 and found["budget of evaluations"]["evaluations"] <= 6
    for speechless in (case for name, case in found.items() if name.startswith("speechless")):
        assert speechless["stop"] == "completed" and "proposal.unusable" in speechless["events"]
        assert max(speechless["scores"]) == speechless["scores"][0]
    for case in (case for name, case in found.items() if name.startswith("until its budget ends")):
        assert (case["stop"] == "budget" and 270 <= case["evaluations"] <= 300) or "search.stalled" in case["events"]
    for case in found.values():
        assert case["slots"] == case["calls"]
        assert case["scores"]
    assert max(first["scores"]) > first["scores"][0]


@pytest.mark.parametrize("trainer", EACH)
def test_each_parameter_has_its_effect_and_the_same_seed_the_same_steps(layers: Path, trainer: str) -> None:
    found = probed(layers, LAYERS[trainer], f"main({trainer!r})")
    check_parameters(trainer, found)
    check_search(found)


@pytest.mark.parametrize("trainer", EACH)
def test_what_a_proposal_costs_is_what_the_plan_estimates(layers: Path, trainer: str) -> None:
    loaded = load_trainer(trainer)
    costs = costs_of(loaded)
    assert costs is not None
    params = {param.name: param.default for param in loaded.params}
    start, proposal, _ = amounts_of(costs, params, train=6, validate=4)  # as in `one_text`
    evaluations, calls = (first + each for first, each in zip(start, proposal, strict=True))
    budgets = [{"evaluations": evaluations, "calls": calls}, {"evaluations": evaluations - 1}, {"calls": calls - 1}]
    enough, *too_few = probed(layers, LAYERS[trainer], f"judged({trainer!r}, {budgets!r})")
    assert enough >= 1 and too_few == [0, 0], (budgets, enough, too_few)


@pytest.mark.parametrize("trainer", EACH[:1])
def test_our_gepa_and_the_package_pay_the_same_for_the_same_search(layers: Path, trainer: str) -> None:
    found = probed(layers, LAYERS[trainer], "gepa_pair()")
    ours, theirs = found["GEPA-Base"], found["GEPATrainer"]
    # 2.0 is known when it comes again: here it is no step, there it is one that costs nothing.
    again = [2.0, "train", False, 24]
    assert [step for step in theirs["steps"] if step != again] == ours["steps"] and again in theirs["steps"]
    assert [x for x, _, accepted, _ in ours["steps"] if accepted] == [1.0, 2.0, 3.0]
    # The start on both splits; each number on the minibatch; who is better there on the selection split.
    assert ours["counts"] == theirs["counts"] == [4 + 3 + 6 * 3 + 3 * 4, 7]


DSPY_SCRIPT = """
rules:
  - match: {contains: '"new_instruction"'}
    text: '{"new_instruction": "Hello, Sam!"}'
  - match: {contains: "proposed_instruction", candidate: copro}
    text:
      - "[[ ## proposed_instruction ## ]]\\nHi!\\n[[ ## proposed_prefix_for_output_field ## ]]\\nIt:\\n"
      - "[[ ## proposed_instruction ## ]]\\nHello, Sam!\\n[[ ## proposed_prefix_for_output_field ## ]]\\nIt:\\n"
  - match: {contains: "proposed_instruction"}
    text: "[[ ## proposed_instruction ## ]]\\nHello, Sam!\\n\\n[[ ## completed ## ]]"
default: {text: "Nothing that dspy can read."}
"""


@pytest.fixture(scope="module")
def dspy_run(with_dspy: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("dspy")
    (folder / "model.yaml").write_text(DSPY_SCRIPT)
    sizes: list[dict[str, Any]] = [
        {"dspy_optimizer": "mipro", "num_candidates": 3}, {"dspy_optimizer": "copro", "breadth": 3, "depth": 2},
        {"dspy_optimizer": "gepa", "max_metric_calls": 12}, {"dspy_optimizer": "simba", "max_steps": 1},
    ]  # fmt: skip
    return run(
        folder, with_dspy, tasks=["trace_examples:greeting_stub"], seeds=[1],
        trainers=[{"id": "DSPyTrainer", "params_variants": sizes}], llm={"model": f"scripted:{folder / 'model.yaml'}"},
    )  # fmt: skip


FEW_SHOT_SCRIPT = r"""
rules:
  - match: {contains: "proposed_instruction"}
    text: "[[ ## proposed_instruction ## ]]\nSay it again.\n\n[[ ## completed ## ]]"
  - match: {regex: 'Examples:.*Query: Repeat (?P<word>\w+)\nResponse:$', last: true}
    text: "${word} ${word}"
  - match: {regex: 'Query: Repeat moon\nResponse:$', last: true}
    text: "moon moon"
default: {text: "Nothing that dspy can read."}
"""


@pytest.fixture(scope="module")
def few_shot_run(with_dspy: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("few_shot")
    (folder / "model.yaml").write_text(FEW_SHOT_SCRIPT)
    sizes: list[dict[str, Any]] = [
        {"dspy_optimizer": "bootstrap"}, {"dspy_optimizer": "mipro_demos", "num_candidates": 3, "num_trials": 4},
    ]  # fmt: skip
    return run(
        folder, with_dspy, tasks=["internal:few_shot"], seeds=[1],
        trainers=[{"id": "DSPyTrainer", "params_variants": sizes}], llm={"model": f"scripted:{folder / 'model.yaml'}"},
    )  # fmt: skip


@pytest.mark.slow
class TestDemos:
    """Demos of DSPy: found in training, and judged as a text by a scorer that knows nothing of them."""

    def test_a_model_that_answers_right_with_a_demo_is_scored_with_it(self, few_shot_run: dict[str, Any]) -> None:
        assert few_shot_run["code"] == 0, few_shot_run["stderr"]
        assert [row["status"] for row in few_shot_run["jobs"]] == ["ok", "ok"]
        for row in few_shot_run["jobs"]:
            assert (row["score_initial"], row["score_best"], row["score_test"]) == (0.0, 1.0, 1.0)
            state = Path(few_shot_run["folder"], row["best_state_path"]).read_text()
            assert "Query: Repeat moon" in state and "Response: moon moon" in state
            assert not any(word in state for word in ("sun", "tree", "moss", "rain"))
        calls = values_in(Path(few_shot_run["folder"], "jobs", few_shot_run["jobs"][0]["job_id"], "llm.jsonl"))
        assert len(calls) == few_shot_run["jobs"][0]["llm_calls"], "bootstrap asks nothing; the agent asks in each run"

    def test_a_run_with_demos_is_replayed_to_the_bit(
        self, few_shot_run: dict[str, Any], with_dspy: Path, tmp_path: Path
    ) -> None:
        assert_equal(few_shot_run["folder"], replay(few_shot_run["folder"], tmp_path, with_dspy))

    def test_demos_are_answers_to_training_examples_that_pass(self, with_dspy: Path) -> None:
        found = probed(with_dspy, "dspy", "demos()")
        # Of the training examples, apple 2, berry 4, berry 6 and cherry 8 score 1, apple 3 and cherry 5 score 0.25.
        start = ["validate", [0.25, 0.25, 0.25, 1.0], "Name it."]
        apple, berry, berry_6, cherry = (
            Demo(f"{name} {number}", f"{name.upper()} {number}")
            for name, number in (("apple", 2), ("berry", 4), ("berry", 6), ("cherry", 8))
        )
        assert found["bootstrap 4"]["steps"] == [
            start,
            ["train", [1.0, 0.25, 1.0, 0.25, 1.0, 1.0], "Name it."],
            ["validate", [1.0] * 4, write("Name it.", [apple, berry, berry_6, cherry])],
        ]
        assert found["bootstrap 2"]["steps"] == [
            start,
            ["train", [1.0, 0.25, 1.0], "Name it."],
            ["validate", [1.0, 1.0, 0.25, 1.0], write("Name it.", [apple, berry])],
        ]
        assert (found["bootstrap 4"]["evaluations"], found["bootstrap 2"]["evaluations"]) == (14, 11)
        low = write("Name it.", [apple, Demo("apple 3", "no idea")])
        assert found["any score"]["steps"][-1] == ["validate", [1.0, 0.25, 0.25, 1.0], low]
        assert [step[-1] for step in found["none passes"]["steps"]] == ["Name it."] * 2
        (warning,) = found["none passes"]["warnings"]
        assert warning.startswith("there are no demos")
        assert "this task has no agent" in found["no agent"]["refused"]

    def test_mipro_combines_instructions_with_demos_of_training_examples(self, with_dspy: Path) -> None:
        found = probed(with_dspy, "dspy", "demos()")
        steps, prompts = found["mipro"]["steps"], found["mipro"]["prompts"]
        assert found["mipro"] == found["mipro again"]
        demos = [re.findall(r"^Query: (.*)\nResponse: (.*)$", text, re.MULTILINE) for _, _, text in steps]
        assert {len(each) for each in demos} == {0, 1, 2}
        passing = {"apple 2", "berry 4", "berry 6", "cherry 8"}
        assert all(query in passing and response == query.upper() for each in demos for query, response in each)
        assert any(text.startswith("Answer ") and "Examples:" in text for _, _, text in steps), "the proposed ones too"
        assert "Response: APPLE 2" in prompts
        for hidden in ("secret", "apple 11", "berry 13", "cherry 15", "apple 12"):
            assert hidden not in prompts and not any(hidden in text for _, _, text in steps)


@pytest.mark.slow
class TestDSPy:
    """Slow for its image: 110 MB of wheels."""

    def test_its_optimizers_find_the_greeting(self, dspy_run: dict[str, Any]) -> None:
        assert dspy_run["code"] == 0, dspy_run["stderr"]
        best = [row["score_best"] for row in dspy_run["jobs"]]
        assert best == [1.0, 1.0, 1.0, 0.0], "mipro, copro, gepa; simba adds to what there is"

    def test_a_run_of_them_is_replayed_to_the_bit(
        self, dspy_run: dict[str, Any], with_dspy: Path, tmp_path: Path
    ) -> None:
        assert_equal(dspy_run["folder"], replay(dspy_run["folder"], tmp_path, with_dspy))

    def test_each_parameter_has_its_effect_and_the_same_seed_the_same_steps(self, with_dspy: Path) -> None:
        found = probed(with_dspy, "dspy", "main('DSPyTrainer')")
        check_parameters("DSPyTrainer", found)
        check_search(found)
