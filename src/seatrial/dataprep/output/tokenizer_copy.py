# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The tokenizer's files in a data set, so that no rank of a run asks the Hugging Face Hub.

The files are in `tokenizer/` next to the data, and the record contains their checksums. Hosts that
only start a run need none of the data libraries, so this module reads the record as JSON.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from seatrial.codes.datasets import DatasetCode
from seatrial.dataprep.output.report import VerificationReport
from seatrial.dataprep.tasks.records import RECORD_FILE
from seatrial.dataprep.tokenizers.locations import COPIED, locate
from seatrial.errors import FindingsError
from seatrial.findings import Finding
from seatrial.hashing import digest
from seatrial.storage.access import store_at
from seatrial.storage.state_files import DamagedError, decode, parse_json, write_state
from seatrial.storage.store import Store

COPY = "tokenizer"
"""Directory of the files below the root of a data set."""


@dataclass(frozen=True, slots=True)
class TokenizerCopy:
    """The verified files of a tokenizer on this host."""

    directory: str
    digest: str
    """Digest of the files, which is the same on every host."""

    def variables(self, *, offline: bool = True) -> dict[str, str]:
        """Return the variables with which a worker loads it, by default without the Hub."""
        found = {"SEATRIAL_TOKENIZER": self.directory, "SEATRIAL_TOKENIZER_DIGEST": self.digest}
        return found | ({"HF_HUB_OFFLINE": "1"} if offline else {})


def write_copy(store: Store, files: Mapping[str, bytes]) -> dict[str, str]:
    """Store the files, delete those of other tokenizers, and return the checksums."""
    store.delete(path for path in _stored(store) if path.removeprefix(f"{COPY}/") not in files)
    for name, data in files.items():
        with store.open_writer(f"{COPY}/{name}") as stream:
            stream.write(data)
    return {name: sha256(data).hexdigest() for name, data in files.items()}


def _stored(store: Store) -> list[str]:
    return [file.path for file in store.list(COPY)]


def check_copy(store: Store, wanted: Mapping[str, str]) -> list[Finding]:
    """Return the problems of a data set's tokenizer files, which should have these checksums."""
    return _read(store, wanted)[1]


def _read(store: Store, wanted: Mapping[str, str]) -> tuple[dict[str, bytes], list[Finding]]:
    """Read the files, and compare them with their checksums."""
    files: dict[str, bytes] = {}
    findings: list[Finding] = []
    for name, checksum in wanted.items():
        report = VerificationReport(f"{store.address}/{COPY}/{name}")
        try:
            files[name] = store.read(f"{COPY}/{name}")
        except FileNotFoundError:
            report.add(DatasetCode.ABSENT, "the tokenizer file is missing.")
        else:
            found = sha256(files[name]).hexdigest()
            if found != checksum:
                rule = f"the SHA-256 of the tokenizer file differs from {checksum}."
                report.add(DatasetCode.DIGEST, rule, found)
        findings += report.findings()
    for path in _stored(store) if wanted else ():
        name = path.removeprefix(f"{COPY}/")
        if name in COPIED and name not in wanted:
            report = VerificationReport(f"{store.address}/{path}")
            rule = "the file is not part of the data set, but would change the tokenizer."
            report.add(DatasetCode.RECORD, rule, fix="Delete the file.")
            findings += report.findings()
    return files, findings


def copied_path(copy: str, named: str) -> str:
    """Return what an engine loads from a copy instead of a name: the directory, or one file.

    Hugging Face's loader needs a directory. Rank files and SentencePiece models are files.
    """
    name = named.rpartition("/")[2]
    is_file = name.endswith((".json", ".model", ".tiktoken")) and name != "tokenizer.json"
    return f"{copy}/{name}" if is_file else copy


def copy_beside(blend: Iterable[str]) -> TokenizerCopy | None:
    """Return the verified tokenizer of the data set with these files, if this host can read it."""
    paths = [Path(word.removeprefix("@")) for word in blend if word.startswith(("/", "@/"))]
    # Megatron's files are in the data set's directory, LLM Foundry's samples one or two below it.
    places = dict.fromkeys(place for path in paths for place in (*path.parents[:2], path))
    found = (verified_copy(str(place), place) for place in places)
    return next((copy for copy in found if copy is not None), None)


def verified_copy(dataset: str, scratch: Path) -> TokenizerCopy | None:
    """Verify a data set's tokenizer.

    Returns None if the data set does not exist, or is of an older version.

    Args:
        dataset: The location of the data set.
        scratch: Directory on this host for the files of a data set in an object store.

    Raises:
        FindingsError: A file is missing or was changed.
    """
    store = store_at(dataset)
    wanted = _checksums(store)
    if not wanted:
        return None
    files, findings = _read(store, wanted)
    if findings:
        raise FindingsError(findings)
    if "://" in dataset:
        return _staged(files, scratch)
    return TokenizerCopy(str(Path(store.address, COPY)), digest(wanted))


def staged_tokenizer(address: str, scratch: Path) -> TokenizerCopy:
    """Download the tokenizer at an address in an object store to a directory on this host."""
    return _staged(locate(address, whole=True).files, scratch)


def _staged(files: Mapping[str, bytes], scratch: Path) -> TokenizerCopy:
    directory = scratch / COPY
    for name, data in files.items():
        write_state(directory / name, data)
    checksums = {name: sha256(data).hexdigest() for name, data in files.items()}
    return TokenizerCopy(str(directory), digest(checksums))


@dataclass(frozen=True, slots=True)
class _Record:
    """The part of a data set's record that describes its tokenizer."""

    tokenizer_files: dict[str, str] | None = None


def _checksums(store: Store) -> dict[str, str]:
    """Return the checksums in a data set's record; empty without a record, and in older ones."""
    try:
        return decode(_Record, parse_json(store.read(RECORD_FILE))).tokenizer_files or {}
    except FileNotFoundError:
        return {}
    except DamagedError as error:
        report = VerificationReport(f"{store.address}/{RECORD_FILE}")
        report.add(DatasetCode.RECORD, f"this is not the record of a data set: {error}.")
        raise FindingsError(report.findings()) from error
