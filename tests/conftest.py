"""Sets what all tests share: the profile of Hypothesis, the mark every_mpi, the limits and
the size of labs. Checks that no job of a test writes its output into the repository."""

import atexit
import gc
import os
import re
import shutil
import signal
import tempfile
from collections import defaultdict
from pathlib import Path

import pytest
from hypothesis import settings

from tests import cost
from tests.labs import OWN_CPUS, LabSize
from tests.limits import Limits
from tests.places import ROOT

#: The parameters of tests that name a library, or the folder of one.
LIBRARY_PARAMETERS = frozenset({"mpi", "site", "bin_folder"})

# A slow test on a busy machine has not failed: benchmarks measure time, tests do not.
settings.register_profile("cosched", deadline=None, max_examples=60)
# CI repeats the same examples, so its result depends on the change alone. Elsewhere each
# run draws new examples and may find new faults.
settings.register_profile("ci", settings.get_profile("cosched"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "cosched")

# Processes that tests start inherit ignored signals. A session in the background, or under
# nohup, ignores some: it still does so, but these processes do not.
for _number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, lambda *_: None)

# The last file saves a second in each start of an Open MPI that has libfabric. The file of
# Debian, which its Open MPI 4 needs, comes first: the first one that sets a value counts.
_files = ("/etc/openmpi/openmpi-mca-params.conf", Path(__file__).with_name("openmpi.conf"))
os.environ.update({"OMPI_MCA_mca_base_param_files": ",".join(map(str, _files))})

# A prterun that is killed leaves a folder named by its pid. The next prterun with this pid
# does not start. So each session of tests has a place of its own for such folders. The
# workers of a session inherit it; they end without a call of atexit.
if "PYTEST_XDIST_WORKER" not in os.environ:
    _folders = tempfile.mkdtemp(prefix="cosched-prte-")
    atexit.register(shutil.rmtree, _folders, ignore_errors=True)
    Path(_folders).chmod(0o1777)  # some tests have other users
    os.environ.update({"PRTE_MCA_prte_tmpdir_base": _folders})

# No run of a test changes what the developer's own jobs are expected to take, and no
# earlier run changes the order of a test's jobs.
os.environ["COSCHED_RUNS"] = "off"


def pytest_addoption(parser):
    parser.addoption(
        "--lab-nodes",
        type=int,
        default=OWN_CPUS,
        metavar="N",
        help="Nodes of the lab of the tests that use one; more than"
        f" {OWN_CPUS} share the machine's CPUs. (default: {OWN_CPUS})",
    )
    parser.addoption(
        "--cost",
        metavar="FILE",
        help="Write the CPU time of each test into FILE; see tests/cost.py.",
    )


def pytest_configure(config):
    if config.getoption("lab_nodes") < OWN_CPUS:
        raise pytest.UsageError(f"--lab-nodes: at least {OWN_CPUS}")
    config.pluginmanager.register(Limits())
    if config.getoption("cost") is not None:
        cost.measure(config, config.getoption("cost"))


@pytest.fixture(scope="session")
def lab_size(request):
    """Returns the size of labs whose nodes have CPUs of their own, unless they are many."""
    nodes = request.config.getoption("lab_nodes")
    if nodes <= OWN_CPUS and len(os.sched_getaffinity(0)) < nodes:
        pytest.skip(f"{nodes} nodes need {nodes} CPUs of this machine")
    return LabSize(nodes, nodes > OWN_CPUS)


@pytest.fixture(scope="session")
def crowded_lab_size(request):
    """Returns the size of labs whose nodes always share CPUs."""
    return LabSize(request.config.getoption("lab_nodes"), True)


@pytest.fixture(scope="session")
def session_folder(tmp_path_factory):
    """Returns a folder that all workers of this session share."""
    own = tmp_path_factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


@pytest.fixture(autouse=True)
def no_output_in_the_repository():
    """Fails if a job of a domain has left its usual output there."""
    before = set(ROOT.glob("cosched-*.out"))
    yield
    assert set(ROOT.glob("cosched-*.out")) <= before, "give the job a working directory"


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Looks for no garbage: all objects stay, and searches take a third of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.hookimpl(tryfirst=True)  # before -m looks at the marks
def pytest_collection_modifyitems(config, items):
    """Marks as every_mpi each newest_mpi test that runs under an older library, and each
    one_mpi test that runs under another library than its first one. Skips own_cpus tests
    where nodes share CPUs."""
    if config.getoption("lab_nodes") > OWN_CPUS:
        skip_own_cpus(items)
    keep_libraries(items, "newest_mpi", newest_of_each_family)
    keep_libraries(items, "one_mpi", lambda names: {min(names, key=preference)})


def keep_libraries(items, marker, choose):
    """Marks as every_mpi the items of a marker whose library is not among the chosen ones
    of their test's libraries."""
    marked = (item for item in items if item.get_closest_marker(marker))
    names = {item: name for item in marked if (name := library_of(item)) is not None}
    of_test = defaultdict(set)
    for item, name in names.items():
        of_test[item.function].add(name)
    kept = {test: choose(found) for test, found in of_test.items()}
    for item, name in names.items():
        if name not in kept[item.function]:
            item.add_marker("every_mpi")


def library_of(item):
    """Returns the name of the library under which a test runs; None: of no certain one."""
    parameters = item.callspec.params if hasattr(item, "callspec") else {}
    for name in LIBRARY_PARAMETERS & parameters.keys():
        value = parameters[name]
        return value.parent.name if isinstance(value, Path) else value
    return None


def newest_of_each_family(names):
    newest = {}
    for name in sorted(names, key=version):
        newest[name.partition("-")[0]] = name
    return set(newest.values())


def preference(name):
    """Returns a key that puts the newest MPICH first: its jobs start quickest."""
    return "openmpi" in name, [-number for number in version(name)], name


def skip_own_cpus(items):
    for item in items:
        mark = item.get_closest_marker("own_cpus")
        if mark is not None:
            reason = f"the nodes of --lab-nodes share CPUs: {mark.args[0]}"
            item.add_marker(pytest.mark.skip(reason=reason))


def version(name):
    """Returns the numbers of a name such as mpich-4.0.2, for comparison."""
    return [int(number) for number in re.findall(r"\d+", name)]
