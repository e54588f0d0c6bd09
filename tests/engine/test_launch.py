# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The launches on one host that the pages show, typed as they stand there, with smaller values."""

import pytest

from docs.tools.page_parts import ROOT
from docs.tools.tutorial.walk import Walk, walking
from seatrial.checks.repairs.yaml_edits import applied
from seatrial.recipes.shipped import recipe

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]

HERE = ("tests/engine/test_launch.py",)
WAIT = f"<!-- executed by: {HERE[0]} -->\n```console\n$ seatrial wait {{}}\n```\n"


def walked(walk: Walk, page: str, *changes: tuple[str, str]) -> str:
    """What a page's launch and the wait for its end print."""
    text = (ROOT / page).read_text(encoding="utf-8")
    for old, new in changes:
        assert text.count(old) == 1
        text = text.replace(old, new)
    return walk.through_text(text + WAIT.format(walk.run), HERE)


@pytest.mark.slow
def test_a_run_on_one_host_is_launched_and_watched() -> None:
    with walking("/tmp/pond", "pond") as walk:
        printed = walked(
            walk,
            "docs/platforms/one-host.md",
            ("steps: 200", "steps: 20"),
            ("steps: 50", "steps: 10"),
        )
    assert "Launched pond, attempt 1" in printed
    assert "step 20 of 20" in printed
    assert "attempt 1 succeeded" in printed


@pytest.mark.slow
def test_the_variants_of_the_ablation_are_launched_in_turn_and_compared() -> None:
    with walking("/tmp/ablation", "gpt2-large-ablation") as walk:
        spec = applied(
            recipe("gpt2-large-ablation").text,
            [
                "model.preset=stories-260k",
                "data={mock: true}",
                "training.benchmark_steps=4",
                "training.micro_batch_size=2",
                "training.global_batch_size=8",
                "training.precision=fp32",
                # The CPU build of the engine has no context parallelism.
                "variants={one-gpu: [cluster.processes_per_node=1], data: [], "
                "tensor: [parallelism.tp_size=2, parallelism.sequence_parallel=false]}",
                f"cluster.storage.mount={walk.directory}",
            ],
        )
        (walk.directory / "run.yaml").write_text(spec, encoding="utf-8")
        page = (ROOT / "docs/coming-from/parallelism-notes.md").read_text(encoding="utf-8")
        printed = walk.through_text(page, HERE)
        again = walk.through_text(page, HERE)
        report = (walk.directory / "gpt2-large-ablation-sweep.html").read_text(encoding="utf-8")
    rows = [line.split() for line in printed.splitlines() if line.endswith("succeeded")]
    assert [row[0] for row in rows if row[1] == "tp"] == ["one-gpu", "data", "tensor"]
    assert "tp 2 · pp 1 · dp 1" in printed
    assert "gpt2-large-ablation-tensor" in report
    # The second call launches nothing: the variants are done.
    assert "running, 1 of 1" not in again
