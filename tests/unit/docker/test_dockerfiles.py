# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The worker images as they are written down: linted, and held to the rules of pods."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from seatrial.catalog.catalog import Catalog, Kind
from seatrial.rendering.environment import SITE
from seatrial.rendering.security import UNPRIVILEGED
from seatrial.version import VERSION

ROOT = Path(__file__).parents[3]
DOCKERFILES = sorted((ROOT / "docker").glob("*.Dockerfile"))
HADOLINT = Path(sys.executable).parent / "hadolint"
FINAL_TARGETS = {
    "worker.Dockerfile": ("infiniband", "efa", "hyperpod"),
    "worker-cpu.Dockerfile": ("worker-cpu",),
    "worker-data.Dockerfile": ("worker-data",),
    "worker-llm-foundry.Dockerfile": ("worker-llm-foundry",),
}
"""The stages that become images."""

each_dockerfile = pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.name)


def instructions(text: str) -> list[str]:
    """The instructions of a Dockerfile, each on one line, without remarks."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    return [line.strip() for line in joined.splitlines() if line.strip()]


def stages(path: Path) -> dict[str, list[str]]:
    """The instructions of each stage by its name, beginning with FROM."""
    found: dict[str, list[str]] = {}
    name = ""
    for line in instructions(path.read_text(encoding="utf-8")):
        if line.startswith("FROM "):
            name = line.rpartition(" AS ")[2]
            found[name] = []
        if name:
            found[name].append(line)
    return found


def lint(path: Path) -> subprocess.CompletedProcess[str]:
    words = [str(HADOLINT), "--no-color", str(path)]
    return subprocess.run(words, text=True, capture_output=True, check=False)


def test_every_dockerfile_is_known() -> None:
    assert {path.name for path in DOCKERFILES} == set(FINAL_TARGETS)


@each_dockerfile
def test_the_linter_finds_nothing(path: Path) -> None:
    done = lint(path)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_the_linter_would_find_something(tmp_path: Path) -> None:
    bad = tmp_path / "Dockerfile"
    bad.write_text("FROM debian:latest\nRUN cd /tmp && apt-get install curl\n")
    done = lint(bad)
    assert done.returncode == 1
    assert {"DL3003", "DL3007", "DL3008"} <= set(re.findall(r"DL\d{4}", done.stdout))


@each_dockerfile
def test_what_the_linter_is_told_to_leave_has_a_reason(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines):
        if "hadolint ignore" in line:
            assert line == "# hadolint ignore=DL3008"
            assert lines[number - 1].startswith("# "), f"line {number}: no reason above it"


@each_dockerfile
def test_bases_are_arguments_with_a_version(path: Path) -> None:
    lines = instructions(path.read_text(encoding="utf-8"))
    base = next(line for line in lines if line.startswith("ARG BASE="))
    assert re.fullmatch(r"ARG BASE=[a-z0-9./-]+(:[\w.-]+)?(@sha256:[0-9a-f]{64})?", base)
    assert ":" in base
    assert "latest" not in base
    names = set(stages(path))
    for line in lines:
        if line.startswith("FROM "):
            assert line.split()[1] in {"${BASE}", *names}, line


@each_dockerfile
def test_images_run_as_the_user_of_pods(path: Path) -> None:
    for target in FINAL_TARGETS[path.name]:
        users = [line for line in stages(path)[target] if line.startswith("USER ")]
        assert users[-1:] == [f"USER {UNPRIVILEGED}:{UNPRIVILEGED}"], target


@each_dockerfile
def test_images_say_what_they_are(path: Path) -> None:
    all_stages = stages(path)
    for target in FINAL_TARGETS[path.name]:
        chain = [target]
        while (above := all_stages[chain[-1]][0].split()[1]) in all_stages:
            chain.append(above)
        words = " ".join(line for stage in chain for line in all_stages[stage])
        for label in ("title", "description", "licenses", "version", "revision"):
            assert f"org.opencontainers.image.{label}=" in words, (target, label)
        assert f"ARG VERSION={VERSION} " in f"{words} "
        assert f"PYTHONPATH={SITE}" in words


@each_dockerfile
def test_packages_are_installed_by_their_hashes(path: Path) -> None:
    for line in instructions(path.read_text(encoding="utf-8")):
        for command in line.split("&&"):
            if "pip install" in command or "pip wheel" in command:
                assert "--require-hashes" in command or "--no-index" in command, command
                assert "--no-deps" in command, command


@each_dockerfile
def test_secrets_are_mounted_and_never_kept(path: Path) -> None:
    for line in instructions(path.read_text(encoding="utf-8")):
        word = line.split()[0]
        assert word != "ADD", "what ADD fetches is not verified"
        if word in ("ARG", "ENV"):
            assert not re.search(r"TOKEN|SECRET|PASSWORD|CERT|INDEX", line), line


@each_dockerfile
def test_only_what_is_copied_is_sent(path: Path) -> None:
    ignored = path.with_name(f"{path.name}.dockerignore").read_text(encoding="utf-8")
    allowed = [line[1:] for line in ignored.splitlines() if line.startswith("!")]
    rules = [line for line in ignored.splitlines() if line and not line.startswith("#")]
    assert rules[0] == "*"
    assert rules[-1] == "**/__pycache__"
    for line in instructions(path.read_text(encoding="utf-8")):
        if line.startswith("COPY ") and "--from=" not in line:
            for source in line.split()[1:-1]:
                assert (ROOT / source).exists(), source
                assert any(
                    Path(source).match(each) or source.startswith(f"{each}/") for each in allowed
                ), source


def test_the_catalog_lists_what_is_written_down() -> None:
    catalog = Catalog()
    listed = set()
    for name in catalog.names(Kind.IMAGES):
        image = catalog.image(name)
        match = re.match(r"definition: docker/(\S+?)(?:, target (\S+))?$", image.source)
        if not match:
            continue
        file, target = match[1], match[2] or match[1].removesuffix(".Dockerfile")
        assert target in FINAL_TARGETS[file], name
        assert image.reference == f"ghcr.io/seatrial/{name}:{VERSION}"
        assert not image.published
        listed.add((file, target))
    assert listed == {(file, target) for file, all_of in FINAL_TARGETS.items() for target in all_of}


def test_the_catalog_says_what_the_lock_holds() -> None:
    lock = (ROOT / "requirements/worker.txt").read_text(encoding="utf-8")
    pins = dict(re.findall(r"^([a-z0-9-]+)==(\S+)", lock, flags=re.MULTILINE))
    catalog = Catalog()
    assert catalog.image("worker-cpu").torch == pins["torch"]
    for name in ("worker-cpu", "worker-megatron", "worker-megatron-efa"):
        assert catalog.image(name).engine_version == pins["megatron-core"]


def test_the_hyperpod_image_installs_the_agent_that_the_catalog_lists() -> None:
    lock = (ROOT / "requirements/hyperpod.txt").read_text(encoding="utf-8")
    pins = dict(re.findall(r"^([a-z0-9-]+)==(\S+)", lock, flags=re.MULTILINE))
    image = Catalog().image("worker-megatron-hyperpod")
    assert image.hyperpod_agent == pins["hyperpod-elastic-agent"]
    # The base brings its own torch, and packages that the worker has too must be the same.
    assert "torch" not in pins
    worker = (ROOT / "requirements/worker.txt").read_text(encoding="utf-8")
    shared = dict(re.findall(r"^([a-z0-9-]+)==(\S+)", worker, flags=re.MULTILINE))
    assert {name: pins[name] for name in pins if name in shared} == {
        name: shared[name] for name in pins if name in shared
    }


def test_the_catalog_says_what_the_second_lock_holds() -> None:
    lock = (ROOT / "requirements/llm-foundry.txt").read_text(encoding="utf-8")
    pins = dict(re.findall(r"^([a-z0-9-]+)==(\S+)", lock, flags=re.MULTILINE))
    image = Catalog().image("worker-llm-foundry")
    assert (image.torch, image.engine_version) == (pins["torch"], pins["llm-foundry"])


def floating_references() -> list[tuple[str, str]]:
    """Every reference to an image without a digest, and who uses it."""
    bases = [
        (line.removeprefix("ARG BASE="), f"`docker/{path.name}`")
        for path in DOCKERFILES
        for line in instructions(path.read_text(encoding="utf-8"))
        if line.startswith("ARG BASE=")
    ]
    catalog = Catalog()
    entries = [(name, catalog.image(name)) for name in catalog.names(Kind.IMAGES)]
    listed = [(one.reference, f"catalog `{name}`") for name, one in entries if not one.digest]
    return sorted((name, user) for name, user in bases + listed if "@sha256:" not in name)


def test_every_image_is_pinned_by_digest_or_listed_as_floating() -> None:
    page = (ROOT / "docs/guides/images.md").read_text(encoding="utf-8")
    written = page.partition("<!-- floating: begin -->")[2].partition("<!-- floating: end -->")[0]
    rows = ["| reference | used by |", "|---|---|"]
    rows += [f"| `{name}` | {user} |" for name, user in floating_references()]
    assert written.strip().splitlines() == rows, "write these rows:\n" + "\n".join(rows)
