import torch
import torch.nn as nn
import torch.nn.functional as F


class ModelNew(nn.Module):
    def __init__(self, channels: int, filters: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, filters, 3, padding=1)
        self.norm = nn.BatchNorm2d(filters)
        self.norm.eval()
        nn.init.uniform_(self.norm.running_mean)
        nn.init.uniform_(self.norm.running_var, 0.5, 1.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        columns = F.unfold(x, 3, padding=1)
        y = (self.conv.weight.flatten(1) @ columns).unflatten(2, x.shape[2:]) + self.conv.bias[:, None, None]
        return torch.relu(self.norm(y)).mean(dim=(2, 3))
