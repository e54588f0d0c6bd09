# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Compare the options that the planner chooses with published tuned configurations.

    python -m backtest.tuned_options            # a line for each difference
    python -m backtest.tuned_options --summary  # a line for each option

The model, GPU, layout, precision and recomputation are those of the published configuration, so
only the options differ. An option that a source does not state is not compared. Custom pipeline
layouts of the recipes (`parallelism.pipeline_layout` in a spec) are not compared: the planner
chooses none.
"""

import argparse
import csv
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from backtest.rows import DATA
from seatrial.catalog.catalog import Catalog
from seatrial.planning.layout import Layout
from seatrial.planning.options import NAMES, OptionCase, choose_options, why_off
from seatrial.planning.resolve import Basis, resolve_basis
from seatrial.spec.loader import loads
from seatrial.spec.parallelism import Recompute, Sharding

CONFIGURATIONS = DATA / "tuned_options.csv"
REASONS = {
    ("cuda_graphs", "step"): (
        "a graph of the whole step switches the check for NaN off, and contains experts only with "
        "a fixed number of tokens"
    ),
    ("moments", "bf16"): "moments in bf16 change the result",
    ("tensor_overlap", "false"): "most dense recipes have it; the source gives no reason",
    ("expert_overlap", "false"): (
        "published runs with it are faster (python -m backtest.option_labels --pairs), but also "
        "have other options; the source gives no reason"
    ),
    ("cuda_graphs", "none"): "most recipes with experts on Blackwell have graphs",
    ("gradient_overlap", "false"): "42 of 44 recipes have it; the source gives no reason",
}
"""Why the planner differs from a published value, if the rules of the option do not say it."""


@dataclass(frozen=True, slots=True)
class Difference:
    """An option for which planner and publication differ."""

    model: str
    machines: str
    option: str
    ours: str
    theirs: str
    reason: str
    """Empty if there is no explanation."""


def configurations() -> list[dict[str, str]]:
    """Return the published configurations."""
    with CONFIGURATIONS.open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def differences(row: dict[str, str], catalog: Catalog) -> Iterator[Difference]:
    """Compare the options for one configuration."""
    case, known = _case(row, catalog)
    chosen = choose_options(case, known)
    by_name = {option.name: option for option in known}
    for name in NAMES:
        ours, theirs = _word(getattr(chosen, name)), row[name]
        if not theirs or ours == theirs:
            continue
        reason = REASONS.get((name, theirs), "")
        if not chosen.is_on(name):
            reason = why_off(case, by_name[name]) or reason
        machines = f"{row['gpus']} {row['gpu']}, {row['precision']}"
        yield Difference(row["model"], machines, name, ours, theirs, reason)


def basis_of(row: dict[str, str], catalog: Catalog) -> Basis:
    """Return the run of a configuration: model, GPUs, precision and batch, without its layout."""
    node = catalog.node_type(row["node_type"])
    profile = next(
        name
        for name in ("onprem", "eks", "aks")
        if row["node_type"] in catalog.profile(name).node_types
    )
    nodes = int(row["gpus"]) // node.gpus
    spec = f"""
apiVersion: seatrial.dev/v1alpha1
name: tuned
model: {{preset: {row["model"]}}}
data: {{mock: true}}
training:
  steps: 100
  precision: {row["precision"]}
  sequence_length: {row["sequence_length"]}
  global_batch_size: {row["global_batch"]}
cluster: {{profile: {profile}, node_type: {row["node_type"]}, nodes: {nodes}}}
"""
    return resolve_basis(loads(spec, "tuned.yaml"), catalog)


def layout_of(row: dict[str, str]) -> Layout:
    """Return the layout of a configuration."""
    sizes = {f"{name}_size": int(row[name]) for name in ("tp", "pp", "vp", "cp", "ep")}
    return Layout(**sizes).spread_over(int(row["gpus"]))


def _case(row: dict[str, str], catalog: Catalog) -> tuple[OptionCase, Any]:
    """Return what decides the options of a configuration, and the engine's options."""
    basis = basis_of(row, catalog)
    case = basis.option_chooser().case(
        layout_of(row),
        sequence_parallel=row["sequence_parallel"] == "true",
        sharding=Sharding.OPTIMIZER,
        recompute=Recompute(row["recompute"]),
    )
    return case, basis.limits.options


def _word(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value).lower()


def main() -> None:
    """Print the comparison; exit with 1 if a difference has no explanation."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--summary", action="store_true")
    asked = parser.parse_args()
    catalog, rows = Catalog(), configurations()
    found = [each for row in rows for each in differences(row, catalog)]
    if not asked.summary:
        for each in found:
            print(
                f"{each.model:16} {each.machines:24} {each.option:21} {each.ours:>8} "
                f"{each.theirs:>8}  {each.reason or 'NOT EXPLAINED'}"
            )
    print(f"{'option':21} stated  equal  explained  not explained")
    for name in NAMES:
        stated = sum(bool(row[name]) for row in rows)
        counts = Counter(bool(each.reason) for each in found if each.option == name)
        equal = stated - counts.total()
        print(f"{name:21} {stated:6} {equal:6} {counts[True]:10} {counts[False]:14}")
    if any(not each.reason for each in found):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
