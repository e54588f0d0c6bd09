# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Parameters of published models, against the models that transformers builds of them."""

import json
import subprocess
from typing import Any

import pytest

from docs.tools.page_parts import ROOT
from seatrial.engine_process.process import worker_python
from seatrial.huggingface.config import model_type_for, read_config, write_config
from tests.conftest import MEGATRON
from tests.unit.huggingface.published import PUBLISHED, count_like_transformers, mutated

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]
MUTATED = 200


def counted(configs: list[dict[str, Any]]) -> list[int]:
    """The number of parameters of each model in transformers."""
    done = subprocess.run(
        [worker_python(MEGATRON), str(ROOT / "tests" / "engine" / "count_published.py")],
        input="".join(json.dumps(config) + "\n" for config in configs),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return [int(line) for line in done.stdout.split()]


def test_our_count_is_that_of_transformers() -> None:
    configs = [*PUBLISHED.values(), *mutated(MUTATED, seed=28)]
    models = [read_config(config, "config.json") for config in configs]
    # What we write is the same model to transformers, too.
    written = [
        write_config(kind, model.architecture)
        for model in models
        if isinstance(kind := model_type_for(model.architecture), str)
    ]
    own = [count_like_transformers(model.architecture) for model in models]
    again = [count_like_transformers(read_config(each, "written").architecture) for each in written]
    theirs = counted([*configs, *written])
    different = [
        (ours, real, config)
        for ours, real, config in zip([*own, *again], theirs, [*configs, *written], strict=True)
        if ours != real
    ]
    print(
        f"configs {len(PUBLISHED)}, mutated {MUTATED}, written {len(written)}, "
        f"different {len(different)}"
    )
    assert not different, different[:3]
