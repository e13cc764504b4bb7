"""Gives SHA-256 as Python itself has it.

``hashlib`` loads OpenSSL first, which takes a twentieth of a job's start. Python's own
``random`` imports as this does.
"""

from __future__ import annotations

try:  # Python 3.12 and later
    from _sha2 import sha256  # type: ignore[import-not-found,unused-ignore]
except ImportError:
    try:
        from _sha256 import sha256  # type: ignore[import-not-found,no-redef,unused-ignore]
    except ImportError:
        from hashlib import sha256

__all__ = ["sha256"]
