"""Reads the fields of a domain's answers. A controller of another version may lack some."""

from __future__ import annotations

from typing import Any, NoReturn

from cosched.core.errors import CoschedError
from cosched.version import VERSION


class Fields(dict[str, Any]):
    """The fields of an answer, or of a part of it, by name. Raises CoschedError for a field
    that is not there."""

    def __missing__(self, name: str) -> NoReturn:
        raise CoschedError(
            f"the domain's answer has no field {name!r}; if its controller runs another "
            f"version of cosched than {VERSION}, restart it: systemctl restart "
            "cosched-controller, or as in docs/operations.md"
        )


def with_fields(answer: Any) -> Any:
    """Returns a decoded answer with ``Fields`` in place of each dictionary."""
    if isinstance(answer, list):
        return [with_fields(value) for value in answer]
    if not isinstance(answer, dict):
        return answer
    fields = Fields(answer)
    for name, value in answer.items():
        if isinstance(value, dict | list):  # most values are neither: it saves the call
            fields[name] = with_fields(value)
    return fields
