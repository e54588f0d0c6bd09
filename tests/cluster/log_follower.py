# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`logs --follow` in a thread of its own: what came, and how soon."""

import math
import threading
import time

from seatrial.runs.history.logs import Asked, read_logs
from seatrial.runs.namespace import Site
from tests.cluster.daemon import wait_until
from tests.cluster.stub_kubelet import PERIOD, StubKubelet, text_of


class LogFollower:
    """Follows a run whose pods are on the node that prints."""

    def __init__(self, site: Site, run: str, kubelet: StubKubelet, nodes: int) -> None:
        """Begin, and wait until lines of every node come."""
        self._kubelet = kubelet
        self._lines: dict[int, list[str]] = {node: [] for node in range(nodes)}
        self._failed: list[BaseException] = []
        threading.Thread(target=self._follow, args=(site, run), daemon=True).start()
        self.seconds_until_in_step(time.time())

    def seconds_until_in_step(self, since: float) -> float:
        """How long after a time of day the first line that was printed after it has come."""
        number = math.ceil((since - self._kubelet.began) / PERIOD)

        def came() -> bool:
            assert not self._failed, self._failed
            return all(len(lines) > number for lines in self._lines.values())

        wait_until(came, f"line {number} has come, of {self._counts()}", 120)
        # It cannot come before it is printed.
        return max(0.0, time.time() - self._kubelet.seconds_of(number))

    def check_whole(self) -> int:
        """Every line came once, in order, none is lost; how many there were."""
        for lines in self._lines.values():
            # The marks of torchrun are taken off.
            wanted = [text_of(number).partition(":")[2] for number in range(len(lines))]
            assert list(lines) == wanted
        return sum(map(len, self._lines.values()))

    def _follow(self, site: Site, run: str) -> None:
        try:
            for line in read_logs(site, run, Asked(follow=True)):
                self._lines[line.node].append(line.text)
        except BaseException as error:
            self._failed.append(error)

    def _counts(self) -> list[int]:
        return [len(lines) for lines in self._lines.values()]
