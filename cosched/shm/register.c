#define _GNU_SOURCE
#include "cosched/register.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "cosched/clock.h"
#include "cosched/task.h"

static uint64_t monotonic_ns(void) { return cosched_clock_ns(CLOCK_MONOTONIC); }

static uint64_t deadline_in(int timeout_ms) {
    return monotonic_ns() + (uint64_t)timeout_ms * UINT64_C(1000000);
}

/* Whether a socket call that failed is to be made again: a signal came, and there is time
 * left, to which `option` then limits the next try. A program whose timer ticks faster than
 * the daemon answers would else wait the whole time anew with each tick. */
static int is_worth_a_try(int fd, int option, uint64_t deadline) {
    uint64_t now = monotonic_ns();
    uint64_t left_us = now < deadline ? (deadline - now) / 1000 + 1 : 0;
    struct timeval limit = {.tv_sec = (time_t)(left_us / 1000000),
                            .tv_usec = (suseconds_t)(left_us % 1000000)};
    if (left_us == 0) {
        errno = EAGAIN;
        return 0;
    }
    (void)setsockopt(fd, SOL_SOCKET, option, &limit, sizeof limit);
    return 1;
}

static int because(int error) { return error == EAGAIN ? -ETIMEDOUT : -error; }

/* A local socket is connected at once or not at all: after a signal, try again. */
static int reach(int fd, const struct sockaddr_un *address, uint64_t deadline) {
    errno = EINTR;
    while (errno == EINTR && is_worth_a_try(fd, SO_SNDTIMEO, deadline))
        if (connect(fd, (const struct sockaddr *)address, sizeof *address) == 0)
            return 0;
    return because(errno);
}

static int say_hello(int fd, const struct cosched_hello *hello, uint64_t deadline) {
    errno = EINTR;
    while (errno == EINTR && is_worth_a_try(fd, SO_SNDTIMEO, deadline))
        if (send(fd, hello, sizeof *hello, MSG_NOSIGNAL) == (ssize_t)sizeof *hello)
            return 0;
    return because(errno);
}

/* Receives the answer and the descriptors that come with it. */
static int receive_welcome(int fd, struct cosched_welcome *welcome, int fds[2],
                           uint64_t deadline) {
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(2 * sizeof(int))];
    } control;
    struct iovec part = {.iov_base = welcome, .iov_len = sizeof *welcome};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    ssize_t got = -1;
    memset(welcome, 0, sizeof *welcome);
    errno = EINTR;
    while (got < 0 && errno == EINTR && is_worth_a_try(fd, SO_RCVTIMEO, deadline))
        got = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
    if (got < 0)
        return because(errno);
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&message); c != NULL; c = CMSG_NXTHDR(&message, c))
        if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
            size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
            memcpy(fds, CMSG_DATA(c), (count > 2 ? 2 : count) * sizeof(int));
        }
    if ((size_t)got != sizeof *welcome)
        return -EPROTO;
    return 0;
}

static int is_ours(const struct cosched_welcome *welcome) {
    return welcome->magic == COSCHED_HELLO_MAGIC && welcome->abi == COSCHED_ABI;
}

/* A conversation with the scheduler daemon: what is said, what came back, and if it failed,
 * why (`reason` has room for 128 bytes). */
struct talk {
    struct cosched_hello hello;
    struct cosched_welcome welcome;
    int fds[2];
    char *reason;
};

/* Only a task is made to wait for memory: what has just begun is to begin. */
static int is_asked_for_patience(const struct talk *talk) {
    return is_ours(&talk->welcome) && talk->welcome.error == -EINPROGRESS &&
           talk->hello.phase == COSCHED_PHASE_TASK;
}

/* The last answer, after those that ask for patience: each of these gives it a new limit. */
static int await_welcome(int fd, struct talk *talk, const struct cosched_registration *task,
                         uint64_t deadline, int timeout_ms) {
    struct cosched_welcome *welcome = &talk->welcome;
    int reported = 0;
    for (;;) {
        int error = receive_welcome(fd, welcome, talk->fds, deadline);
        if (error != 0 || !is_asked_for_patience(talk))
            return error;
        deadline = deadline_in(timeout_ms);
        welcome->reason[sizeof welcome->reason - 1] = '\0';
        if (!reported && welcome->reason[0] != '\0' && task->on_memory_wait != NULL) {
            reported = 1;
            task->on_memory_wait(welcome->reason);
        }
    }
}

static int failed(const struct talk *talk, int error, const char *what) {
    snprintf(talk->reason, COSCHED_REASON_BYTES, "%s: %s", what, strerror(-error));
    return error;
}

static int prepare(struct talk *talk, const struct cosched_registration *task, enum cosched_phase phase,
                   char *reason) {
    *talk = (struct talk){.hello = {.magic = COSCHED_HELLO_MAGIC,
                                    .abi = COSCHED_ABI,
                                    .rank = task->rank,
                                    .world = task->world,
                                    .carrier = task->carrier,
                                    .phase = phase,
                                    .memory_bytes = task->memory_bytes,
                                    .submitted_ns = task->submitted_ns},
                          .fds = {-1, -1},
                          .reason = reason};
    if (strlen(task->job) >= sizeof talk->hello.job)
        return failed(talk, -ENAMETOOLONG, "job name");
    memcpy(talk->hello.job, task->job, strlen(task->job) + 1);
    return 0;
}

static int exchange(int fd, struct talk *talk, const struct sockaddr_un *address,
                    const struct cosched_registration *task, int timeout_ms) {
    const uint64_t deadline = deadline_in(timeout_ms);
    int error = 0;
    if ((error = reach(fd, address, deadline)) != 0)
        return failed(talk, error, "no scheduler daemon");
    if ((error = say_hello(fd, &talk->hello, deadline)) != 0)
        return failed(talk, error, "registration not sent");
    if ((error = await_welcome(fd, talk, task, deadline, timeout_ms)) != 0)
        return failed(talk, error, "registration not answered");
    if (!is_ours(&talk->welcome))
        return failed(talk, -EPROTO, "the daemon speaks another version");
    talk->welcome.reason[sizeof talk->welcome.reason - 1] = '\0';
    if (talk->welcome.error != 0)
        memcpy(talk->reason, talk->welcome.reason, sizeof talk->welcome.reason);
    return talk->welcome.error;
}

static void drop(int *fd) {
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* Speaks with the daemon behind the socket; the descriptors that it got are the caller's. */
static int converse(struct talk *talk, const char *socket_path, const struct cosched_registration *task,
                    int timeout_ms) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(socket_path) >= sizeof address.sun_path)
        return failed(talk, -ENAMETOOLONG, "registration socket");
    memcpy(address.sun_path, socket_path, strlen(socket_path) + 1);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return failed(talk, -errno, "socket");
    int error = exchange(fd, talk, &address, task, timeout_ms);
    close(fd);
    return error;
}

int cosched_register(struct cosched_admission *admission, const char *socket_path,
                     const struct cosched_registration *task, int timeout_ms, char reason[128]) {
    struct talk talk;
    int error = prepare(&talk, task, COSCHED_PHASE_TASK, reason);
    if (error == 0)
        error = converse(&talk, socket_path, task, timeout_ms);
    if (error == 0 && (talk.fds[0] < 0 || talk.fds[1] < 0))
        error = failed(&talk, -EPROTO, "registration answered without a region");
    if (error != 0) {
        drop(&talk.fds[0]);
        drop(&talk.fds[1]);
        return error;
    }
    *admission = (struct cosched_admission){.region = talk.fds[0],
                                            .bell = talk.fds[1],
                                            .slot = talk.welcome.slot,
                                            .region_bytes = talk.welcome.region_bytes};
    return 0;
}

int cosched_announce(const char *socket_path, const struct cosched_registration *task, int timeout_ms,
                     char reason[128]) {
    struct talk talk;
    int error = prepare(&talk, task, COSCHED_PHASE_LAUNCHED, reason);
    if (error == 0)
        error = converse(&talk, socket_path, task, timeout_ms);
    drop(&talk.fds[0]);
    drop(&talk.fds[1]);
    return error;
}
