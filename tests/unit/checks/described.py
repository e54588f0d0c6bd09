# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Data for tests of rules: a healthy set, of which a test changes one thing."""

from dataclasses import dataclass, field

from seatrial.checks.probe_facts import CorpusFacts, PairFacts, SplitFacts, TokenizerFacts, Unknown

PREFIX = "/data/prepared/web_text_document"
OTHER = "/data/prepared/wiki_text_document"
CORPUS = "/data/corpus"
GPT2 = "hf://gpt2"


def pair(sequences: int = 1_000_000, tokens: int = 10_000_000_000, **changed: object) -> PairFacts:
    """A pair that is whole."""
    facts: dict[str, object] = {
        "sequences": sequences,
        "documents": sequences,
        "tokens": tokens,
        "token_bytes": 2,
        "bin_bytes": 2 * tokens,
        "idx_bytes": 34 + 12 * sequences + 8 * (sequences + 1),
        "tokenizer": GPT2,
        "largest_id": 50_256,
        "ends_documents": True,
    }
    return PairFacts(**(facts | changed))  # type: ignore[arg-type]


@dataclass
class Described:
    """A probe that answers what it was given."""

    pairs: dict[str, PairFacts | Unknown] = field(default_factory=dict)
    tokenizers: dict[str, TokenizerFacts | Unknown] = field(
        default_factory=lambda: {GPT2: TokenizerFacts(50_257, ends_documents=True)}
    )
    corpora: dict[tuple[str, str | None], CorpusFacts] = field(default_factory=dict)
    splits: dict[str, SplitFacts | Unknown] = field(default_factory=dict)
    prepared: dict[str, int] = field(default_factory=dict)

    def tokenizer(self, address: str) -> TokenizerFacts | Unknown:
        return self.tokenizers.get(address, Unknown.ABSENT)

    def pair(self, prefix: str) -> PairFacts | Unknown:
        return self.pairs.get(prefix, Unknown.ABSENT)

    def split(self, directory: str) -> SplitFacts | Unknown:
        return self.splits.get(directory, Unknown.ABSENT)

    def corpus(self, address: str, pattern: str | None) -> CorpusFacts | Unknown:
        return self.corpora.get((address, pattern), Unknown.ABSENT)

    def training_tokens(self, location: str, shares: tuple[float, float, float]) -> dict[str, int]:
        return self.prepared

    def pairs_near(self, prefix: str) -> list[str]:
        return [other for other in self.pairs if other != prefix]
