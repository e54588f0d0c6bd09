# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Why a rule rejects what the engine's validation accepts: each rule, with its reason.

`tests.engine.agreement.compare` fails if a rule is responsible for a difference without a reason.
"""

REASONS: dict[str, str] = {
    "ST-SPEC-004": "A dropout of 1 zeroes all activations; the engine accepts any number.",
    "ST-SPEC-005": (
        "Fields that contradict each other. The engine silently ignores one of them (sequence "
        "parallelism with one tensor-parallel rank, recompute modules with recomputation "
        "disabled, an embedding that a custom layout puts behind an empty stage), or fails later "
        "(attention heads not divisible by the number of key-value heads, a top-k larger than the "
        "number of experts, an empty training split). It sorts a batch schedule, and accepts a "
        "batch size that is followed by the same one."
    ),
    "ST-PLAN-004": "More processes per node than GPUs; the engine sees only the world size.",
    "ST-PLAN-006": "The GPU does not support this precision; the engine fails at the first step.",
    "ST-PLAN-011": "Validation does not check memory.",
    "ST-LAYOUT-002": "Rejected when the process groups are created (initialize_model_parallel).",
    "ST-LAYOUT-003": "Rejected when the attention layers are built.",
    "ST-LAYOUT-004": (
        "Rejected when the layers are built: a layer width is not divisible by the tensor-parallel "
        "size."
    ),
    "ST-LAYOUT-005": (
        "With virtual stages, the engine divides the layers across the stages only when it builds "
        "a stage, not during validation. With one stage, setting the number of layers in the last "
        "stage silently builds a model with that number of layers (Megatron-LM issue 1778). With a "
        "custom layout, a rank without any part of the model cannot load a checkpoint, and the "
        "engine's rule against multi-token prediction on the first rank does not cover its last "
        "chunk."
    ),
    "ST-LAYOUT-006": (
        "Rejected when a stage is built: its layers cannot be divided evenly across its chunks."
    ),
    "ST-LAYOUT-007": "A dense model has no experts; the engine ignores the expert-parallel size.",
    "ST-LAYOUT-008": (
        "When training starts, the engine rejects a mixture-of-experts model with tensor "
        "parallelism but without sequence parallelism; a sequence that cannot be split evenly "
        "fails in the first forward pass."
    ),
    "ST-LAYOUT-013": (
        "The model does not have the module to recompute, or the recomputation hangs (an MLP with "
        "biases)."
    ),
    "ST-PRECISION-001": (
        "The matrix kernels of Transformer Engine reject the widths at the first step; validation "
        "does not run them."
    ),
    "ST-BATCH-003": "Rejected by the interleaved schedule, at the first step.",
    "ST-BATCH-002": (
        "An early batch size that cannot be divided. The engine checks a batch size only when "
        "training reaches it."
    ),
    "ST-BATCH-005": (
        "A batch size of the schedule that no step uses, which the engine ignores, or one that "
        "grows so much at once that its first step would count as hung."
    ),
    "ST-LENGTH-002": (
        "Rejected when the learning-rate schedule is created, after the model is built."
    ),
    "ST-LENGTH-003": "The run would finish before its first save; the engine accepts this.",
    "ST-LENGTH-006": "There is no validation data; the engine skips evaluation.",
    "ST-LENGTH-007": "The engine decays the learning rate from where the warm-up has brought it.",
    "ST-OPTION-001": (
        "A performance option without what it needs. The engine ignores it (parameter overlap "
        "without sharding), or fails when a layer is built or in the first step."
    ),
    "ST-OPTION-002": (
        "A performance option that has no effect on this run (overlap without traffic, experts "
        "without experts), is silently switched off (tensor overlap with latent attention), or "
        "fails in the first step."
    ),
    "ST-ENGINE-006": (
        "The engine has no argument for this setting, and would train a different model, or it "
        "fails when it builds the model (FSDP with pipeline stages) or at the first save (FSDP in "
        "fp32 with SwiGLU)."
    ),
}
