"""Attacks that return before the work is done."""

from tests.suites.kernelbench.attacks import Attack
from tests.suites.kernelbench.naive import Options

_TRUSTING = Options(trusting=True, recheck=True)

ATTACKS = (
    Attack(
        "thread_after_return",
        "A thread fills the output in after forward() has returned; KernelBench #82.",
        """
import threading, time


class ModelNew(Honest):
    def forward(self, x):
        kept, out = x.clone(), torch.zeros_like(x)
        place = int(x.data_ptr())

        def late():
            time.sleep(0.03)
            with torch.no_grad():
                found = self.compute(kept)
                out.copy_(found)
                module = __import__("sys").modules.get("candidate")
                if module is not None and hasattr(module, "shared_memory"):
                    behind = torch.frombuffer(module.shared_memory, dtype=torch.float32, offset=x.numel() * 4)
                    behind[: x.numel()].copy_(found.view(-1))

        threading.Thread(target=late).start()
        return out
""",
        _TRUSTING,
        says="is wrong in trial",
    ),
    Attack(
        "lazy_function",
        "A subclass with __torch_function__ whose work is done in the checker; reference-kernels #161.",
        """
class Lazy(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        with torch._C.DisableTorchFunctionSubclass():
            if function is torch.Tensor.copy_ or function is torch.allclose:
                args = [one.work() if isinstance(one, Lazy) else one for one in args]
            return function(*args, **(kwargs or {}))


class ModelNew(Honest):
    def forward(self, x):
        out = torch.empty_like(x).as_subclass(Lazy)
        out.work = lambda: self.compute(x.as_subclass(torch.Tensor))
        return out
""",
    ),
    Attack(
        "lazy_dispatch",
        "A wrapper with __torch_dispatch__ that has no memory, and is computed when an operator looks at it; #162.",
        """
import torch.distributed.tensor  # PyTorch imports it when it first meets such a class


class Lazy(torch.Tensor):
    @staticmethod
    def __new__(cls, like, work):
        made = torch.Tensor._make_wrapper_subclass(cls, like.shape, dtype=like.dtype)
        made.work = work
        return made

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        args = [one.work() if isinstance(one, Lazy) else one for one in args]
        return function(*args, **(kwargs or {}))


class ModelNew(Honest):
    def forward(self, x):
        return Lazy(x, lambda: self.compute(x))
""",
    ),
    Attack(
        "lazy_attributes",
        "An object that has a tensor's shape and type, and computes once another attribute is asked for.",
        """
class Lazy(torch.Tensor):
    made = None

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        name = getattr(function, "__name__", "")
        with torch._C.DisableTorchFunctionSubclass():
            if name not in ("__get__", "is_floating_point", "numel", "element_size"):
                args = [one.now() if isinstance(one, Lazy) else one for one in args]
            return function(*args, **(kwargs or {}))

    def now(self):
        if self.made is None:
            self.made = self.work()
        return self.made


class ModelNew(Honest):
    def forward(self, x):
        out = torch.empty(()).expand(x.shape).as_subclass(Lazy)
        out.work = lambda: self.compute(x)
        return out
""",
    ),
    Attack(
        "lazy_list",
        "A list whose items are computed when it is iterated over.",
        """
class Lazy(list):
    def __iter__(self):
        yield from self.work()

    def __getitem__(self, at):
        return self.work()[at]


class ModelNew(torch.nn.Module):
    def forward(self, x):
        def work():
            h = x
            for _ in range(40):
                h = torch.tanh(h)
            return h, h + 1

        found = Lazy([None, None])
        found.work = work
        return found
""",
        problem="pair",
    ),
    Attack(
        "lazy_tuple",
        "A tuple that has wrong items at the first look, and right ones later.",
        """
class Lazy(tuple):
    looks = 0

    def __iter__(self):
        self.looks += 1
        if self.looks == 1 and self.first is not None:
            return iter(self.first)
        h = self.x
        for _ in range(40):
            h = torch.tanh(h)
        return iter((h, h + 1))


class ModelNew(torch.nn.Module):
    def forward(self, x):
        found = Lazy((x, x))
        found.x = x
        found.first = (x, x) if "candidate" in __import__("sys").modules else None
        return found
""",
        problem="pair",
        says="output 0 is wrong in trial 1",
    ),
)
