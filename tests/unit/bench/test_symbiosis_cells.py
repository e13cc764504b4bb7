"""Figs. 1 to 4 and Tables 1 and 2 of symbiosis, from rates that are made up."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

pytest.importorskip("matplotlib")

from benchmarks.experiments.symbiosis.cells import (
    Cell,
    Quiet,
    Sample,
    Samples,
    Setting,
    carry_out,
)
from benchmarks.experiments.symbiosis.claims import claims
from benchmarks.experiments.symbiosis.measured import (
    BENCHMARKS,
    FIGURES,
    counts,
    figure,
    figure_cells,
    table1,
    table2,
    table_cells,
)
from benchmarks.experiments.symbiosis.pictures import draw
from benchmarks.experiments.symbiosis.reasons import EMULATED_WHY, EMULATED_WHYS
from benchmarks.experiments.symbiosis.report import ON_EMULATED_NODE, ON_MACHINE
from benchmarks.experiments.verdicts import NO, UNDECIDED
from benchmarks.kernels.build import KERNELS, PROGRAMS
from cosched.sim.symbiotic.matrix import parse_model

SETTING = Setting((0, 1, 2, 3), 2.0, 1 << 20)
CPUS = 4


def datastar(cell):
    """Rates as the paper's machine would have them."""
    own, others = cell.instances - 1, cell.beside
    if cell.primary == "cpu":
        return 1.0
    if cell.primary == "io":
        slow = 2.0 * own + (2.0 * others if cell.background == "io" else 0.0)
    elif cell.primary == "network":
        slow = 0.1 * own
    else:
        harm = {"stream": {"stream": 0.4}, "gups": {"gups": 0.2, "stream": 0.3}}
        by = harm[cell.primary]
        slow = by[cell.primary] * own + by.get(cell.background, 0.0) * others
    return 10.0 / (1.0 + slow)


def rates(cells, law=datastar):
    return {cell: law(cell) for cell in cells}


def all_documents(law=datastar):
    documents = {
        part: figure(part, CPUS, rates(figure_cells(part, CPUS), law)) for part in FIGURES
    }
    for part, make in (("table1", table1), ("table2", table2)):
        cells = table_cells(part, list(KERNELS), CPUS)
        documents[part] = make(list(KERNELS), CPUS, rates(cells, law))
    return documents


def verdicts(documents):
    return {
        (one.source, one.what): one.verdict
        for part in documents
        for one in claims(part, documents)
    }


def test_a_figure_is_the_slowdown_against_one_instance_alone():
    found = figure("fig3", CPUS, rates(figure_cells("fig3", CPUS)))
    assert found["primary"] == "STREAM"
    assert found["lines"]["nobody"] == [
        [1, 0.0], [2, pytest.approx(0.4)], [3, pytest.approx(0.8)], [4, pytest.approx(1.2)],
    ]  # fmt: skip
    # Every line ends where the primary has all CPUs.
    assert {line[-1][1] for line in found["lines"].values()} == {found["itself"]}
    assert found["impact"] == pytest.approx({"EP": 0, "I/O Bench": 0, "GUPS": 0})
    slowed = figure("fig4", CPUS, rates(figure_cells("fig4", CPUS)))
    assert slowed["impact"]["STREAM"] == pytest.approx(0.9)
    assert slowed["lines"]["STREAM"][0] == [1, pytest.approx(0.9)]


def test_all_cpus_are_used_beside_a_background():
    for part in FIGURES:
        for cell in figure_cells(part, CPUS):
            assert cell.beside in (0, CPUS - cell.instances)
            assert (cell.background is None) == (cell.beside == 0)
    assert {cell.primary for cell in figure_cells("fig2", 2)} == {BENCHMARKS["I/O Bench"]}
    assert counts(2) == [1, 2]
    assert counts(64)[0] == 1
    assert counts(64)[-1] == 64
    assert len(counts(64)) <= 12


def test_tables_compare_with_a_node_full_of_the_same():
    found = table1(["stream"], CPUS, rates(table_cells("table1", ["stream"], CPUS)))
    assert found["speedups"]["stream"] == pytest.approx(2.2 / 1.4)
    names = list(KERNELS)
    both = table2(names, CPUS, rates(table_cells("table2", names, CPUS)))
    model = parse_model(both, "table2")
    assert model.matrix.speedup("stream", None) == found["speedups"]["stream"]
    assert model.matrix.speedup("gups", "cpu") == pytest.approx(1.6 / 1.2)
    assert model.matrix.speedup("gups", "gups") == 1.0


def test_on_the_papers_machine_its_claims_hold():
    found = verdicts(all_documents())
    assert len(found) == 14
    assert not set(found.values()) & {NO, UNDECIDED}, found


@pytest.mark.parametrize(
    ("primary", "part"),
    [("cpu", "Fig. 1"), ("io", "Fig. 2"), ("stream", "Fig. 3"), ("gups", "Fig. 4")],
)
def test_a_claim_that_does_not_hold_is_reported_with_a_reason(primary, part):
    """On this machine the benchmark is twice as slow beside any other."""

    def law(cell):
        beside = 2.0 if cell.primary == primary and cell.beside else 1.0
        return datastar(cell) / beside

    documents = all_documents(law)
    failed = {
        what
        for (of, what), verdict in verdicts(documents).items()
        if of == part and verdict == NO
    }
    assert failed
    page = ON_MACHINE.section(documents)
    for what in failed:
        (row,) = [line for line in page.splitlines() if what in line]
        assert "| **no**: " in row


def test_a_machine_that_is_not_quiet_is_the_reason():
    documents = all_documents(lambda cell: datastar(cell) / (2.0 if cell.beside else 1.0))
    documents["fig1"]["quiet"] = {
        "outside_median": 0.5, "outside_most": 0.9, "stolen_most": 0.0,
    }  # fmt: skip
    documents["fig1"]["repeat"] = 2
    (claim,) = claims("fig1", documents)
    assert claim.shown.startswith("**no**: others used 50% of the machine meanwhile")
    assert "medians of 2 or more. Others used 50.0% of the machine" in ON_MACHINE.section(
        documents
    )


def test_an_emulated_node_has_a_part_of_the_page_and_its_own_reasons(tmp_path):
    documents = all_documents(lambda cell: datastar(cell) / (2.0 if cell.beside else 1.0))
    for document in documents.values():
        document["setting"] = {"emulated": {"processors": 8}}
    (claim,) = claims("fig1", documents)
    assert claim.shown.startswith("**no**: the emulated node has stated speeds")
    page = ON_EMULATED_NODE.section(documents)
    assert "![slowdown of EP on the emulated node](figures/symbiosis_emulated_fig1" in page
    assert "Not measured yet" not in page
    stored = ON_EMULATED_NODE.stored(tmp_path / "page.md", documents)
    assert (stored.again, stored.how) == (True, "emulated")
    assert stored.pictures["Fig. 4"] == "figures/symbiosis_emulated_fig4.png"


def test_memory_that_is_never_short_refutes_one_way_interference():
    """As on a virtual machine whose CPUs do not fill the memory's bandwidth."""

    def law(cell):
        return 10.0 if cell.primary in ("stream", "gups") else datastar(cell)

    found = verdicts(all_documents(law))
    failed = {of for (of, _), verdict in found.items() if verdict in (NO, UNDECIDED)}
    assert failed == {"Fig. 3", "Fig. 4", "Figs. 3, 4", "Table 1", "Table 2"}


@pytest.mark.parametrize("part", [*FIGURES, "table1", "table2"])
def test_a_picture_of_each(part, tmp_path):
    document = {"part": part, **all_documents()[part]}
    for ending in ("png", "svg"):
        draw(document, tmp_path / f"{part}.{ending}")
    assert (tmp_path / f"{part}.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (tmp_path / f"{part}.svg").read_text()
    assert max(len(line) for line in document["text"].splitlines()) <= 80


def sample(rate, outside=0.0):
    return Sample(rate, outside, 0.0)


def test_an_interrupted_measurement_goes_on_where_it_was(tmp_path):
    file = tmp_path / "samples.jsonl"
    cells = [Cell("cpu", 1), Cell("cpu", 1, "io", 3), Cell("cpu", 1)]
    ran = []

    def run(cell):
        if len(ran) == 3:
            raise KeyboardInterrupt
        ran.append(cell)
        return sample(float(len(ran)), 0.1 * len(ran))

    with pytest.raises(KeyboardInterrupt):
        carry_out(Samples(file, SETTING), cells, 2, run, lambda *_: None)
    # Each cell once a round, and no cell twice.
    assert ran == [cells[0], cells[1], cells[0]]
    with file.open("a") as stream:
        stream.write('{"setting": {"cpus"')  # and half a line
    again = Samples(file, SETTING)
    assert again.left(cells, 2) == [cells[1]]
    carry_out(again, cells, 2, lambda _: sample(9.0, 0.2), lambda *_: None)
    assert Samples(file, SETTING).rates(cells) == {cells[0]: 2.0, cells[1]: 5.5}
    assert again.quiet(cells) == Quiet(pytest.approx(0.2), pytest.approx(0.3), 0.0)
    assert again.left(cells, 2) == []
    assert len(again.left(cells, 3)) == 2


def test_numbers_of_another_setting_do_not_count(tmp_path):
    file = tmp_path / "samples.jsonl"
    Samples(file, SETTING).add(Cell("cpu", 1), sample(1.0))
    other = Samples(file, replace(SETTING, seconds=1.0))
    assert other.left([Cell("cpu", 1)], 1) == [Cell("cpu", 1)]
    other.add(Cell("cpu", 1), sample(2.0))
    assert Samples(file, SETTING).rates([Cell("cpu", 1)]) == {Cell("cpu", 1): 1.0}
    assert len([json.loads(line) for line in file.read_text().splitlines()]) == 2


#: Speedups of the paper: BTIO alone, and beside the kernels that stand for CG and IS.
PAPER_ALONE = {"btio-e": 1.16, "btio-s": 4.97, "btio-f": 1.16}
PAPER_BESIDE = {
    ("stream", "btio-e"): 1.38, ("btio-e", "stream"): 1.07,
    ("stream", "btio-s"): 0.55, ("btio-s", "stream"): 1.03,
    ("stream", "btio-f"): 1.36, ("btio-f", "stream"): 1.12,
    ("gups", "btio-e"): 1.11, ("btio-e", "gups"): 1.07,
    ("gups", "btio-s"): 1.00, ("btio-s", "gups"): 2.41,
    ("gups", "btio-f"): 1.13, ("btio-f", "gups"): 1.13,
}  # fmt: skip
NAS = ["stream", "gups", "btio-e", "btio-s", "btio-f", "dt"]


def nas_documents(alone, beside):
    """Returns both tables, by speedups over a node full of the same; 1 if there is none."""

    def law(cell):
        if cell.background == cell.primary:
            return 1.0
        if cell.background is None:
            return alone.get(cell.primary, 1.0)
        return beside.get((cell.primary, cell.background), 1.0)

    return {
        part: make(NAS, CPUS, rates(table_cells(part, NAS, CPUS), law))
        for part, make in (("table1", table1), ("table2", table2))
    }


def nas_verdicts(alone, beside):
    """Returns the verdicts on BTIO in the order of the page."""
    documents = nas_documents(alone, beside)
    found = [one for part in documents for one in claims(part, documents)]
    return {one.what: one.verdict for one in found if "BTIO" in one.what}


def test_btio_of_the_paper_is_near_the_paper():
    found = nas_verdicts(PAPER_ALONE, PAPER_BESIDE)
    assert len(found) == 3 + 12
    assert set(found.values()) == {"within 1%"}


def test_reasons_of_the_emulated_node_belong_to_claims():
    document = nas_documents(PAPER_ALONE, PAPER_BESIDE)["table2"]
    document["setting"] = {"emulated": {}}
    plain = {one.what: one.why for one in claims("table2", {"table2": document})}
    document["setting"] = {"emulated": {"processors": 8}}
    emulated = {one.what: one.why for one in claims("table2", {"table2": document})}
    assert plain.keys() == emulated.keys()
    assert {what: emulated[what] for what in EMULATED_WHYS} == EMULATED_WHYS
    assert emulated["IS beside BTIO EP"] == EMULATED_WHY != plain["IS beside BTIO EP"]


def test_dt_has_figures_and_no_claim():
    documents = nas_documents(PAPER_ALONE, PAPER_BESIDE)
    assert "dt" in documents["table1"]["speedups"]
    assert "dt" in documents["table2"]["applications"]
    assert not any(
        "DT" in one.what for part in documents for one in claims(part, documents)
    )


@pytest.mark.parametrize(("job", "what"), [
    ("btio-e", "BTIO EP"), ("btio-s", "BTIO SIMPLE"), ("btio-f", "BTIO FULL"),
])  # fmt: skip
def test_btio_without_a_gain_is_no(job, what):
    found = nas_verdicts({**PAPER_ALONE, job: 1.02}, PAPER_BESIDE)
    assert found.pop(f"{what} gains from a free other half") == NO
    assert set(found.values()) == {"within 1%"}


NAMES = {
    "stream": "CG", "gups": "IS",
    "btio-e": "BTIO EP", "btio-s": "BTIO SIMPLE", "btio-f": "BTIO FULL",
}  # fmt: skip


@pytest.mark.parametrize("pair", PAPER_BESIDE)
def test_pair_of_another_speedup_is_no(pair):
    # The other side of no effect; where the paper has none, a large effect.
    paper = PAPER_BESIDE[pair]
    other = 2.0 if abs(paper - 1.0) < 0.1 or paper < 1.0 else 0.8
    found = nas_verdicts(PAPER_ALONE, {**PAPER_BESIDE, pair: other})
    assert found.pop(f"{NAMES[pair[0]]} beside {NAMES[pair[1]]}") == NO
    assert set(found.values()) == {"within 1%"}


def test_kernels_alone_make_the_average_of_table_2():
    """BTIO and DT do not change it: their pairs are judged one by one."""
    with_jobs = nas_documents(PAPER_ALONE, {("stream", "gups"): 1.3})
    found = {one.what: one.ours for one in claims("table2", with_jobs)}
    what = "sharing with another code gains, on average"
    assert found[what] == "1.15, without the I/O kernel's own gain 1.15"


def test_table_of_all_kernels_and_jobs_fits_the_screen():
    names = list(PROGRAMS)
    for part, make in (("table1", table1), ("table2", table2)):
        document = make(names, CPUS, dict.fromkeys(table_cells(part, names, CPUS), 10.0))
        assert max(len(line) for line in document["text"].splitlines()) <= 80
