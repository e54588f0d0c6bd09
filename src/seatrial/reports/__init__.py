# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Plan pages, run reports, the live view, and terminal output.

The modules format results that they receive. They read no cluster. Entry points:
`plan_text.say_page`, `plan_html.html_page`, `run_page.page.report_page`, `live.app.WatchApp`,
`terminal.say`.
"""
