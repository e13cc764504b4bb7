"""Lists the options of launchers: which take values, and which name hosts or variables.

A launcher's words end where its program begins. Only a list of its options shows where that
is, because a value may look like a program and a program's argument like an option.
"""

from __future__ import annotations

import os

from cosched.core.named_tuples import NamedTuple
from cosched.launch.family import LauncherKind


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


class Grammar(NamedTuple):
    """The options of a launcher, by their names without dashes."""

    values: frozenset[str] = frozenset()  #: options with a value
    pairs: frozenset[str] = frozenset()  #: options with two words, or one ``NAME=VALUE``
    flags: frozenset[str] = frozenset()  #: options without a value
    hosts: frozenset[str] = frozenset()  #: options whose values are hosts
    hostfiles: frozenset[str] = frozenset()  #: options whose values are files with hosts
    #: Options whose values are files with the hosts of single ranks.
    rankfiles: frozenset[str] = frozenset()
    elsewhere: frozenset[str] = frozenset()  #: flags that keep ranks from this node
    #: Options whose values are files with app contexts.
    files: frozenset[str] = frozenset()
    variables: frozenset[str] = frozenset()  #: options that set a rank's variable
    lists: frozenset[str] = frozenset()  #: MCA options, which may hold a list of variables
    tunes: frozenset[str] = frozenset()  #: options whose values are files with MCA options
    #: Options with a list of the variables that ranks get.
    exports: frozenset[str] = frozenset()
    #: Whether options of one letter may have their value in the same word.
    short: bool = False
    #: Words that may stand in front of the options, such as ``run``.
    words: frozenset[str] = frozenset()

    def value_count(self, name: str) -> int | None:
        """Returns how many words follow the option; None if it is not known."""
        if name in self.pairs:
            return 2
        if name in self.values:
            return 1
        return 0 if name in self.flags else None

    def full_name(self, name: str) -> str:
        """Returns the option that ``name`` abbreviates, as getopt_long completes it."""
        if not self.short or len(name) < 2 or self.value_count(name) is not None:
            return name
        found = [known for known in self.values | self.flags if known.startswith(name)]
        return found[0] if len(found) == 1 else name


_HYDRA = Grammar(
    values=_words(
        "genvlist genvexcl envlist f hosts host hostlist hostfile machinefile"
        " machine rankmap wdir dir path configfile n np ppn perhost grr"
        " memory-alloc-kinds launcher bootstrap launcher-exec bootstrap-exec rmk"
        " topolib bind-to binding map-by membind demux errfile-pattern"
        " outfile-pattern prepend-pattern gpus-per-proc gpu-subdevs-per-proc iface"
        " localhost nameserver order-nodes usize arch soft file tmpdir gtool"
        " gtoolfile branch-count umask gumask ckpointlib ckpoint-prefix ckpoint-num"
        " ckpoint-interval s pmi-args port_range debugger"
    ),
    pairs=_words("genv env"),
    flags=_words(
        "genvnone genvall envnone envall enable-x disable-x disable-auto-cleanup"
        " enable-auto-cleanup disable-hostname-propagation hybrid-hosts info"
        " pmi-port l prepend-rank print-rank-map print-all-exitcodes profile"
        " skip-launch-node verbose v version V help h rr nolocal noconf"
        " ordered-output prot ilp64 cleanup tv gdb"
    ),
    hosts=_words("hosts host hostlist"),
    hostfiles=_words("f hostfile machinefile machine"),
    elsewhere=_words("skip-launch-node nolocal"),
    files=_words("configfile"),
    variables=_words("genv env"),
)

_OPEN_MPI = Grammar(
    values=_words(
        "am bind-to cf cartofile c n np cpu-list cpu-set cpus-per-proc cpus-per-rank"
        " debugger default-hostfile H host hnp hostfile launch-agent machinefile map-by"
        " max-restarts max-vm-size N npernode npersocket ompi-server output-filename path"
        " personality ppr prefix preload-files rank-by report-events report-pid report-uri"
        " rf rankfile stdin timeout tune wd wdir x xml-file xterm app"
    ),
    pairs=_words("mca gmca"),
    flags=_words(
        "allow-run-as-root bind-to-core bind-to-socket bycore bynode byslot continuous d"
        " debug-devel debug debug-daemons debug-daemons-file disable-recovery"
        " display-allocation display-devel-allocation display-devel-map"
        " display-diffable-map display-map do-not-launch do-not-resolve enable-recovery"
        " leave-session-attached merge-stderr-to-stdout nolocal nooversubscribe noprefix"
        " novm oversubscribe output-proctable pernode q quiet report-bindings"
        " report-child-jobs-separately report-state-on-timeout s preload-binary"
        " show-progress tag-output timestamp-output tv use-hwthread-cpus v verbose V"
        " version xml get-stack-traces h help"
    ),
    hosts=_words("H host"),
    hostfiles=_words("hostfile machinefile default-hostfile"),
    rankfiles=_words("rf rankfile"),
    elsewhere=_words("nolocal"),
    files=_words("app"),
    variables=_words("x"),
    lists=_words("mca gmca"),
    tunes=_words("tune am"),
)
_ORTE = _OPEN_MPI._replace(
    flags=_OPEN_MPI.flags
    | _words(
        "display-topo dvm fwd-mpirun-port enable-instant-on-support index-argv-by-rank"
        " set-cwd-to-session-dir use-regexp"
    ),
)
_PRRTE = _OPEN_MPI._replace(
    values=_OPEN_MPI.values
    | _words(
        "dvm display display-topo output output-directory tmpdir forward-signals"
        " spawn-timeout pset app-prefix memory-alloc-kinds gpu-support rtos"
        " runtime-options with-ft initial-errhandler arch file amca stream-buffering"
        " dvm-uri namespace pid wait-to-connect num-connect-retries server-name"
    ),
    pairs=_words("mca gmca omca gomca prtemca pmixmca gpmixmca"),
    flags=_OPEN_MPI.flags
    | _words(
        "p parseable parsable stop-on-exec stop-in-init stop-in-app stack-traces"
        " do-not-aggregate-help display-comm display-comm-finalize soft hetero-nodes"
        " no-app-prefix fwd-environment system-server-first system-server-only"
    ),
    lists=_words("mca gmca omca gomca"),
    tunes=_words("tune am amca"),
)
_SRUN = Grammar(
    values=_words(
        "A B c C d D e E G i J L m M n N o p P q r S t T w W x account acctg-freq"
        " accel-bind bb bbf bcast-exclude begin chdir cluster-constraint clusters"
        " comment constraint container container-id core-spec cores-per-socket"
        " cpu-bind cpu-freq cpus-per-gpu cpus-per-task deadline delay-boot"
        " dependency distribution epilog error exclude export export-file extra"
        " extra-node-info gid gpu-bind gpu-freq gpus gpus-per-node gpus-per-socket"
        " gpus-per-task gres gres-flags het-group hint input job-name jobid licenses"
        " mail-type mail-user max-threads mcs-label mem mem-bind mem-per-cpu"
        " mem-per-gpu mincpus mpi msg-timeout network nodefile nodelist nodes ntasks"
        " ntasks-per-core ntasks-per-gpu ntasks-per-node ntasks-per-socket"
        " ntasks-per-tres open-mode output partition power prefer priority profile"
        " prolog qos relative reservation resv-ports signal slurmd-debug"
        " sockets-per-node switches task-epilog task-prolog thread-spec threads"
        " threads-per-core time time-min tmp tree-width tres-bind tres-per-task uid"
        " wait wckey"
    ),
    flags=_words(
        "h H I j k K l O Q s u v V X Z bcast compress contiguous disable-status"
        " exact exclusive external get-user-env help hold immediate interactive join"
        " kill-on-bad-exit label multi-prog nice no-allocate no-kill overcommit"
        " overlap oversubscribe preserve-env propagate pty quiet quit-on-interrupt"
        " reboot requeue no-requeue send-libs share spread-job stepmgr test-only"
        " unbuffered usage use-min-nodes verbose version wait-for-children whole"
    ),
    exports=_words("export"),
    short=True,
)
_FLUX = Grammar(
    values=_words(
        "N n c g S o q t nodes ntasks cores tasks-per-node cores-per-task"
        " gpus-per-task cores-per-node env env-remove env-file setattr setopt queue"
        " time-limit begin-time urgency job-name name output error input requires"
        " dependency bank cwd rlimit conf signal add-file log log-stderr"
    ),
    flags=_words("v verbose u unbuffered l label-io x exclusive debug wait quiet watch"),
    variables=_words("env"),
    short=True,
    words=_words("run submit mini bulksubmit batch alloc"),
)
_JSRUN = Grammar(
    values=_words(
        "a b c d D e E F f g h i k l m M n o p P r s t U K L A tasks_per_rs bind"
        " cpu_per_rs launch_distribution env_eval env erf_input appfile gpu_per_rs"
        " chdir stdio_input stdio_stderr latency_priority memory_per_rs smpiargs nrs"
        " stdio_stdout np rs_per_host save_resources"
    ),
    flags=_words("S X Z immediate exit_on_error"),
    variables=_words("E env"),
    files=_words("f appfile"),
    short=True,
)
_APRUN = Grammar(
    values=_words("a A B cc cp d e F j L l m M n N p P r S ss sl t T w D R E"),
    flags=_words("b B q v q"),
    variables=_words("e"),
    short=True,
)
_IBRUN = Grammar(values=_words("n np o"))

_BY_ENGINE = {
    LauncherKind.HYDRA: _HYDRA,
    LauncherKind.ORTE: _ORTE,
    LauncherKind.PRRTE: _PRRTE,
}
_BY_NAME = {
    "srun": _SRUN,
    "flux": _FLUX,
    "jsrun": _JSRUN,
    "aprun": _APRUN,
    "ibrun": _IBRUN,
}


def grammar_of(launcher: str, engine: LauncherKind) -> Grammar:
    """Returns the options of a launcher. launcher: its name or path."""
    known = _BY_NAME.get(os.path.basename(launcher))
    return known or _BY_ENGINE.get(engine, _HYDRA)
