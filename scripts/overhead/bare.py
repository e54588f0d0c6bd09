# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The engine bare: the same model entry and the same CPU runtime, without Seatrial's observer."""

if __name__ == "__main__":
    from seatrial.worker.cpu.runtime import install

    install()

    from megatron.core.enums import ModelType
    from megatron.training import pretrain
    from megatron.training.argument_utils import (
        gpt_config_from_args,
        pretrain_cfg_container_from_args,
    )
    from megatron.training.arguments import parse_and_validate_args

    from seatrial.worker.gpt import build_datasets, forward_step
    from seatrial.worker.replacements import ON_ANY_DEVICE, replace

    replace(ON_ANY_DEVICE)

    args = parse_and_validate_args()
    container = pretrain_cfg_container_from_args(args, gpt_config_from_args(args))
    pretrain(container, build_datasets, ModelType.encoder_or_decoder, forward_step)
