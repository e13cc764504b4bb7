"""Prints the wall clock and its arguments."""

import sys
import time

print(time.time(), *sys.argv[1:])
