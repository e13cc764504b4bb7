"""Runs the scheduler daemon of one node (coschedd)."""

from __future__ import annotations

import argparse
import gc
import logging
import os
import socket
import sys

from cosched.config.cosched_toml import load
from cosched.core.config.limits import (
    bounded,
    limits_for,
    refuse_private,
    refuse_settings,
)
from cosched.core.config.old_names import translate_options
from cosched.core.config.schema import BY_PATH, OPTIONS, given_options
from cosched.core.errors import CoschedError
from cosched.linux.cgroups.placement import place_tasks
from cosched.linux.descriptors import raise_descriptor_limit
from cosched.linux.priority import raise_daemon_priority
from cosched.linux.probe import probe
from cosched.node.daemon import SchedulerDaemon
from cosched.node.daemon_options import DaemonOptions
from cosched.node.lifetime.handover import end_orphans, lock_node
from cosched.node.memory_meter import MemoryTerms
from cosched.node.records.history_writer import history_files
from cosched.node.records.log_file import open_log
from cosched.rundir.directories import make_node_directory
from cosched.rundir.option import add_run_dir, chosen_run_dir
from cosched.rundir.paths import NodePaths
from cosched.shm.region import survive_torn_regions
from cosched.start.streams import begin


def parser() -> argparse.ArgumentParser:
    """Returns the parser of the daemon's options, which its manual page uses too."""
    options = argparse.ArgumentParser(
        prog="coschedd",
        description="The scheduler daemon of one node. It starts the timer daemon itself. "
        "Users start both with cosched up, init systems with coschedd. Values without an "
        "option come from the configuration: see cosched config show.",
    )
    add = options.add_argument
    add_run_dir(options)
    node = os.uname().nodename
    add("--node", default=node, help="the node's name  [default: the host's]")
    for path, option in OPTIONS.items():
        about, form = BY_PATH[path].about, BY_PATH[path].kind.form.replace('"', "")
        text = f"{about} Takes: {form}".replace("%", "%%")
        add(option, metavar="VALUE", help=text)
    add("--private", action="store_true", help="serve one user's jobs; end after the last")
    add("--verbose", action="store_true", help="log each switch and refusal")
    ready = "descriptor for the line READY  [default: standard output]"
    add("--ready-fd", type=int, default=1, help=ready)
    return options


def parse(arguments: list[str]) -> argparse.Namespace:
    """Reads the command line; prints a warning for an option's old name."""
    words, warnings = translate_options("coschedd", arguments, lambda _: False)
    for warning in warnings:
        print(f"coschedd: warning: {warning}", file=sys.stderr)
    return parser().parse_args(words)


class Starter:
    """The process that started the daemon and reads the result at a descriptor."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self.informed = False  #: it has read that the daemon is ready

    def report_ready(self, greeting: str) -> None:
        """Writes READY and closes the descriptor."""
        self.informed = True
        try:
            os.write(self._fd, f"READY {greeting}\n".encode())
        except OSError as error:
            # The starting process has ended, but other processes may use the daemon.
            logging.info("no process reads that the daemon is ready: %s", error.strerror)
        if self._fd > 2:
            os.close(self._fd)

    def report_error(self, error: CoschedError) -> None:
        """Reports why the daemon did not start; logs why a ready daemon ended."""
        if self.informed:
            logging.error("%s", error)  # the descriptor is closed or reused by now
        elif self._fd != 1:
            os.write(self._fd, f"ERROR {error}\n".encode())


def serve(options: argparse.Namespace, starter: Starter) -> None:
    """Runs the daemon until it ends."""
    config, doubts = load(os.environ, given_options(vars(options)))
    settings = bounded(config.limits, config.node.settings())
    limits = limits_for(config.limits, os.geteuid())
    refusal = refuse_private(limits) or refuse_settings(limits, settings)
    if refusal is not None:
        raise CoschedError(refusal)
    paths = NodePaths(chosen_run_dir(options.run_dir, os.environ), options.node)
    make_node_directory(paths, os.geteuid(), private=options.private)
    lock = lock_node(paths)
    try:
        raise_descriptor_limit()
        end_orphans(paths)
        open_log(paths.log, verbose=options.verbose, capture=options.ready_fd > 2)
        for doubt in doubts:
            logging.warning("%s", doubt)
        found = probe(paths.tag, config.node.class_scheduler, config.node.mode)
        classes = place_tasks(found.scheduler, paths.tag, config.limits.move)
        chosen = "; ".join(f"{name}: {why}" for name, why in found.tried)
        priority = raise_daemon_priority()
        if priority.why:
            logging.info("priority: %s, since %s", priority.name, priority.why)
        survive_torn_regions()
        daemon = SchedulerDaemon(
            paths,
            settings,
            classes,
            DaemonOptions(
                private=options.private,
                chosen=chosen,
                priority=priority.name,
                limits=config.limits,
                metrics=config.metrics_listen(private=options.private),
                trace_bytes=config.node.trace_bytes,
                memory=MemoryTerms(config.node.memory_bytes, config.node.memory_wait_ns),
                allow_raise=config.node.allow_raise,
                watch=config.node.watch,
                history=history_files(paths, options.private, os.environ, os.geteuid()),
                history_age_ns=config.node.history_age_ns,
            ),
            lock,
        )
        greeting = f"node {paths.node}: {classes.name}, {classes.mode}, {priority.name}"

        def ready() -> None:
            logging.info("ready: %s (%s)", greeting, chosen)
            starter.report_ready(greeting)
            notify_systemd()

        gc.freeze()  # all loaded objects stay; collections need not visit them
        daemon.run(ready)
        logging.info("ended")
    finally:
        lock.release()


def notify_systemd() -> None:
    """Reports readiness to systemd (Type=notify); does nothing without systemd."""
    address = os.environ.pop("NOTIFY_SOCKET", "")
    if address:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
            notify.sendto(b"READY=1", address.replace("@", "\0", 1))


def main() -> None:
    """Runs ``coschedd``; writes READY or ERROR on the ready descriptor."""
    begin()
    options = parse(sys.argv[1:])
    starter = Starter(options.ready_fd)
    try:
        serve(options, starter)
    except CoschedError as error:
        starter.report_error(error)
        sys.exit(f"coschedd: {error}" if options.ready_fd == 1 else 1)


if __name__ == "__main__":
    main()
