#define _GNU_SOURCE
#include "cosched/register.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "cosched/clock.h"

/* The time between two looks for another daemon. */
#define NEXT_DAEMON_STEP_NS 50000000

static uint64_t deadline_in(int timeout_ms) {
    return cosched_clock_ns(CLOCK_MONOTONIC) + (uint64_t)timeout_ms * UINT64_C(1000000);
}

/* Returns whether there is time for another socket call after a signal, and limits the next call
 * to that time by `option`. Without this, a program whose timer ticks faster than the daemon
 * answers would wait for the whole timeout after each tick. */
static int has_time_left(int fd, int option, uint64_t deadline) {
    uint64_t now = cosched_clock_ns(CLOCK_MONOTONIC);
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

static int timeout_or(int error) { return error == EAGAIN ? -ETIMEDOUT : -error; }

/* A local socket connects at once or not at all: after a signal, try again. */
static int connect_to(int fd, const struct sockaddr_un *address, uint64_t deadline) {
    errno = EINTR;
    while (errno == EINTR && has_time_left(fd, SO_SNDTIMEO, deadline))
        if (connect(fd, (const struct sockaddr *)address, sizeof *address) == 0)
            return 0;
    return timeout_or(errno);
}

static int send_hello(int fd, const struct cosched_hello *hello, uint64_t deadline) {
    errno = EINTR;
    while (errno == EINTR && has_time_left(fd, SO_SNDTIMEO, deadline))
        if (send(fd, hello, sizeof *hello, MSG_NOSIGNAL) == (ssize_t)sizeof *hello)
            return 0;
    return timeout_or(errno);
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
    while (got < 0 && errno == EINTR && has_time_left(fd, SO_RCVTIMEO, deadline))
        got = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
    if (got < 0)
        return timeout_or(errno);
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&message); c != NULL; c = CMSG_NXTHDR(&message, c))
        if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
            size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
            memcpy(fds, CMSG_DATA(c), (count > 2 ? 2 : count) * sizeof(int));
        }
    if (got == 0)
        return -ECONNRESET; /* the daemon has ended */
    if ((size_t)got != sizeof *welcome)
        return -EPROTO;
    return 0;
}

static int is_valid(const struct cosched_welcome *welcome) {
    return welcome->magic == COSCHED_HELLO_MAGIC && welcome->abi == COSCHED_ABI;
}

/* One exchange with the scheduler daemon: the registration, the answer, and the reason of a
 * failure (COSCHED_REASON_BYTES). */
struct exchange {
    struct cosched_hello hello;
    struct cosched_welcome welcome;
    int fds[2];
    char *reason;
    uint32_t presence; /* enum cosched_presence */
    int waits;         /* 1: the daemon has asked the task to wait */
};

/* Only a task waits for memory: a process that has just started goes on at once. */
static int waits_for_memory(const struct exchange *exchange) {
    return is_valid(&exchange->welcome) && exchange->welcome.error == -EINPROGRESS &&
           exchange->hello.phase == COSCHED_PHASE_TASK;
}

/* Receives answers up to the final one. Each earlier one starts a new timeout. */
static int receive_final_welcome(int fd, struct exchange *exchange,
                                 const struct cosched_registration *task, uint64_t deadline,
                                 int timeout_ms) {
    struct cosched_welcome *welcome = &exchange->welcome;
    int reported = 0;
    for (;;) {
        int error = receive_welcome(fd, welcome, exchange->fds, deadline);
        if (error != 0 && exchange->waits)
            exchange->presence = COSCHED_LEFT;
        if (error != 0 || !waits_for_memory(exchange))
            return error;
        welcome->reason[sizeof welcome->reason - 1] = '\0';
        if (task->on_memory_wait != NULL &&
            (!exchange->waits || (!reported && welcome->reason[0] != '\0')))
            task->on_memory_wait(welcome->reason);
        exchange->waits = 1;
        reported |= welcome->reason[0] != '\0';
        deadline = deadline_in(timeout_ms);
    }
}

static int failed(const struct exchange *exchange, int error, const char *what) {
    snprintf(exchange->reason, COSCHED_REASON_BYTES, "%s: %s", what, strerror(-error));
    return error;
}

static int prepare(struct exchange *exchange, const struct cosched_registration *task,
                   enum cosched_phase phase, char *reason) {
    *exchange = (struct exchange){.hello = {.magic = COSCHED_HELLO_MAGIC,
                                    .abi = COSCHED_ABI,
                                    .rank = task->rank,
                                    .world = task->world,
                                    .carrier = task->carrier,
                                    .phase = phase,
                                    .memory_bytes = task->memory_bytes,
                                    .submitted_ns = task->submitted_ns,
                                    .expectation = task->expectation,
                                    .limited_by = task->limited_by},
                          .fds = {-1, -1},
                          .reason = reason};
    if (strlen(task->job) >= sizeof exchange->hello.job)
        return failed(exchange, -ENAMETOOLONG, "job name");
    memcpy(exchange->hello.job, task->job, strlen(task->job) + 1);
    return 0;
}

static int send_and_receive(int fd, struct exchange *exchange, const struct sockaddr_un *address,
                    const struct cosched_registration *task, int timeout_ms) {
    const uint64_t deadline = deadline_in(timeout_ms);
    int error = 0;
    if ((error = connect_to(fd, address, deadline)) != 0)
        return failed(exchange, error, "no scheduler daemon");
    if ((error = send_hello(fd, &exchange->hello, deadline)) != 0)
        return failed(exchange, error, "registration not sent");
    if ((error = receive_final_welcome(fd, exchange, task, deadline, timeout_ms)) != 0)
        return failed(exchange, error, "registration not answered");
    if (!is_valid(&exchange->welcome))
        return failed(exchange, -EPROTO, "the daemon has another version (run 'cosched up --restart' on its node)");
    exchange->presence = exchange->welcome.error == 0 ? COSCHED_PRESENT : COSCHED_REFUSED;
    exchange->welcome.reason[sizeof exchange->welcome.reason - 1] = '\0';
    if (exchange->welcome.error != 0)
        memcpy(exchange->reason, exchange->welcome.reason, sizeof exchange->welcome.reason);
    return exchange->welcome.error;
}

static void drop(int *fd) {
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* Returns a socket for the daemon behind the path and sets its address, or returns -errno. */
static int make_socket(const char *socket_path, int flags, struct sockaddr_un *address) {
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (strlen(socket_path) >= sizeof address->sun_path)
        return -ENAMETOOLONG;
    memcpy(address->sun_path, socket_path, strlen(socket_path) + 1);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | flags, 0);
    return fd < 0 ? -errno : fd;
}

/* Registers with the daemon behind the socket. The caller closes the descriptors. */
static int call_daemon(struct exchange *exchange, const char *socket_path,
                       const struct cosched_registration *task, int timeout_ms) {
    struct sockaddr_un address;
    int fd = make_socket(socket_path, 0, &address);
    if (fd < 0)
        return failed(exchange, fd, "registration socket");
    int error = send_and_receive(fd, exchange, &address, task, timeout_ms);
    close(fd);
    return error;
}

/* A task that waits for memory registers with the next daemon, if one comes within timeout_ms. */
static int call_next_daemon(struct exchange *exchange, const char *socket_path,
                            const struct cosched_registration *task, int timeout_ms) {
    const struct timespec step = {.tv_nsec = NEXT_DAEMON_STEP_NS};
    const uint64_t deadline = deadline_in(timeout_ms);
    int error;
    exchange->waits = 0;
    do {
        (void)nanosleep(&step, NULL);
        error = call_daemon(exchange, socket_path, task, timeout_ms);
    } while ((error == -ENOENT || error == -ECONNREFUSED) &&
             cosched_clock_ns(CLOCK_MONOTONIC) < deadline);
    return error;
}

int cosched_register(struct cosched_admission *admission, const char *socket_path,
                     const struct cosched_registration *task, int timeout_ms, char reason[128]) {
    struct exchange exchange;
    int error = prepare(&exchange, task, COSCHED_PHASE_TASK, reason);
    if (error == 0)
        error = call_daemon(&exchange, socket_path, task, timeout_ms);
    while (error == -ECONNRESET && exchange.waits)
        error = call_next_daemon(&exchange, socket_path, task, timeout_ms);
    if (error == 0 && (exchange.fds[0] < 0 || exchange.fds[1] < 0))
        error = failed(&exchange, -EPROTO, "registration answered without a region");
    if (error != 0) {
        drop(&exchange.fds[0]);
        drop(&exchange.fds[1]);
        admission->presence = error == -EPROTO ? COSCHED_OTHER_VERSION : exchange.presence;
        return error;
    }
    *admission = (struct cosched_admission){.presence = COSCHED_PRESENT,
                                            .region = exchange.fds[0],
                                            .bell = exchange.fds[1],
                                            .slot = exchange.welcome.slot,
                                            .region_bytes = exchange.welcome.region_bytes};
    return 0;
}

int cosched_announce(const char *socket_path, const struct cosched_registration *task,
                     int timeout_ms, char reason[128]) {
    struct exchange exchange;
    int error = prepare(&exchange, task, COSCHED_PHASE_LAUNCHED, reason);
    if (error == 0)
        error = call_daemon(&exchange, socket_path, task, timeout_ms);
    drop(&exchange.fds[0]);
    drop(&exchange.fds[1]);
    return error;
}

/* Sends a registration that waits for nothing. */
static int send_hello_alone(const char *socket_path, const struct cosched_registration *task,
                            enum cosched_phase phase) {
    struct exchange exchange;
    struct sockaddr_un address;
    char reason[COSCHED_REASON_BYTES];
    int error = prepare(&exchange, task, phase, reason);
    if (error != 0)
        return error;
    int fd = make_socket(socket_path, SOCK_NONBLOCK, &address);
    if (fd < 0)
        return fd;
    if (connect(fd, (const struct sockaddr *)&address, sizeof address) != 0 ||
        send(fd, &exchange.hello, sizeof exchange.hello, MSG_NOSIGNAL) < 0)
        error = -errno;
    close(fd);
    return error;
}

int cosched_announce_launcher(const char *socket_path, const struct cosched_registration *task) {
    return send_hello_alone(socket_path, task, COSCHED_PHASE_LAUNCHER);
}

int cosched_announce_command(const char *socket_path, const struct cosched_registration *task) {
    return send_hello_alone(socket_path, task, COSCHED_PHASE_COMMAND);
}
