"""The servers under test: a module for each kind with only what differs, and the process that runs one.

Each kind's module has KIND, FRESH_CONNECTIONS, READY, METRICS, SLOTS, SAMPLED, BUSY, `body` and `facts`; `openai` is
the plain case, which the others build on.
"""

from types import ModuleType

from genreport.engines import llamacpp, openai, vllm

KINDS: dict[str, ModuleType] = {kind.KIND: kind for kind in (vllm, llamacpp, openai)}
