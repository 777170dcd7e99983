import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        length = x.shape[1]
        triangle = torch.tril(torch.ones(length, length, device=x.device))
        weights = triangle / triangle.sum(dim=1, keepdim=True)
        return torch.matmul(weights, x)
