# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""One small model of each model type."""

from typing import Any

from seatrial.huggingface.config import HubModel
from tests.engine.model_types import FAMILIES


def changed(model: HubModel, **changes: Any) -> HubModel:
    """The model with other dimensions."""
    return HubModel(
        model.model_type, model.architecture.replace(**changes), model.init_std, model.exact_gelu
    )


EVERY = tuple(HubModel(name, model, 0.02) for name, model in FAMILIES.items())
BY_TYPE = {model.model_type: model for model in EVERY}
LLAMA, GPT2, MIXTRAL = BY_TYPE["llama"], BY_TYPE["gpt2"], BY_TYPE["mixtral"]
