# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Known defects put back into good manifests: the cluster refuses each."""

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from tests.cluster.cluster import Cluster, Tier, running
from tests.cluster.defects import DEFECTS, Defect, Refused
from tests.cluster.definitions import NEWEST, RELEASE_SETS, ReleaseSet
from tests.cluster.http_api import Api
from tests.cluster.strict import make_namespaces, verdict
from tests.unit.rendering.scenes import manifests

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]
PATIENCE = 60
"""Seconds that an operator has to follow what the server knows."""
HAD = 25
"""How many must be refused at the least."""
OLD = tuple(each for each in RELEASE_SETS if each is not NEWEST)


def _of(releases: ReleaseSet) -> list[Defect]:
    """The defects that are told by a version of Trainer; the newest has the others too."""
    version = releases.trainer.removesuffix(".0")
    return [
        defect
        for defect in DEFECTS
        if defect.version == version or (releases is NEWEST and not defect.version)
    ]


@pytest.fixture(scope="module", params=OLD, ids=str)
def old_server(request: pytest.FixtureRequest) -> Iterator[tuple[Cluster, ReleaseSet]]:
    with (
        tempfile.TemporaryDirectory(prefix="seatrial-") as folder,
        running(Path(folder) / "home", Tier.API, request.param) as found,
    ):
        yield found, request.param


@pytest.mark.parametrize("defect", _of(NEWEST), ids=lambda defect: defect.name)
def test_the_newest_operators_refuse(control_plane: Cluster, defect: Defect) -> None:
    api = control_plane.api()
    make_namespaces(api, [defect.good()])
    with _runtime(api, defect):
        assert verdict(api, defect.good()).refusal == "", "what is rendered must be good"
        refusal = verdict(api, defect.broken()).refusal
    assert refusal
    if defect.refused is Refused.WEBHOOK:
        # Refused by another part, it would not show that the webhook is asked.
        assert "denied the request" in refusal


@pytest.mark.slow
def test_older_releases_refuse(old_server: tuple[Cluster, ReleaseSet]) -> None:
    server, releases = old_server
    api = server.api()
    for defect in _of(releases):
        make_namespaces(api, [defect.good()])
        assert verdict(api, defect.good()).refusal == "", defect.name
        assert verdict(api, defect.broken()).refusal, defect.name


def test_there_are_enough_of_them() -> None:
    checked = [defect for releases in RELEASE_SETS for defect in _of(releases)]
    assert sorted(each.name for each in checked) == sorted(each.name for each in DEFECTS)
    assert len(checked) >= HAD


@contextmanager
def _runtime(api: Api, defect: Defect) -> Iterator[None]:
    """Trainer refuses a job whose runtime is not there yet."""
    given = (*defect.overrides, *_version(defect))
    wanted = manifests(*given) if defect.kind == "TrainJob" else []
    runtimes = [made for made in wanted if made["kind"] == "TrainingRuntime"]
    try:
        for made in runtimes:
            answer = api.apply(made)
            assert answer.accepted, answer.message
        # Trainer's webhook looks into a copy of its own, which comes a moment later.
        _until(lambda: not runtimes or "not found" not in verdict(api, defect.good()).refusal)
        yield
    finally:
        for made in runtimes:
            place = api.path(made, named=True)
            assert api.ask("DELETE", place).accepted
            # It goes when Trainer lets it go.
            _until(partial(_is_gone, api, place))


def _is_gone(api: Api, place: str) -> bool:
    return not api.ask("GET", place).accepted


def _until(true: Callable[[], bool]) -> None:
    """Wait until something is so."""
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end, f"not so after {PATIENCE} s"
        time.sleep(0.2)


def _version(defect: Defect) -> tuple[str, ...]:
    return (f"cluster.operator_version='{defect.version}'",) if defect.version else ()
