# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The live view of a run in a terminal."""

import threading
import time
from collections.abc import Callable
from typing import ClassVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.events import Resize
from textual.widgets import Footer, Static

from seatrial.monitoring.view import RunView
from seatrial.reports.live import panels
from seatrial.reports.live.reading import LiveReading

REDRAW_SECONDS = 0.5
"""The time between redraws. Faster changes are unreadable."""
WIDE = 120
"""The width in columns from which a third curve fits."""

Draw = Callable[[RunView, int, int], Text]
Title = Callable[[RunView], str]


class Panel(Static):
    """A panel that draws the view in its own size."""

    def __init__(self, name: str, draw: Draw, title: Title) -> None:
        """Use `draw` for the content and `title` for the border."""
        super().__init__(id=name)
        self._draw = draw
        self._title = title

    def show(self, view: RunView) -> None:
        """Redraw the panel."""
        width, height = self.content_size.width, self.content_size.height
        if width > 0 and height > 0 and self.display:
            self.border_title = self._title(view)
            self.update(self._draw(view, width, height))


class WatchApp(App[None]):
    """The live view of one run."""

    CSS = """
    Screen { background: #12161b; color: #dde3ea; layout: vertical; }
    #heading { height: 2; padding: 0 1; }
    #curves { height: 2fr; min-height: 7; }
    #middle { height: 1fr; min-height: 5; max-height: 14; }
    #bottom { height: 1fr; min-height: 5; max-height: 12; }
    Panel { border: round #38424e; border-title-color: #aeb9c6; padding: 0 1; width: 1fr;
      height: 100%; }
    Footer { background: #12161b; color: #8b94a1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "quit"),
        Binding("space", "pause", "pause"),
    ]
    ENABLE_COMMAND_PALETTE = False

    def __init__(
        self,
        reading: LiveReading,
        *,
        in_background: bool = True,
        now: Callable[[], float] = time.time,
    ) -> None:
        """Show a reading, which runs in a background thread unless `in_background` is False."""
        super().__init__()
        self.reading = reading
        self._now = now
        self._in_background = in_background
        self._paused = False
        self._stopping = threading.Event()

    def compose(self) -> ComposeResult:
        """Create the panels from top to bottom."""
        yield Static(id="heading")
        with Horizontal(id="curves"):
            yield Panel("loss", panels.loss_curve, lambda _: "loss")
            yield Panel("rate", panels.rate_curve, panels.rate_title)
            yield Panel("norm", panels.norm_curve, lambda _: "gradient norm")
        with Horizontal(id="middle"):
            yield Panel("ranks", panels.ranks, panels.ranks_title)
            yield Panel("goodput", panels.goodput, panels.goodput_title)
        with Horizontal(id="bottom"):
            yield Panel("events", panels.events, panels.events_title)
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        """Start reading and drawing."""
        self._fit(self.size.width)
        if self._in_background:
            thread = threading.Thread(
                target=self.reading.run, args=(self._stopping.is_set,), daemon=True
            )
            thread.start()
        self.set_interval(REDRAW_SECONDS, self.redraw)

    def on_unmount(self) -> None:
        """Stop reading."""
        self._stopping.set()

    def on_resize(self, event: Resize) -> None:
        """Fit the panels to the new size."""
        self._fit(event.size.width)
        self.call_after_refresh(self.redraw)

    def _fit(self, width: int) -> None:
        for panel in self.query("#norm"):
            panel.display = width >= WIDE

    def action_pause(self) -> None:
        """Pause or resume redrawing."""
        self._paused = not self._paused

    def redraw(self) -> None:
        """Redraw all panels."""
        # A resize can come before the panels exist, and the timer after they are removed.
        if self._paused or not self.query("#heading"):
            return
        reading = self.reading
        with reading.lock:
            about = panels.Heading(
                reading.history.name,
                reading.history.place,
                reading.attempt,
                not reading.done,
                not reading.caught_up,
            )
            head = self.query_one("#heading", Static)
            head.update(panels.heading(reading.view, about, head.content_size.width, self._now()))
            for panel in self.query(Panel):
                panel.show(reading.view)
        if reading.trouble:
            self.exit(message=reading.trouble, return_code=1)
