"""The help of ``scripts/dev`` fits a terminal of 80 columns, and names each command."""

import re
import subprocess

from tests.places import ROOT


def test_help_names_each_command_in_80_columns():
    words = [ROOT / "scripts/dev", "--help"]
    text = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert max(map(len, text.splitlines())) <= 80
    table = text.partition("\n\n")[2].partition("\n\n")[0]
    named = re.findall(r"^  (\S+)", table, re.MULTILINE)
    (accepted,) = re.findall(
        r"^        (lint \|.*)\) ;;$", (ROOT / "scripts/dev").read_text(), re.MULTILINE
    )
    assert sorted(named) == sorted(accepted.split(" | "))
