# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The recipes: specs that ship with Seatrial, one for each common scenario."""

from dataclasses import dataclass
from pathlib import Path

from seatrial.errors import NotInCatalogError
from seatrial.naming import nearest
from seatrial.spec.loader import load
from seatrial.spec.run import RunSpec

DIRECTORY = Path(__file__).parent / "data"
"""The directory with the shipped specs."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """One shipped spec."""

    name: str
    """The name on the command line."""
    path: Path
    """The file."""

    @property
    def text(self) -> str:
        """The text of the file, including comments."""
        return self.path.read_text(encoding="utf-8")

    @property
    def spec(self) -> RunSpec:
        """The spec in the file."""
        return load(self.path).spec


def recipe_names() -> list[str]:
    """Return the names of all recipes, sorted."""
    return sorted(path.stem for path in DIRECTORY.glob("*.yaml"))


def recipe(name: str) -> Recipe:
    """Return the recipe with this name; raise NotInCatalogError if there is none."""
    names = recipe_names()
    if name not in names:
        match = nearest(name, names)
        hint = (
            f"Did you mean {match}?" if match else "To list the recipes, run seatrial recipes list."
        )
        raise NotInCatalogError(f"There is no recipe {name!r}.", hint)
    return Recipe(name, DIRECTORY / f"{name}.yaml")
