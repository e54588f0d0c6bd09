# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The engines by name."""

from seatrial.engines.engine import Engine
from seatrial.engines.llm_foundry.engine import LlmFoundryEngine
from seatrial.engines.megatron.engine import MegatronEngine
from seatrial.spec.engine import EngineName

ENGINES: dict[EngineName, Engine] = {
    EngineName.MEGATRON: MegatronEngine(),
    EngineName.LLM_FOUNDRY: LlmFoundryEngine(),
}
"""Every engine that a spec can name."""
