"""An optimizer to look at gradients with."""

import torch


class Spy(torch.optim.SGD):
    """Keeps the gradients of each step and leaves the weights alone."""

    def __init__(self, parameters):
        super().__init__(parameters, lr=0.0)
        self.seen = []

    def step(self, closure=None):
        self.seen.append([p.grad.clone() for group in self.param_groups for p in group["params"] if p.grad is not None])
        return super().step(closure)
