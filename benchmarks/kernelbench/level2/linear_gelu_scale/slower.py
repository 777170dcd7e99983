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
        z = y.double()
        z = 0.5 * z * (1 + torch.tanh(math.sqrt(2 / math.pi) * (z + 0.044715 * torch.pow(z, 3))))
        return z.float() * self.scale
