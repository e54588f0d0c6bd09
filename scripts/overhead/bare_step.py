# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The shortest forward step that a GPT script can give to `pretrain`."""

from typing import Any

import torch


def forward_step(iterator: Any, model: Any) -> Any:
    """One micro batch through the model."""
    batch = next(iterator)
    mask = batch["loss_mask"].view(-1).float()
    inputs = (batch[key] for key in ("tokens", "position_ids", "attention_mask"))
    output = model(*inputs, labels=batch["labels"])

    def loss_of(output: torch.Tensor) -> Any:
        loss = torch.sum(output.view(-1).float() * mask)
        count = mask.sum().to(torch.int)
        return loss, count, {"lm loss": torch.stack([loss.detach(), count.float()])}

    return output, loss_of
