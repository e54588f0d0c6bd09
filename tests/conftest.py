# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What all tests share: a catalog without a user's own facts, and specs as text."""

import os
from pathlib import Path
from textwrap import dedent

import pytest
from hypothesis import settings

from seatrial.catalog.catalog import Catalog, default_catalog
from seatrial.engines.registry import ENGINES
from seatrial.planning.plan import Plan
from seatrial.planning.planner import plan_run
from seatrial.planning.resolve import resolve_basis
from seatrial.spec.engine import REGISTERED_ENGINES
from seatrial.spec.loader import LoadedSpec, loads
from tests.toy_engine.engine import REGISTERED

MEGATRON = ENGINES["megatron"]

SPEC = dedent(
    """\
    apiVersion: seatrial.dev/v1alpha1
    name: slim-7b
    model: {preset: gpt3-7.5b}
    data: {mock: true}
    training:
      steps: 1000
      micro_batch_size: 4
      global_batch_size: 1024
    parallelism:
      tp_size: 4
      pp_size: 1
      vp_size: 1
      cp_size: 1
      ep_size: 1
      sequence_parallel: true
      sharding: optimizer
      recompute: selective
    cluster: {profile: eks, node_type: p4d.24xlarge, nodes: 2}
    checkpoints: {every_steps: 100}
    """
)

# No test asks the real Hub, or the network where that is; read by its library when that is loaded.
os.environ["HF_ENDPOINT"] = "http://127.0.0.1:9"

# How long an example takes says more about the machine than about the code.
settings.register_profile("seatrial", deadline=None)
settings.load_profile("seatrial")


@pytest.fixture(autouse=True)
def _no_user_settings(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keep a developer's own catalog, colours and GPUs out of the tests."""
    monkeypatch.setattr("seatrial.planning.resolve.detected_gpus", list)
    monkeypatch.setenv("SEATRIAL_CATALOG", str(tmp_path_factory.mktemp("no-catalog")))
    monkeypatch.setenv("NO_COLOR", "1")
    # For the commands that tests start: the code of this checkout, wherever they run.
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1] / "src"))
    default_catalog.cache_clear()


@pytest.fixture(scope="session")
def catalog() -> Catalog:
    """The shipped catalog."""
    return Catalog()


@pytest.fixture
def toy_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A third engine that specs can name, and that its worker finds below the checkout."""
    monkeypatch.setitem(REGISTERED_ENGINES, "toy", REGISTERED)
    root = Path(__file__).parents[1]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(root / "src"), str(root))))


@pytest.fixture
def spec_file(tmp_path: Path) -> Path:
    """A good spec in a file."""
    path = tmp_path / "run.yaml"
    path.write_text(SPEC)
    return path


def loaded(*overrides: str) -> LoadedSpec:
    """The good spec with overrides."""
    return loads(SPEC, "run.yaml", overrides)


def plan_spec(spec: LoadedSpec, catalog: Catalog) -> Plan:
    """The plan of a spec."""
    return plan_run(resolve_basis(spec, catalog)).plan


def resolved(*overrides: str) -> Plan:
    """The plan of the good spec with overrides."""
    return plan_spec(loaded(*overrides), Catalog())


def pytest_sessionfinish(session: pytest.Session) -> None:
    """In CI a skipped test fails the run: there a missing program is a defect of `.ci/run`."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if not os.environ.get("CI") or reporter is None or not reporter.stats.get("skipped"):
        return
    reporter.write_line("CI: skipped tests count as failures; install what they need.", red=True)
    session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print each figure that a test recorded with `record_property("figure", text)`."""
    figures = [
        value
        for reports in terminalreporter.stats.values()
        for report in reports
        if getattr(report, "when", None) == "call"
        for name, value in report.user_properties
        if name == "figure"
    ]
    if figures:
        terminalreporter.section("figures")
        for figure in figures:
            terminalreporter.write_line(str(figure))
