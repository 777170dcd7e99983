"""MCTS-AHD: Monte Carlo tree search over heuristics, in which no program is forgotten for a bad start."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trace_bench.trainers.base import Costs, Param, Search, Slot, Step
from trace_bench.trainers.common_params import bound
from trace_bench.trainers.programs import ATTEMPTS, REQUESTS, ProgramSearch, Shown, Written, failure

if TYPE_CHECKING:
    from trace_bench.trainers.candidates import Candidate
    from trace_bench.trainers.heuristic_tree import Node

TASKS = {
    "i1": "Design a program for this task.",
    "e1": "Design a program whose form differs completely from those above: another structure, another idea. It should "
    "score well.",
    "e2": "Design a program that has the form of the last one above and takes over what makes the first one good. It "
    "should score better than both.",
    "m1": "Design a modified version of the program above, in another form: add mechanisms, formulas or parts that it "
    "does not have.",
    "m2": "Find the parameters that matter most in the program above, and design a version with other values.",
    "s1": "Find the ideas that help in the programs above, and design one that builds on them. It should score better "
    "than all of them.",
}
"""What the model is asked for in each action."""
DESCRIBE = """{objective}

A program for this task:

```python
{source}
```

Its design idea, as it was before the program was written:

{idea}

The idea may not say all that the program does. Describe the program anew, in at most three sentences: its main ideas, \
what it prefers and what it avoids, its parameters and its structure. Answer with the description alone."""


class MCTSAHD:
    """Searches for one program with a tree of programs. It follows promising branches and discards none.

    Tasks must have one trainable parameter, which is code. The algorithm follows the paper and the authors' published
    implementation (`source/mcts.py`, `mcts_ahd.py`, `evolution_interface.py`), with their numbers as defaults.

    ### Actions
    | action | shows | asks for |
    |---|---|---|
    | `i1` | nothing | a program |
    | `e1` | one program, drawn evenly, from each of 2 to 5 branches of the root | another form |
    | `e2` | the node's program and an elite one, the `r`-th best of `n` others drawn with weight `1 / (r + 1 + n)` | the form of the node's with the ideas of the other |
    | `m1`, `m2` | the node's program | new mechanisms; other parameter settings |
    | `s1` | the different programs from the root's child to the node, worst first | their helpful ideas combined |

    The elite set holds the `elite_size` best programs of all, of equal scores the oldest. Programs are shown with their
    descriptions and scores. A program is requested up to three times: until it is new, fails on no example and, for
    `e1`, has another score than each child of the root. Then it becomes a node. It is judged on all examples of the
    selection split. The model describes it again from its source (*thought alignment*).

    ### What a step does
    The first step plants the tree: one program by `i1`, then programs by `e1` until `init_size` were requested. Each
    later step:

    1. **Select.** From the root, go to the child with the highest `(Q - Qmin) / (Qmax - Qmin) + λ sqrt(ln(N' + 1) / N)`
       until a node has no child or is `max_depth` deep. `N'` is the number of visits of its parent. `Qmin` and `Qmax`
       are of all programs in the tree. `λ = exploration_weight · (1 - t / exploration_period)` after `t` requested
       programs.
    2. **Widen.** Each node on the way first gets another child if `floor(N^widening_exponent)` is at least the number
       of its children: the root by `e1`, others by `e2`.
    3. **Expand** the selected node: `e2` once, `m1` and `m2` `mutations` times each, `s1` once (not if the path has
       only one program).
    4. **Back up**, after each new node: `N` of all nodes above grows by 1, and their `Q` becomes the highest of their
       children's. A new node has `N = 1` and its score for `Q`.

    A step costs at most `(2 + 2·m + d)·3` programs for `m` mutations and a path of `d` nodes. A program costs `v`
    evaluations and a call. A description costs a call.

    ### Where it differs from the paper
    | paper, or the authors' implementation | here | why |
    |---|---|---|
    | `λ` decays over all evaluations of the run | over `exploration_period` | a larger budget only continues the same search |
    | a program is described before it is evaluated | once it is a node | |
    | planting continues until there are `init_size` programs | each of them is tried three times; while the tree is empty, the next step plants again | a model that writes no program must not be asked forever |
    | a description has temperature 0 | the temperature of all calls | not every model takes 0 |
    | the code draws the parents of `e1` with replacement | without | |
    | a program is a copy if the elite set holds it | if the search knows it, the initial program included | |
    | the code widens for more than the number of children | for at least as many, as in the paper | |
    | in the code `Qmin` and `Qmax` begin at 0 and -10000 | are those of the tree | scores can have any sign |
    | a time-out ends an action | counts as a failure, after which the model is asked again | |
    | scores are rounded to five digits | are exact | |
    | the design idea is in braces | before the code block | |

    The task's initial program is step 0, and not a node of the tree: the paper starts from nothing. With an
    [objective](config.md#objective) of dominance, scores are its weighted sums.
    """  # noqa: E501

    name = "MCTS-AHD"
    summary = "Monte Carlo tree search over programs, with actions of a model as edges."
    source = "Zheng, Xie, Wang, Hooi, ICML 2025, arXiv:2501.08603"
    params: tuple[Param, ...] = (
        bound("num_steps", 5, "steps: planting the tree, then one selection and expansion each"),
        Param("init_size", 4, int, "programs planted below the root", minimum=1),
        Param("elite_size", 10, int, "programs in the elite set", minimum=1),
        Param("mutations", 2, int, "uses of m1 and of m2 in an expansion", minimum=0),
        Param("max_depth", 10, int, "largest depth of selection", minimum=1),
        Param("exploration_weight", 0.1, float, "weight of the exploration bonus at the start", minimum=0.0),
        Param(
            "exploration_period",
            1000,
            int,
            "requested programs until the exploration weight is 0; 0: it is constant",
            minimum=0,
        ),
        Param("widening_exponent", 0.5, float, "exponent of progressive widening", minimum=0.0, maximum=1.0),
        *REQUESTS,
    )
    uses_llm = True
    uses_graph = False
    costs = Costs(first_step=("init_size",))
    only_programs = True

    def search(self, search: Search) -> Generator[Step, None, None]:
        """Search for a program.

        Raises:
            StopTraining: passed on.
            TrainerError: the problem has not exactly one trainable parameter, which is code.
        """
        yield from _MCTSAHD(search).run()


@dataclass(frozen=True)
class _Action:
    """An action on a node, at a place of its own in the step."""

    kind: str
    node: Node
    place: str


class _MCTSAHD(ProgramSearch):
    def __init__(self, search: Search) -> None:
        super().__init__(search)
        # Imported here: the host imports this module to list trainers, and needs nothing of it.
        from trace_bench.trainers.heuristic_tree import Tree

        self._tree = Tree(self.params["widening_exponent"], self.params["elite_size"])
        self._chance = search.random("actions")
        self._candidates: dict[str, Candidate] = {}
        self._asked = 0

    def run(self) -> Generator[Step, None, None]:
        step = 0
        while self.search.endless or step < self.params["num_steps"]:
            step += 1
            before = set(self._candidates)
            if self._tree.root.children:
                leaf = yield from self._select(step)
                yield from self._expand(step, leaf)
            else:
                leaf = self._tree.root
                yield from self._plant(step)
            new = [name for name in self._candidates if name not in before]
            self.tell(step, [leaf.id] if leaf.id else [], new, depth=leaf.depth)

    def _plant(self, step: int) -> Generator[Step, None, None]:
        for number in range(self.params["init_size"]):
            root = self._tree.root
            yield from self._act(step, _Action("e1" if root.children else "i1", root, f"n{number}"))

    def _select(self, step: int) -> Generator[Step, None, Node]:
        """The node to expand; nodes on the way to it may have got another child."""
        from trace_bench.trainers.heuristic_tree import exploration_weight

        node = self._tree.root
        while node.children and node.depth < self.params["max_depth"]:
            weight = exploration_weight(
                self.params["exploration_weight"], self._asked, self.params["exploration_period"]
            )
            chosen = self._tree.choose(node, weight)
            if self._tree.widens(node):
                yield from self._act(step, _Action("e2" if node.depth else "e1", node, f"w{node.depth}"))
            node = chosen
        return node

    def _expand(self, step: int, leaf: Node) -> Generator[Step, None, None]:
        yield from self._act(step, _Action("e2", leaf, "e2"))
        for kind in ("m1", "m2"):
            for number in range(self.params["mutations"]):
                yield from self._act(step, _Action(kind, leaf, f"{kind}-{number}"))
        yield from self._act(step, _Action("s1", leaf, "s1"))

    def _shown(self, action: _Action) -> list[Node] | None:
        """The programs that the model is shown; None where the action cannot be taken."""
        from trace_bench.trainers.heuristic_tree import distinct

        match action.kind:
            case "i1":
                return []
            case "e1":
                return self._tree.branches(self._chance)
            case "e2":
                other = self._tree.reference(action.node, self._chance)
                return None if other is None else [other, action.node]
            case "s1":
                path = distinct(action.node.lineage())
                return path if len(path) > 1 else None
        return [action.node]

    def _act(self, step: int, action: _Action) -> Generator[Step, None, None]:
        """Take an action; what comes of it becomes a node if it can."""
        for attempt in range(ATTEMPTS):
            shown = self._shown(action)
            if shown is None:
                return
            self._asked += 1
            slot = Slot(step, action.place, attempt)
            value = action.node.source or (shown[-1].source if shown else "")
            prompt = self.prompt(TASKS[action.kind], [Shown(n.source, n.description, n.score) for n in shown])
            written = self.ask(prompt, slot, value=value)
            if written is None:
                continue
            parents = [self._candidates[node.id] for node in shown] or [self.population.seed]
            child = self.add(written.source, slot, parents)
            if child is None:
                continue
            rollouts = self.judge(child)
            why = failure(rollouts) or self._repeated(action, child)
            yield self.line(
                slot, child, rollouts, not why, why or f"{action.kind} below {action.node.id or 'the root'}"
            )
            if why:
                continue
            described = self._described(written, slot)
            self._candidates[child.id] = child
            node = self._tree.add(action.node, child.id, written.source, described, child.mean)
            self.search.log.event(
                "mcts.node", step=step, candidate=node.id, action=action.kind, below=action.node.id, depth=node.depth,
                description=described,
            )  # fmt: skip
            return

    def _repeated(self, action: _Action, child: Candidate) -> str:
        """Why a new branch is no new form: one has its score; empty if none has."""
        same = [node.id for node in self._tree.root.children if action.kind == "e1" and node.score == child.mean]
        return f"scores as {same[0]} does" if same else ""

    def _described(self, written: Written, slot: Slot) -> str:
        """What the program does, in the words of the model that is shown its source."""
        prompt = DESCRIBE.format(
            objective=self.statement,
            source=written.source.rstrip(),
            idea=written.description or "(none)",
        )
        return self.say(prompt, Slot(slot.step, slot.candidate, slot.proposal, 1)) or written.description
