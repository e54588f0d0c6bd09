# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
import sys
from pathlib import Path

from sphinx.application import Sphinx

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

from docs.tools.console_lexer import ConsoleLexer
from docs.tools.site.tables import label_cells
from seatrial.version import VERSION

project = "Seatrial"
author = "The Seatrial authors"
copyright = author
release = VERSION
version = VERSION

extensions = ["myst_parser", "sphinx_copybutton"]
# Slugs of headings, so that a page can link to a section of another.
myst_heading_anchors = 3
myst_enable_extensions = ["attrs_inline", "colon_fence", "deflist"]
nitpicky = True

html_theme = "furo"
html_title = f"Seatrial {VERSION}"
html_show_sphinx = False
html_copy_source = False
html_static_path = ["static"]
html_css_files = ["site.css"]
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0b5c8a", "color-brand-content": "#0b5c8a"},
    "dark_css_variables": {"color-brand-primary": "#6cc1f2", "color-brand-content": "#6cc1f2"},
}
pygments_style = "friendly"
pygments_dark_style = "github-dark"

# A copy button belongs to what a reader types or saves as a file. Of a console block it copies the
# commands and not their output.
copybutton_selector = (
    "div.highlight-console pre, div.highlight-bash pre, div.literal-block-wrapper pre"
)
copybutton_prompt_text = "$ "
copybutton_only_copy_prompt_lines = True
copybutton_line_continuation_character = "\\"


def setup(app: Sphinx) -> None:
    app.add_lexer("console", ConsoleLexer)
    app.connect("doctree-resolved", label_cells)
