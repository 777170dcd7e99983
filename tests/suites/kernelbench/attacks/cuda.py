"""Attacks on clocks and streams of a GPU. They are tried on one by `tests.suites.kernelbench.on_device`."""

from tests.suites.kernelbench.attacks import Attack

ATTACKS = (
    Attack(
        "elapsed_time",
        "Replaces torch.cuda.Event.elapsed_time; reference-kernels #159.",
        """
torch.cuda.Event.elapsed_time = lambda self, other: 1e-6


class ModelNew(Honest):
    pass
""",
        gpu=True,
    ),
    Attack(
        "synchronize",
        "Replaces torch.cuda.synchronize, so that the clock is stopped while the work is still queued.",
        """
torch.cuda.synchronize = torch.cuda.Event.synchronize = lambda *args, **named: None


class ModelNew(Honest):
    pass
""",
        gpu=True,
    ),
    Attack(
        "side_stream",
        "Computes on a stream that the harness does not wait for; KernelBench #82.",
        """
class ModelNew(Honest):
    def forward(self, x):
        with torch.cuda.stream(torch.cuda.Stream()):
            return self.compute(x)
""",
        gpu=True,
    ),
    Attack(
        "tf32",
        "Multiplies with ten bits of mantissa where float32 is asked for; KernelBench #57.",
        """
torch.backends.cuda.matmul.allow_tf32 = True


class ModelNew(Honest):
    pass
""",
        gpu=True,
    ),
    Attack(
        "recorded_graph",
        "Replays a CUDA graph that was recorded outside of the clock; KernelBench #106.",
        """
class ModelNew(Honest):
    graph = None

    def forward(self, x):
        if self.graph is None:
            self.input, self.graph = x.clone(), torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.output = self.compute(self.input)
        self.graph.replay()
        return self.output
""",
        gpu=True,
    ),
)
