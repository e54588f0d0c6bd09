# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Write what the chart for administrators takes from elsewhere: roles, storage classes, alerts.

    python -m scripts.write_chart_files

A test compares the files with what this would write.
"""

import json
import re
from pathlib import Path

from ruamel.yaml import YAML

from scripts.build_image_packages import packages
from seatrial.catalog.catalog import Catalog
from seatrial.catalog.entry import Kind
from seatrial.engines.registry import ENGINES
from seatrial.rendering.access import (
    launchable_operators,
    observer_rules,
    operator_rules,
    optional_rules,
    required_rules,
)
from seatrial.rendering.manifest import without_empty

ROOT = Path(__file__).parents[1]
FILES = ROOT / "charts" / "seatrial" / "files"
RULES = ROOT / "dashboards" / "rules.yaml"
DASHBOARD = ROOT / "dashboards" / "run.json"
IN_BASE_IMAGE = re.compile(r"torch|triton|numpy|setuptools|nvidia-(?!ml-py).*|cuda-.*")
"""What the engines' base images bring, built for each other; another torch breaks their kernels.

nvidia-ml-py is only Python, and not every base image has it."""

ADDED = {"worker.txt": ("muon.txt",)}
"""Lock files of packages that some runs of an engine need, by the engine's lock file."""


def chart_files() -> dict[str, str]:
    rules = {
        "operators": {str(each): operator_rules(each) for each in launchable_operators()},
        "always": required_rules(),
        "optional": optional_rules(),
    }
    return {
        "launcher-rules.json": _json(rules),
        "observer-rules.json": _json(observer_rules()),
        "storage-classes.json": _json(_storage_classes()),
        "rules.json": _json(YAML(typ="safe", pure=True).load(RULES.read_text(encoding="utf-8"))),
        "dashboard.json": DASHBOARD.read_text(encoding="utf-8"),
        **{
            engine.installation.lock: _lock(engine.installation.lock) for engine in ENGINES.values()
        },
    }


def _storage_classes() -> dict[str, object]:
    catalog = Catalog()
    tiers = {name: catalog.storage(name) for name in catalog.names(Kind.STORAGE)}
    return {
        name: without_empty(
            {
                "name": tier.storage_class,
                "provisioner": tier.csi_driver,
                "parameters": tier.storage_class_parameters,
                "mountOptions": list(tier.mount_options),
                "required": list(tier.required_parameters),
            }
        )
        for name, tier in tiers.items()
        if tier.csi_driver and tier.dynamic
    }


def _lock(name: str) -> str:
    """The lock file without what the base image brings, and without its remarks."""
    files = (ROOT / "requirements" / each for each in (name, *ADDED.get(name, ())))
    locked = (each for file in files for each in packages(file.read_text(encoding="utf-8")))
    kept = (each for each in locked if not IN_BASE_IMAGE.fullmatch(each.name))
    return "\n".join(line for each in kept for line in each.lines) + "\n"


def _json(data: object) -> str:
    return json.dumps(data, indent=2) + "\n"


def image_locks() -> dict[Path, str]:
    """The same lock files for containers on a host, in the folder of each engine."""
    engines = ROOT / "src" / "seatrial" / "engines"
    return {
        engines / name.replace("-", "_") / "image-lock.txt": chart_files()[engine.installation.lock]
        for name, engine in ENGINES.items()
    }


def main() -> None:
    FILES.mkdir(parents=True, exist_ok=True)
    for path, text in image_locks().items():
        path.write_text(text, encoding="utf-8")
    for name, text in chart_files().items():
        (FILES / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
