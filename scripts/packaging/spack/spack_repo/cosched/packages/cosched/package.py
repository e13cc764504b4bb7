"""The recipe of cosched for Spack 1.0 and later; docs/packages.md has the commands."""

from spack.package import depends_on, license, version
from spack_repo.builtin.build_systems.python import PythonPackage


class Cosched(PythonPackage):
    """Coscheduling of MPI jobs that share nodes, without central control."""

    # There is no archive to fetch: 'spack develop' names a clone.
    git = "file:///opt/src/cosched"

    license("BSD-3-Clause")

    version("main", branch="main")
    version("0.1.0", tag="v0.1.0")

    depends_on("c", type="build")
    depends_on("python@3.10:", type=("build", "run"))
    depends_on("py-setuptools@77:", type="build")
    depends_on("py-cffi@1.16:", type=("build", "run"))

    # The shims are built by the mpicc of this MPI.
    depends_on("mpi", type=("build", "run"))
    depends_on("hwloc", type="run")

    depends_on("py-mpi4py@4.0:", type="run")
    depends_on("py-psutil@5.9:", type="run")
    depends_on("py-posix-ipc@1.1:", type="run")
    depends_on("py-click@8.1:", type="run")
    depends_on("py-rich@13:", type="run")
    depends_on("py-textual@1.0:", type="run")
    depends_on("py-tomlkit@0.12:", type="run")
    depends_on("py-prometheus-client@0.20:", type="run")
    depends_on("py-pyroute2@0.7:", type="run")
    depends_on("py-numpy@1.24:", type="run")
    depends_on("py-msgspec@0.18:", type="run")
    depends_on("py-pyzmq@26.2:", type="run")
    depends_on("py-waitress@3.0:", type="run")
    depends_on("py-cloudpickle@3.0:", type="run")
    depends_on("py-tomli@2:", when="^python@:3.10", type="run")
