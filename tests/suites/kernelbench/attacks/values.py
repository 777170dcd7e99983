"""Attacks on the comparison: outputs that are wrong, and pass."""

from tests.suites.kernelbench.attacks import Attack
from tests.suites.kernelbench.naive import Options

ATTACKS = (
    Attack(
        "changed_input",
        "Fills its input with zeros and returns zeros; the reference, which is called afterwards on the same tensor, "
        "agrees; arXiv:2507.11948.",
        """
class ModelNew(Honest):
    def forward(self, x):
        x.zero_()
        return torch.zeros_like(x)
""",
        Options(reference_first=False),
        says="is wrong in trial 1",
    ),
    Attack(
        "output_is_input",
        "Returns its input, into which the reference has written its output.",
        """
class ModelNew(torch.nn.Module):
    def forward(self, x):
        return x
""",
        Options(recheck=True),
        problem="in_place",
        says="is wrong in trial 1",
    ),
    Attack(
        "broadcast",
        "Returns one value for a vector of equal ones: torch.allclose broadcasts.",
        """
class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.ones(1)
""",
        Options(recheck=True),
        problem="ones",
        says="a constant could stand for it",
    ),
    Attack(
        "scalar",
        "Returns a tensor without dimensions.",
        """
class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.ones(())
""",
        Options(recheck=True),
        problem="ones",
        says="a constant could stand for it",
    ),
    Attack(
        "another_type",
        "Returns whole numbers where others are asked for.",
        """
class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.ones(x.shape[0], dtype=torch.int8)
""",
        Options(recheck=True, checker="difference"),
        problem="ones",
        says="a constant could stand for it",
    ),
    Attack(
        "zeros_below_the_tolerance",
        "Returns zeros where all values are smaller than the absolute tolerance, as in a softmax of long rows.",
        """
class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.zeros_like(x)
""",
        Options(recheck=True),
        problem="small",
        says="wrong|constant|blind",
    ),
    Attack(
        "constant_of_the_law",
        "Returns the expectation of a mean over many random values, which no draw leaves: KernelBench's losses.",
        """
class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.tensor(1 / 80)
""",
        Options(recheck=True),
        problem="mean",
        says="wrong|constant|blind",
    ),
    Attack(
        "fewer_steps",
        "Leaves the last steps out, in which the values hardly change: within KernelBench's first tolerance of 1e-2.",
        """
class ModelNew(Honest):
    def forward(self, x):
        h = torch.tanh(x)
        for _ in range(2):
            h = torch.tanh(x + 0.25 * (h @ self.weight))
        return h
""",
        Options(recheck=True, tolerance=2e-2),
        faster=2.0,
        says="is wrong in trial 1",
    ),
    Attack(
        "half_precision",
        "Multiplies in bfloat16, within KernelBench's first tolerance of 1e-2 (#57). Only a GPU gains by it.",
        """
class ModelNew(Honest):
    def forward(self, x):
        h, weight = torch.tanh(x), self.weight.bfloat16()
        for _ in range(11):
            h = torch.tanh(x + 0.25 * (h.bfloat16() @ weight).float())
        return h
""",
        Options(recheck=True, tolerance=1e-2),
        faster=0.0,
        says="is wrong in trial 1",
    ),
    Attack(
        "first_rows",
        "Computes the first rows alone once it is no longer checked; reference-kernels #148.",
        """
class ModelNew(Honest):
    calls = 0

    def forward(self, x):
        self.calls += 1
        if self.calls <= 3:
            return self.compute(x)
        out = torch.zeros_like(x)
        out[:8] = self.compute(x[:8])
        return out
""",
        faster=1.5,
        says="is wrong in trial 4",
        trials=36,
    ),
)
