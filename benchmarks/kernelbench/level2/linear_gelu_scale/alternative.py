import math

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)
        self.scale = nn.Parameter(torch.rand(outputs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.linear(x)
        inner = y * y * y * 0.044715 + y
        return y * (torch.tanh(inner * math.sqrt(2 / math.pi)) + 1) * (0.5 * self.scale)
