# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Record the engine's own rank groups and stage sizes, for the tests of the planner.

Run it with a Python that has megatron-core 0.19.2 installed:

python tests/engine/record_engine_layouts.py > tests/unit/planning/engine_layouts.json
"""

import json
from importlib.metadata import version
from types import SimpleNamespace

from megatron.core.parallel_state import RankGenerator
from megatron.core.transformer.transformer_block import get_num_layers_to_build

ORDER = "tp-cp-ep-dp-pp"
LAYOUTS = [
    # tp, cp, dp, pp, ep, etp
    (1, 1, 8, 1, 1, 1),
    (8, 1, 1, 1, 1, 1),
    (2, 1, 2, 2, 1, 1),
    (2, 2, 2, 2, 1, 1),
    (1, 1, 8, 2, 4, 1),
    (2, 1, 4, 2, 4, 1),
    (2, 2, 2, 2, 2, 2),
    (4, 2, 4, 2, 8, 1),
    (3, 1, 5, 2, 1, 1),
]
STAGES = [
    # layers, pp, vp, first, last, embedding counts as a layer, loss does
    (8, 2, 1, None, None, False, False),
    (8, 2, 4, None, None, False, False),
    (8, 2, 2, None, None, False, False),
    (96, 16, 3, None, None, False, False),
    (126, 8, 1, 15, 15, False, False),
    (94, 8, 1, 11, 11, False, False),
    (30, 4, 1, 6, None, False, False),
    (31, 4, 1, None, 7, False, False),
    (32, 4, 2, 4, 4, False, False),
    (10, 2, 1, 4, 6, False, False),
    # Llama 3.1 405B: 126 layers and two more.
    (126, 8, 1, None, None, True, True),
    (126, 8, 8, None, None, True, True),
    (126, 16, 8, None, None, True, True),
    (127, 8, 4, None, None, True, False),
    (7, 4, 2, None, None, False, True),
    (6, 2, 2, None, None, True, True),
]
NAMES = ("layers", "pp", "vp", "first", "last", "embedding", "loss")


def groups(tp: int, cp: int, dp: int, pp: int, ep: int, etp: int) -> dict[str, list[list[int]]]:
    """The groups along each axis and along the pairs that training uses."""
    world = tp * cp * dp * pp
    dense = RankGenerator(tp=tp, ep=1, dp=dp, pp=pp, cp=cp, order=ORDER)
    edp = world // (etp * ep * pp)
    expert = RankGenerator(tp=etp, ep=ep, dp=edp, pp=pp, cp=1, order=ORDER)
    found = {axes: dense.get_ranks(axes) for axes in ("tp", "cp", "dp", "pp", "dp-cp", "tp-pp")}
    for ours, theirs in {"etp": "tp", "ep": "ep", "edp": "dp", "etp-ep": "tp-ep"}.items():
        found[ours] = expert.get_ranks(theirs)
    return found


def stages(
    layers: int,
    pp: int,
    vp: int,
    first: int | None,
    last: int | None,
    embedding: bool,
    loss: bool,
) -> list[list[int]]:
    """How many layers each chunk of each stage has."""
    settings = SimpleNamespace(
        pipeline_model_parallel_layout=None,
        num_layers=layers,
        pipeline_model_parallel_size=pp,
        virtual_pipeline_model_parallel_size=vp if vp > 1 else None,
        num_layers_in_first_pipeline_stage=first,
        num_layers_in_last_pipeline_stage=last,
        account_for_embedding_in_pipeline_split=embedding,
        account_for_loss_in_pipeline_split=loss,
    )
    return [
        [get_num_layers_to_build(settings, vp_stage=chunk, pp_rank=stage) for chunk in range(vp)]
        for stage in range(pp)
    ]


def main() -> None:
    """Print the record."""
    engine = f"megatron-core {version('megatron-core')}"
    record = {
        "source": f"{engine}, tests/engine/record_engine_layouts.py",
        "layouts": [
            {
                "sizes": dict(zip(("tp", "cp", "dp", "pp", "ep", "etp"), sizes, strict=True)),
                "groups": groups(*sizes),
            }
            for sizes in LAYOUTS
        ],
        "stages": [
            {
                "sizes": dict(zip(NAMES, sizes, strict=True)),
                "layers": stages(*sizes),
            }
            for sizes in STAGES
        ],
    }
    print(json.dumps(record))


if __name__ == "__main__":
    main()
