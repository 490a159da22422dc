"""The warnings that stay on a placed pod.

The answer to a create reaches only who sent it, and that is often a controller, which drops them.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, Final

from shared.api import names

LONGEST: Final = 250
"""Characters of one warning. The API server cuts a longer one in an answer."""
_MOST: Final = 16
"""How many stay on a pod. Anybody may edit an annotation, so a reader counts them too."""
_LINE: Final = 136
"""Characters of one line. `kubectl describe` shows no more of it."""
_MOST_TEXT: Final = 2 * _MOST * LONGEST
_CONTINUED: Final = "  "


def write_warnings(warnings: Sequence[str]) -> str | None:
    """The annotation's text; None where there is nothing to warn of."""
    kept = [" ".join(warning[:LONGEST].split()) for warning in warnings]
    if len(kept) > _MOST:
        kept = [*kept[: _MOST - 1], f"and {len(kept) - _MOST + 1} more"]
    return "\n".join(line for warning in kept for line in _lines(warning)) or None


def read_warnings(annotations: Mapping[str, Any] | None) -> tuple[str, ...]:
    """The warnings among a pod's annotations, as the API server stores them."""
    text = ((annotations or {}).get(names.WARNINGS) or "")[:_MOST_TEXT]
    each = (warning.strip()[:LONGEST] for warning in text.replace(f"\n{_CONTINUED}", " ").split("\n"))
    return tuple(warning for warning in each if warning)[:_MOST]


def _lines(warning: str) -> list[str]:
    return textwrap.wrap(warning, _LINE, subsequent_indent=_CONTINUED, break_long_words=False, break_on_hyphens=False)
