"""Where the repository and the parts that tests use lie."""

from pathlib import Path

ROOT = Path(__file__).parent.parent
GOLDEN = ROOT / "tests" / "golden"
WORKLOADS = ROOT / "benchmarks" / "workloads"
