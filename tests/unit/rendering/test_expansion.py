# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Texts and references in commands, and the spec that pods mount."""

import json

import pytest

from seatrial.rendering.expansion import Command, Option, Reference
from seatrial.rendering.spec_config import spec_text
from seatrial.spec.loader import loads
from seatrial.yaml_scalars import quoted
from tests.conftest import resolved


def test_only_a_reference_is_one_in_a_pod() -> None:
    options: dict[str, Option] = {"a": "$(RANK)", "b": ("$", Reference("RANK"), "$"), "c": True}
    command = Command("torchrun", options=options, rest=("$x",))
    assert command.in_container() == ["torchrun", "--a=$$(RANK)", "--b=$$$(RANK)$$", "--c", "$$x"]


def test_nothing_is_escaped_on_this_host() -> None:
    command = Command(module="seatrial", words=("list",), options={"a": "$(RANK)"}, rest=("$$",))
    assert command.on_host() == ("python3", "-m", "seatrial", "list", "--a=$(RANK)", "$$")
    with pytest.raises(TypeError, match="needs a kubelet"):
        Command(options={"b": (Reference("RANK"),)}).on_host()


@pytest.mark.parametrize("text", ["a\u2028b", "\ufeffa", "a\u00a0b", "\U0001f600", "\uffff", "é"])
def test_the_mounted_spec_is_the_same_as_json_and_as_yaml(text: str) -> None:
    spec = resolved(f"description={quoted(text)}").spec
    assert spec.description == text
    assert json.loads(spec_text(spec))["description"] == text
    assert loads(spec_text(spec), "run.yaml").spec == spec
