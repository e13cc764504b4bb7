"""What holds for all tests."""

import os

from hypothesis import settings

# A test that is slow on a busy machine is no failure: figures of time are for benchmarks.
settings.register_profile("cosched", deadline=None)
# What may land depends on the change alone, not on what is drawn that day: who works on
# the tests draws anew each time, and finds what there is to be found.
settings.register_profile("ci", settings.get_profile("cosched"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "cosched")
