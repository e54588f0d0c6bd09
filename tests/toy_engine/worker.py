# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""One rank of the toy engine, or with `--stages` its count of parameters."""

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.distributed import checkpoint

from seatrial.checkpoints.commit import commit, read_back
from seatrial.checkpoints.inventory import newest_step
from seatrial.checkpoints.record import Record, ShardList
from seatrial.checkpoints.setup import Versions
from seatrial.checkpoints.verification import verify
from seatrial.monitoring.event_log import EventKind, EventLog
from seatrial.spec.engine import REGISTERED_ENGINES
from seatrial.storage.location import LocalPlace
from seatrial.version import VERSION
from seatrial.worker.checkpointing.compare import contents
from seatrial.worker.settings import settings
from tests.toy_engine.engine import REGISTERED, ToyEngine, toy_setup

Values = dict[str, Any]


class Model(nn.Module):  # type: ignore[misc]
    def __init__(self, told: Values) -> None:
        super().__init__()
        hidden = told["hidden"]
        self.words = nn.Embedding(told["vocab"], hidden)
        self.places = nn.Embedding(told["positions"], hidden)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(
                hidden, told["heads"], told["ffn"], 0.0, batch_first=True, norm_first=True
            )
            for _ in range(told["layers"])
        )
        self.norm = nn.LayerNorm(hidden)

    def forward(self, tokens: Tensor) -> Tensor:
        length = tokens.shape[1]
        mask = nn.Transformer.generate_square_subsequent_mask(length)
        state = self.words(tokens) + self.places(torch.arange(length))
        for layer in self.layers:
            state = layer(state, src_mask=mask, is_causal=True)
        return nn.functional.linear(self.norm(state), self.words.weight)


def samples(told: Values, step: int, rank: int, ranks: int) -> Tensor:
    """This rank's share of a step's batch, which depends on the seed and the step alone."""
    draw = torch.Generator().manual_seed(told["seed"] * 1_000_003 + step)
    shape = (told["batch"], told["length"] + 1)
    return torch.randint(told["vocab"], shape, generator=draw).chunk(ranks)[rank]


def save(told: Values, step: int, state: dict[str, Tensor], ranks: int) -> None:
    place, name = LocalPlace(told["checkpoints"]), ToyEngine.checkpoint_naming.directory_name(step)
    directory = Path(told["checkpoints"], name)
    checkpoint.save(state, checkpoint_id=directory, no_dist=True)
    shards = [read_back(file) for file in directory.glob("*.distcp")]
    setup = toy_setup(told, Versions(VERSION, "toy 1.0", torch.__version__), ranks)
    record = Record(step, step * told["batch"], "", 0, ShardList(0, 0, ""), setup)
    commit(place, shards, record)


def load(told: Values, state: dict[str, Tensor]) -> int:
    """The newest checkpoint, or the one that is named; the step to go on from."""
    place = LocalPlace(told["checkpoints"])
    step = told.get("load") or newest_step(place)
    if step:
        name = ToyEngine.checkpoint_naming.directory_name(step)
        assert not verify(place, name)
        for key, value in contents(Path(told["checkpoints"], name)).items():
            state[key].copy_(value)
    return int(step)


def train(told: Values) -> None:
    distributed.init_process_group("gloo")
    chosen, ranks = settings(), distributed.get_world_size()
    log = EventLog(Path(os.environ["SEATRIAL_EVENTS"])) if chosen.rank == 0 else None
    torch.manual_seed(told["seed"])
    model = Model(told)
    weights = dict(model.named_parameters())
    moments = {name: torch.zeros_like(one) for name, one in weights.items()}
    state = {k: v.data for k, v in weights.items()} | {f"m.{k}": v for k, v in moments.items()}
    for step in range(load(told, state) + 1, told["steps"] + 1):
        began, batch = time.monotonic(), samples(told, step, chosen.rank, ranks)
        logits = model(batch[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
        loss.backward()
        total, norm = loss.detach().clone(), torch.zeros(())
        distributed.all_reduce(total)
        for name, one in weights.items():
            assert one.grad is not None
            distributed.all_reduce(one.grad)
            norm += (one.grad / ranks).square().sum()
            moments[name].mul_(0.9).add_(one.grad / ranks)
            one.data.sub_(told["rate"] * moments[name])
        model.zero_grad()
        value = total.item() / ranks
        if log is not None:
            seconds = time.monotonic() - began
            figures = {"loss": value, "grad_norm": norm.sqrt().item(), "skipped": 0}
            log.write(EventKind.STEP, step, seconds=seconds, **figures)
            sys.stdout.write(f"toy step {step} loss {value}\n")
        if told["save-every"] and step % told["save-every"] == 0 and chosen.rank == 0:
            save(told, step, state, ranks)
        if chosen.kill_step == step:
            os.kill(os.getpid(), signal.SIGKILL)
    distributed.barrier()
    distributed.destroy_process_group()


def main(words: list[str]) -> None:
    REGISTERED_ENGINES["toy"] = REGISTERED
    asked = words[:1] == ["--stages"]
    pairs = (word.removeprefix("--").partition("=")[::2] for word in words[2 * asked :])
    told = {k: v if k == "checkpoints" else json.loads(v) for k, v in pairs}
    if not asked:
        return train(told)
    with torch.device("meta"):
        count = sum(one.numel() for one in Model(told).parameters())
    sys.stdout.write(json.dumps({"accepted": True, "parameters": {"0": count}}) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
