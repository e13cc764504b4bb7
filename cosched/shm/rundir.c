#define _GNU_SOURCE
#include "cosched/rundir.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define SYSTEM "/run/cosched"

/* Whether the directory is this user's own, and no other user can write there. */
static int is_own(const char *path) {
    struct stat file;
    return lstat(path, &file) == 0 && S_ISDIR(file.st_mode) && file.st_uid == geteuid() &&
           (file.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

/* Whether a daemon answers: a socket can outlive it. */
static int answers(const char *run_dir, const char *node) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int length = snprintf(address.sun_path, sizeof address.sun_path, "%s/%s/control.sock", run_dir,
                          node);
    if (length < 0 || (size_t)length >= sizeof address.sun_path)
        return 0;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int found = fd >= 0 && connect(fd, (const struct sockaddr *)&address, sizeof address) == 0;
    if (fd >= 0)
        close(fd);
    return found;
}

void cosched_rundir_find(char run_dir[64], const char *node) {
    snprintf(run_dir, COSCHED_RUNDIR_BYTES, "/tmp/cosched-%u", (unsigned)geteuid());
    if (geteuid() == 0 || !is_own(run_dir) || !answers(run_dir, node))
        snprintf(run_dir, COSCHED_RUNDIR_BYTES, SYSTEM);
}
