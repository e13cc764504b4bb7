"""What mypy is told of the generated module: everything in it is C."""

from typing import Any

ffi: Any
lib: Any
