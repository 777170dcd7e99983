"""PrioritySearch: a search over candidates kept in a priority queue."""

from __future__ import annotations

from collections.abc import Generator

from trace_bench.trainers.base import Costs, Param, Search, State, Step
from trace_bench.trainers.priority_engine import LOOP, MEMORY, RANKING, RUNNING, VALIDATE_AGAIN, PriorityEngine


class PrioritySearch:
    """Keeps every candidate in a priority queue, explores the best of them, and asks an optimizer for several children
    of each. It follows the core of POLCA.

    ### What a step does
    1. **Explore.** The candidate of highest mean score (unless `use_best_candidate_to_explore` is false), and then the
       highest priorities, `num_candidates` together. In the first step there is only the start, `seed`.
    2. **Run.** Each of them runs on the same `num_batches` minibatches of `train_batch_size` examples, drawn without
       replacement from a permutation of the training data. Each epoch draws a new permutation.
    3. **Propose.** For each candidate and minibatch: one backward pass through the graph of the whole minibatch, then
       `num_proposals` model calls with the prompt made from it. A variable without a proposed value keeps its parent's.
       A proposal without a change, or that equals a known state, is dropped.
    4. **Evaluate.** Children are scored on the whole selection split, or with `validation_batch` on a
       [sample](#samples-of-the-selection-split) of it. Each is one line of `state_history.jsonl`: `s3.c0.p1`, or
       `s3.c0.b1.p1` with several minibatches.
    5. **Rank.** Explored candidates and children go into the memory with their priority. Then the memory keeps only the
       `long_term_memory_size` candidates of highest priority. Of equal ones the newest comes first.

    The trainer returns the state with the highest mean over all of its scores. Every candidate is kept (`accepted` is
    null). A step costs at most `C·B` minibatch runs, and `C·B·P` model calls and evaluations of children on the whole
    selection split, for `C` candidates, `B` minibatches and `P` proposals.

    ### Priority
    `mean` is the mean of all of a candidate's scores, including minibatches. `n` is the number of these scores, `t` the
    number of the step, and `spread` the highest minus the lowest mean of all candidates.

    | value | priority |
    |---|---|
    | `mean` | `mean` |
    | `ucb` | `mean + c · sqrt(ln(t + 2) / n) · spread`, clipped to the task's score range |
    | `time` | minus the order of creation: the oldest first |

    Priorities of a task without a score range (`[score] range`) are not clipped. The bonus is not scaled by the range:
    if states differ by 1 on a range of 20, it would outweigh every difference.

    ### Samples of the selection split
    If `validation_batch` `n` is above 0 and below the size of the selection split, all children of a step are scored on
    the same `n` examples. Each step draws new ones with the job's seed. Means over different samples cannot be
    compared, and the luckiest candidate would win. So at the end of each step the candidate of highest mean is scored
    on the remaining examples, once. This is a line of the history with the reason `leads, judged on all examples`, and
    its scores count from then on. Only such candidates, and the start, can become the best state and the final state. A
    step costs up to the rest of the split more. In return, a large split allows more children for the same evaluations.
    The default is the whole split: the splits of the shipped tasks are small, and the official score is a mean over it.

    ### Memory
    If `memory_update_frequency` `k` is above 0, explored candidates and children go into a short-term memory, and only
    that is explored. After every `k`-th step it is merged into the long-term memory, and the next step explores that. A
    forgotten candidate is not explored again. It stays known, so it is not paid for again. It is still the answer if no
    other candidate has a higher mean.

    The event `search.step` has the explored, children, best, known, and forgotten candidates.

    ### Where it differs from OpenTrace
    | OpenTrace (experimental) | here | why |
    |---|---|---|
    | the answer is the candidate of highest mean, over validation scores and its minibatches | the same, with `validation_batch` only if it was scored on all examples; the best state is also reported, from means over the whole selection split | means over different examples cannot be compared |
    | the first iteration only collects; `num_steps=1` proposes nothing | every step proposes | |
    | stops when `num_epochs` and `num_steps` are reached, `num_epochs` 1 | the same rule, default 0 | by default `num_steps` is the budget, for data of any size |
    | `num_candidates` 10, `num_proposals` 1 | 2 and 2 | |
    | pushes the start `num_candidates` times | once | a known state is never explored twice in one step; use `num_proposals` |
    | the best candidate can be in the queue several times | each candidate is in it once | |
    | keeps duplicates | drops them before they are paid for | |
    | scores children on `batch_size × num_batches` examples, drawn again in each iteration | on all examples, or `validation_batch` of them | the official score is over all of them |
    | without validation data scores children on the step's minibatch | on all training data | means over different examples cannot be compared |
    | validates explored candidates again in each step | only with `validate_exploration_candidates` | most guides are deterministic, so the scores would be the same |
    | the start has no validation score until it is explored | it is validated first | |
    | `time` is documented as the newest first, its formula gives the oldest | the formula | |
    | ties and `time` use the wall clock | the order of creation | |
    | score range (0, 1) by default | the task's range | |
    | cuts off the heap's array at a size limit | keeps the candidates of highest priority | cutting a heap's array does not keep the best |
    """  # noqa: E501  # rows of tables

    name = "PrioritySearch"
    summary = "Explores the best candidates of a priority queue and asks an optimizer for children of each."
    source = "Ren, Nie, Xie, Cheng: POLCA, arXiv:2603.14769; OpenTrace (experimental), PrioritySearch"
    params: tuple[Param, ...] = (*LOOP, *MEMORY, *RANKING, *VALIDATE_AGAIN, *RUNNING)
    uses_llm = True
    uses_graph = True
    costs = Costs("train_batch_size", "validation_batch", first_step=("num_batches", "num_proposals"))

    def search(self, search: Search) -> Generator[Step, None, State | None]:
        """Return the state of highest mean score.

        Raises:
            StopTraining: passed on.
        """
        return (yield from PriorityEngine(search).run())
