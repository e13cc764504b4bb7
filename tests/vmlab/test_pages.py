"""Pages followed word for word in fresh virtual machines: the operator's hour, the labs."""

from __future__ import annotations

import json
import re
import shutil
import subprocess

import pytest

from scripts.vmlab.options import DEFAULT
from tests.places import ROOT
from tests.tools.deb import package_for
from tests.tools.transcripts import matches
from tests.vmlab.site import PATIENT, opened

pytestmark = [pytest.mark.vm, pytest.mark.live, pytest.mark.long]

QUICKSTART = (ROOT / "docs/quickstart-slurm.md").read_text()
PACKAGES = (ROOT / "docs/packages.md").read_text()
LABS = (ROOT / "docs/labs.md").read_text()
#: A block, and the name of the file if the paragraph before names one.
BLOCK = re.compile(r"(?:`([\w.]+)`:\n\n)?^```(.+)\n((?:.*\n)*?)```$", re.MULTILINE)
STEP = re.compile(r"^\$ (.*(?:\\\n.*)*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
CLONE = "/opt/src"
#: Under emulation pip takes minutes to compile modules of which few are ever imported.
QUICKER = "export PIP_NO_COMPILE=1"
#: A site has one usual MPI; Debian 13's nodes also have Open MPI.
USUAL_MPI = "update-alternatives --set mpi /usr/bin/mpicc.mpich"
#: The page's jobs take more than 18 minutes under emulation. The shorter ones end within
#: five, and still run when the page looks at them.
LONG, SHORTER = "-i 3000", "-i 500"
(APT_INSTALL,) = re.findall("^apt install .*$", PACKAGES, re.MULTILINE)
(APT_PURGE,) = re.findall("`(apt purge [a-z]*)`", PACKAGES)
#: The package is in the clone. No terminal is there for an answer to apt.
PACKAGE_BUILT = f"""
mkdir -p {CLONE}/build
ln -s /home/user {CLONE}/build/packages
echo 'APT::Get::Assume-Yes "true";' > /etc/apt/apt.conf.d/90yes
"""
NO_COMPILER = "rm /usr/bin/*gcc /usr/bin/*gcc-[0-9]*; ! command -v cc gcc"


def test_every_block_of_the_quickstart_is_of_a_known_kind():
    kinds = {kind for name, kind, _ in BLOCK.findall(QUICKSTART) if not name}
    assert kinds == {"sh node", "sh controller", "console"}


def test_page_has_a_job_that_is_made_shorter():
    assert LONG in QUICKSTART


def by_package(page):
    """Returns the page as one with the package follows it: its commands are in the PATH.

    The installation and the removal are those of docs/packages.md.
    """
    install, back = (f"```sh node\n{line}\n```\n" for line in (APT_INSTALL, APT_PURGE))
    sections = page.replace("/opt/cosched/bin/", "").split("\n## ")
    first, last = (
        next(at for at, text in enumerate(sections) if title in text.partition("\n")[0])
        for title in ("Install", "The way back")
    )
    sections[first] = f"Install\n\n{install}"
    kept, mark, _ = sections[last].rpartition("```sh node\n")
    assert mark, "the way back ends with a block for each node"
    sections[last] = kept + back
    return "\n## ".join(sections)


@pytest.fixture(params=["package", "clone"])
def followed(request, tmp_path_factory, release):
    """A site, and the page as its operator follows it."""
    package = None
    if request.param == "package":
        package = package_for(release, tmp_path_factory.mktemp("package"))
    folder = tmp_path_factory.mktemp("vms") / "lab"
    for site in opened(folder, 2, release, fresh=True):
        site.everywhere(PATIENT + USUAL_MPI)
        if package:
            shutil.copy(package, site.home / "cosched_1_amd64.deb")
            site.everywhere(PACKAGE_BUILT)
            site.root("n2", NO_COMPILER)
        yield site, by_package(QUICKSTART) if package else QUICKSTART


def test_quickstart_is_followed_word_for_word(followed):
    site, page = followed
    way_back = page.rindex("\n## ")
    follow(site, page[:way_back])
    assert "COMPLETED" in site.user("sacct -X -n --format=State")
    jobs = json.loads(site.user("cosched history --json"))["jobs"]
    assert len(jobs) == 2, jobs
    follow(site, page[way_back:])
    if "/opt/cosched" in page:
        # Without daemons root alone has the history.
        history = site.root("n1", "/opt/cosched/bin/cosched history --json")
        assert json.loads(history)["jobs"] == jobs
    else:
        left = site.everywhere("find /usr /var/lib /run /dev/shm -name 'cosched*'")
        assert set(left.values()) == {""}


def follow(site, page):
    """Does what each block of a part of the page shows."""
    for name, kind, text in BLOCK.findall(page):
        if name:
            site.write(name, text.replace(LONG, SHORTER))
        elif kind == "sh node":
            site.everywhere(f"{QUICKER}\ncd {CLONE}\n{text}")
        elif kind == "sh controller":
            site.root("n1", f"cd {CLONE}\n{text}")
            site.share_configuration()
        else:
            for command, shown in STEP.findall(text):
                said = site.user(f"exec 2>&1\n{command}")
                assert matches(shown, said), f"$ {command}\n{said}"


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
