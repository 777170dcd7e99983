"""A wrong config is refused in one sentence per problem, each with file, line and key, whatever is wrong with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from trace_bench.config import load_config
from trace_bench.errors import ConfigError, ExitCode

TASKS = "tasks: [internal:numeric_param]\n"
HOSTS = TASKS + "docker:\n  hosts:\n"

# name: (text, line of the first problem, what the sentence must hold)
BAD: dict[str, tuple[str, int, tuple[str, ...]]] = {
    "unknown_key": (TASKS + "max_worker: 2\n", 2, ("unknown key 'max_worker'", "did you mean 'max_workers'?")),
    "unknown_key_like_a_second_name": (TASKS + "seedz: [1]\n", 2, ("unknown key 'seedz'", "did you mean 'seeds'?")),
    "nested_unknown_key": (TASKS + "sandbox:\n  memori: 2g\n", 3, ("'sandbox.memori'", "did you mean 'memory'?")),
    "top_level_key_in_trainer": (
        TASKS + "trainers:\n  - id: NoOp\n    seeds: [1]\n",
        4,
        ("'trainers[0].seeds'", "top level"),
    ),
    "knobs_is_no_key": (TASKS + "trainers:\n  - id: NoOp\n    knobs: {x: 1}\n", 4, ("unknown key",)),
    "duplicate_key": (TASKS + "seeds: [1]\nseeds: [2]\n", 3, ("'seeds' is given twice", "line 2")),
    "alias_and_name": (TASKS + "max_workers: 1\nn-concurrent: 2\n", 3, ("'max_workers'", "two names of one key")),
    "hyphen_and_underscore": (TASKS + "job_timeout: 1\njob-timeout: 2\n", 3, ("two names of one key",)),
    "no_tasks": ("seeds: [1]\n", 1, ("tasks is missing",)),
    "empty_tasks": ("tasks: []\n", 1, ("tasks is empty",)),
    "tasks_no_list": ("tasks: internal:numeric_param\n", 1, ("tasks must be a list", "[internal:numeric_param]")),
    "task_without_id": ("tasks:\n  - eval_kwargs: {}\n", 2, ("tasks[0].id is missing",)),
    "task_is_number": ("tasks:\n  - internal:numeric_param\n  - 5\n", 3, ("tasks[1] must be a mapping",)),
    "task_id_is_number": ("tasks:\n  - id: 5\n", 2, ("tasks[0].id must be a string", "quotes")),
    "task_id_is_empty": ('tasks: [""]\n', 1, ("must not be empty",)),
    "same_task_twice": (
        "tasks:\n  - circle_packing\n  - llm4ad:circle_packing\n",
        3,
        ("tasks[1] is the same task as tasks[0] on line 2",),
    ),
    "no_trainers": (TASKS + "trainers: []\n", 2, ("trainers is empty",)),
    "trainer_without_id": (TASKS + "trainers:\n  - params: {}\n", 3, ("trainers[0].id is missing",)),
    "params_and_variants": (
        TASKS + "trainers:\n  - id: NoOp\n    params: {}\n    params_variants: [{}]\n",
        5,
        ("two names of one key",),
    ),
    "empty_variants": (TASKS + "trainers:\n  - id: NoOp\n    params_variants: []\n", 4, ("is empty",)),
    "same_variant_twice": (
        TASKS + "trainers:\n  - id: PrioritySearch\n    params_variants:\n      - {num_steps: 1}\n"
        "      - {num_steps: 1}\n",
        6,
        ("same variant", "line 5"),
    ),
    "tag_on_the_whole": ("!!map2 {tasks: [internal:numeric_param]}\n", 1, ("the tag '!!map2' has no meaning",)),
    "mode_unknown": (TASKS + "mode: banana\n", 2, ("mode must be one of", "'banana'")),
    "resume_unknown": (TASKS + "resume: faild\n", 2, ("one of", "did you mean 'failed'?")),
    "resume_null": (TASKS + "resume: null\n", 2, ("resume must be one of", "null")),
    "seeds_string": (TASKS + "seeds: ['1']\n", 2, ("seeds[0] must be a whole number", "out of quotes")),
    "seeds_negative": (TASKS + "seed: -1\n", 2, ("seed must be at least 0",)),
    "seeds_twice": (TASKS + "seeds:\n  - 4\n  - 4\n", 4, ("seeds[1] is the same seed as seeds[0] on line 3",)),
    "seeds_no_list": (TASKS + "seeds: 4\n", 2, ("seeds must be a list", "write [4]")),
    "workers_negative_alias": (TASKS + "n_concurrent: -3\n", 2, ("n_concurrent must be at least 1",)),
    "timeout_negative": (TASKS + "job_timeout: -1\n", 2, ("job_timeout must be more than 0",)),
    "timeout_text": (TASKS + "job_timeout: 10 minutes\n", 2, ("job_timeout must be a number",)),
    "timeout_infinite": (TASKS + "job_timeout: .inf\n", 2, ("job_timeout is inf; give a finite number",)),
    "fail_fast_yes": (TASKS + "fail_fast: yes\n", 2, ("must be true or false", "write true")),
    "run_id_number": (TASKS + "run_id: 2024\n", 2, ("run_id must be a string", "quotes")),
    "run_id_path": (TASKS + "run_id: ../x\n", 2, ("run_id must be a folder name",)),
    "tags_scalar": (TASKS + "tags: one\n", 2, ("tags must be a list", "write [one]")),
    "tags_number": (TASKS + "tags: [1.0]\n", 2, ("tags[0] must be a string", "quotes")),
    "size_without_unit": (TASKS + "sandbox: {memory: 2}\n", 2, ("sandbox.memory must be at least",)),
    "size_nonsense": (TASKS + "sandbox: {memory: 2 apples}\n", 2, ("sandbox.memory must be a size",)),
    "weaker_and_required": (
        TASKS + "sandbox: {allow_weaker: [ipc], require_controls: [ipc]}\n",
        2,
        ("'ipc' is in require_controls and in allow_weaker",),
    ),
    "backend_unknown": (TASKS + "backend: dokcer\n", 2, ("did you mean 'docker'?",)),
    "budget_negative": (TASKS + "budget: {calls: -1}\n", 2, ("budget.calls must be at least 0",)),
    "section_is_list": (TASKS + "sandbox: [cpus]\n", 2, ("sandbox must be a mapping",)),
    "guide_foreign": (TASKS + "trainers: [{id: NoOp, guide: Jury}]\n", 2, ("known are default, LLMJudge",)),
    "logger_number": (TASKS + "trainers: [{id: NoOp, logger: 0}]\n", 2, ("logger must be one of",)),
    "logger_at_top": (TASKS + "logger: none\n", 2, ("unknown key 'logger'", "'logger' is a key of a trainer entry")),
    "limit_at_top": (TASKS + "gpus: 1\n", 2, ("unknown key 'gpus'", "'gpus' is a key of sandbox")),
    "model_at_top": (TASKS + "model: m\n", 2, ("unknown key 'model'", "'model' is a key of llm")),
    "gpus_text": (TASKS + "sandbox: {gpus: all}\n", 2, ("sandbox.gpus must be a whole number, not 'all'",)),
    "host_port_text": (HOSTS + "    - url: tcp://a:b\n", 4, ("docker.hosts[0].url must be ssh://",)),
    "host_option": (HOSTS + "    - url: ssh://-oProxyCommand=x\n", 4, ("docker.hosts[0].url must be ssh://",)),
    "host_gpus_numbers": (
        HOSTS + "    - {url: ssh://a, gpus: [0, 1]}\n",
        4,
        ("docker.hosts[0].gpus must hold names of GPUs, not the number 0; put it in quotes",),
    ),
    "host_gpus_file": (HOSTS + "    - {url: ssh://a, gpus: [/etc/passwd]}\n", 4, ("'/etc/passwd'", "of one GPU")),
    "modal_app_with_a_slash": (TASKS + "modal: {app: a/b}\n", 2, ("modal.app must be up to 63 letters",)),
    "modal_registry_url": (
        TASKS + "modal: {image_registry: 'https://ghcr.io/you'}\n",
        2,
        ("modal.image_registry must be HOST[:PORT][/PATH]", "without a scheme"),
    ),
    "modal_gpu_with_a_number": (TASKS + "modal: {gpu: 'H100:2'}\n", 2, ("modal.gpu must be a name alone",)),
    "api_key": (TASKS + "llm:\n  api_key: hunter2\n", 3, ("llm.api_key holds a secret",)),
    "key_env_holds_key": (TASKS + "llm:\n  api_key_env: not a name\n", 3, ("name of an environment variable",)),
    "header_with_a_key": (
        TASKS + "llm:\n  options:\n    extra_headers: {Authorization: Bearer hunter2}\n",
        4,
        ("llm.options.extra_headers.Authorization holds a secret",),
    ),
    "option_that_is_a_key": (
        TASKS + "llm:\n  model: m\n  options: {temperature: 1}\n",
        4,
        ("llm.options must not hold temperature",),
    ),
    "option_that_makes_answers_up": (
        TASKS + "llm:\n  options: {mock_response: x}\n",
        3,
        ("llm.options must not hold mock_response",),
    ),
    "replay_from_in_mode_real": (
        TASKS + "mode: real\nllm: {model: m}\nreplay_from: r\n",
        4,
        ("replay_from is for mode replay, and mode is real", "take replay_from out"),
    ),
    "replay_from_in_mode_stub": (TASKS + "replay_from: r\n", 2, ("replay_from is for mode replay, and mode is stub",)),
    "address_of_the_stub": (
        TASKS + "mode: real\nllm:\n  model: stub\n  base_url: http://localhost:1/v1\n",
        5,
        ("llm.base_url is not used by the built-in model 'stub'; take it out",),
    ),
    "temperature_of_a_script": (
        TASKS + "llms:\n  - {model: 'scripted:s.yaml', temperature: 1}\n",
        3,
        ("llms[0].temperature is not used by the built-in model 'scripted:s.yaml'",),
    ),
    "real_model_called_stub": (
        TASKS + "mode: real\nllm:\n  model: openai/m\n  id: stub\n",
        5,
        ("llm.id 'stub' is the name of a built-in model; choose another",),
    ),
    "url_without_scheme": (TASKS + "llm:\n  base_url: localhost:8000/v1\n", 3, ("must begin with http:// or",)),
    "url_with_query": (TASKS + "llm:\n  base_url: https://h/v1?a=hunter2\n", 3, ("must hold no user",)),
    "llm_and_llms": (TASKS + "mode: real\nllm: {model: m}\nllms: [n]\n", 4, ("llm and llms are both given",)),
    "llms_in_mode_stub": (TASKS + "llms: [gpt-x]\n", 2, ("llms[0] is 'gpt-x', but mode stub asks no provider",)),
    "same_model_twice": (
        TASKS + "mode: real\nllms:\n  - gpt-x\n  - {model: gpt-x, temperature: 1}\n",
        5,
        ("llms[1] and llms[0] are both called 'gpt-x'", "an id of its own"),
    ),
    "url_with_password": (TASKS + "llm:\n  base_url: https://u:hunter2@host/v1\n", 3, ("holds a secret",)),
    "objective_unknown": (TASKS + "objective: banana\n", 2, ("objective must be score, weighted, pareto", "'banana'")),
    "objective_mode": (TASKS + "objective: {mode: best}\n", 2, ("objective.mode must be one of", "'best'")),
    "objective_key": (TASKS + "objective:\n  mode: pareto\n  weight: {a: 1}\n", 4, ("unknown key", "'weights'")),
    "objective_tie_break": (
        TASKS + "objective: {mode: weighted, tie_break: lexicographic}\n",
        2,
        ("objective has tie_break, which counts with mode pareto only",),
    ),
    "objective_weights_unused": (TASKS + "objective: {weights: {a: 1}}\n", 2, ("has weights, which counts with mode",)),
    "objective_score_key": (TASKS + "objective: {mode: pareto, score_key: a}\n", 2, ("has score_key, which counts",)),
    "objective_seed": (TASKS + "objective: {mode: pareto, seed: 1}\n", 2, ("has seed, which counts with tie_break",)),
    "objective_weights_zero": (
        TASKS + "objective: {mode: weighted, weights: {a: 0}}\n",
        2,
        ("weights that are all 0",),
    ),
    "objective_weight_negative": (
        TASKS + "objective:\n  mode: weighted\n  weights: {a: -1}\n",
        4,
        ("objective.weights.a must be at least 0",),
    ),
    "objective_twice": (
        TASKS + "objective: {mode: pareto, minimize: [a, a]}\n",
        2,
        ("names a metric twice in minimize",),
    ),
    "objective_one_metric": (
        TASKS + "objective: {mode: pareto, pareto_metrics: [a]}\n",
        2,
        ("nothing to trade it for",),
    ),
    "yaml_syntax": (TASKS + "seeds: [1, 2\n", 3, ("not valid YAML",)),
    "yaml_tab": (TASKS + "sandbox:\n\tcpus: 1\n", 3, ("a tab indents here; use spaces",)),
    "yaml_undefined_alias": (TASKS + "tags: *nowhere\n", 2, ("undefined alias",)),
    "yaml_python_tag": (TASKS + "name: !!python/name:os.system\n", 2, ("tag",)),
    "yaml_two_documents": (TASKS + "---\n" + TASKS, 2, ("second document",)),
    "yaml_escape_beyond_unicode": ('name: "\\UFFFFFFFF"\n', 0, ("is not valid YAML",)),
    "yaml_control_character": (TASKS + "name: a\x00b\n", 2, ("U+0000",)),
    "number_as_key": (TASKS + "5: x\n", 2, ("the key '5' must be a string",)),
    "list_at_top": ("- tasks\n", 1, ("holds a list",)),
    "scalar_at_top": ("hello\n", 1, ("holds a single value",)),
    "self_reference": ("tasks: &t [*t]\n", 1, ("alias refers to the value",)),
    "huge_number": (TASKS + f"seeds: [{'9' * 5000}]\n", 2, ("5000 characters",)),
    "number_overflow": (TASKS + "job_timeout: 1e999\n", 2, ("job_timeout is inf; give a finite number",)),
    "merge_of_scalar": (TASKS + "sandbox:\n  <<: 5\n", 3, ("'<<' takes a mapping",)),
}


def refusal(path: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    assert caught.value.exit_code == ExitCode.USAGE == 2
    return str(caught.value)


@pytest.mark.parametrize("name", BAD)
def test_bad_config_is_one_sentence_with_file_line_and_key(name: str, tmp_path: Path) -> None:
    text, line, parts = BAD[name]
    path = tmp_path / f"{name}.yaml"
    path.write_text(text)
    message = refusal(path)
    assert message.startswith(f"{path}, line {line}: " if line else f"{path}: "), message
    for part in parts:
        assert part in message.splitlines()[0]
    assert "hunter2" not in message and message.replace("\n", "").isprintable()
    assert "Traceback" not in message and "pydantic" not in message


def test_all_problems_are_listed_in_the_order_of_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text("max_workers: 0\nseeds: [a]\nrusn_dir: x\ntasks: []\nmode: banana\nseeds: [1]\n")
    message = refusal(path)
    assert [row.split(", line ")[1].split(":")[0] for row in message.splitlines()] == ["1", "2", "3", "4", "5", "6"]


@pytest.mark.parametrize(
    ("make", "part"),
    [
        (lambda p: None, "does not exist"),
        (lambda p: p.mkdir(), "is a folder"),
        (lambda p: p.write_text(""), "is empty"),
        (lambda p: p.write_bytes(b"\xff\xfe\x00"), "not UTF-8"),
        (lambda p: p.write_text("a: " + "x" * (1 << 20)), "larger than"),
        (lambda p: p.write_text("[" * 5000), "nested too deeply"),
        (lambda p: p.write_text("tasks: " + "[" * 60 + "]" * 60), "nested deeper"),
    ],
    ids=["missing", "folder", "empty", "encoding", "large", "deep", "deeper"],
)
def test_a_file_that_is_no_config_is_one_sentence(make, part: str, tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    make(path)
    message = refusal(path)
    assert message.startswith(str(path)) and part in message and "\n" not in message


def test_unreadable_file_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "loop.yaml"
    path.symlink_to(path)
    assert "cannot be read" in refusal(path)
    assert "cannot be read: File name too long" in refusal(Path("x" * 5000))


def test_contradictions_are_listed_together_once_every_value_has_its_type(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(TASKS + "replay_from: r\nseeds: [1, 1]\nllm: {model: stub, temperature: 1}\n")
    lines = refusal(path).splitlines()
    assert [line.split(": ")[0] for line in lines] == [f"{path}, line {number}" for number in (2, 3, 4)]
    path.write_text(path.read_text() + "mode: banana\n")
    assert refusal(path) == f"{path}, line 5: mode must be one of 'stub', 'real', 'replay', not 'banana'"


def test_an_alias_bomb_is_refused_quickly(tmp_path: Path) -> None:
    path = tmp_path / "bomb.yaml"
    levels = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    levels += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
    path.write_text("\n".join(levels))
    message = refusal(path)
    assert message.startswith(f"{path}, line ") and "more than 100000 values" in message and "\n" not in message


@pytest.mark.parametrize(
    ("text", "line", "part"),
    [
        ('{"tasks": ["internal:numeric_param"],\n\t"max_worker": 2}', 2, "did you mean 'max_workers'?"),
        ('{\n\t"tasks":\t["internal:numeric_param"],\n\t"mode":"rael"\n}', 3, "did you mean 'real'?"),
        ('{"tasks": [\n}', 2, "not valid JSON"),
        ('{"tasks": ["internal:numeric_param"],\n"job_timeout": NaN}', 2, "NaN"),
        ('{"tasks": ["internal:numeric_param"],\n"name": "a",\n"name": "b"}', 3, "given twice"),
        ('{"tasks": ["internal:numeric_param"],\n"name": "\\ud800"}', 2, "surrogate"),
    ],
)
def test_json_problems_have_lines_too(text: str, line: int, part: str, tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    path.write_text(text)
    message = refusal(path)
    assert message.startswith(f"{path}, line {line}: ") and part in message


@pytest.mark.parametrize(
    ("place", "secret"),
    [  # in two parts, so that nothing here looks like a key to a scanner
        ("name: {}", "sk-" + "abcdefghijklmnop1234"),
        ("tags: [a, {}]", "sk-or-" + "v1-0123456789abcdef"),
        ("mode: {}", "sk-ant-" + "api03-abcdefghij"),
        ("eval_kwargs: {{x: {}}}", "AIza" + "SyA1234567890abcdefg"),
        ("trainers: [{{id: NoOp, params: {{y: [{{z: '{}'}}]}}}}]", "hf_" + "abcdefghijklmnopqrst"),
        ("{}: 1", "ghp_" + "abcdefghijklmnopqrst1234"),
        ("name: *{}", "AKIA" + "IOSFODNN7EXAMPLE"),
    ],
)
def test_a_provider_key_is_refused_and_never_repeated(place: str, secret: str, tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(TASKS + place.format(secret) + "\n")
    message = refusal(path)
    assert message.startswith(f"{path}, line 2: ")
    assert secret not in message and secret[6:] not in message


@pytest.mark.parametrize("key", ["api_key", "openai-api-key", "hf_token", "client_secret", "PASSWORD"])
def test_a_value_under_a_secret_name_is_refused_and_never_repeated(key: str, tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(TASKS + f"trainer_kwargs:\n  {key}: correct-horse\n")
    message = refusal(path)
    assert message.startswith(f"{path}, line 3: trainer_kwargs.{key} holds a secret") and "correct" not in message


def test_names_that_only_look_secret_are_fine(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(
        TASKS + "tags: [task-construct-sketch, risk-assessment-model]\n"
        "llm: {api_key_env: OPENAI_API_KEY, max_tokens: 100}\nbudget: {tokens: 5}\n"
    )
    config = load_config(path)
    assert config.llm is not None and config.llm.api_key_env == "OPENAI_API_KEY"


def test_a_bad_option_is_named_as_an_option(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(TASKS)
    with pytest.raises(ConfigError, match=r"^option --max-workers: max_workers must be at least 1, not the number 0$"):
        load_config(path, {"max_workers": 0})
