"""One large product projects the inputs of all steps."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        self.of_input = nn.Linear(inputs, 3 * hidden)
        self.of_state = nn.Linear(hidden, 3 * hidden)
        self.hidden = hidden

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        state = torch.zeros(x.shape[1], self.hidden, device=x.device)
        for mine in self.of_input(x):
            of_state = self.of_state(state)
            reset, update = torch.sigmoid(mine[:, : 2 * self.hidden] + of_state[:, : 2 * self.hidden]).chunk(2, dim=1)
            new = torch.tanh(torch.addcmul(mine[:, 2 * self.hidden :], reset, of_state[:, 2 * self.hidden :]))
            state = torch.lerp(new, state, update)
        return state
