# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The browser that the documentation's tools photograph and check pages with."""

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, sync_playwright


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start chromium; exit with a message if it is not installed."""
    file = shutil.which("chromium")
    if file is None:
        sys.exit("chromium is not installed. To install it: make test-programs")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=file, args=["--no-sandbox", "--disable-gpu"]
        )
        yield browser
        browser.close()
