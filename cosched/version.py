"""Holds the version of cosched, which ``--version`` prints. Reading it from the installed
package would cost each command and daemon a tenth of its time to start."""

from __future__ import annotations

VERSION = "0.1.0"
