"""Anthropic's models, and servers that speak its Messages format, through the official SDK."""

from hansard.errors import MissingExtra

# Here and not where it is used: this runs before any module of the package.
try:
    import anthropic as anthropic
except ImportError as error:
    raise MissingExtra(
        "the anthropic provider needs anthropic, which is not installed; run: pip install 'hansard[anthropic]'"
    ) from error

from hansard.providers.anthropic.provider import open_anthropic

__all__ = ["open_anthropic"]
