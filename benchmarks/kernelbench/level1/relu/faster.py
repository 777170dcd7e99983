"""Writes the result where the input lies, which saves the memory of a new tensor."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu_(x)
