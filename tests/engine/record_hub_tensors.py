# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Record the tensors that transformers itself writes for the tiny model of each type.

Run it with the worker's Python; `tests/unit/checkpoints/exchange/test_maps.py` reads the result.
"""

import json
import re
from pathlib import Path
from tempfile import TemporaryDirectory

from transformers import AutoConfig, AutoModelForCausalLM

from seatrial.checkpoints.exchange.safetensors_file import placed_tensors
from seatrial.checkpoints.exchange.weight_map import config_of_model
from seatrial.huggingface.config import HubModel
from tests.engine.model_types import FAMILIES

RECORD = Path(__file__).parents[1] / "unit/checkpoints/exchange/transformers_tensors.json"


def main() -> None:
    """Build each model and list its file."""
    found = {}
    for model_type, architecture in FAMILIES.items():
        with TemporaryDirectory() as directory:
            model = HubModel(model_type, architecture, 0.02)
            config = config_of_model(model, {}, "float32", {})
            Path(directory, "config.json").write_text(json.dumps(config))
            built = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(directory))
            built.save_pretrained(directory)
            there = placed_tensors(Path(directory))
            # The other experts are like the first.
            found[model_type] = {
                name: placed.tensor.shape
                for name, placed in sorted(there.items())
                if not re.search(r"\.experts\.[1-9]", name)
            }
    lines = ",\n".join(f'"{name}": {json.dumps(tensors)}' for name, tensors in found.items())
    RECORD.write_text(f"{{\n{lines}\n}}\n")


if __name__ == "__main__":
    main()
