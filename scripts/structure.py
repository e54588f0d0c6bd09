# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Count what makes the code easy or hard to enter, and hold the ratios.

    python -m scripts.structure [--list NAME]

Every count is defined by its function below. Those with a limit fail above it; the totals are
printed only. `--list NAME` prints what a count consists of.
"""

import ast
import json
import re
import subprocess
import sys
from argparse import ArgumentParser
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "seatrial"
FRAGMENT_LINES = 80
LONG_FILE = 500
LONG_FUNCTION = 60
COMPLEX = 10
ENGINE_FOLDERS = ("engines", "spec", "worker.megatron", "worker.llm_foundry")
ENGINE_WORDS = re.compile(
    r"(?i:megatron|mcore|llm[-_ ]?foundry|mosaicml)|[Cc]omposer|COMPOSER|EngineName"
)
"""What names an engine, in any part of a name or a text. (Textual has a `ComposeResult`.)"""
TOOL_FOLDERS = ("scripts", "benchmarks", "backtest", "docs/tools")


@dataclass(frozen=True)
class Module:
    name: str
    path: Path

    @cached_property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @property
    def lines(self) -> int:
        return len(self.text.splitlines())

    @property
    def where(self) -> str:
        return str(self.path.relative_to(ROOT))


class Sources:
    """All modules of the package, and who imports whom."""

    def __init__(self) -> None:
        folder = ROOT / "src" / PACKAGE
        self.modules = {m.name: m for m in (_module(p) for p in sorted(folder.rglob("*.py")))}

    def imported(self, module: Module) -> Iterator[tuple[str, ast.stmt]]:
        """The modules of ours that a module imports, with the statement."""
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module:
                inner = [f"{node.module}.{alias.name}" for alias in node.names]
                names = [n if n in self.modules else node.module for n in inner]
            else:
                continue
            yield from ((name, node) for name in dict.fromkeys(names) if name in self.modules)

    @cached_property
    def imports(self) -> dict[str, set[str]]:
        """By module, the modules that it imports."""
        return {
            name: {other for other, _ in self.imported(module)} - {name}
            for name, module in self.modules.items()
        }

    @cached_property
    def importers(self) -> dict[str, set[str]]:
        """By module, the modules that import it."""
        found: dict[str, set[str]] = defaultdict(set)
        for name, others in self.imports.items():
            for other in others:
                found[other].add(name)
        return found


def fragments(sources: Sources) -> list[str]:
    """Modules of at most 80 lines that exactly one other module imports."""
    return [
        f"{module.where} ({module.lines}, {next(iter(sources.importers[name]))})"
        for name, module in sources.modules.items()
        if not module.path.name.startswith("__")
        and module.lines <= FRAGMENT_LINES
        and len(sources.importers[name]) == 1
    ]


def naming_engines(sources: Sources) -> list[str]:
    """Modules outside the engines' own folders whose code names an engine.

    That is an identifier, an imported name or a string without a space with an engine's name
    anywhere in it. Docstrings and comments do not count, and texts are the next count.
    """
    return _naming(sources, lambda text: " " not in text)


def engine_messages(sources: Sources) -> list[str]:
    """Modules outside the engines' own folders with a text for the user that names an engine."""
    return _naming(sources, lambda text: " " in text)


def repeated_classes(sources: Sources) -> list[str]:
    """Names of top-level classes, private ones too, that are defined more than once."""
    found: dict[str, list[str]] = defaultdict(list)
    for module in sources.modules.values():
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef):
                found[node.name].append(module.where)
    return [f"{name}: {', '.join(at)}" for name, at in sorted(found.items()) if len(at) > 1]


def inner_imports(sources: Sources) -> list[str]:
    """Imports of our own modules inside functions."""
    return [
        f"{module.where}:{node.lineno} {name}"
        for module in sources.modules.values()
        for name, node in sources.imported(module)
        if node.col_offset and _is_in_function(module.tree, node)
    ]


def plan_makers(sources: Sources) -> list[str]:
    """Functions that construct a plan."""
    return [
        f"{module.where}:{function.lineno} {function.name}"
        for module in sources.modules.values()
        for function in _functions(module.tree)
        if any(
            isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("Plan", "PlannedRun")
            for node in ast.walk(function)
        )
    ]


def long_files(sources: Sources) -> list[str]:
    """Files of more than 500 lines."""
    return [f"{m.where} ({m.lines})" for m in sources.modules.values() if m.lines > LONG_FILE]


def long_functions(sources: Sources) -> list[str]:
    """Functions of more than 60 lines."""
    return [
        f"{module.where}:{one.lineno} {one.name}"
        for module in sources.modules.values()
        for one in _functions(module.tree)
        if (one.end_lineno or one.lineno) - one.lineno + 1 > LONG_FUNCTION
    ]


def cycles(sources: Sources) -> list[str]:
    """Modules that import themselves through others."""
    reached: dict[str, set[str]] = {}
    for name in sources.modules:
        seen: set[str] = set()
        ahead = list(sources.imports[name])
        while ahead:
            other = ahead.pop()
            if other not in seen:
                seen.add(other)
                ahead.extend(sources.imports[other])
        reached[name] = seen
    return [name for name, seen in reached.items() if name in seen]


def complex_functions(_: Sources) -> list[str]:
    """Functions with a cyclomatic complexity above 10, by ruff's C901."""
    settings = ["--select", "C901", "--config", f"lint.mccabe.max-complexity={COMPLEX}"]
    command = [sys.executable, "-m", "ruff", "check", *settings, "--output-format", "json", "src"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return [f"{one['filename']}: {one['message']}" for one in json.loads(done.stdout)]


LIMITS: dict[str, tuple[Callable[[Sources], list[str]], int]] = {
    "fragments": (fragments, 12),
    "modules naming an engine": (naming_engines, 2),
    "modules with messages naming one": (engine_messages, 8),
    "class names defined twice": (repeated_classes, 5),
    "imports inside functions": (inner_imports, 25),
    "functions that make a plan": (plan_makers, 1),
    "files over 500 lines": (long_files, 0),
    "functions over 60 lines": (long_functions, 0),
    "modules in cycles": (cycles, 0),
    "complex functions": (complex_functions, 2),
}
"""What is held, and the most that there may be."""


def main() -> int:
    """Print the counts; fail if one is above its limit."""
    parser = ArgumentParser(description="Count what makes the code hard to enter.")
    parser.add_argument("--list", choices=LIMITS, help="print what this count consists of")
    given = parser.parse_args()
    sources = Sources()
    if given.list:
        print("\n".join(LIMITS[given.list][0](sources)))
        return 0
    lines = sum(module.lines for module in sources.modules.values())
    tools = sum(
        len(path.read_text(encoding="utf-8").splitlines())
        for folder in TOOL_FOLDERS
        for path in (ROOT / folder).rglob("*.py")
    )
    print(f"{len(sources.modules):>7,}  source files")
    print(f"{lines:>7,}  source lines")
    print(f"{tools:>7,}  lines of {', '.join(TOOL_FOLDERS)}")
    failed = False
    for name, (count, limit) in LIMITS.items():
        found = count(sources)
        above = len(found) > limit
        failed = failed or above
        print(f"{len(found):>7,}  {name} (at most {limit}){': TOO MANY' if above else ''}")
        if above:
            print("\n".join(f"         {one}" for one in found))
    return int(failed)


def _module(path: Path) -> Module:
    parts = path.relative_to(ROOT / "src").with_suffix("").parts
    return Module(".".join(parts[:-1] if parts[-1] == "__init__" else parts), path)


def _functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def _is_in_function(tree: ast.Module, statement: ast.stmt) -> bool:
    return any(statement in ast.walk(function) for function in _functions(tree))


def _naming(sources: Sources, is_counted: Callable[[str], bool]) -> list[str]:
    return [
        module.where
        for name, module in sources.modules.items()
        if not name.removeprefix(f"{PACKAGE}.").startswith(ENGINE_FOLDERS)
        and any(ENGINE_WORDS.search(text) for text in _texts(module.tree) if is_counted(text))
    ]


def _texts(node: ast.AST) -> Iterator[str]:
    """The identifiers and strings of code; what stands by itself is a docstring."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return
    for value in vars(node).values():
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, str):
                yield one
            elif isinstance(one, ast.AST):
                yield from _texts(one)


if __name__ == "__main__":
    sys.exit(main())
