/*
 * cosched/rundir.h - finds the run directory of the daemons that serve a task, where no variable
 * names it: the user's own daemons if they are up on this node, otherwise root's. The same rule
 * as in cosched/rundir/directories.py.
 */
#ifndef COSCHED_RUNDIR_H
#define COSCHED_RUNDIR_H

enum cosched_rundir_limits { COSCHED_RUNDIR_BYTES = 64 };

/* Writes the directory: /tmp/cosched-UID if it is safe and a daemon of `node` answers there,
 * otherwise /run/cosched. */
void cosched_rundir_find(char run_dir[64], const char *node);

#endif
