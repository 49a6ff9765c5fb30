"""Asks one real agent CLI once, through our adapter, against a loopback server. Run inside of a network namespace.

Reads on its standard input what to ask and what shall be answered, and prints what came of it, both as JSON.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from hansard.domain.exchange import Completion, Exchange, Limits, Message
from hansard.providers.agents.claude import open_claude
from hansard.providers.agents.codex import open_codex
from hansard.providers.agents.gemini import open_gemini
from providers.cli_wire import Wire, serving
from providers.programs import alive

KEY = "sk-dummy-0123456789"
RETRIES = "request_max_retries=0,stream_max_retries=0"


def opened(given: dict[str, Any], url: str) -> Any:
    """The provider, with a HOME of its own and a key that opens nothing."""
    home = Path(given["home"])
    environment = {"PATH": given["path"], "HOME": str(home), "LANG": "C.UTF-8"}
    options = {"program": given["program"], **given["options"]}
    match given["kind"]:
        case "claude":
            return open_claude("mine", options, {**environment, "ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": url})
        case "codex":
            lab = f'{{name="lab",base_url="{url}/v1",env_key="LAB_KEY",wire_api="responses",{RETRIES}}}'
            args = ["-c", "model_provider=lab", "-c", f"model_providers.lab={lab}"]
            return open_codex("mine", {**options, "args": args, "env": ["LAB_KEY"]}, {**environment, "LAB_KEY": KEY})
        case _:
            (home / ".gemini").mkdir(exist_ok=True)
            settings = {"security": {"auth": {"selectedType": "gemini-api-key"}}}
            (home / ".gemini" / "settings.json").write_text(json.dumps(settings))
            return open_gemini("mine", options, {**environment, "GEMINI_API_KEY": KEY, "GOOGLE_GEMINI_BASE_URL": url})


async def asked(given: dict[str, Any], wire: Wire) -> tuple[Completion, dict[str, str], bool]:
    provider = opened(given, wire.url)
    messages = tuple(Message(**message) for message in given["messages"])
    exchange = Exchange(
        messages=messages, model=given.get("model"), schema=given.get("schema"), limits=Limits(timeout_s=90)
    )
    asking = asyncio.create_task(provider.complete(exchange))
    shown = False
    while not asking.done():
        # The last words of the prompt, which nobody else on this machine says.
        shown = shown or bool(await asyncio.to_thread(alive, messages[-1].content[-40:]))
        await asyncio.sleep(0.1)
    return await asking, dict(provider.describe()), shown


def main() -> None:
    given = json.load(sys.stdin)
    with serving(Wire(**given["wire"])) as wire:
        completion, description, shown = asyncio.run(asked(given, wire))
    why = completion.failure
    said = {
        "text": completion.text,
        "structured": completion.structured,
        "model": completion.returned_model,
        "usage": [completion.usage.input_tokens, completion.usage.output_tokens, completion.usage.cached_tokens],
        "cost": [completion.cost.usd_nano, completion.cost.basis],
        "kind": why.kind if why else None,
        "message": why.message if why else None,
        "details": dict(why.details) if why else {},
        "argv": completion.argv,
        "output": (completion.output or b"").decode(errors="replace"),
        "stderr": (completion.stderr or b"").decode(errors="replace"),
        "version": description.get("version"),
        "shown_in_ps": shown,
        "requests": wire.requests,
    }
    print(json.dumps(said))


if __name__ == "__main__":
    main()
