"""A malformed or forged ask: which field, which value, and the form that would be right."""

from __future__ import annotations


class InvalidRequest(ValueError):
    """Refuses a pod as `invalid_request`.

    `field` is where the value stands (`metadata.annotations[kamiwaza.ai/vram-gb]`), `value` what stands there,
    `problem` what is wrong with it and `fix` what to write instead. All four reach the user.
    """

    def __init__(self, field: str, value: str, problem: str, fix: str) -> None:
        super().__init__(f"{field}: {value!r}: {problem}; {fix}")
        self.field = field
        self.value = value
        self.problem = problem
        self.fix = fix
