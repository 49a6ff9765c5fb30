"""One text out of an exchange, for programs that read one: the messages under headings, and the shape of the answer.

The same exchange always gives the same text. A line of a message that looks like one of our headings is indented by a
space, so that nobody can speak in another's name.
"""

import re

from hansard.domain.exchange import Exchange, Message
from hansard.providers.hosted import shapes

_HEADING = re.compile(r"^(?=\[(?:SYSTEM|USER|ASSISTANT|TOOL)\b)", re.MULTILINE)


def prompt_of(exchange: Exchange, *, system: bool = True, schema: bool = True) -> str:
    """The prompt. A single message of the user's gets no heading; `system` and `schema` say whether to include them."""
    told = shapes.told(exchange) if schema else exchange.messages
    messages = told if system else [message for message in told if message.role != "system"]
    if len(messages) == 1 and messages[0].role == "user":
        return messages[0].content
    return "\n\n".join([_block(message) for message in messages])


def system_of(exchange: Exchange) -> str:
    """What the system message says, or nothing."""
    return "\n\n".join(message.content for message in exchange.messages if message.role == "system")


def _block(message: Message) -> str:
    content, heading = message.content, message.role.upper()
    if message.name and (name := re.sub(r"[\s\[\]]+", " ", message.name).strip()):
        heading = f"{heading} {name}"
    # Most messages have no such line, and looking for its beginning is far quicker than the expression.
    if content.startswith("[") or "\n[" in content:
        content = _HEADING.sub(" ", content)
    return f"[{heading}]\n{content}"
