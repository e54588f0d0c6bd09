# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

from seatrial.version import VERSION

project = "Seatrial"
author = "The Seatrial authors"
copyright = author
release = VERSION
version = VERSION

extensions = ["myst_parser", "sphinx_copybutton"]
# Slugs of headings, so that a page can link to a section of another.
myst_heading_anchors = 3
myst_enable_extensions = ["deflist"]
nitpicky = True

html_theme = "furo"
html_title = f"Seatrial {VERSION}"
html_show_sphinx = False
html_copy_source = False

# What is copied from a console block is the command, not its answer.
copybutton_prompt_text = "$ "
copybutton_only_copy_prompt_lines = True
