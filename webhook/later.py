"""What to do where another webhook changes a pod after ours."""

from __future__ import annotations

from typing import Final

LATER: Final = "let the webhook that adds it run before zz-placement-operator, whose name is last in order on purpose"
