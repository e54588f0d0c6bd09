# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Manifests as text: YAML that reads back, files for kustomize, a Helm chart with a schema."""

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from seatrial.rendering.attempt import code_digest
from seatrial.rendering.helm_chart import chart_files
from seatrial.rendering.render import Part, render
from seatrial.rendering.yaml_text import rendering_files, yaml_documents, yaml_text
from tests.conftest import resolved
from tests.unit.rendering.scenes import CATALOG, FIRST, manifests

# What Kubernetes can hold in a field: no surrogates, which no encoding of a file has.
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=12,
)


def parsed(text: str, version: str = "1.2") -> list[Any]:
    """The documents, by a parser that is not ours."""
    yaml = YAML(typ="safe", pure=True)
    yaml.version = version
    return list(yaml.load_all(text))


@given(st.dictionaries(TEXTS, VALUES, min_size=1, max_size=4), st.sampled_from(["1.1", "1.2"]))
@settings(max_examples=100, deadline=None)
def test_anything_reads_back_as_it_was(data: dict[str, Any], version: str) -> None:
    assert parsed(yaml_text(data), version) == [data]


@pytest.mark.parametrize(
    "text",
    [
        *("on", "No", "y", "NULL", "~", "1_000", "02:00", "0o17", "1e3", ".5", "=", "<<", ""),
        *("a: b", "a #b", "- a", "*a", "&a", "!a", "{a}", "%a", "@a", "`a", "'", '"', "\\", "😀"),
        *(
            "line\n",
            "one\ntwo\n",
            "one\n\ntwo\n",
            " one\ntwo\n",
            "\n  - a\n",
            "one \ntwo\n",
            "a\tb",
            "\x85",
        ),
    ],
)
def test_a_text_stays_a_text_for_every_parser(text: str) -> None:
    for version in ("1.1", "1.2"):
        assert parsed(yaml_text({"key": text, text: "value", "list": [text]}), version) == [
            {"key": text, text: "value", "list": [text]}
        ]


def test_all_manifests_of_a_run_are_one_stream() -> None:
    made = manifests()
    # What is a tuple here is a list there.
    assert parsed(yaml_documents(made), "1.1") == json.loads(json.dumps(made))


def test_the_files_are_in_the_order_in_which_they_are_made() -> None:
    files = rendering_files(render(resolved(), CATALOG))
    (kustomization,) = parsed(files["kustomization.yaml"])
    assert kustomization["resources"] == [name for name in files if name != "kustomization.yaml"]
    assert kustomization["resources"] == sorted(kustomization["resources"])
    assert kustomization["resources"][-1] == "08-pytorchjob-slim-7b.yaml"
    assert kustomization["sortOptions"] == {"order": "fifo"}


CHART = (
    *("cluster.queue=research", "cluster.storage={claim: shared}", "cluster.namespace=team"),
    *("cluster.service_account=training", "description=Our 7B"),
)


def chart(*overrides: str) -> dict[str, str]:
    """The chart of the tests' own spec."""
    plan = resolved(*overrides)
    return chart_files(render(plan, CATALOG, attempt=FIRST), plan)


def filled(template: str, values: dict[str, str]) -> str:
    """What Helm would make of a template of ours: values, and texts in backquotes."""
    text = re.sub(
        r"\{\{ \.Values\.(\w+) \| quote \}\}", lambda m: json.dumps(values[m[1]]), template
    )
    return re.sub(r"\{\{ `([^`]*)` \}\}", lambda m: m[1], text)


def test_a_chart_with_its_own_values_is_the_run() -> None:
    files = chart(*CHART)
    (values,) = parsed(files["values.yaml"])
    assert values == {
        "image": "nvcr.io/nvidia/pytorch:26.02-py3",
        "namespace": "team",
        "queue": "research",
        "claim": "shared",
        "serviceAccount": "training",
    }
    templates = [text for name, text in files.items() if name.startswith("templates/")]
    made = [parsed(filled(text, values))[0] for text in templates]
    assert made == json.loads(json.dumps(manifests(*CHART)))


def test_a_chart_with_other_values_differs_only_in_them() -> None:
    files = chart(*CHART)
    other = {
        "image": "example.com/own:2",
        "namespace": "elsewhere",
        "queue": "night",
        "claim": "mine",
        "serviceAccount": "other",
    }
    # The spec inside the cluster stays as it was written.
    templates = [t for name, t in files.items() if name.startswith("templates/")][1:]
    text = "".join(filled(template, other) for template in templates)
    assert not [value for value in ("team", "research", "claimName: shared") if value in text]
    assert text.count("example.com/own:2") >= 2
    assert 'namespace: "elsewhere"' in text


def test_a_chart_refuses_values_that_it_does_not_know() -> None:
    schema = json.loads(chart(*CHART)["values.schema.json"])
    assert schema["additionalProperties"] is False
    (values,) = parsed(chart(*CHART)["values.yaml"])
    assert set(schema["properties"]) - {"global"} == set(values) == set(schema["required"])
    for key, value in values.items():
        assert re.search(schema["properties"][key]["pattern"], value)
    assert not re.search(schema["properties"]["namespace"]["pattern"], "Not A Name")


def test_braces_of_the_run_are_no_template() -> None:
    plan = resolved("description='{{ .Values.image }}'", "cluster.env={MARK: '{{ fail }}'}")
    files = chart_files(render(plan, CATALOG), plan)
    job = files["templates/08-pytorchjob-slim-7b.yaml"]
    assert "{{ fail" not in job
    made = parsed(filled(job, {"image": "i", "namespace": "n"}))[0]
    assert "{{ fail }}" in str(made)


def test_no_text_of_the_run_becomes_a_value_of_the_chart() -> None:
    old_mark = "SEATRIAL_HELM_VALUE_image"
    given = (
        "cluster.namespace=team",
        "monitoring.prometheus={pod_monitor: {labels: {namespace: team}}}",
    )
    files = chart(f"cluster.env={{MARK: {old_mark}, namespace: team}}", *given)
    assert old_mark in files["templates/09-pytorchjob-slim-7b.yaml"]
    monitor = next(text for name, text in files.items() if "podmonitor" in name)
    # The namespace of the object follows the value; a label that reads the same is a label.
    assert "  namespace: {{ .Values.namespace | quote }}" in monitor
    assert "    namespace: team" in monitor


def test_an_image_is_the_same_text_in_the_values() -> None:
    (values,) = parsed(chart("cluster.image=example.com/😀:1")["values.yaml"], "1.1")
    assert values["image"] == "example.com/😀:1"


def test_the_chart_is_named_after_the_run() -> None:
    (about,) = parsed(chart(*CHART)["Chart.yaml"])
    assert (about["apiVersion"], about["name"], about["description"]) == ("v2", "slim-7b", "Our 7B")


def test_other_code_has_another_digest() -> None:
    files = [("a.py", b"1"), ("b.py", b"2")]
    assert code_digest(files) == code_digest(reversed(files))
    assert code_digest(files) != code_digest([("a.py", b"2"), ("b.py", b"1")])
    assert code_digest([("ab", b"c")]) != code_digest([("a", b"bc")])
    assert re.fullmatch(r"sha256:[0-9a-f]{64}", code_digest([]))


def test_every_part_has_manifests() -> None:
    for part in Part:
        assert render(resolved(), CATALOG, part).manifests
