"""Speeds of programs of others beside each other, from what they print."""

import json

import pytest

from benchmarks.experiments.symbiosis.foreign_pairs import (
    ALONE,
    TOGETHER,
    lines_of,
    speeds,
    together,
)
from benchmarks.experiments.symbiosis.foreign_programs import (
    PARTS,
    read_fio,
    read_hpcc,
    read_lammps,
)
from cosched.core.errors import CoschedError


def test_parts_of_hpcc_are_read_from_its_summary(tmp_path):
    summary = [f"{key}={number}.5" for number, key in enumerate(PARTS, 1)]
    path = tmp_path / "hpccoutf.txt"
    path.write_text("\n".join(["Success=1", *summary]))
    assert read_hpcc(tmp_path) == {
        name: number + 0.5 for number, name in enumerate(PARTS.values(), 1)
    }
    path.write_text("\n".join(["Success=0", *summary]))
    with pytest.raises(CoschedError, match="hpcc: its own checks failed"):
        read_hpcc(tmp_path)
    path.write_text("Success=1\n")
    with pytest.raises(CoschedError, match="has no SingleSTREAM_Triad"):
        read_hpcc(tmp_path)


def test_lammps_is_as_fast_as_its_loop(tmp_path):
    (tmp_path / "out").write_text("Step\nLoop time of 4.0 on 1 procs for 9 steps\n")
    assert read_lammps(tmp_path) == {"LAMMPS": 0.25}
    (tmp_path / "out").write_text("ERROR\n")
    with pytest.raises(CoschedError, match="did not print"):
        read_lammps(tmp_path)


def test_fio_is_as_fast_as_it_reads_and_writes(tmp_path):
    job = {"error": 0, "read": {"bw_bytes": 10}, "write": {"bw_bytes": 20}}
    (tmp_path / "fio.json").write_text(json.dumps({"jobs": [job]}))
    assert read_fio(tmp_path) == {"fio": 30.0}
    (tmp_path / "fio.json").write_text(json.dumps({"jobs": [job | {"error": 28}]}))
    with pytest.raises(CoschedError, match="fio: No space left on device"):
        read_fio(tmp_path)


def test_speed_is_a_ratio_of_medians():
    def run(beside, rate, program="lammps"):
        rates = {program.upper(): rate}
        return {"program": program, "beside": beside, "took_s": 9.0, "rates": rates}

    runs = [run(ALONE, rate) for rate in (2.0, 4.0, 4.0)] + [run("hpcc", 3.0)]
    assert speeds(runs) == {"LAMMPS": {"hpcc": 0.75}}
    runs += [run(other, 2.0, "fio") for other in (ALONE, "hpcc")]
    findings = {"labels": "user\n", "pairs": "program\n"}
    at_once = [{"took_s": 9.9, "each_s": {"lammps": 9.9, "fio": 9.0}}]
    found = {"mpi": "Open MPI 5", "runs": runs, "at_once": at_once, "findings": findings}
    lines = lines_of(found)
    assert TOGETHER == ("lammps", "fio")
    assert together(found) == [
        "lammps (9.0 s alone) and fio (9.0 s) at once: 0.55 of one after the other;",
        "lammps takes 1.10 and fio 1.00 of its time alone",
    ]
    assert lines[1:3] == ["part    beside hpcc", "LAMMPS         0.75"]
