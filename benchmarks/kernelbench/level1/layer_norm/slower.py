import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(dim))
        self.bias = nn.Parameter(torch.rand(dim))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x.double()
        variance, mean = torch.var_mean(y, dim=-1, keepdim=True, correction=0)
        return (((y - mean) / torch.sqrt(variance + 1e-5)) * self.weight.double() + self.bias.double()).float()
