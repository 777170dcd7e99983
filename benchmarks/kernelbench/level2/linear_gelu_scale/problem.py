"""A linear layer, GELU by its tanh formula, and a scale for each output."""

import math

import torch
import torch.nn as nn

batch_size = 16384
inputs = 1024
outputs = 8192


class Model(nn.Module):
    """gelu(W x + b) * scale."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)
        self.scale = nn.Parameter(torch.rand(outputs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.linear(x)
        y = 0.5 * y * (1 + torch.tanh(math.sqrt(2 / math.pi) * (y + 0.044715 * torch.pow(y, 3))))
        return y * self.scale


def get_inputs():
    return [torch.randn(batch_size, inputs)]


def get_init_inputs():
    return [inputs, outputs]
