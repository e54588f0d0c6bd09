# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The full-size drill: the engine's own loop runs one step of each distinct rank of the real run.

Tensors have their real shapes and no data, so a rank needs seconds and less than a gibibyte. The
records are stored next to the spec and reused while layout, arguments and versions are the same.
"""

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from seatrial.engine_process.package_path import PACKAGE
from seatrial.engine_process.process import count_rank
from seatrial.engines.engine import DistinctRank, Engine, FullSizeArguments
from seatrial.engines.registry import ENGINES
from seatrial.errors import UsageError
from seatrial.planning.counted import RankCount, rank_count
from seatrial.planning.memory.breakdown import Memory, MemoryFit
from seatrial.planning.plan import Plan
from seatrial.planning.workload import Workload
from seatrial.rehearsal.counted_figures import RankFigures, figures_of
from seatrial.storage.state_files import read_json
from seatrial.version import VERSION

DIRECTORY = "full-size"
"""Name of the directory for records, in the run's directory next to the spec."""
AT_ONCE = 2
"""Ranks that are counted at the same time."""
TIMEOUT = 900.0
"""Seconds for one rank, most of which the engine takes to load on a busy host."""

LARGEST_RECORD = 1 << 28
"""Bytes of a record. Long interleaved schedules have tens of thousands of events."""

Counting = Callable[[int, int, str], None]
"""Progress callback: ranks that are finished, all ranks, and what was finished last."""


@dataclass(frozen=True, slots=True)
class FullSize:
    """All distinct ranks of a plan, counted."""

    ranks: tuple[RankFigures, ...]
    micro_batches: int
    """How many micro-batches each rank executed."""
    of_micro_batches: int
    """How many it has in the real run."""
    dropped: tuple[str, ...]
    """Options of the run that are not part of the count."""
    reused: int
    """How many records were reused."""
    memory: Memory | None
    """The plan's memory; None on a host without GPUs."""
    room: int
    """Device memory of the GPU in bytes; 0 on a host without GPUs."""

    @property
    def fullest(self) -> RankFigures:
        return max(self.ranks, key=lambda each: each.count.peak + each.outside)

    @property
    def fits(self) -> bool:
        """False if a rank certainly needs more memory than its GPU has."""
        return all(each.verdict is not MemoryFit.DOES_NOT_FIT for each in self.ranks)

    @property
    def imitated(self) -> tuple[str, ...]:
        """Kernels whose saved tensors are imitated."""
        return _united(each.count.imitated for each in self.ranks)

    @property
    def assumed(self) -> tuple[str, ...]:
        """What was assumed because no data was computed."""
        return _united(each.count.assumed for each in self.ranks)

    def to_dict(self) -> dict[str, Any]:
        """Return the counted ranks as JSON-compatible data, without their events."""
        return {
            "micro_batches": self.micro_batches,
            "of_micro_batches": self.of_micro_batches,
            "gpu_memory": self.room or None,
            "fits": self.fits,
            "imitated": list(self.imitated),
            "assumed": list(self.assumed),
            "dropped": list(self.dropped),
            "reused": self.reused,
            "ranks": [each.to_dict() for each in self.ranks],
        }


def _united(lists: Iterable[Iterable[str]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text for texts in lists for text in texts))


def executed_micro_batches(plan: Plan) -> int:
    """Return how many micro-batches reach the steady state of the pipeline.

    The first stage begins its first backward pass after `pp_size` forward passes, or fewer than
    twice as many with chunks. After that, memory and traffic repeat.
    """
    return min(plan.batch.micro_batches, 2 * plan.layout.pp_size)


class FullSizeError(Exception):
    """The engine could not count a rank. The message is the reason."""


@dataclass(frozen=True, slots=True)
class FullSizeDrill:
    """Counts the ranks of a plan."""

    plan: Plan
    directory: Path
    """Where records are stored."""
    priced: tuple[Workload, Memory] | None
    """The plan as input of the planner's models, and its memory; None on a host without GPUs."""
    counting: Counting = lambda done, of, name: None

    @property
    def engine(self) -> Engine:
        return ENGINES[self.plan.spec.engine.name]

    def run(self) -> FullSize:
        """Count every distinct rank. Raises FullSizeError if the engine cannot."""
        plan, engine = self.plan, self.engine
        refusal = engine.no_full_size(plan)
        if refusal:
            raise UsageError(refusal)
        arguments = engine.full_size_arguments(plan, executed_micro_batches(plan))
        ranks = engine.full_size_ranks(plan)
        stored = self._stored(arguments, ranks)
        missing = [distinct for distinct in ranks if distinct.rank not in stored]
        counted = stored | self._count(arguments, missing, len(ranks)) if missing else stored
        return self._compared(arguments, counted, len(stored))

    def find(self) -> FullSize | None:
        """Return the counts of an earlier rehearsal, if all of them are still valid."""
        plan, engine = self.plan, self.engine
        if engine.no_full_size(plan):
            return None
        arguments = engine.full_size_arguments(plan, executed_micro_batches(plan))
        ranks = engine.full_size_ranks(plan)
        stored = self._stored(arguments, ranks)
        if len(stored) < len(ranks):
            return None
        return self._compared(arguments, stored, len(stored))

    def _compared(
        self, arguments: FullSizeArguments, counted: Mapping[int, RankCount], reused: int
    ) -> FullSize:
        """Compare the counted ranks with the plan."""
        plan, engine = self.plan, self.engine
        return FullSize(
            tuple(
                figures_of(
                    distinct,
                    replace(counted[distinct.rank], represents=distinct.represents),
                    engine.group_kinds,
                    self.priced,
                )
                for distinct in engine.full_size_ranks(plan)
            ),
            executed_micro_batches(plan),
            plan.batch.micro_batches,
            arguments.dropped,
            reused,
            None if self.priced is None else self.priced[1],
            0 if self.priced is None else self.priced[0].hardware.memory_bytes,
        )

    def _stored(
        self, arguments: FullSizeArguments, ranks: Iterable[DistinctRank]
    ) -> dict[int, RankCount]:
        """Return the records that are still valid."""
        found = {}
        for distinct in ranks:
            with suppress(OSError, ValueError, KeyError, TypeError):
                found[distinct.rank] = read_record(self._file(arguments, distinct.rank))
        return found

    def _count(
        self, arguments: FullSizeArguments, ranks: list[DistinctRank], of: int
    ) -> dict[int, RankCount]:
        """Count ranks, some at the same time."""
        found: dict[int, RankCount] = {}
        done = of - len(ranks)
        self.counting(done, of, "loading the engine")
        with ThreadPoolExecutor(AT_ONCE) as pool:
            running = {pool.submit(self._count_one, arguments, each): each for each in ranks}
            try:
                for future in as_completed(running):
                    distinct = running[future]
                    found[distinct.rank] = future.result()
                    done += 1
                    self.counting(done, of, f"stage {distinct.stage}")
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        return found

    def _count_one(self, arguments: FullSizeArguments, distinct: DistinctRank) -> RankCount:
        file, engine = self._file(arguments, distinct.rank), self.engine
        file.parent.mkdir(parents=True, exist_ok=True)
        reason = count_rank(
            engine.command_line(arguments.arguments),
            distinct.rank,
            self.plan.layout.world_size,
            file,
            TIMEOUT,
            engine.environment(self.plan),
            engine=engine,
        )
        if reason:
            raise FullSizeError(f"rank {distinct.rank} (stage {distinct.stage}): {reason}")
        return read_record(file)

    def _file(self, arguments: FullSizeArguments, rank: int) -> Path:
        """Return the file of a record: its name contains everything that the count depends on."""
        engine = self.engine
        inputs = [
            VERSION,
            engine.package,
            _code_digest(engine.modules.full_size),
            *engine.command_line(arguments.arguments),
            str(self.plan.layout.world_size),
        ]
        name = sha256("\n".join(inputs).encode()).hexdigest()[:16]
        return self.directory / f"{name}-rank-{rank}.json"


def _code_digest(module: str) -> str:
    """Return a digest of the code that counts."""
    directory = PACKAGE.joinpath(*module.split(".")[1:])
    whole = sha256()
    for file in sorted(directory.glob("*.py")):
        whole.update(file.read_bytes())
    return whole.hexdigest()


def read_record(file: Path) -> RankCount:
    """Read a rank's record. Raises OSError or ValueError if there is none."""
    data: Mapping[str, Any] = read_json(file, LARGEST_RECORD)
    return rank_count(data)
