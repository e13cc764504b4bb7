"""Lists the files of the host that go into the machine.

The base seldom changes: an interpreter with its standard library, the packages and the
MPI of an environment, a few tools, kernel modules. The rest is the working tree: files
that git tracks or would add, compiled modules, and programs compiled for the machine.

Limits: ldd finds the shared libraries. A library that a program opens by name at run
time must lie in the environment or be added to TOOLS.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from .archive import Archive
from .errors import VmError

REPOSITORY = Path(__file__).resolve().parents[2]
GUEST_INIT = Path(__file__).with_name("guest-init")

# Real ones, because busybox lacks them or an option of theirs that is needed.
TOOLS = (
    "bash",
    "chrt",
    "env",
    "ip",
    "ldd",
    "mount",
    "nsenter",
    "prlimit",
    "ps",
    "setpriv",
    "sh",
    "taskset",
    "touch",
    "umount",
    "unshare",
)

# Virtual networks for the lab, and socket queues by netlink.
MODULES = ("veth", "bridge", "tcp_diag", "unix_diag")

STDLIB_WITHOUT = re.compile(
    r"""(test|tests|idlelib|tkinter|turtledemo|ensurepip|lib2to3|config-.*
    |site-packages|dist-packages|pydoc_data|_test.*\.so|_tkinter.*\.so
    |.*\.opt-[12]\.pyc|.*\.[ah])""",
    re.VERBOSE,
)
PACKAGES_WITHOUT = re.compile(
    r"""(pip|setuptools|_distutils_hack|distutils-precedence\.pth|pkg_resources|wheel
    |numpy|numpy\.libs|mypy|mypyc|.*__mypyc.*\.so|ruff|librt|ast_serialize|.*-stubs
    |.*\.opt-[12]\.pyc|.*\.[ah])""",
    re.VERBOSE,
)
COMMANDS_WITHOUT = re.compile(
    r"(ruff|mypy|dmypy|stub|pip|wheel|activate|Activate|ss2|pyroute2|dhcp).*"
)

ASK_PYTHON = """
import json, sys, sysconfig
paths = sysconfig.get_paths()
print(json.dumps({
    "executable": sys.executable,
    "prefix": sys.prefix,
    "base_prefix": sys.base_prefix,
    "stdlib": paths["stdlib"],
    "packages": sorted({paths["purelib"], paths["platlib"]}),
    "scripts": paths["scripts"],
}))
"""


@dataclass(frozen=True)
class Python:
    """Holds the paths of a virtual environment's interpreter."""

    executable: Path  #: the interpreter
    prefix: Path  #: the folder of the environment
    stdlib: Path  #: the folder of the standard library
    packages: tuple[Path, ...]  #: the folders of installed packages
    scripts: Path  #: the folder of installed commands

    @classmethod
    def ask(cls, executable: Path) -> Python:
        """Ask the interpreter itself."""
        paths = json.loads(_output([str(executable), "-c", ASK_PYTHON]))
        if paths["prefix"] == paths["base_prefix"]:
            raise VmError(
                f"{executable} is not of a virtual environment; name one by --python"
            )
        return cls(
            executable=Path(paths["executable"]),
            prefix=Path(paths["prefix"]),
            stdlib=Path(paths["stdlib"]),
            packages=tuple(Path(p) for p in paths["packages"]),
            scripts=Path(paths["scripts"]),
        )


def base(python: Python, kernel_release: str) -> Archive:
    """Everything but the working tree; the libraries are added by add_libraries."""
    archive = Archive()
    _add_system(archive)
    _add_python(archive, python)
    _add_exact_times(archive, python)
    _add_tools(archive)
    _add_modules(archive, kernel_release)
    return archive


def tree(python: Python, extra: Iterable[Path]) -> Archive:
    """The working tree as it is now, and files or folders beside it."""
    archive = Archive()
    listed = _output(
        ["git", "-C", str(REPOSITORY), "ls-files", "-z", "-co", "--exclude-standard"]
    )
    known = [REPOSITORY / name for name in listed.split("\0") if name]
    compile_python(python, known)
    for path in known:
        archive.mirror(path)
    for folder in {path.parent for path in known}:
        archive.mirror_tree(folder / "__pycache__", lambda _: True)
    for room in ("cosched", "mpi_shim"):
        for library in sorted((REPOSITORY / room).rglob("*.so")):
            archive.mirror(library)
    for path in extra:
        if path.is_dir():
            archive.mirror_tree(path, lambda _: True)
        elif path.exists():
            archive.mirror(path)
    return archive


def compile_python(python: Python, files: Iterable[Path]) -> None:
    """Have byte code beside the sources: inside, compiling takes most of the time.

    It is kept where Python keeps it; where that cannot be written, things are slower.
    """
    sources = "".join(f"{path}\n" for path in files if path.suffix == ".py")
    command = [str(python.executable), "-m", "compileall", "-q", "-i", "-"]
    subprocess.run(
        command, input=sources, capture_output=True, text=True, timeout=120, check=False
    )


def add_libraries(archive: Archive) -> None:
    """Bring in the shared libraries that the archive's programs and modules name."""
    binaries = [str(path) for path in archive.sources() if _is_elf(path)]
    if not binaries:
        return
    done = subprocess.run(
        ["ldd", *binaries], capture_output=True, text=True, timeout=120, check=False
    )
    for line in done.stdout.splitlines():
        found = re.search(r"(?:=>\s*)?(/\S+) \(0x", line)
        if found:
            archive.mirror(Path(found.group(1)))


def _add_system(archive: Archive) -> None:
    for folder in ("dev", "proc", "sys", "run", "root", "out", "tmp", "var/tmp"):
        archive.directory(folder, 0o1777 if folder.endswith("tmp") else 0o755)
    archive.text("init", GUEST_INIT.read_text(), 0o755)
    archive.text(
        "etc/passwd",
        "root:x:0:0:root:/root:/bin/sh\n"
        "user:x:1000:1000:user:/tmp:/bin/sh\n"
        "nobody:x:65534:65534:nobody:/tmp:/bin/sh\n",
    )
    archive.text("etc/group", "root:x:0:\nuser:x:1000:\nnogroup:x:65534:\n")
    archive.text("etc/hosts", "127.0.0.1 localhost vm\n")
    archive.text("etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n")
    archive.text("etc/os-release", 'NAME="cosched vm"\nID=cosched-vm\n')


def _add_python(archive: Archive, python: Python) -> None:
    archive.mirror(python.executable)
    archive.mirror_tree(python.stdlib, _without(STDLIB_WITHOUT))
    for folder in python.packages:
        archive.mirror_tree(folder, _without(PACKAGES_WITHOUT))
    for path in sorted(python.scripts.iterdir()):
        if path.exists() and not COMMANDS_WITHOUT.fullmatch(path.name):
            archive.mirror(path)
    archive.mirror(python.prefix / "pyvenv.cfg")
    inner = {p.parent for p in python.packages}
    archive.mirror_tree(
        python.prefix / "lib",
        lambda path: path not in inner and not path.name.endswith(".a"),
    )


def _add_exact_times(archive: Archive, python: Python) -> None:
    """The times of an MPI's files by nanosecond, which the archive cannot hold.

    A library built for an MPI is found again by them.
    """
    touch = shutil.which("touch")
    lines = []
    for folder in (python.scripts, python.prefix / "lib"):
        for path in filter(Path.exists, sorted(folder.glob("*mpi*"))):
            seconds, rest = divmod(path.stat().st_mtime_ns, 10**9)
            time = f"@{seconds}.{rest:09}"
            lines.append(f"{touch} -d {time} {shlex.quote(str(path))}\n")
    archive.text("etc/exact-times", "".join(lines))


def _add_tools(archive: Archive) -> None:
    busybox = shutil.which("busybox")
    if busybox is None:
        raise VmError("no busybox here: apt-get install busybox-static")
    archive.mirror(Path(busybox))
    archive.link("busybox/busybox", busybox)
    for tool in TOOLS:
        found = shutil.which(tool)
        if found is not None:
            archive.mirror(Path(found))


def _add_modules(archive: Archive, release: str) -> None:
    """The modules, and etc/modules: their files in the order to load them in."""
    top = Path("/lib/modules") / release
    try:
        lines = (top / "modules.dep").read_text().splitlines()
    except FileNotFoundError:
        raise VmError(
            f"no {top}/modules.dep: install the kernel's package, or run depmod"
        ) from None
    needs = {}
    for line in lines:
        path, _, before = line.partition(":")
        name = Path(path).name.split(".")[0].replace("-", "_")
        needs[name] = [path, *before.split()]
    order: list[str] = []
    for module in MODULES:  # one that is missing is built in
        for path in reversed(needs.get(module, [])):
            if path not in order:
                order.append(path)
                archive.mirror(top / path)
    archive.text("etc/modules", "".join(f"{top / path}\n" for path in order))


def _without(pattern: re.Pattern[str]) -> Callable[[Path], bool]:
    """Says yes to every path whose name does not match."""

    def keep(path: Path) -> bool:
        name = re.sub(r"-[^-]*\.dist-info$", "", path.name)
        return pattern.fullmatch(name) is None

    return keep


def _is_elf(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def _output(command: list[str]) -> str:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=60, check=True
        )
    except (OSError, subprocess.SubprocessError) as problem:
        raise VmError(f"{command[0]}: {problem}") from None
    return done.stdout
