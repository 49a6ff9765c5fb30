"""Prompts for the common jobs: what a person would type, with the tools to use for it."""

from dataclasses import dataclass
from typing import Any

from mcp.server import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.types import (
    INVALID_PARAMS,
    GetPromptRequestParams,
    GetPromptResult,
    ListPromptsResult,
    PaginatedRequestParams,
    Prompt,
    PromptArgument,
    PromptMessage,
    TextContent,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One prompt; each name in braces is an argument that has to be given."""

    title: str
    takes: dict[str, str]
    words: str


JOBS = {
    "submit": Job(
        title="Have a request done by a team",
        takes={"request": "What is wanted."},
        words=(
            "Hand this request to the tool submit and give me the answer word for word, with the run's id and what it cost. "
            "If the run waits at a gate, show me what the gate shows and ask me.\n\n{request}"
        ),
    ),
    "deliberate": Job(
        title="Put a problem to a panel",
        takes={"problem": "What is to be thought through."},
        words=(
            "Put this problem to the tool deliberate. Then give me the synthesis, who disagreed on what and was not "
            "reconciled, and the transcript digest.\n\n{problem}"
        ),
    ),
    "explain_run": Job(
        title="Explain how an answer came about",
        takes={"run": "A run's id, or last."},
        words=(
            "Look at the run {run} with run_show, and at the entries behind its answer with causes and ledger_get. Tell me "
            "in plain words who did what, what was rejected and why, and what it cost. Cite entries as #SEQ."
        ),
    ),
    "verify": Job(
        title="Check the record",
        takes={},
        words=(
            "Verify the ledger with the tool verify, deep. Tell me the verdict, the first bad entry if there is one, what is "
            "proven and what is not; do not soften it."
        ),
    ),
    "review_gates": Job(
        title="Go through what waits for a decision",
        takes={},
        words=(
            "List the open gates with gates_list, every page of them. For each, show me what it shows and what hangs on it, and ask "
            "me to decide. Decide nothing in my place."
        ),
    ),
}


async def listed(_: ServerRequestContext[Any, Any], __: PaginatedRequestParams | None) -> ListPromptsResult:
    made = [
        Prompt(
            name=name,
            title=job.title,
            description=f"{job.title}.",
            arguments=[PromptArgument(name=each, description=what, required=True) for each, what in job.takes.items()],
        )
        for name, job in JOBS.items()
    ]
    return ListPromptsResult(prompts=made)


async def get(_: ServerRequestContext[Any, Any], params: GetPromptRequestParams) -> GetPromptResult:
    job, given = JOBS.get(params.name), params.arguments or {}
    if job is None:
        raise MCPError(INVALID_PARAMS, f"there is no prompt {params.name!r:.80}; there are {', '.join(JOBS)}")
    if given.keys() != job.takes.keys():
        raise MCPError(INVALID_PARAMS, f"prompt {params.name} takes {', '.join(job.takes) or 'no arguments'}")
    text = job.words
    for name, value in given.items():
        text = text.replace(f"{{{name}}}", value)
    message = PromptMessage(role="user", content=TextContent(text=text))
    return GetPromptResult(description=job.title, messages=[message])
