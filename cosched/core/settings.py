"""What an operator may set on a node, and which values make sense."""

from __future__ import annotations

from dataclasses import dataclass, replace

from cosched.core.errors import CoschedError
from cosched.core.units import NS_PER_MS, NS_PER_S, format_duration, parse_duration

SLICE_MIN_NS = NS_PER_MS

_YES = {"on": True, "yes": True, "true": True, "1": True}
_NO = {"off": False, "no": False, "false": False, "0": False}


@dataclass(frozen=True, slots=True)
class Settings:
    """The live settings of one node.

    slice_ns: how long a job stays scheduled before the next one's turn.
    gmet_ns: guaranteed minimum execution time; no trapped message takes the CPU from
        a job that has had it for less (section 2.1 of the paper).
    align: slices start at multiples of the slice in wall-clock time.
    """

    slice_ns: int = 2 * NS_PER_S
    gmet_ns: int = 100 * NS_PER_MS
    align: bool = True

    def __post_init__(self) -> None:
        if self.slice_ns < SLICE_MIN_NS:
            raise CoschedError(
                f"slice: {format_duration(self.slice_ns)} is too short; "
                f"the least is {format_duration(SLICE_MIN_NS)}"
            )
        if self.gmet_ns < 0:
            raise CoschedError("gmet: must not be negative")

    def warnings(self) -> tuple[str, ...]:
        """Settings that are allowed but may not mean what the operator thinks."""
        if self.gmet_ns >= self.slice_ns:
            return (
                f"gmet {format_duration(self.gmet_ns)} is not below slice "
                f"{format_duration(self.slice_ns)}: no message will pull a switch, "
                "only the timer switches jobs",
            )
        return ()

    def changed(self, assignments: dict[str, str]) -> Settings:
        """These settings with ``name=value`` texts applied."""
        values: dict[str, int | bool] = {}
        for name, text in assignments.items():
            if name in ("slice", "gmet"):
                values[f"{name}_ns"] = parse_duration(text, name)
            elif name == "align":
                values["align"] = _parse_switch(text, name)
            else:
                raise CoschedError(
                    f"'{name}' is not a setting; the settings are slice, gmet, align"
                )
        return replace(self, **values)  # type: ignore[arg-type]


def _parse_switch(text: str, what: str) -> bool:
    word = text.strip().lower()
    if word in _YES:
        return True
    if word in _NO:
        return False
    raise CoschedError(f"{what}: '{text}' is neither on nor off")
