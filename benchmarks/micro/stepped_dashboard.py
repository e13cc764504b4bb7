"""Serves the dashboard, and looks once for each line of stdin. For ``dashboard.py``.

It is the server of ``cosched dashboard`` but for its loop, which waits between two looks.
It prints the address of the page, and a line after each look.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from cosched.dashboard.explain import JobExplainer
from cosched.dashboard.looks import DomainSource, Looker
from cosched.dashboard.pages import Pages
from cosched.dashboard.picture import Picture
from cosched.dashboard.server import LOOPBACK, listen, new_token, serve
from cosched.dashboard.watcher import Watcher
from cosched.linux.users import named_user


def main() -> None:
    """Serves until stdin ends."""
    run_dir, interval_s = Path(sys.argv[1]), float(sys.argv[2])
    looker = Looker(lambda: run_dir, DomainSource(run_dir))
    watcher = Watcher(looker.look, Picture(named_user), interval_s)
    explainer = JobExplainer(lambda: run_dir, run_dir, os.geteuid())
    token = new_token()
    with listen(0) as listening:
        serve(listening, Pages(token, watcher.news, explainer.why))
        print(f"http://{LOOPBACK}:{listening.getsockname()[1]}/{token}/", flush=True)
        for _ in sys.stdin:
            watcher.look()
            print("looked", flush=True)


if __name__ == "__main__":
    main()
