# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Choose the backend: the fastest one that gives exactly the tokens of the reference.

Of five fast libraries, three gave wrong tokens for some texts (measured), so none is trusted. Each
must match the reference on a sample of this corpus and on the edge cases, with this tokenizer. It
is checked again while it runs.
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
    """Its name, with the version if it is installed."""
    reason: str
    """Reason as a sentence."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The chosen backend, and why faster ones are not used."""

    backend: str
    """Its name, for `open_encoder`."""
    version: str
    """Version of its package."""
    compared: int
    """Texts on which it matched the reference; 0 if it is the reference."""
    refused: tuple[Refusal, ...]
    """The rejected faster backends, in order."""


def choose_backend(
    tokenizer: Tokenizer,
    file: Path,
    sample: Sequence[str],
    policy: EndTokenInText = EndTokenInText.TOKEN,
) -> Choice:
    """Try the backends, the fastest first.

    Args:
        tokenizer: The tokenizer.
        file: Its file.
        sample: Texts of the corpus; a few MB are enough. The reference tokenizes 2 MB per second.
        policy: Handling of the end token in a text; the backend must be exact for this policy.
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
    """The sample texts and the reference's tokens, computed once for all backends."""

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
        """Explain why a backend cannot be used; None if it can."""
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
                    return f"its tokens differ for {what} {differing}, {shown}."
        except (KeyboardInterrupt, SystemExit, MemoryError):
            raise
        except BaseException as error:
            # A panic of a Rust library is not an Exception.
            return f"it fails: {str(error)[:200] or type(error).__name__}."
        return None


def first_difference(one: Encoded, other: Encoded) -> int | None:
    """Return the index of the first text whose tokens differ; None if all are equal."""
    (tokens, lengths), (expected, counts) = one, other
    if np.array_equal(lengths, counts) and np.array_equal(tokens, expected):
        return None
    same = lengths == counts if len(lengths) == len(counts) else np.zeros(1, bool)
    until = int(np.argmin(same)) if not same.all() else len(same)
    # Up to this index all lengths are equal, so the first different token identifies the text.
    size = int(lengths[:until].sum())
    unequal = np.flatnonzero(tokens[:size] != expected[:size])
    if not len(unequal):
        return until
    return int(np.searchsorted(np.cumsum(lengths), unequal[0], side="right"))


SAMPLE_BYTES = 1 << 18
"""Text on which a backend must be exact: the reference needs about 0.1 s for it.

In addition, the edge cases are compared, and one in a thousand documents while the tasks run.
"""


def _file(tasks: TaskList) -> str:
    return f"work/{tasks.name}/backend.json"


def chosen_backend(store: Store, tasks: TaskList) -> str:
    """Return the backend to use; an earlier choice stays valid while that version is installed.

    The backend affects only the speed, never the output.
    """
    try:
        kept = parse_json(store.read(_file(tasks)))
        if version_of(kept["backend"]) == kept["version"]:
            return str(kept["backend"])
    except (FileNotFoundError, ImportError, ValueError, KeyError, TypeError):
        # Not chosen yet, chosen on a different machine, or damaged: choose again.
        pass
    texts = sample_texts(tasks, SAMPLE_BYTES)
    settings = tasks.settings
    choice = choose_backend(
        settings.tokenizer, tokenizer_path(store, tasks), texts, settings.end_token_in_text
    )
    _keep(store, tasks, asdict(choice))
    return choice.backend


def proven_encoder(store: Store, tasks: TaskList, backend: str) -> Encoder:
    """Open the tokenizer of a list with the chosen backend, in a worker process.

    A backend is verified for one version. If this machine has a different version or none, the
    reference does the work, and the backend name in the records states the reason.
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
    """Explain why the installed backend is not the verified one; None if it is."""
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
        return f"the verification record of {backend} is damaged"
    if chosen != backend or proved == here:
        return None
    return f"a worker has {backend} {here}, but {proved} was verified"


def distrust(store: Store, tasks: TaskList, backend: str) -> None:
    """Switch to the reference: a backend gave wrong tokens while it ran."""
    reference = LADDERS[tasks.settings.tokenizer.kind][-1]
    _keep(
        store,
        tasks,
        {
            "backend": reference,
            "version": version_of(reference),
            "refused": [{"backend": backend, "reason": "its tokens differed while it ran."}],
        },
    )


def _keep(store: Store, tasks: TaskList, choice: dict[str, object]) -> None:
    with store.open_writer(_file(tasks)) as stream:
        stream.write(json.dumps(choice).encode())
