"""Pages followed word for word in fresh virtual machines: the operator's hour, the labs."""

from __future__ import annotations

import json
import re
import subprocess

import pytest

from scripts.vmlab.options import DEFAULT
from tests.places import ROOT
from tests.tools.transcripts import matches
from tests.vmlab.site import opened

pytestmark = [pytest.mark.vm, pytest.mark.live, pytest.mark.long]

QUICKSTART = (ROOT / "docs/quickstart-slurm.md").read_text()
LABS = (ROOT / "docs/labs.md").read_text()
#: A block, and the name of the file if the paragraph before names one.
BLOCK = re.compile(r"(?:`([\w.]+)`:\n\n)?^```(.+)\n((?:.*\n)*?)```$", re.MULTILINE)
STEP = re.compile(r"^\$ (.*(?:\\\n.*)*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
CLONE = "/opt/src"
#: Under emulation pip takes minutes to compile modules of which few are ever imported.
QUICKER = "export PIP_NO_COMPILE=1"


def test_every_block_of_the_quickstart_is_of_a_known_kind():
    kinds = {kind for name, kind, _ in BLOCK.findall(QUICKSTART) if not name}
    assert kinds == {"sh node", "sh controller", "console"}


def test_quickstart_is_followed_word_for_word(tmp_path_factory, release):
    for site in opened(tmp_path_factory.mktemp("vms") / "lab", 2, release, fresh=True):
        for name, kind, text in BLOCK.findall(QUICKSTART):
            if name:
                site.write(name, text)
            elif kind == "sh node":
                site.everywhere(f"{QUICKER}\ncd {CLONE}\n{text}")
            elif kind == "sh controller":
                site.root("n1", f"cd {CLONE}\n{text}")
                site.share_configuration()
            else:
                for command, shown in STEP.findall(text):
                    said = site.user(f"exec 2>&1\n{command}")
                    assert matches(shown, said), f"$ {command}\n{said}"
        # The page has ended with the way back: without daemons root alone has the history.
        history = site.root("n1", "/opt/cosched/bin/cosched history --json")
        jobs = json.loads(history)["jobs"]
        assert len(jobs) == 2, jobs
        assert "COMPLETED" in site.user("sacct -X -n --format=State")


def test_commands_of_the_page_on_labs(capsys):
    (block,) = re.findall(r"^```sh\n((?:.*\n)*?)```$", LABS, re.MULTILINE)
    if DEFAULT.exists():
        pytest.skip(f"a lab is up in {DEFAULT}")
    try:
        for line in block.splitlines():
            subprocess.run(line, shell=True, cwd=ROOT, check=True, timeout=200)
    finally:
        subprocess.run(["scripts/vm-lab", "down"], cwd=ROOT, check=True)
    assert not DEFAULT.exists()
