#!/bin/sh
# One rank of Debian's hpcc, small enough for the lab: its suite of seven benchmarks on a
# 2 x 1 grid. Each rank in a folder of its own; rank 0 reads the input and writes the
# result, whose own checks decide the exit status.
set -eu
folder=$(mktemp -d "${TMPDIR:-/tmp}/hpcc-XXXXXX")
trap 'rm -rf "$folder"' EXIT
cd "$folder"
awk -v n="${HPCC_N:-600}" '
    / Ns$/  { $1 = n }
    / Ps$/  { $1 = 2 }
    / Qs$/  { $1 = 1 }
    { print }' /usr/share/doc/hpcc/examples/_hpccinf.txt > hpccinf.txt
hpcc
[ ! -f hpccoutf.txt ] || grep -q '^Success=1' hpccoutf.txt
