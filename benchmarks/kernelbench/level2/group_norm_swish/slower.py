import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, channels: int, groups: int) -> None:
        super().__init__()
        self.groups = groups
        self.weight = nn.Parameter(torch.rand(channels))
        self.bias = nn.Parameter(torch.rand(channels))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        size = x.shape[1] // self.groups
        found = []
        for image in x.double():
            for group in range(self.groups):
                own = slice(group * size, (group + 1) * size)
                y = (image[own] - image[own].mean()) / torch.sqrt(image[own].var(correction=0) + 1e-5)
                y = y * self.weight[own, None, None] + self.bias[own, None, None]
                found.append(y * torch.sigmoid(y))
        return torch.stack(found).view_as(x).float()
