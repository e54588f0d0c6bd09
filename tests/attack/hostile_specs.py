# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Texts that YAML, Helm, the kubelet or a terminal could read otherwise, and specs full of them."""

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from seatrial.planning.options import NO_OPTIONS
from seatrial.yaml_scalars import quoted

PIECES = (
    *("$", "$$", "$$$", "$(", "$(X)", "$$(X)", "$$$(X)", "${X}", "$(HOME)", "$(MARK)", "$X", ")"),
    *("{{", "}}", "{{ .Values.x }}", "{{-", "-}}", '{{"', "{{/*", "*/}}", "{{ `", "`", "{%", "%}"),
    *(
        "\\",
        "\\n",
        "\\\\",
        "'",
        '"',
        "''",
        '""',
        "\n",
        "\n\n",
        "\t",
        " ",
        "  ",
        "\n  - a\n",
        "%",
        "%s",
    ),
    *(
        "yes",
        "No",
        "on",
        "y",
        "0x10",
        "0o17",
        "1e3",
        "1_000",
        "02:00",
        "~",
        "null",
        ".inf",
        "1",
        "-1",
    ),
    *(
        "- a",
        ": ",
        "a: b",
        "#",
        " #",
        "&a",
        "*a",
        "!a",
        "!!int",
        "|",
        ">",
        "[",
        "]",
        "{",
        "}",
        ",",
        "?",
    ),
    *("---", "...", "<<", "=", "@", "--save", "-", "--", ";", "&&", "$(rm)", "../", "/", "//", "."),
    *("é", "ß", "中文", "\U0001f600", "\ufeff", "\u202e", "\u2028", "\u00a0", "\u0301", "\uffff"),
    *("SEATRIAL_HELM_VALUE_image", "SEATRIAL_RUN", "PYTHONPATH", "RANK", "HOME", "PATH", "MARK"),
    *("a", "b", "team", "slim-7b", "run", "data", "x" * 300),
)
UNUSABLE = ("\0", "\x07", "\x1b[31m", "\r", "\x7f", "\x85", "\ud800", "\udfff")


def make_texts(count: int, seed: int) -> Iterator[str]:
    """Every piece once alone, then random ones of a few pieces."""
    chance = random.Random(seed)  # noqa: S311  (repeatable, not secret)
    for number in range(count):
        if number < len(PIECES):
            yield PIECES[number]
        elif number < len(PIECES) + len(UNUSABLE):
            yield f"a{UNUSABLE[number - len(PIECES)]}b"
        else:
            parts = chance.choices(PIECES, k=chance.randint(1, 6))
            if chance.random() < 0.02:
                parts.insert(chance.randrange(len(parts) + 1), chance.choice(UNUSABLE))
            if chance.random() < 0.2:
                parts.append(chr(chance.choice((*range(0x20, 0x7F), *range(0xA0, 0xD7FF)))))
            yield "".join(parts)


TRAINING = {
    "training": {"steps": 1000, "micro_batch_size": 4, "global_batch_size": 1024},
    "parallelism": {
        "tp_size": 4,
        "pp_size": 1,
        "vp_size": 1,
        "cp_size": 1,
        "ep_size": 1,
        "sequence_parallel": True,
        "sharding": "optimizer",
        "recompute": "selective",
    },
    "performance": json.loads(json.dumps(NO_OPTIONS.values())),
}
"""What a plan needs without a planner."""


HYPERPOD = "hyperpod-pytorchjob"
OPERATORS = ("trainjob", "pytorchjob", "pytorchjob", HYPERPOD)
"""Of each variant of a spec."""


@dataclass
class Case:
    """One spec in which every field that takes it holds the text."""

    number: int
    text: str
    variant: int
    refused: set[str] = field(default_factory=set)
    """Fields that do not take the text."""
    placed: dict[str, Any] = field(default_factory=dict)
    """What each of the others was given."""

    def put(self, path: str, value: Any, instead: Any = None) -> Any:
        """The value with the text, or another if the field refuses it."""
        if path in self.refused:
            return instead
        self.placed[path] = value
        return value

    def spec(self) -> dict[str, Any]:
        """The spec as a user writes it."""
        self.placed, put, text = {}, self.put, self.text
        mount = put("cluster.storage.mount", f"/{text}", "/data")
        sources = [
            {
                "from": put("data.sources.[].from", f"/{text}", "/corpus"),
                "files": put("data.sources.[].files", text),
                "text_field": put("data.sources.[].text_field", text, "text"),
                "domain_field": put("data.sources.[].domain_field", text),
                "name": put("data.sources.[].name", text, "raw"),
            },
            {"prepared": put("data.sources.[].prepared", f"/{text}", "/prepared"), "name": "ready"},
        ]
        spec = {
            "apiVersion": "seatrial.dev/v1alpha1",
            "name": put("name", text, f"run-{self.number}-{self.variant}"),
            "description": put("description", text),
            "model": {"preset": put("model.preset", text, "gpt3-7.5b")},
            "data": {
                "sources": sources,
                "tokenizer": put("data.tokenizer", f"/{text}.json", "hf://gpt2"),
                "location": put("data.location", f"{mount}/{text}"),
            },
            **TRAINING,
            "cluster": self.cluster(mount),
            "checkpoints": {
                "location": put("checkpoints.location", f"{mount}/{text}"),
                "every_steps": 100,
            },
            "monitoring": {
                "wandb": {
                    "project": put("monitoring.wandb.project", text, "p"),
                    "entity": put("monitoring.wandb.entity", text),
                },
                "mlflow": {
                    "tracking_uri": put("monitoring.mlflow.tracking_uri", text, "u"),
                    "experiment": put("monitoring.mlflow.experiment", text, "e"),
                },
                "prometheus": {
                    "pod_monitor": {
                        "labels": put("monitoring.prometheus.pod_monitor.labels", {text: text}, {})
                    }
                },
            },
            "engine": {"options": put("engine.options", {"one-logger-project": text}, {})},
            **self.beginning(),
        }
        given: dict[str, Any] = without_null(spec)
        return given

    def beginning(self) -> dict[str, Any]:
        """What of the weights to start from excludes each other."""
        put, text = self.put, self.text
        if self.variant == 0:
            given = put("initial_weights.checkpoint", f"/{text}")
            return {"initial_weights": {"checkpoint": given}} if given else {}
        if self.variant == 1:
            given = put("initial_weights.huggingface", f"/{text}")
            return {"initial_weights": {"huggingface": given}} if given else {}
        run = put("continue_from.run", f"{text}-0", "earlier")
        checkpoints = put("continue_from.checkpoints", f"/{text}", "/data/earlier")
        return {"continue_from": {"run": run, "checkpoints": checkpoints}}

    def cluster(self, mount: str) -> dict[str, Any]:
        """The section with most texts, and what of it excludes each other."""
        put, text = self.put, self.text
        storage: dict[str, Any] = {"mount": mount}
        if self.variant == 0:
            storage["claim"] = put("cluster.storage.claim", text)
        elif self.variant == 1:
            attributes = {"dnsname": "d", "mountname": text}
            storage["volume"] = {
                "handle": put("cluster.storage.volume.handle", text, "h"),
                "attributes": put(
                    "cluster.storage.volume.attributes",
                    attributes,
                    {**attributes, "mountname": "m"},
                ),
            }
        else:
            storage["tier"] = put("cluster.storage.tier", text)
            given = {"subnetId": text, "securityGroupIds": "s"}
            storage["parameters"] = put("cluster.storage.parameters", given, {})
            storage["mount_options"] = put("cluster.storage.mount_options", [text])
        queue = put("cluster.queue", text, "q")
        if self.variant == 1:
            account = {"identity": put("cluster.identity", f"arn:{text}")}
        else:
            account = {"service_account": put("cluster.service_account", text)}
        variables = {
            **put("cluster.env", {"MARK": text}, {}),
            **({} if text == "MARK" else put("cluster.env name", {text: "v"}, {})),
        }
        on_hyperpod = OPERATORS[self.variant] == HYPERPOD
        return {
            "profile": put("cluster.profile", text, f"{'hyperpod-' if on_hyperpod else ''}eks"),
            "node_type": put(
                "cluster.node_type", text, f"{'ml.' if on_hyperpod else ''}p4d.24xlarge"
            ),
            "nodes": 2,
            "operator": OPERATORS[self.variant],
            "operator_version": None if on_hyperpod else put("cluster.operator_version", text),
            "namespace": put("cluster.namespace", text, "default"),
            "queue": queue,
            "topology": {"level": put("cluster.topology.level", text, "rack")},
            "priority_class": put("cluster.priority_class", text),
            "fabric": put("cluster.fabric", text),
            "storage": storage,
            "image": put("cluster.image", f"{text}:1", "example.com/worker:1"),
            "image_pull_secret": put("cluster.image_pull_secret", text),
            "env": variables,
            **account,
            "secrets": [
                {
                    "secret": put("cluster.secrets.[].secret", text, "s"),
                    "key": put("cluster.secrets.[].key", text, "k"),
                    "env": put("cluster.secrets.[].env", f"S{text}", "FROM_SECRET"),
                },
                {"secret": "s", "mount": put("cluster.secrets.[].mount", f"/{text}", "/secret")},
            ],
            "preparation": {"image": put("cluster.preparation.image", f"{text}:1")},
            **self.pods(),
        }

    def pods(self) -> dict[str, Any]:
        """What clusters of one kind differ in."""
        put, text = self.put, self.text

        def nodes(path: str) -> dict[str, Any]:
            toleration = {
                "key": put(f"{path}.tolerations.[].key", text, "k"),
                "value": put(f"{path}.tolerations.[].value", text, "v"),
            }
            selected = put(f"{path}.node_selector", {text: text})
            return {"node_selector": selected, "tolerations": [toleration]}

        if self.variant:
            scratch = {"storage_class": put("cluster.scratch.storage_class", text)}
        else:
            scratch = {"host_path": put("cluster.scratch.host_path", f"/{text}")}
        return {
            **nodes("cluster"),
            "cpu_nodes": nodes("cluster.cpu_nodes"),
            "labels": put("cluster.labels", {text: text}),
            "annotations": put("cluster.annotations", {"example.com/mark": text}),
            "resources": put("cluster.resources", {f"example.com/{text}": 1}),
            "scratch": scratch,
        }


def without_null(value: Any) -> Any:
    """The spec without what is not given."""
    if isinstance(value, dict):
        return {key: without_null(below) for key, below in value.items() if below is not None}
    return [without_null(below) for below in value] if isinstance(value, list) else value


def yaml_of(value: Any) -> str:
    """A spec as text: flow YAML, each text in quotes."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{quoted(str(k))}: {yaml_of(v)}' for k, v in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(yaml_of, value))}]"
    return quoted(value) if isinstance(value, str) else json.dumps(value)
