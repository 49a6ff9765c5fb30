"""A run on real programs whose last rung is a panel, in a folder of its own, to be killed in the middle of the session."""

import json
from pathlib import Path

from orchestration.killing import Ground
from providers.programs import marked_sleep

AGENT = r"""
role=$1 mark=$2 folder=$3
prompt=$(cat)
answer='{"text": "as I said"}'
case "$role" in
worker) answer="poor work" ;;
judge) answer='{"ok": false, "score": 0.1, "reasons": "this is poor"}'
    case "$prompt" in *"settled by the panel"*) answer='{"ok": true, "score": 0.9, "reasons": "good"}' ;; esac ;;
writer) answer="the answer" ;;
*)  case "$prompt" in
    *"Close the round with your verdict"*) role=chair
        answer='{"next_action": "finalize", "rationale": "r", "confidence": 0.9, "focus": "f", "next_agents": [],
        "resolved_disagreements": [], "unresolved_disagreements": []}' ;;
    *"final answer as one bare JSON object"*) role=closing
        answer='{"integrated_answer": "settled by the panel", "resolved_disagreements": [],
        "unresolved_disagreements": []}' ;;
    *"You are \`critic\`"*) role=critic ;;
    *) role=engineer ;;
    esac ;;
esac
echo "$role" >> "$folder/asked"
if [ "$role" = "$(cat "$folder/patient")" ]; then sleep "$mark"; fi
echo "$answer"
"""
SETTINGS = """
ledger = "ledger.db"
[run]
ladder = ["small", "large", "panel:bench"]
[roles]
validator = "judge"
synthesizer = "writer"
[panels.bench]
agents = ["critic", "engineer"]
provider = "voices"
"""
NAMES = {"small": "worker", "large": "worker", "judge": "judge", "writer": "writer", "voices": "voice"}


def laid(folder: Path) -> Ground:
    """A new folder with all that the run needs."""
    ground = Ground(folder=folder, mark=marked_sleep())
    (folder / "agent.sh").write_text(AGENT, "utf-8")
    task = {"id": "one", "lane": "backend", "instruction": "a hard task", "needs": [], "done_when": []}
    (folder / "plan.json").write_text(json.dumps({"tasks": [task]}), "utf-8")
    ground.let_wait("nobody")
    tables = []
    for name, role in NAMES.items():
        argv = ["sh", str(folder / "agent.sh"), role, ground.mark, str(folder)]
        tables.append(f'[providers.{name}]\nkind = "command"\nargv = {json.dumps(argv)}')
    (folder / "hansard.toml").write_text("\n".join((SETTINGS, *tables)), "utf-8")
    return ground
