import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, channels: int, groups: int) -> None:
        super().__init__()
        self.groups = groups
        self.weight = nn.Parameter(torch.rand(channels))
        self.bias = nn.Parameter(torch.rand(channels))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = x.reshape(x.shape[0], self.groups, -1)
        centred = rows - rows.mean(dim=2, keepdim=True)
        y = centred * torch.rsqrt(centred.square().mean(dim=2, keepdim=True) + 1e-5)
        y = torch.addcmul(self.bias[:, None, None], y.view_as(x), self.weight[:, None, None])
        return torch.sigmoid(y).mul_(y)
