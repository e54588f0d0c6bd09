# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The training engines: list and install them, and show the settings of a run's engine."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from seatrial.engine_process.environments import environment, install
from seatrial.engine_process.process import worker_python
from seatrial.engines.engine import Arguments, Engine
from seatrial.engines.registry import ENGINES
from seatrial.errors import MissingExtraError, UsageError
from seatrial.sdk.plan import Overrides, PathOrText, plan
from seatrial.spec.engine import DEFAULT_ENGINE


@dataclass(frozen=True, slots=True)
class EngineState:
    """A supported engine, and where it is installed."""

    engine: str
    """The name, as in `engine.name` of a spec."""
    version: str
    """The supported version."""
    python: str
    """The Python of its environment. Empty if it is not installed."""


def list_engines() -> list[EngineState]:
    """List the supported engines and the Python that each uses."""
    return [
        EngineState(str(name), engine.version, _python(engine)) for name, engine in ENGINES.items()
    ]


def _python(engine: Engine) -> str:
    try:
        return worker_python(engine)
    except MissingExtraError:
        return ""


@dataclass(frozen=True, slots=True)
class InstalledEngine:
    """The environment of an engine."""

    directory: Path
    versions: dict[str, str]
    """The versions in it, by package."""


def install_engine(name: str, *, tell: Callable[[str], None] | None = None) -> InstalledEngine:
    """Create the environment of an engine from its lock file, unless it is complete, and test it.

    Args:
        name: The engine, such as `llm-foundry`.
        tell: Receives messages.
    """
    if name not in ENGINES:
        raise UsageError(f"{name!r} is not one of {', '.join(ENGINES)}.")
    engine = ENGINES[name]
    if name == DEFAULT_ENGINE:
        raise UsageError(
            f"{engine.title} is part of the worker extra: {engine.installation.command}. To use a "
            f"separate environment, set {engine.installation.variable} to its Python."
        )
    found = install(engine, tell or (lambda _: None))
    return InstalledEngine(environment(engine), found)


def engine_settings(path: PathOrText, overrides: Overrides = ()) -> Arguments:
    """Return the settings that a run passes to its engine.

    Megatron takes flags; LLM Foundry takes a YAML file.
    """
    planned = plan(path, overrides)
    return ENGINES[planned.spec.engine.name].arguments(planned)
