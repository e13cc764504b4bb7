"""``python -m mpi_shim`` runs a program as python itself does."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.places import ROOT


@pytest.mark.parametrize("name", ["link.py", "real/program.py"])
def test_program_imports_from_its_own_folder(tmp_path, name):
    """Behind a link, and after a change of the directory."""
    for path, text in {
        "mpi4py/__init__.py": "",
        "mpi4py/MPI.py": "",
        "real/beside.py": "print('beside it')\n",
        "real/program.py": "import os\nos.chdir('/')\nimport beside\nprint(__file__)\n",
    }.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    (tmp_path / "link.py").symlink_to(tmp_path / "real/program.py")
    alone = {k: v for k, v in os.environ.items() if not k.startswith("COSCHED_")}
    done = subprocess.run(
        [sys.executable, "-m", "mpi_shim", name],
        cwd=tmp_path,
        env={**alone, "PYTHONPATH": f"{tmp_path}:{ROOT}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == f"beside it\n{tmp_path}/{name}\n", done.stderr
