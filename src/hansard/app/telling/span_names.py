"""The one table of names for traces and metrics: the OpenTelemetry conventions for generative AI, which still move.

Pinned to the state of the conventions below. Traces are made from the record, so another state is another export and nothing more.
"""

from collections.abc import Mapping, Sequence

CONVENTIONS = "https://opentelemetry.io/schemas/gen-ai/development"
SCOPE = "hansard"

OPERATION = "gen_ai.operation.name"
WORKFLOW, AGENT, CHAT, PLAN = "invoke_workflow", "invoke_agent", "chat", "plan"

WORKFLOW_NAME = "gen_ai.workflow.name"
AGENT_NAME = "gen_ai.agent.name"
CONVERSATION = "gen_ai.conversation.id"
PROVIDER = "gen_ai.provider.name"
REQUEST_MODEL = "gen_ai.request.model"
RESPONSE_MODEL = "gen_ai.response.model"
FINISH_REASONS = "gen_ai.response.finish_reasons"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
CACHED_TOKENS = "gen_ai.usage.cache_read.input_tokens"
EVALUATION = "gen_ai.evaluation.result"
EVALUATION_NAME = "gen_ai.evaluation.name"
EVALUATION_SCORE = "gen_ai.evaluation.score.value"
EVALUATION_LABEL = "gen_ai.evaluation.score.label"
ERROR = "error.type"

SEQ = "hansard.ledger.seq"
ENTRY_HASH = "hansard.ledger.entry_hash"
STATE = "hansard.run.state"
TASK = "hansard.task"
ATTEMPT = "hansard.attempt"
ROUND = "hansard.round"
COST = "hansard.cost_usd_nano"

OPERATION_SECONDS = "gen_ai.client.operation.duration"
WORKFLOW_SECONDS = "gen_ai.invoke_workflow.duration"
TOKENS = "gen_ai.client.token.usage"
TOKEN_TYPE = "gen_ai.token.type"
BOUNDS: Mapping[str, Sequence[float]] = {
    OPERATION_SECONDS: [2**step / 100 for step in range(14)],
    WORKFLOW_SECONDS: [1, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200],
    TOKENS: [4**step for step in range(14)],
}
"""Between which values a histogram counts. The SDK's own are for milliseconds, and have most calls in one bucket."""
