# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Adam as in Transformer Engine and Apex: the step counter is in the parameter group.

On a GPU, the engine uses one of these implementations. On a host with neither, it falls back to
torch's, where the counter is per parameter and the optimizer state cannot be resharded (the engine
asserts that all counters are equal). This implementation has the same format as on a GPU, so the
engine takes the same branch.
"""

import math
import sys
import types
from collections.abc import Iterable
from typing import Any

import torch


class FusedAdam(torch.optim.Optimizer):
    """AdamW, or Adam if `adam_w_mode` is off, in plain tensor operations."""

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        *,
        bias_correction: bool = True,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        adam_w_mode: bool = True,
        weight_decay: float = 0.0,
        capturable: bool = False,
    ) -> None:
        """Accept the arguments that the engine passes to Apex's FusedAdam; reject unknown ones."""
        if capturable:
            raise NotImplementedError("An optimizer inside a CUDA graph cannot be rehearsed.")
        self.adam_w_mode = adam_w_mode
        constants = {
            "lr": lr,
            "bias_correction": bias_correction,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
        }
        super().__init__(params, constants)

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        """Update every parameter that has a gradient."""
        for group in self.param_groups:
            if group["params"]:
                group["step"] = group.get("step", 0) + 1
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._update(parameter, group)

    def _update(self, parameter: torch.Tensor, group: dict[str, Any]) -> None:
        state = self.state[parameter]
        if not state:
            state["exp_avg"] = torch.zeros_like(parameter)
            state["exp_avg_sq"] = torch.zeros_like(parameter)
        beta1, beta2 = group["betas"]
        correction1 = 1 - beta1 ** group["step"] if group["bias_correction"] else 1.0
        correction2 = 1 - beta2 ** group["step"] if group["bias_correction"] else 1.0
        gradient = parameter.grad
        if gradient is None:
            return
        if self.adam_w_mode:
            parameter.mul_(1 - group["lr"] * group["weight_decay"])
        elif group["weight_decay"]:
            gradient = gradient.add(parameter, alpha=group["weight_decay"])
        state["exp_avg"].lerp_(gradient, 1 - beta1)
        state["exp_avg_sq"].mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
        root = state["exp_avg_sq"].sqrt() / math.sqrt(correction2)
        parameter.addcdiv_(
            state["exp_avg"], root.add_(group["eps"]), value=-group["lr"] / correction1
        )


def offer_as_apex() -> None:
    """Make the engine's `from apex.optimizers import FusedAdam` find this class.

    Only that module is provided: `import apex` itself still fails, so the engine chooses unfused
    layer norms.
    """
    module = types.ModuleType("apex.optimizers")
    module.FusedAdam = FusedAdam  # type: ignore[attr-defined]
    module.FusedSGD = torch.optim.SGD  # type: ignore[attr-defined]
    sys.modules["apex.optimizers"] = module
