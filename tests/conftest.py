"""What holds for all tests."""

from hypothesis import settings

# A test that is slow on a busy machine is no failure: figures of time are for benchmarks.
settings.register_profile("cosched", deadline=None)
settings.load_profile("cosched")
