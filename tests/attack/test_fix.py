# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`check --fix` over broken runs and mutated working specs: it never changes what was meant.

A mutated spec has a known meaning: first its values are changed (the run that somebody wants), then
its spelling (the mistakes). Whatever `--fix` puts into the file has to be in that meaning.
"""

import random
import re
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from difflib import SequenceMatcher
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from backtest.checks.score import SETS, broken_of, cases_of
from seatrial.catalog.catalog import Catalog
from seatrial.checks.repairs.fix import Fix, plan_fix
from seatrial.checks.repairs.repair import Broken, repair_of
from seatrial.errors import FindingsError, SeatrialError
from seatrial.findings import Severity, has_errors
from seatrial.spec.loader import loads
from seatrial.spec.other_tool_names import SYNONYMS
from seatrial.spec.tree import parse
from tests.attack.mutated_specs import MEANINGS, MISTAKES, Plain, leaves_of, written

pytestmark = [pytest.mark.attack, pytest.mark.timeout(1800)]
ROOT = Path(__file__).parents[2]
SEED = 24
GUARDED = ("model", "data", "initial_weights", "continue_from", "cluster", "training.precision")
"""What `--fix` must never change: fabric is a field of the cluster."""
WEIGHTS = """\
apiVersion: seatrial.dev/v1alpha1
name: continued
model: {preset: llama2-7b}
initial_weights: {huggingface: 'hf://meta-llama/Llama-2-7b-hf'}
data: {sources: [{prepared: /data/prepared/web_text_document}]}
training: {tokens: 10B, precision: bf16}
cluster: {profile: gke, nodes: 2, fabric: none}
"""
ONLY_KEYS = ("preset", "profile", "name", "run", "peak", "fraction", "huggingface")
"""What a section has in mind that is written as one value."""
SAME_WORDS = {
    "bfloat16": "bf16",
    "bf16-mixed": "bf16",
    "float16": "fp16",
    "float32": "fp32",
    "fp16-mixed": "fp16",
    "16-mixed": "fp16",
    "yes": "true",
    "on": "true",
    "no": "false",
    "off": "false",
}
Record = Callable[[str, object], None]


@cache
def working_specs() -> tuple[str, ...]:
    """Recipes and the specs of the documentation that load."""
    texts = [file.read_text() for file in sorted(ROOT.glob("src/seatrial/recipes/data/*.yaml"))]
    for page in sorted(ROOT.glob("docs/**/*.md")):
        blocks = re.findall(
            r"^```(?:\{code-block\} )?yaml\n(.*?)^```", page.read_text(), re.M | re.S
        )
        texts += [re.sub(r"\A(?::.*\n)+\n?", "", block) for block in blocks]
    return (WEIGHTS, *(text for text in texts if _loads(text)))


def _loads(text: str) -> bool:
    try:
        loads(text, "run.yaml")
    except SeatrialError:
        return False
    return True


def test_fix_never_changes_what_was_meant(
    attack_size: Callable[[int, int], int], record_property: Record
) -> None:
    catalog, outcomes = Catalog(), Counter[str]()
    changed: list[str] = []
    ask = bool(attack_size(1, 0))
    for number in range(attack_size(500, 32)):
        chance = random.Random(f"{SEED}-{number}")  # noqa: S311  (no secret)
        meaning, text = _mutated(chance)
        fix = _fixed(Broken(text, "run.yaml", catalog))
        changed += [f"{number}: {field}" for field in _unmeant(text, fix.broken.text, meaning)]
        outcomes[_outcome(fix, ask=ask)] += 1
    cases = [case for name in ("first", "second") for case in cases_of(SETS / name)]
    cases = random.Random(SEED).sample(cases, attack_size(len(cases), 8))  # noqa: S311  (no secret)
    for case in cases:
        kind = re.search(r'^kind = "(.*)"', (case / "case.toml").read_text(), re.M)
        fix = _fixed(broken_of(case, kind[1] if kind else "", catalog))
        changed += [f"{case.name}: {field}" for field in _differing(fix.before, fix.broken.text)]
        outcomes[f"of broken runs: {_outcome(fix, ask=ask)}"] += 1
    guarded = [each for each in changed if each.partition(": ")[2].startswith(GUARDED)]
    mutated = sum(count for name, count in outcomes.items() if not name.startswith("of broken"))
    record_property(
        "figure",
        f"--fix over {len(cases)} broken runs and {mutated} mutated working specs: {len(guarded)} "
        "changed model, data, initial weights, fabric, precision or cluster, "
        f"{len(changed)} any field; " + ", ".join(f"{n} {name}" for name, n in outcomes.items()),
    )
    assert changed == []
    assert outcomes["fixed, no errors left"] > 0


@pytest.mark.parametrize(
    ("after", "different"),
    [
        (("nodes: 4", "nodes: 400"), ["cluster.nodes"]),
        (("fabric: efa", "fabric: none"), ["cluster.fabric"]),
        (("  fabric: efa\n", ""), ["cluster.fabric"]),
        (("  fabric: efa\n", "  fabric: efa\n  queue: a\n"), ["cluster.queue"]),
        (("modle: {preset: 7b}", "cluster_model: {preset: 7b}"), None),
        (("modle: {preset: 7b}", "model: {preset: 7b}"), []),
        (("modle: {preset: 7b}", "model: {preset: 70b}"), ["modle.preset", "model.preset"]),
        (("lr: 3e-4", "learning_rate: {peak: 3.0e-4}"), []),
        (("lr: 3e-4", "learning_rate: {minimum: 3.0e-4}"), None),
        (("sequence_length: 4k", "sequence_length: 4096"), []),
        (("sequence_length: 4k", "sequence_length: 4"), ["training.sequence_length"]),
        (("precision: bfloat16", "precision: bf16"), []),
        (("precision: bfloat16", "precision: fp16"), ["training.precision"]),
        (("bogus: 1", "bogus: 2"), ["bogus"]),
        (("bogus: 1\n", ""), ["bogus"]),
    ],
)
def test_a_change_of_a_spec_that_does_not_load_is_seen(
    after: tuple[str, str], different: list[str] | None
) -> None:
    before = (
        "name: a\nmodle: {preset: 7b}\nbogus: 1\ncluster:\n  nodes: 4\n  fabric: efa\n"
        "training:\n  lr: 3e-4\n  sequence_length: 4k\n  precision: bfloat16\n"
    )
    found = _differing(before, before.replace(*after))
    assert found == different if different is not None else found
    assert _differing(before, before) == []


def _mutated(chance: random.Random) -> tuple[Plain, str]:
    """A spec as somebody means it, and as they write it."""
    meaning = parse(chance.choice(working_specs()), "")[0].plain()
    for _ in range(chance.choice((0, 0, 1, 1, 2))):
        chance.choice(MEANINGS)(meaning, chance)
    wrong = parse(written(meaning), "")[0].plain()
    for _ in range(chance.choice((0, 1, 1, 2, 3))):
        chance.choice(MISTAKES)(wrong, chance)
    return meaning, written(wrong)


def _fixed(broken: Broken) -> Fix:
    return plan_fix(broken, broken.again())


def _outcome(fix: Fix, *, ask: bool) -> str:
    """What came of a spec; whether a change is proposed takes many plans to find out."""
    left = has_errors(fix.verdict.findings)
    if fix.changes:
        return "fixed in part" if left else "fixed, no errors left"
    if not left:
        return "without errors"
    if not ask:
        return "not fixed"
    error = next(f for f in fix.verdict.checked if f.finding.severity is Severity.ERROR)
    return "only proposed" if repair_of(fix.broken, error) else "only reported"


def _unmeant(before: str, after: str, meaning: Plain) -> list[str]:
    """Fields that `--fix` wrote and nobody meant, or took out and did not put where they belong."""
    old, new = leaves_of(parse(before, "")[0].plain()), leaves_of(parse(after, "")[0].plain())
    meant, come = leaves_of(meaning), {path: new[path] for path in new if _new(path, old, new)}
    wrong = [
        path
        for path, value in come.items()
        if not (
            _same(path, meant[path], value)
            if path in meant
            # What stands in another section by mistake may be spelt as that takes it.
            else path in old and bool(_forms(old[path]) & _forms(value))
        )
    ]
    gone = [path for path in old if path not in new]
    # Each value that is gone from its place stands in another one; a list may hold the others.
    lost = gone if len(gone) > len([path for path in come if path not in old]) else []
    return [*wrong, *lost]


def _new(path: str, old: dict[str, Any], new: dict[str, Any]) -> bool:
    return path not in old or type(old[path]) is not type(new[path]) or old[path] != new[path]


def _same(path: str, meant: Any, found: Any) -> bool:
    """True if both say the same: as text, for types are what `--fix` corrects."""
    if path == "name":
        meant = re.sub(r"[._ ]", "-", str(meant))
    return _fold(meant) == _fold(found)


def _fold(value: Any) -> str:
    """A value without its type and, for a word, without its case and the sign between words."""
    if isinstance(value, float) and value.is_integer():
        # 0 and 0.0 are the same number.
        value = int(value)
    text = str(_pair(value))
    return text if "/" in text else text.lower().replace("_", "-")


def _differing(before: str, after: str) -> list[str]:
    """Fields of a run that are different after `--fix`; of one that does not load, in its text."""
    try:
        old = leaves_of(loads(before, "").spec.model_dump(mode="json"))
        new = leaves_of(loads(after, "").spec.model_dump(mode="json"))
    except FindingsError:
        return _rewritten(before, after)
    paths = dict.fromkeys((*old, *new))
    return [path for path in paths if _pair(old.get(path)) != _pair(new.get(path))]


def _rewritten(before: str, after: str) -> list[str]:
    """Fields of two texts that differ, but for another spelling of a key or of a value."""
    old, new = leaves_of(parse(before, "")[0].plain()), leaves_of(parse(after, "")[0].plain())
    both = [path for path in old if path in new]
    wrong = [path for path in both if not _forms(old[path]) & _forms(new[path])]
    come = [path for path in new if path not in old]
    for path in [path for path in old if path not in new]:
        places = [to for to in come if _may_mean(path, to) and _forms(old[path]) & _forms(new[to])]
        if places:
            come.remove(places[0])
        else:
            wrong.append(path)
    return [*wrong, *come]


def _may_mean(path: str, place: str) -> bool:
    """True if a key may be another spelling of a field at or below the section it stands in."""
    *around, key = path.split(".")
    above, rest = place.split(".")[: len(around)], place.split(".")[len(around) :]
    if not rest or not all(map(_alike, around, above)):
        return False
    if len(rest) == 1 and _alike(key, rest[0]):
        return True
    name = key.lower().replace("-", "_")
    if place in SYNONYMS.get(name, ()) or place == "initial_weights.huggingface":
        return True
    # A section with one key, written as its value.
    return len(rest) == 2 and _alike(key, rest[0]) and rest[1] in ONLY_KEYS


def _alike(one: str, other: str) -> bool:
    """True for two spellings of one key: other letters' case, other signs, typing errors."""
    first, second = (re.sub(r"[-_ ]", "", each).lower() for each in (one, other))
    return first == second or SequenceMatcher(None, first, second).ratio() > 0.75


def _forms(value: Any) -> set[str]:
    """Every way to read a value that a person may have meant, as text."""
    text = str(_pair(value)).strip(" \"'")
    found = {_fold(text), SAME_WORDS.get(text.lower(), ""), re.sub(r"[._ ]", "-", text.lower())}
    if isinstance(value, int | float) or re.fullmatch(r"[+-]?[\d._]+(e[+-]?\d+)?", text, re.I):
        with suppress(ValueError):
            found.add(f"{float(text):.12g}")
    if match := re.fullmatch(r"(\d+)\s*([km])i?", text, re.I):
        power = "km".index(match[2].lower()) + 1
        found |= {f"{int(match[1]) * base**power:.12g}" for base in (1000, 1024)}
    page = re.sub(r"^https?://(?:www\.)?huggingface\.co/", "hf://", text).rstrip("/")
    return (found | {page}) - {""}


def _pair(value: Any) -> Any:
    """The name of a prepared pair is the same with and without the ending of one of its files."""
    return re.sub(r"(_document)\.(bin|idx)$", r"\1", value) if isinstance(value, str) else value
