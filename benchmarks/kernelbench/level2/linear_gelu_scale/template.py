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
        y = 0.5 * y * (1 + torch.tanh(math.sqrt(2 / math.pi) * (y + 0.044715 * torch.pow(y, 3))))
        return y * self.scale
