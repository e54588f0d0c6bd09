# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The engine bare, on the CPU runtime: the shortest GPT script that calls `pretrain` itself."""

from typing import Any

if __name__ == "__main__":
    from seatrial.worker.cpu.runtime import install

    install()

    import torch
    from megatron.core.datasets import utils
    from megatron.core.datasets.blended_megatron_dataset_builder import (
        BlendedMegatronDatasetBuilder,
    )
    from megatron.core.datasets.gpt_dataset import GPTDatasetConfig, MockGPTDataset
    from megatron.core.enums import ModelType
    from megatron.training import get_args, get_tokenizer, pretrain
    from megatron.training.argument_utils import (
        gpt_config_from_args,
        pretrain_cfg_container_from_args,
    )
    from megatron.training.arguments import parse_and_validate_args

    utils.compile_helpers = lambda: None

    def datasets(sizes: list[int], vp_stage: int | None = None) -> Any:
        """The engine's mock data."""
        args = get_args()
        settings = GPTDatasetConfig(
            random_seed=args.seed,
            sequence_length=args.seq_length,
            split=args.split,
            tokenizer=get_tokenizer(),
            reset_position_ids=False,
            reset_attention_mask=False,
            eod_mask_loss=False,
        )
        return BlendedMegatronDatasetBuilder(MockGPTDataset, sizes, lambda: True, settings).build()

    datasets.is_distributed = True  # type: ignore[attr-defined]

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

    args = parse_and_validate_args()
    container = pretrain_cfg_container_from_args(args, gpt_config_from_args(args))
    pretrain(container, datasets, ModelType.encoder_or_decoder, forward_step)
