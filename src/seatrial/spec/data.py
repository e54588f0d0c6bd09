# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The data section: where the text comes from, and how it is tokenized."""

from enum import StrEnum
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, ValidationInfo, WithJsonSchema, field_validator

from seatrial.codes.spec import SpecCode
from seatrial.spec.addresses import STORED, Address, check_address
from seatrial.spec.base import DEFAULTS, SpecModel, broken, require_one_of
from seatrial.spec.scalars import LARGEST, Flag, Fraction, PositiveFloat, PositiveInt


def _split(value: Any) -> tuple[float, float, float]:
    """Check the three shares; the training share must be above 0."""
    shares = value if isinstance(value, list | tuple) else ()
    numbers = [
        float(x)
        for x in shares
        if isinstance(x, int | float) and not isinstance(x, bool) and 0 <= x <= LARGEST
    ]
    if len(shares) != 3 or len(numbers) != 3:
        raise broken(
            "must be three shares, for training, validation and test.",
            "Write three numbers, such as [98, 2, 0].",
            SpecCode.TYPE,
        )
    train, validation, test = numbers
    if train == 0:
        raise broken("the training share is 0.", "Write three numbers, such as [98, 2, 0].")
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
    """Detected from the file names."""
    JSONL = "jsonl"
    """JSON lines: one JSON object per line."""
    PARQUET = "parquet"
    """Parquet files."""
    TEXT = "text"
    """Plain text with one document per file."""
    TEXT_LINES = "text-lines"
    """Plain text with one document per line."""
    TEXT_PARAGRAPHS = "text-paragraphs"
    """Plain text with blank lines between documents."""
    TAR = "tar"
    """Archives of JSON lines, of text files, or of WebDataset samples (`KEY.json`, `KEY.txt`)."""


class DataSource(SpecModel):
    """One corpus: raw text to prepare, or data that is already prepared."""

    name: str | None = Field(default=None, pattern=r"^[a-z0-9]([a-z0-9._-]*[a-z0-9])?$")
    """Short name (lowercase letters, digits, `.`, `_`, `-`); defaults to part of the address."""
    from_: Address | None = Field(default=None, alias="from", min_length=1)
    """Raw text: a path, `hf://datasets/OWNER/NAME@REVISION`, `s3://`, `abfs://`, `az://`, `gs://`."""
    prepared: Address | None = Field(default=None, validate_default=True, min_length=1)
    """Prepared data: a `.bin`/`.idx` pair without extension, or a directory with MDS splits."""
    weight: PositiveFloat | None = None
    """Relative share of this source in the blend; without weights, sources are blended by size."""
    files: str | None = None
    """Glob pattern of the files to read below the address; defaults to all supported formats."""
    format: SourceFormat = SourceFormat.AUTO
    """Storage format of the documents."""
    text_field: str = "text"
    """Field that contains the text of a document."""
    domain_field: str | None = None
    """Field that splits the source into domains, such as `meta.redpajama_set_name`."""
    sample_files: PositiveInt | None = None
    """Read only this many files, spread evenly over the source, for a quick test."""

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
                f"{name} applies to raw text, but this source is already prepared.",
                f"Remove {name}, or use from instead of prepared for raw text.",
            )
        return value


class EmptyDocuments(StrEnum):
    """How to handle a document without text."""

    KEEP = "keep"
    """Write a document with zero tokens, as Megatron's preprocess_data.py does."""
    DROP = "drop"
    """Drop the document and count it."""


class EndTokenInText(StrEnum):
    """How to handle the end-of-document token spelled out in a text, such as `<|endoftext|>`."""

    TOKEN = "token"  # noqa: S105  (no secret)
    """Encode it as the token, as Megatron's preprocess_data.py does; the document seems to end."""
    TEXT = "text"
    """Encode it as ordinary text."""
    BAD = "bad"
    """Count the document as a bad line."""


class Preparation(SpecModel):
    """How raw text is tokenized."""

    empty_documents: EmptyDocuments = EmptyDocuments.KEEP
    """How to handle a document without text."""
    end_token_in_text: EndTokenInText = EndTokenInText.TOKEN
    """How to handle the end-of-document token spelled out in a text."""
    largest_bad_share: Fraction = 1e-4
    """Fraction of unusable lines (not JSON, or no text) above which preparation fails."""


TokenizerAddress = Annotated[
    str,
    # A bare word is not a path: `gpt2` usually means that `hf://` was omitted.
    Field(
        pattern=(
            rf"^(hf://[^\s@]+(@[^\s@]+)?|{STORED}|[^\s:]*/[^\s:]+"
            r"|[^\s:]+\.(json|model|tiktoken))$"
        )
    ),
    BeforeValidator(check_address),
]
"""The address of a tokenizer: on the Hub, in a store, or a path."""


class DataSpec(SpecModel):
    """The training data: sources, or the engine's mock data for a test."""

    sources: tuple[DataSource, ...] | None = None
    """The corpora, in order."""
    mock: Flag | None = Field(default=None, validate_default=True)
    """True to use the engine's mock data instead of sources, to test a layout."""
    tokenizer: TokenizerAddress | None = None
    """`hf://NAME@REVISION`, a path, `s3://`, `abfs://` or `gs://`; defaults to the preset's."""
    split: Split = (98.0, 2.0, 0.0)
    """Shares of the data for training, validation and test."""
    location: Address | None = Field(default=None, min_length=1)
    """Where prepared data is stored; defaults to a directory below the storage mount."""
    preparation: Preparation = DEFAULTS
    """How raw text is tokenized."""

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
                f"some sources have a weight, but sources[{weights.index(None)}] has none.",
                "Set a weight for every source, or omit all weights to blend by size.",
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
                    f"sources[{first[source.name]}] already has the name {source.name}.",
                    "Give each source a different name.",
                    inside=(index, "name"),
                )
        return sources

    @field_validator("mock")
    @classmethod
    def _exactly_one(cls, mock: bool | None, info: ValidationInfo) -> bool | None:
        if mock is False and info.data.get("sources", ()) is None:
            raise broken(
                "mock is false and there are no sources, so there is no data to read.",
                "Add sources, or set mock: true for a test.",
            )
        require_one_of(info.data, mock or None, "sources", "mock")
        return mock
