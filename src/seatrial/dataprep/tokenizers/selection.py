# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Which backend may tokenize: the fastest that gives exactly the tokens of the reference.

Three of five fast libraries that were measured gave other tokens than they claimed for some texts,
so none is trusted: each has to show it on this tokenizer, on a sample of this corpus and on the
edge cases, and is checked again while it runs.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from seatrial.dataprep.documents.reading import sample_texts
from seatrial.dataprep.tasks.task_list import TaskList, Tokenizer
from seatrial.dataprep.tokenizers.backends import (
    BACKENDS,
    LADDERS,
    Encoded,
    Model,
    reference_backend,
    version_of,
)
from seatrial.dataprep.tokenizers.edge_cases import edge_cases
from seatrial.dataprep.tokenizers.encoder import Encoder, open_encoder
from seatrial.dataprep.tokenizers.identity import model_of
from seatrial.dataprep.tokenizers.locations import tokenizer_path
from seatrial.spec.data import EndTokenInText
from seatrial.storage.state_files import parse_json
from seatrial.storage.store import Store


@dataclass(frozen=True, slots=True)
class Refusal:
    """A faster backend that is not used."""

    backend: str
    """Its name, with its version when it is installed."""
    reason: str
    """Why not, as a sentence."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The backend that is used, and why none of the faster ones."""

    backend: str
    """Name, for `open_encoder`."""
    version: str
    """Version of its package."""
    compared: int
    """Texts on which it gave the tokens of the reference; 0 when it is the reference."""
    refused: tuple[Refusal, ...]
    """The faster ones, in order."""


def choose_backend(
    tokenizer: Tokenizer,
    file: Path,
    sample: Sequence[str],
    policy: EndTokenInText = EndTokenInText.TOKEN,
) -> Choice:
    """Try the backends from the fastest on.

    Args:
        tokenizer: The tokenizer.
        file: Its file.
        sample: Texts of the corpus. The reference tokenizes 2 MB a second, so a few MB will do.
        policy: What becomes of the end token in a text; a backend has to be exact for this one.
    """
    model = model_of(tokenizer, file.read_bytes(), policy)
    *fast, last = LADDERS[tokenizer.kind]
    trial = _Trial(model, sample)
    refused: list[Refusal] = []
    for name in fast:
        reason = trial.refusal(name)
        if reason is None:
            return Choice(name, version_of(name), trial.texts, tuple(refused))
        refused.append(Refusal(_label(name), reason))
    return Choice(last, version_of(last), 0, tuple(refused))


def _label(name: str) -> str:
    try:
        return f"{name} {version_of(name)}"
    except ImportError:
        return name


class _Trial:
    """The texts, and the reference's tokens of them, made once for all backends."""

    def __init__(self, model: Model, sample: Sequence[str]) -> None:
        self._model = model
        self._sets = {
            "edge case": edge_cases(model.end_text),
            "text of the sample": list(sample),
        }
        self.texts = sum(map(len, self._sets.values()))

    @cached_property
    def _answers(self) -> list[Encoded]:
        reference = reference_backend(self._model)
        return [reference.encode(texts) for texts in self._sets.values()]

    def refusal(self, name: str) -> str | None:
        """Why a backend may not be used, or None if it may."""
        try:
            version_of(name)
        except ImportError:
            return "it is not installed."
        try:
            backend = BACKENDS[name](self._model)
            for (what, texts), answer in zip(self._sets.items(), self._answers, strict=True):
                differing = first_difference(backend.encode(texts), answer)
                if differing is not None:
                    shown = ascii(texts[differing][:40])
                    return f"it gives other tokens for {what} {differing}, {shown}."
        except (KeyboardInterrupt, SystemExit, MemoryError):
            raise
        except BaseException as error:
            # A panic of a library in Rust is no Exception.
            return f"it fails: {str(error)[:200] or type(error).__name__}."
        return None


def first_difference(one: Encoded, other: Encoded) -> int | None:
    """The number of the first text whose tokens differ; None when all are equal."""
    (tokens, lengths), (expected, counts) = one, other
    if np.array_equal(lengths, counts) and np.array_equal(tokens, expected):
        return None
    same = lengths == counts if len(lengths) == len(counts) else np.zeros(1, bool)
    until = int(np.argmin(same)) if not same.all() else len(same)
    # Up to there both have texts of the same lengths, so the first token that differs tells.
    size = int(lengths[:until].sum())
    unequal = np.flatnonzero(tokens[:size] != expected[:size])
    if not len(unequal):
        return until
    return int(np.searchsorted(np.cumsum(lengths), unequal[0], side="right"))


SAMPLE_BYTES = 1 << 18
"""Text on which a backend must be exact: the reference needs some 0.1 s for it.

Edge cases come on top, and every thousandth document is compared while the tasks run.
"""


def _file(tasks: TaskList) -> str:
    return f"work/{tasks.name}/backend.json"


def chosen_backend(store: Store, tasks: TaskList) -> str:
    """The name of the backend to use; the choice of an earlier start holds while it is installed.

    The backend decides no byte of the output, only how fast it comes.
    """
    try:
        kept = parse_json(store.read(_file(tasks)))
        if version_of(kept["backend"]) == kept["version"]:
            return str(kept["backend"])
    except (FileNotFoundError, ImportError, ValueError, KeyError, TypeError):
        # Never chosen, chosen on another machine, or damaged: choose again.
        pass
    texts = sample_texts(tasks, SAMPLE_BYTES)
    settings = tasks.settings
    choice = choose_backend(
        settings.tokenizer, tokenizer_path(store, tasks), texts, settings.end_token_in_text
    )
    _keep(store, tasks, asdict(choice))
    return choice.backend


def proven_encoder(store: Store, tasks: TaskList, backend: str) -> Encoder:
    """The tokenizer of a list in the chosen backend, in the process that does tasks.

    The proof of a backend is one of a version. Where this machine has another one, or none, the
    reference does the work, and its name in the records says why.
    """
    reference = LADDERS[tasks.settings.tokenizer.kind][-1]
    reason = None if backend == reference else unproven(store, tasks, backend)
    encoder = open_encoder(
        tasks.settings.tokenizer,
        tokenizer_path(store, tasks),
        backend if reason is None else reference,
        tasks.settings.end_token_in_text,
    )
    if reason is not None:
        encoder.backend += f", because {reason}"
    return encoder


def unproven(store: Store, tasks: TaskList, backend: str) -> str | None:
    """Why a backend of this machine is not the one that proved exact; None if it is."""
    try:
        here = version_of(backend)
    except ImportError:
        return f"{backend} is not installed on a worker"
    try:
        kept = parse_json(store.read(_file(tasks)))
        chosen, proved = kept["backend"], kept["version"]
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        return f"the record of the proof of {backend} is damaged"
    if chosen != backend or proved == here:
        return None
    return f"a worker has {backend} {here} and {proved} was proved"


def distrust(store: Store, tasks: TaskList, backend: str) -> None:
    """Use the reference from now on: a backend gave other tokens while it ran."""
    reference = LADDERS[tasks.settings.tokenizer.kind][-1]
    _keep(
        store,
        tasks,
        {
            "backend": reference,
            "version": version_of(reference),
            "refused": [{"backend": backend, "reason": "it gave other tokens while it ran."}],
        },
    )


def _keep(store: Store, tasks: TaskList, choice: dict[str, object]) -> None:
    with store.open_writer(_file(tasks)) as stream:
        stream.write(json.dumps(choice).encode())
