"""Makes the command lines of the benchmarks alike."""

from __future__ import annotations

import argparse


def bench_parser(
    name: str, description: str | None, example: str = ""
) -> argparse.ArgumentParser:
    """Returns the parser of ``scripts/dev bench NAME``; it prints the description as it is.

    example: arguments of an example.
    """
    prog = f"scripts/dev bench {name}"
    return argparse.ArgumentParser(
        prog=prog,
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=f"example: {prog} {example}" if example else None,
    )
