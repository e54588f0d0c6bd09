# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Why a rule refuses what the engine's validation accepts: each rule, with its reason.

`tests.engine.agreement.compare` fails if a rule is responsible for a difference without a reason.
"""

REASONS: dict[str, str] = {
    "ST-SPEC-004": "A dropout of 1 leaves nothing of the signal; the engine takes any number.",
    "ST-SPEC-005": (
        "Fields that contradict each other. The engine drops one without a word (sequence "
        "parallelism with one tensor-parallel rank, modules of a recomputation that is off), or "
        "fails later (heads that cannot share key and value heads evenly, a token through more "
        "experts than there are, a split without data to train on)."
    ),
    "ST-PLAN-004": "More processes than the node has GPUs; the engine sees only their sum.",
    "ST-PLAN-006": "The GPU cannot compute in this format; the engine finds out in the first step.",
    "ST-PLAN-011": "Validation does not look at memory.",
    "ST-LAYOUT-002": "Refused when the process groups are made (initialize_model_parallel).",
    "ST-LAYOUT-003": "Refused when the attention layers are built.",
    "ST-LAYOUT-004": "Refused when the layers are built: a width is not divisible.",
    "ST-LAYOUT-005": (
        "With chunks, validation does not divide the layers over the stages: building one does. "
        "With one stage, a number of layers for its end makes a model of that many layers, without "
        "a word (Megatron-LM issue 1778)."
    ),
    "ST-LAYOUT-006": "Refused when a stage is built: its layers do not divide over its chunks.",
    "ST-LAYOUT-007": "A dense model has no experts; the engine leaves the degree unused.",
    "ST-LAYOUT-008": (
        "Experts with tensor parallelism are refused without sequence parallelism when training "
        "begins; a sequence that does not split fails in the first forward pass."
    ),
    "ST-LAYOUT-013": (
        "What is to be computed again does not exist in the model, or never ends (an mlp with "
        "biases)."
    ),
    "ST-BATCH-003": "Refused by the interleaved schedule, at the first step.",
    "ST-LENGTH-002": "Refused when the schedule of the learning rate is made, after the model.",
    "ST-LENGTH-003": "The run would end before its first save; the engine does not mind.",
    "ST-LENGTH-006": "There is no data to evaluate on; the engine leaves evaluation out.",
    "ST-ENGINE-006": "No argument of the engine says this; it would train another model.",
}
