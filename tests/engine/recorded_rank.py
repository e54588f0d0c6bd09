# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""One rank of the engine's own loop that records its losses, norms, parameters and routes."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

from megatron.core.enums import ModelType
from megatron.core.transformer.moe.router import TopKRouter
from megatron.training import pretrain, training
from megatron.training.argument_utils import (
    gpt_config_from_args,
    pretrain_cfg_container_from_args,
)
from megatron.training.arguments import parse_and_validate_args

from seatrial.worker.megatron.arguments import hand_over
from seatrial.worker.megatron.engine_patches import ON_ANY_DEVICE, apply_patches
from seatrial.worker.megatron.gpt import build_datasets, forward_step

apply_patches(ON_ANY_DEVICE)


def run_rank(arguments: list[str], target: Path) -> None:
    """Train as one rank, and write what it measured."""
    measured: dict[str, Any] = {"losses": {}, "norms": {}, "experts": {}, "parameters": 0}
    counts: Counter[str] = Counter()
    log, setup, route = (
        training.training_log,
        training.setup_model_and_optimizer,
        TopKRouter.routing,
    )

    def recorded_log(losses: Any, total: Any, rate: Any, step: int, *rest: Any, **kw: Any) -> Any:
        if "lm loss" in losses:
            measured["losses"][step] = float(losses["lm loss"])
        measured["norms"][step] = None if rest[3] is None else float(rest[3])
        measured["experts"][step] = dict(counts)
        counts.clear()
        return log(losses, total, rate, step, *rest, **kw)

    def counted_setup(*args: Any, **kw: Any) -> Any:
        result = setup(*args, **kw)
        measured["parameters"] = sum(p.numel() for part in result[0] for p in part.parameters())
        return result

    def counted_route(self: Any, *args: Any, **kw: Any) -> Any:
        result = route(self, *args, **kw)
        for expert, tokens in enumerate(result[1].sum(0).tolist()):
            counts[f"{self.layer_number}/{expert}"] += int(tokens)
        return result

    training.training_log, TopKRouter.routing = recorded_log, counted_route
    training.setup_model_and_optimizer = counted_setup
    args = parse_and_validate_args(hand_over(arguments))
    container = pretrain_cfg_container_from_args(args, gpt_config_from_args(args))
    pretrain(container, build_datasets, ModelType.encoder_or_decoder, forward_step)
    target.write_text(json.dumps(measured))
