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
    Attack(
        "persisting_cache",
        "Asks the L2 cache to keep its weight across flushes; karpathy/llm.c #851.",
        """
import ctypes


class ModelNew(Honest):
    kept = False

    def forward(self, x):
        if not self.kept:
            runtime = ctypes.CDLL("libcudart.so.13")
            runtime.cudaDeviceSetLimit(6, ctypes.c_size_t(1 << 30))  # cudaLimitPersistingL2CacheSize
            self.kept = True
        return self.compute(x)
""",
        gpu=True,
    ),
    Attack(
        "memory_of_others",
        "Looks for the reference's output in memory that was freed, and returns it; arXiv:2507.11948.",
        """
class ModelNew(Honest):
    def forward(self, x):
        found = torch.empty(1 << 30, dtype=torch.uint8, device=x.device).view(x.dtype)[: x.numel()].view(x.shape)
        return found.clone()
""",
        says="values",
        gpu=True,
    ),
    Attack(
        "busy_afterwards",
        "Leaves work on a side stream when it answers, which slows down what is measured next.",
        """
wait_for = torch.cuda.current_stream
torch.cuda.synchronize = lambda *args, **named: wait_for().synchronize()


class ModelNew(Honest):
    def forward(self, x):
        out = self.compute(x)
        with torch.cuda.stream(torch.cuda.Stream()):
            torch.cuda._sleep(1 << 33)
        return out
""",
        says="|",
        gpu=True,
    ),
    Attack(
        "waits_for_inputs",
        "Leaves a kernel behind that watches the memory of the inputs, to begin before the clock does.",
        """
from torch.utils.cpp_extension import load_inline

made = load_inline("made", "void watch(torch::Tensor x);", r'''
__global__ void spin(volatile const float* x, float first, long long cycles) {
    long long began = clock64();
    while (x[0] == first && clock64() - began < cycles) {}
}
void watch(torch::Tensor x) {
    static cudaStream_t stream = nullptr;
    if (!stream) cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    float first;
    cudaMemcpy(&first, x.data_ptr<float>(), sizeof first, cudaMemcpyDeviceToHost);
    spin<<<1, 1, 0, stream>>>(x.data_ptr<float>(), first, 1LL << 31);
}
''', functions=["watch"])
wait_for = torch.cuda.current_stream
torch.cuda.synchronize = lambda *args, **named: wait_for().synchronize()


class ModelNew(Honest):
    def forward(self, x):
        out = self.compute(x)
        made.watch(x)
        return out
""",
        says="|",
        gpu=True,
    ),
)
