import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(dim))
        self.bias = nn.Parameter(torch.rand(dim))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        centred = x - x.mean(dim=-1, keepdim=True)
        scale = torch.rsqrt(centred.square().mean(dim=-1, keepdim=True) + 1e-5)
        return centred * scale * self.weight + self.bias
