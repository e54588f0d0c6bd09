# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The tokenizer backend of a frozen list: chosen once on a sample of the corpus, then kept."""

import json
from dataclasses import asdict

from seatrial.dataprep.documents.sampling import sample_texts
from seatrial.dataprep.stores.store import Store
from seatrial.dataprep.tasks.task_list import TaskList
from seatrial.dataprep.tokenizers.backends import LADDERS, version_of
from seatrial.dataprep.tokenizers.encoder import Encoder, open_encoder
from seatrial.dataprep.tokenizers.selection import choose_backend
from seatrial.dataprep.tokenizers.stored_file import tokenizer_path

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
        kept = json.loads(store.read(_file(tasks)))
        if version_of(kept["backend"]) == kept["version"]:
            return str(kept["backend"])
    except (FileNotFoundError, ImportError):
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
        kept = json.loads(store.read(_file(tasks)))
    except FileNotFoundError:
        return None
    if kept["backend"] != backend or kept["version"] == here:
        return None
    return f"a worker has {backend} {here} and {kept['version']} was proved"


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
