# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""HyperPodPyTorchJob, whose definition is not published, against the models of its own package."""

import importlib.util
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, ValidationError

from seatrial.rendering.manifest import Manifest
from seatrial.spec.cluster import Operator
from tests.cluster.definitions import NEWEST, hyperpod_models
from tests.cluster.matrix import rendered

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def model() -> Iterator[type[BaseModel]]:
    """The model of the job's spec, made to refuse what it does not know."""
    path = hyperpod_models()
    found = importlib.util.spec_from_file_location("hyperpod_models", path)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    sys.modules["hyperpod_models"] = module
    found.loader.exec_module(module)
    models = list(_models(module))
    for each in models:
        each.model_config = ConfigDict(extra="forbid", populate_by_name=True)
    # Twice: a model is rebuilt with those below it as they were.
    for each in [*models, *models]:
        each.model_rebuild(force=True)
    yield module._HyperPodPytorchJob
    del sys.modules["hyperpod_models"]


def test_every_job_is_as_the_models_want_it(model: type[BaseModel]) -> None:
    made = rendered(NEWEST, frozenset({Operator.HYPERPOD}), whole=True)
    jobs = [each for each in made.distinct.values() if each["kind"] == "HyperPodPyTorchJob"]
    print(f"\n{len(jobs)} distinct jobs of {made.combinations} renderings")  # noqa: T201
    assert len(jobs) > 10
    for job in jobs:
        given = _as_the_models_name_it(job["spec"])
        read = model.model_validate(given).model_dump(mode="json", exclude_none=True)
        assert list(_lost(given, read)) == []


@pytest.mark.parametrize(
    "change",
    [
        {"nprocPerNode": 8, "runPolicy": {}, "replicaSpecs": "all"},
        {"replicaSpec": []},
        {"runPolicy": {"cleanPodPolicies": "None"}},
    ],
    ids=["a text for a list", "a misspelt field", "a misspelt field below"],
)
def test_a_defect_is_refused(model: type[BaseModel], change: Manifest) -> None:
    made = rendered(NEWEST, frozenset({Operator.HYPERPOD}), whole=False)
    job = next(each for each in made.distinct.values() if each["kind"] == "HyperPodPyTorchJob")
    with pytest.raises(ValidationError):
        model.model_validate(job["spec"] | change)


def _as_the_models_name_it(given: Any) -> Any:
    """Rename the one field of Kubernetes that the package's models have under another name."""
    if isinstance(given, list):
        return [_as_the_models_name_it(each) for each in given]
    if not isinstance(given, dict):
        return given
    made = {key: _as_the_models_name_it(value) for key, value in given.items()}
    if "volumeClaimTemplate" in made:
        template = made["volumeClaimTemplate"]
        template["volumeClaimTemplateSpec"] = template.pop("spec")
    return made


def _models(module: ModuleType) -> Iterator[type[BaseModel]]:
    for each in vars(module).values():
        if isinstance(each, type) and issubclass(each, BaseModel) and each is not BaseModel:
            yield each


def _lost(given: Any, read: Any, path: str = "spec") -> Iterator[str]:
    """What a model took without keeping it: it does not know it."""
    if isinstance(given, dict):
        for key, value in given.items():
            if not isinstance(read, dict) or key not in read:
                yield f"{path}.{key}"
            else:
                yield from _lost(value, read[key], f"{path}.{key}")
    elif isinstance(given, list):
        for number, (one, other) in enumerate(zip(given, read, strict=True)):
            yield from _lost(one, other, f"{path}[{number}]")
