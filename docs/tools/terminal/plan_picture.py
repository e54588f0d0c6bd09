# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Draw the output of `seatrial plan` and photograph its page, light and dark.

    python -m docs.tools.terminal.plan_picture

Runs the real command on the spec below. Writes docs/figures/plan-light.svg and plan-dark.svg, and
plan-page-light.png and plan-page-dark.png. Needs chromium.
"""

import sys
import tempfile
from pathlib import Path

from docs.tools.browser import chromium
from docs.tools.page_parts import ROOT
from docs.tools.refresh_console import environment_of
from docs.tools.terminal.draw import THEMES, Line, still
from docs.tools.terminal.record import recorded

COLUMNS = 100
WIDTH = 1000
"""Pixels of the photographed page."""
SPEC = """\
apiVersion: seatrial.dev/v1alpha1
name: slim-7b
model: {preset: gpt3-7.5b}
data:
  sources:
    - from: s3://my-bucket/corpus
  tokenizer: hf://gpt2
training: {tokens: 150B}
cluster:
  profile: eks
  node_type: p4d.24xlarge
  nodes: 2
  service_account: training
"""


def plan_lines(directory: Path) -> list[Line]:
    """The command and what it prints."""
    (directory / "run.yaml").write_text(SPEC, encoding="utf-8")
    argv = [sys.executable, "-m", "seatrial", "plan", "run.yaml"]
    printed = recorded(argv, directory, environment_of(directory), COLUMNS)
    while printed and not printed[-1].text:
        printed.pop()
    return [Line(0.0, "seatrial plan run.yaml", is_command=True), *printed]


def photograph(directory: Path) -> None:
    """The pictures of the page that `--html` writes, as a browser shows them."""
    argv = [sys.executable, "-m", "seatrial", "plan", "run.yaml", "--html", "plan.html"]
    recorded(argv, directory, environment_of(directory), COLUMNS)
    with chromium() as browser:
        for theme in THEMES:
            tab = browser.new_page(
                viewport={"width": WIDTH, "height": 1000},
                color_scheme="dark" if theme.name == "dark" else "light",
            )
            tab.goto((directory / "plan.html").as_uri())
            top = tab.evaluate("document.querySelector('h2').getBoundingClientRect().top") - 24
            bottom = tab.evaluate("document.documentElement.scrollHeight")
            file = ROOT / f"docs/figures/plan-page-{theme.name}.png"
            tab.screenshot(
                path=str(file),
                timeout=120_000,
                full_page=True,
                clip={"x": 0, "y": top, "width": WIDTH, "height": bottom - top},
            )
            print(f"wrote {file.relative_to(ROOT)}")


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        lines = plan_lines(Path(directory))
        photograph(Path(directory))
    for theme in THEMES:
        file = ROOT / f"docs/figures/plan-{theme.name}.svg"
        file.write_text(still(lines, COLUMNS, "seatrial plan", theme), encoding="utf-8")
        print(f"wrote {file.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
