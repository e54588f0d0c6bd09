# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The engine still has what Seatrial stands on: flags, functions, replaced parts."""

import ast
import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from seatrial.catalog.catalog import Catalog, Kind
from seatrial.engine_process.process import ask_engine, worker_python
from seatrial.engines.megatron.command_line import engine_arguments
from seatrial.engines.megatron.flags_from_spec import FLAGS
from seatrial.engines.megatron.parser_options import known_options
from seatrial.engines.megatron.trial import CPU_ARGUMENTS, production_arguments
from seatrial.spec.loader import loads
from seatrial.worker.process import UNSUITABLE
from tests.conftest import MEGATRON, plan_spec
from tests.engine.conftest import Figure

pytestmark = [pytest.mark.engine, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[2]


def in_worker(script: str) -> str:
    """What a script prints in the worker's environment."""
    done = subprocess.run(
        [worker_python(MEGATRON), "-c", script],
        env=os.environ | {"PYTHONPATH": str(ROOT / "src"), "PYTHONWARNINGS": "ignore"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.strip().splitlines()[-1]


def test_the_list_of_options_is_the_parsers_own() -> None:
    done = subprocess.run(
        [worker_python(MEGATRON), str(ROOT / "scripts" / "list_engine_options.py")],
        capture_output=True,
        text=True,
        check=True,
    )
    listed = (ROOT / "src/seatrial/engines/megatron/options.txt").read_text()
    assert [line for line in done.stdout.splitlines() if not line.startswith("#")] == [
        line for line in listed.splitlines() if not line.startswith("#")
    ]


def test_every_mapped_flag_exists() -> None:
    known = set(known_options())
    assert {flag.name for flag in FLAGS} <= known
    assert set(CPU_ARGUMENTS) <= known


def test_the_layouts_that_the_planner_is_tested_with_are_the_engines() -> None:
    done = subprocess.run(
        [worker_python(MEGATRON), str(ROOT / "tests/engine/record_engine_layouts.py")],
        capture_output=True,
        text=True,
        check=True,
    )
    recorded = (ROOT / "tests/unit/planning/engine_layouts.json").read_text()
    assert json.loads(done.stdout.splitlines()[-1]) == json.loads(recorded)


def test_everything_that_is_replaced_or_watched_is_still_there() -> None:
    script = """
import inspect, json
import torch
from seatrial.worker.megatron.cpu.redirection import ANSWERED, PASSED_THROUGH
missing = [name for name in (*ANSWERED, *PASSED_THROUGH) if not hasattr(torch.cuda, name)]
from seatrial.worker.megatron.cpu.runtime import install
from seatrial.worker.megatron.engine_patches import ON_ANY_DEVICE, ON_CPU, RELIED_ON, find
install()
listed = [(r.module, r.name) for r in (*ON_ANY_DEVICE, *ON_CPU)]
for module, name in (*listed, *RELIED_ON):
    try:
        find(module, name)
    except (ImportError, AttributeError):
        missing.append(name)
# The dispatcher's point of copying, and the sizes that are made numbers there.
from megatron.core.transformer.moe import token_dispatcher
source = inspect.getsource(token_dispatcher)
wanted = ("cuda_dtoh_point", "input_splits", "output_splits", "output_splits_tp")
missing += [name for name in wanted if f"self.{name}" not in source]
# The optimizer is offered where the engine looks for Apex's.
from megatron.core import optimizer
offered = "from apex.optimizers import FusedAdam"
missing += [] if offered in inspect.getsource(optimizer) else ["apex"]
from seatrial.worker.megatron.observe import MegatronObserver
from megatron.training import training
missing += [name for name in MegatronObserver(None).wrappers() if not hasattr(training, name)]
print(json.dumps(missing))
"""
    assert json.loads(in_worker(script)) == []


def test_an_unknown_call_of_torch_cuda_is_named() -> None:
    script = """
from seatrial.worker.megatron.cpu.runtime import install
install()
import torch
import megatron.core
file = megatron.core.__path__[0] + "/somewhere.py"
code = compile("torch.cuda.memory_snapshot()", file, "exec")
try:
    exec(code, {"torch": torch})
except NotImplementedError as error:
    print(error)
"""
    said = in_worker(script)
    assert "torch.cuda.memory_snapshot" in said
    assert "core/somewhere.py, line 1" in said


def test_a_batch_goes_to_the_gpu() -> None:
    script = """
import torch
moved = []
torch.Tensor.cuda = lambda self, *args, **kwargs: moved.append(kwargs) or self
from seatrial.worker.megatron.gpt import _on_device
_on_device(torch.zeros(2)), _on_device(None)
print(moved)
"""
    assert in_worker(script) == "[{'non_blocking': True}]"


def test_the_helper_is_not_compiled_again_on_any_device() -> None:
    script = """
from seatrial.worker.megatron.engine_patches import ON_ANY_DEVICE, apply_patches
apply_patches(ON_ANY_DEVICE)
from megatron.core.datasets.utils import compile_helpers
print(compile_helpers())
"""
    assert in_worker(script) == "None"


def test_the_worker_leaves_a_gpu_alone() -> None:
    script = """
import torch
before = torch.cuda.is_available
import seatrial.worker.megatron.gpt, seatrial.worker.megatron.observe
import seatrial.worker.megatron.training
import sys
redirected = "seatrial.worker.megatron.cpu.redirection" in sys.modules
print(torch.cuda.is_available is before and not redirected)
"""
    assert in_worker(script) == "True"


MEGATRON_MODELS = [
    name for name in Catalog().names(Kind.MODELS) if Catalog().model(name).engine == "megatron"
]


def spec_of(name: str, catalog: Catalog) -> str:
    """A spec with the preset's own tp and pp, on as many nodes as that takes."""
    preset = catalog.model(name)
    layers, tp, pp, ep = preset.architecture.layers, preset.tp_size, preset.pp_size, preset.ep_size
    ends = ""
    if layers % pp:
        share = -(-layers // pp)
        first = (layers - share * (pp - 2)) // 2
        ends = f", first_stage_layers: {first}, last_stage_layers: {first}"
    split = "true" if tp > 1 else "false"
    nodes = max(1, tp * pp * ep // 8)
    return f"""
apiVersion: seatrial.dev/v1alpha1
name: counted
model: {{preset: {name}}}
data: {{mock: true}}
training: {{steps: 10, micro_batch_size: 1, global_batch_size: {nodes * 8}}}
parallelism: {{tp_size: {tp}, pp_size: {pp}, vp_size: 1, cp_size: 1, ep_size: {ep},
  sequence_parallel: {split}, sharding: optimizer, recompute: none{ends}}}
cluster: {{profile: aks, node_type: Standard_ND96isr_H100_v5, nodes: {nodes}}}
checkpoints: {{every_steps: 10}}
"""


COUNTED = "recompute: none, embedding_as_layer: true, loss_as_layer: true"
SHORT = ("llama3-405b", "mixtral-8x7b")
"""The models that every run of CI counts; `make engine` counts all."""


def test_the_engine_counts_the_same_where_embedding_and_loss_are_layers(
    catalog: Catalog,
) -> None:
    text = spec_of("llama3-405b", catalog)
    given = re.sub(r", first_stage_layers: \d+, last_stage_layers: \d+", "", text)
    given = re.sub(r"pp_size: \d+, vp_size: 1", "pp_size: 8, vp_size: 8", given)
    given = given.replace("recompute: none", COUNTED)
    plan = plan_spec(loads(given, "run.yaml"), catalog)
    assert [len(plan.stages[stage].layers) for stage in (0, 1, 7)] == [15, 16, 15]
    arguments = production_arguments(engine_arguments(plan)) | {"padded-vocab-size": None}
    answer = ask_engine(arguments, plan.layout.world_size, [0, 1, 7], 300, engine=MEGATRON)
    assert answer["accepted"], answer["reason"]
    counts = {int(stage): count for stage, count in answer["parameters"].items()}
    assert counts == {stage: plan.stage_parameters[stage] for stage in (0, 1, 7)}


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=() if n in SHORT else pytest.mark.slow) for n in MEGATRON_MODELS],
)
def test_the_engine_counts_the_same_parameters(name: str, catalog: Catalog, figure: Figure) -> None:
    plan = plan_spec(loads(spec_of(name, catalog), "run.yaml"), catalog)
    stages = sorted({0, (plan.layout.pp_size - 1) // 2, plan.layout.pp_size - 1})
    # The engine pads the vocabulary itself here, so that its rule is compared with the plan's.
    arguments = production_arguments(engine_arguments(plan)) | {"padded-vocab-size": None}
    answer = ask_engine(arguments, plan.layout.world_size, stages, 300, engine=MEGATRON)
    assert answer["accepted"], answer["reason"]
    counts = {int(stage): count for stage, count in answer["parameters"].items()}
    assert counts == {stage: plan.stage_parameters[stage] for stage in stages}
    assert answer["padded_vocab_size"] == plan.model.padded_vocab_size
    layout = f"tp {plan.layout.tp_size}, pp {plan.layout.pp_size}, ep {plan.layout.ep_size}"
    figure("parameters", name, layout, ", ".join(f"{counts[stage]:,}" for stage in stages))


def test_the_engine_refuses_what_does_not_fit(catalog: Catalog) -> None:
    plan = plan_spec(loads(spec_of("gpt3-175b", catalog), "run.yaml"), catalog)
    answer = ask_engine(production_arguments(engine_arguments(plan)), 16, [0], 300, engine=MEGATRON)
    assert not answer["accepted"]
    assert "world size (16) is not divisible by total_model_size" in answer["reason"]


def test_a_revision_of_the_tokenizer_is_fetched_first() -> None:
    script = """
from argparse import Namespace
from seatrial.worker.megatron import gpt
asked = []
gpt.snapshot_download = lambda name, **how: asked.append((name, how["revision"])) or "/copy"
told = Namespace(seed=1, tokenizer_model="some/where")
print([asked, vars(gpt.pin_tokenizer(told, "abc"))])
"""
    asked, told = ast.literal_eval(in_worker(script))
    assert asked == [("some/where", "abc")]
    assert told == {"seed": 1, "tokenizer_model": "/copy"}


def test_an_image_without_transformer_engine_says_what_to_do() -> None:
    script = """
import io, sys
from seatrial.worker.megatron import run
sys.stderr = io.StringIO()
try:
    run.main(["--bf16"])
except SystemExit as end:
    print(sys.stderr.getvalue().strip(), end.code)
"""
    said = in_worker(script)
    assert said.endswith(str(UNSUITABLE))
    assert "does not include Transformer Engine" in said
    assert "engine.options.transformer-impl=local" in said


def test_a_fusion_that_the_image_lacks_is_left_out() -> None:
    script = """
from argparse import Namespace
from seatrial.worker.megatron.training import fit_to_host
from seatrial.worker.settings import settings
print(fit_to_host(settings(), Namespace(gradient_accumulation_fusion=True)))
"""
    assert in_worker(script) == "Namespace(gradient_accumulation_fusion=False)"


def test_a_pinned_tokenizer_is_known_by_its_commit_whatever_host_it_lies_on() -> None:
    """The engine names the index cache after it, and pods must find what was built elsewhere."""
    printed = in_worker(
        "import os\n"
        "from seatrial.worker.megatron.cpu.runtime import install\n"
        "install()\n"
        "from megatron.core.tokenizers.text.text_tokenizer import MegatronTokenizerText\n"
        "from seatrial.worker.megatron.gpt import known_by_commit\n"
        "def made(path):\n"
        "    found = MegatronTokenizerText.__new__(MegatronTokenizerText)\n"
        "    found.path, found.additional_args = path, {}\n"
        "    return found\n"
        "free = known_by_commit(made('/a/snapshots/607a30d')).unique_identifiers\n"
        "os.environ['SEATRIAL_TOKENIZER_REVISION'] = 'main'\n"
        "one, other = (known_by_commit(made(f'{home}/snapshots/607a30d')).unique_identifiers\n"
        "              for home in ('/a', '/b'))\n"
        "print(one == other, one == free)\n"
    )
    assert printed == "True False"
