"""OpenAI's models, and every server that speaks its Chat Completions or Responses format, through the official SDK."""

from hansard.errors import MissingExtra

# Here and not where it is used: this runs before any module of the package.
try:
    import openai as openai
except ImportError as error:
    raise MissingExtra(
        "the openai provider needs openai, which is not installed; run: pip install 'hansard[openai]'"
    ) from error

from hansard.providers.openai.provider import open_openai

__all__ = ["open_openai"]
