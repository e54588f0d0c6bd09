# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The data section: where the text comes from, and how it becomes tokens."""

from enum import StrEnum
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, ValidationInfo, WithJsonSchema, field_validator

from seatrial.codes.spec import SpecCode
from seatrial.spec.addresses import Address
from seatrial.spec.base import DEFAULTS, SpecModel, broken, require_one_of
from seatrial.spec.scalars import LARGEST, Flag, Fraction, PositiveFloat, PositiveInt


def _split(value: Any) -> tuple[float, float, float]:
    """Three shares, the first above 0."""
    shares = value if isinstance(value, list | tuple) else ()
    numbers = [
        float(x)
        for x in shares
        if isinstance(x, int | float) and not isinstance(x, bool) and 0 <= x <= LARGEST
    ]
    if len(shares) != 3 or len(numbers) != 3:
        raise broken(
            "must be three shares, for training, validation and test.",
            "Write for example [98, 2, 0].",
            SpecCode.TYPE,
        )
    train, validation, test = numbers
    if train == 0:
        raise broken("no share is left for training.", "Write for example [98, 2, 0].")
    return train, validation, test


Split = Annotated[
    tuple[float, float, float],
    BeforeValidator(_split),
    WithJsonSchema(
        {"type": "array", "items": {"type": "number", "minimum": 0}, "minItems": 3, "maxItems": 3}
    ),
]


class SourceFormat(StrEnum):
    """How the documents of a source are stored."""

    AUTO = "auto"
    """By the files' names."""
    JSONL = "jsonl"
    """One JSON object a line, plain or compressed (`.gz`, `.zst`)."""
    PARQUET = "parquet"
    """Parquet files."""
    TEXT = "text"
    """One document a file."""


class DataSource(SpecModel):
    """One corpus: raw text to be prepared, or data that is prepared already."""

    name: str | None = Field(default=None, pattern=r"^[a-z0-9]([a-z0-9._-]*[a-z0-9])?$")
    """Short name: lower-case letters, digits, `.`, `_`, `-`; made from the address when absent."""
    from_: Address | None = Field(default=None, alias="from", min_length=1)
    """Raw text: a path, `hf://datasets/OWNER/NAME@REVISION`, `s3://`, `abfs://`, `az://`, `gs://`."""
    prepared: Address | None = Field(default=None, validate_default=True, min_length=1)
    """Prepared data: a `.bin`/`.idx` pair without its ending, or a directory with splits in MDS."""
    weight: PositiveFloat | None = None
    """Share of this source in the blend, relative to the others; by size when none has one."""
    files: str | None = None
    """Glob of the files to take, below the address; all known formats when absent."""
    format: SourceFormat = SourceFormat.AUTO
    """How the documents are stored."""
    text_field: str = "text"
    """Field of a document that holds its text."""
    domain_field: str | None = None
    """Field by which the source is split into domains, such as `meta.redpajama_set_name`."""
    sample_files: PositiveInt | None = None
    """Take only this many files, spread evenly over the source, for a quick test."""

    @field_validator("prepared")
    @classmethod
    def _exactly_one(cls, prepared: object, info: ValidationInfo) -> object:
        require_one_of(info.data, prepared, "from_", "prepared")
        return prepared

    @field_validator("files", "format", "text_field", "domain_field", "sample_files")
    @classmethod
    def _for_raw_text_only(cls, value: object, info: ValidationInfo) -> object:
        name = str(info.field_name)
        if info.data.get("prepared") is not None and value != cls.model_fields[name].default:
            raise broken(
                f"{name} is for raw text, and this source is prepared already.",
                f"Remove {name}, or give the raw text with from instead of prepared.",
            )
        return value


class EmptyDocuments(StrEnum):
    """What becomes of a document without text."""

    KEEP = "keep"
    """A document of no tokens, as Megatron's preprocess_data.py writes it."""
    DROP = "drop"
    """Nothing; it is counted."""


class EndTokenInText(StrEnum):
    """What becomes of the end-of-document token written out in a text, as `<|endoftext|>`."""

    TOKEN = "token"  # noqa: S105  (no secret)
    """That token, as Megatron's preprocess_data.py has it: a document seems to end there."""
    TEXT = "text"
    """The tokens of its letters."""
    BAD = "bad"
    """The document counts as a bad line."""


class Preparation(SpecModel):
    """How raw text becomes tokens, where there is a choice."""

    empty_documents: EmptyDocuments = EmptyDocuments.KEEP
    """What becomes of a document without text."""
    end_token_in_text: EndTokenInText = EndTokenInText.TOKEN
    """What becomes of the end-of-document token written out in a text."""
    largest_bad_share: Fraction = 1e-4
    """Share of lines that cannot be used (no JSON, no text) above which preparation fails."""


class DataSpec(SpecModel):
    """What the model reads: sources, or the engine's mock data for a test."""

    sources: tuple[DataSource, ...] | None = None
    """The corpora, in order."""
    mock: Flag | None = Field(default=None, validate_default=True)
    """True for the engine's own made-up data instead of sources; for tests of a layout."""
    tokenizer: str | None = Field(
        default=None,
        # A bare word is no path: `gpt2` is the mistake of leaving out `hf://`.
        pattern=r"^(hf://[^\s@]+(@[^\s@]+)?|[^\s:]*/[^\s:]+|[^\s:]+\.(json|model|tiktoken))$",
    )
    """`hf://NAME@REVISION`, or the path of a tokenizer file; the preset's own when absent."""
    split: Split = (98.0, 2.0, 0.0)
    """Shares of the data for training, validation and test."""
    location: Address | None = Field(default=None, min_length=1)
    """Where prepared data are kept; below the storage's mount when absent."""
    preparation: Preparation = DEFAULTS
    """How raw text becomes tokens, where there is a choice."""

    @field_validator("sources")
    @classmethod
    def _weights_for_all_or_none(
        cls, sources: tuple[DataSource, ...] | None
    ) -> tuple[DataSource, ...] | None:
        if sources == ():
            raise broken("the list is empty.", "Add a source, or use mock: true for a test.")
        weights = [source.weight for source in sources or ()]
        if None in weights and any(weights):
            raise broken(
                f"some sources have a weight, and sources[{weights.index(None)}] has none.",
                "Give every source a weight, or none to blend by size.",
            )
        return sources

    @field_validator("sources")
    @classmethod
    def _names_are_unique(
        cls, sources: tuple[DataSource, ...] | None
    ) -> tuple[DataSource, ...] | None:
        first: dict[str, int] = {}
        for index, source in enumerate(sources or ()):
            if source.name is not None and first.setdefault(source.name, index) != index:
                raise broken(
                    f"sources[{first[source.name]}] has the name {source.name} already.",
                    "Give each source a name of its own.",
                    inside=(index, "name"),
                )
        return sources

    @field_validator("mock")
    @classmethod
    def _exactly_one(cls, mock: bool | None, info: ValidationInfo) -> bool | None:
        if mock is False and info.data.get("sources", ()) is None:
            raise broken(
                "mock is false and there are no sources, so there is nothing to read.",
                "Add sources, or write mock: true for a test.",
            )
        require_one_of(info.data, mock or None, "sources", "mock")
        return mock
