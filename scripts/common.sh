# Functions for the scripts beside it: system packages and virtual environments.
# Sourced, not run. The caller has set -euo pipefail.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# Tests start hundreds of short Python processes. Each would compile our modules again if
# it could not keep byte code, and CI often forbids that.
unset PYTHONDONTWRITEBYTECODE

say() { printf '%s\n' "$*"; }
die() { printf '%s: %s\n' "${0##*/}" "$*" >&2; exit 1; }

# wants_help WORD ...: whether a word of the command line asks for help.
wants_help() {
    local word
    for word in "$@"; do
        case $word in -h | --help) return 0 ;; esac
    done
    return 1
}

# need_packages PACKAGE=COMMAND_OR_FILE ...: installs each Debian package whose command or
# file is missing. Without root or apt-get it fails and names the packages.
need_packages() {
    local pair package probe missing=()
    for pair in "$@"; do
        package=${pair%%=*} probe=${pair#*=}
        case $probe in
            /*) compgen -G "$probe" > /dev/null || missing+=("$package") ;;
            *) command -v "$probe" > /dev/null || missing+=("$package") ;;
        esac
    done
    [ ${#missing[@]} -eq 0 ] && return
    if [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null; then
        say "installing ${missing[*]}"
        local log
        log=$(mktemp)
        if ! { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y \
            --no-install-recommends "${missing[@]}"; } > "$log" 2>&1; then
            tail -n 5 "$log" >&2
            rm -f "$log"
            die "could not install ${missing[*]}; try: apt-get install ${missing[*]}"
        fi
        rm -f "$log"
    else
        die "missing packages; as root: apt-get install ${missing[*]}"
    fi
}

# need_slurm: installs the Slurm of Debian that labs run.
need_slurm() {
    need_packages slurmctld=slurmctld slurmd=slurmd slurm-client=srun munge=munged \
        "slurm-wlm-basic-plugins=/usr/lib/*/slurm-wlm/mpi_pmi2.so"
}

# make_venv NAME EXTRAS: the environment $root/NAME with this project installed (editable)
# and its extras; made again when pyproject.toml, setup.py, commands or C sources change.
make_venv() {
    local venv=$root/$1 extras=$2 stamp
    stamp=$(cd "$root" && cat pyproject.toml setup.py \
        cosched/start/{command.sh,isolated.py,cosched-python} cosched/shm/*.c cosched/shm/_build.py \
        cosched/shm/include/cosched/*.h cosched/linux/native/*.[ch] cosched/linux/native/_build.py \
        cosched/cluster/{agent,pmi}/_build.py |
        sha256sum)-$extras
    [ "$(cat "$venv/.stamp" 2> /dev/null)" = "$stamp" ] && return
    say "preparing ${venv#"$root"/}"
    [ -x "$venv/bin/pip" ] || python3 -m venv "$venv"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check \
        --editable "$root[$extras]" 2> >(grep -v '^WARNING: Location' >&2)
    printf '%s' "$stamp" > "$venv/.stamp"
}
