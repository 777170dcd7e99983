"""Builds the problem of a Harbor task: a prompt to optimize, where one evaluation is one trial on the host.

With Harbor's agent Terminus-2 the prompt is its template, with the fields ``{instruction}`` and ``{terminal_state}``.
With any other agent it is a prefix of the instruction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trace_bench.suites.splits import SPLITS, split_sizes
from trace_bench.suites.task_folder import scoring
from trace_bench.suites.terminal_bench.described import SERVICE, TERMINUS
from trace_bench.suites.terminal_bench.template import DEFAULT, PREFIXES, TEMPLATES, check_template
from trace_bench.worker.problem import (
    AsksServices,
    BuildContext,
    CandidateError,
    Example,
    Parameter,
    Problem,
    ProblemError,
)

LONGEST_FEEDBACK = 6000
"""Characters that the optimizer reads of one evaluation."""
LONGEST_PROMPT = 50_000
_STEPS = 4
"""Last steps of the agent that feedback tells of."""


def build(context: BuildContext) -> Problem:
    """Build the problem of a Harbor task.

    Raises:
        ProblemError: there is no host that runs trials.
    """
    if context.services is None:
        raise ProblemError("a Harbor task needs the host for its trials; run it with trace-bench run")
    templated = context.eval_kwargs["harbor_agent"] == TERMINUS
    score = scoring(context)
    sizes = split_sizes(context)
    splits = {
        split: tuple(Example(id=f"{split}-{i}", reference=split) for i in range(sizes[split])) for split in SPLITS
    }
    return Problem(
        parameters=(
            Parameter(
                name="prompt_template" if templated else "instruction_prefix",
                value=DEFAULT if templated else PREFIXES[0],
                kind="text",
                description="The agent's prompt" if templated else "Text before the agent's instruction",
                alternatives=tuple(TEMPLATES if templated else PREFIXES[1:]),
            ),
        ),
        guide=TrialGuide(context.services, int(context.eval_kwargs["harbor_attempts"]), templated),
        train=splits["train"],
        validate=splits["validate"],
        test=splits["test"] if context.test_seed is not None else (),
        objective=_objective(context, templated),
        direction=score.direction,
        failure_score=score.failure,
        score_range=score.score_range,
        metadata={"entry": context.eval_kwargs["harbor_agent"], "interaction": "trial"},
    )


@dataclass(frozen=True)
class TrialGuide:
    """Scores a prompt by the mean reward of trials.

    Attributes:
        attempts: trials of one evaluation.
        templated: the prompt is a template of Terminus-2.
    """

    services: AsksServices
    attempts: int
    templated: bool

    def __call__(self, query: Any, response: Any, reference: Any) -> tuple[float, str]:
        if not isinstance(response, str) or len(response) > LONGEST_PROMPT:
            raise CandidateError("output", f"the prompt must be a text of at most {LONGEST_PROMPT} characters")
        if self.templated:
            try:
                check_template(response)
            except ValueError as error:
                raise CandidateError("compile", str(error)) from error
        trials = [self.services.ask(SERVICE, {"prompt": response}) for _ in range(self.attempts)]
        rewards = [reward_of(trial["rewards"]) for trial in trials]
        worst = min(range(len(trials)), key=lambda index: rewards[index])
        return sum(rewards) / len(rewards), feedback(trials[worst], rewards)


def reward_of(rewards: Mapping[str, float]) -> float:
    """The reward of a trial: that which is called ``reward``, else the mean of all."""
    return rewards["reward"] if "reward" in rewards else sum(rewards.values()) / len(rewards)


def feedback(trial: Mapping[str, Any], rewards: Sequence[float]) -> str:
    """What the optimizer reads of a trial, most telling first: rewards, failing tests, the agent's last steps. Nothing
    in it is a time or a price, so that equal trials have equal texts."""
    lines = [f"Reward {rewards[0]:g}." if len(rewards) == 1 else f"Rewards {', '.join(f'{r:g}' for r in rewards)}."]
    if len(trial["rewards"]) > 1:
        lines.append(
            "Of the worst trial: " + ", ".join(f"{name} {value:g}" for name, value in trial["rewards"].items())
        )
    lines += trial["notes"]
    if trial["tests"].strip():
        lines += ["What the tests printed:", trial["tests"].strip()]
    steps = trial["steps"][-_STEPS:]
    if steps:
        lines.append("The agent's last steps:")
    for step in steps:
        lines.append(f"[{step['step']}] {step['source']}: {step['message'].strip()}")
        lines += [f"  > {call}" for call in step["calls"]]
        if step["observation"].strip():
            lines += ["  " + line for line in step["observation"].strip().splitlines()[-12:]]
    text = "\n".join(lines)
    return text if len(text) <= LONGEST_FEEDBACK else text[: LONGEST_FEEDBACK - 1] + "…"


def _objective(context: BuildContext, templated: bool) -> str:
    what = "Improve the text that an agent reads before its instruction."
    if templated:
        what = (
            "Improve the prompt template of an agent that works in a terminal. It is filled with the task as "
            "{instruction} and what the terminal shows as {terminal_state}; any other brace has to be doubled. The "
            "agent's answers are parsed as the JSON that the template describes, so leave that description as it is."
        )
    return (
        f"{what}\n\nThe score is the reward of the task's tests, and higher is better.\n\nThe task:\n"
        f"{context.spec['statement'].strip()}"
    )
