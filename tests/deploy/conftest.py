"""The fixture of the answers' tests: clips that are indexed once."""

from tests.app.answer_world import indexed

__all__ = ["indexed"]
