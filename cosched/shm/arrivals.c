#define _GNU_SOURCE
#include "cosched/arrivals.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "cosched/clock.h"

/* MPI libraries connect to a peer when the first message goes there. So the first looks follow
 * each other quickly, the later ones slowly. */
#define FIRST_INTERVAL_NS UINT64_C(4000000)
#define LAST_INTERVAL_NS UINT64_C(1000000000)

/* Descriptors avoid the low numbers, which programs use for their own files. */
#define LOWEST_DESCRIPTOR 60

/* A record of getdents64, which allocates no memory: the library may hold its locks. */
struct entry {
    uint64_t inode;
    int64_t offset;
    uint16_t bytes;
    uint8_t type;
    char name[];
};

static int socket_option(int descriptor, int option) {
    int value = -1;
    socklen_t bytes = sizeof value;
    return getsockopt(descriptor, SOL_SOCKET, option, &value, &bytes) == 0 ? value : -1;
}

/* Whether it is a stream to another host or to this one, and not a socket that listens. */
static bool is_connection(int descriptor) {
    int family;
    if (socket_option(descriptor, SO_TYPE) != SOCK_STREAM ||
        socket_option(descriptor, SO_ACCEPTCONN) != 0)
        return false;
    family = socket_option(descriptor, SO_DOMAIN);
    return family == AF_INET || family == AF_INET6;
}

static void watch(struct cosched_arrivals *arrivals, int descriptor) {
    /* By edges: data that the library leaves unread wakes the task once. */
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET};
    if (epoll_ctl(arrivals->epoll, EPOLL_CTL_ADD, descriptor, &event) == 0)
        arrivals->connections++;
}

static void watch_all(struct cosched_arrivals *arrivals) {
    _Alignas(struct entry) char buffer[2048];
    int folder = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/fd",
                              O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    long bytes;
    if (folder < 0)
        return;
    while ((bytes = syscall(SYS_getdents64, folder, buffer, sizeof buffer)) > 0)
        for (long at = 0; at < bytes;) {
            const struct entry *entry = (const struct entry *)(const void *)(buffer + at);
            if (entry->name[0] != '.') {
                int descriptor = atoi(entry->name);
                if (is_connection(descriptor))
                    watch(arrivals, descriptor);
            }
            at += entry->bytes;
        }
    (void)syscall(SYS_close, folder);
}

static int move_up(int descriptor) {
    int moved = fcntl(descriptor, F_DUPFD_CLOEXEC, LOWEST_DESCRIPTOR);
    if (moved < 0)
        return descriptor;
    (void)syscall(SYS_close, descriptor);
    return moved;
}

/* Returns 0, or -errno if no descriptor is left. */
static int open_epoll(struct cosched_arrivals *arrivals) {
    struct epoll_event none = {.events = EPOLLET};
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    int proof = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int error = 0;
    if (epoll < 0 || proof < 0)
        error = -errno;
    epoll = epoll < 0 ? epoll : move_up(epoll);
    proof = proof < 0 ? proof : move_up(proof);
    if (error == 0 && epoll_ctl(epoll, EPOLL_CTL_ADD, proof, &none) != 0)
        error = -errno;
    if (error != 0) {
        if (epoll >= 0)
            (void)syscall(SYS_close, epoll);
        if (proof >= 0)
            (void)syscall(SYS_close, proof);
        arrivals->epoll = -1;
        return error;
    }
    arrivals->proof = proof;
    __atomic_store_n(&arrivals->epoll, epoll, __ATOMIC_RELEASE);
    return 0;
}

static bool is_ours(const struct cosched_arrivals *arrivals) {
    struct epoll_event none = {.events = EPOLLET};
    return epoll_ctl(arrivals->epoll, EPOLL_CTL_MOD, arrivals->proof, &none) == 0;
}

/* Looks for connections if it is time. Other threads go on without. */
static int look(struct cosched_arrivals *arrivals) {
    uint64_t now = cosched_clock_ns(CLOCK_MONOTONIC);
    int error = 0;
    if (now < __atomic_load_n(&arrivals->look_ns, __ATOMIC_RELAXED) ||
        __atomic_exchange_n(&arrivals->busy, 1, __ATOMIC_ACQUIRE) != 0)
        return 0;
    if (arrivals->epoll == 0)
        error = open_epoll(arrivals);
    if (error == 0) {
        watch_all(arrivals);
        arrivals->interval_ns = arrivals->interval_ns == 0 ? FIRST_INTERVAL_NS
                                : arrivals->interval_ns >= LAST_INTERVAL_NS
                                    ? LAST_INTERVAL_NS
                                    : 2 * arrivals->interval_ns;
        __atomic_store_n(&arrivals->look_ns, now + arrivals->interval_ns, __ATOMIC_RELAXED);
    }
    __atomic_store_n(&arrivals->busy, 0, __ATOMIC_RELEASE);
    return error;
}

/* poll, because it takes nanoseconds on each kernel; then the edges are taken. The bare calls
 * are no points at which the program's threads can be cancelled. */
static int sleep_on(int epoll, uint64_t limit_ns) {
    const struct timespec limit = {.tv_sec = (time_t)(limit_ns / UINT64_C(1000000000)),
                                   .tv_nsec = (long)(limit_ns % UINT64_C(1000000000))};
    struct pollfd ready = {.fd = epoll, .events = POLLIN};
    struct epoll_event events[16];
    int count = (int)syscall(SYS_ppoll, &ready, 1, &limit, NULL, 0);
    if (count < 0)
        return errno == EINTR ? 0 : -errno;
    if (count == 0)
        return 0;
    while (syscall(SYS_epoll_pwait, epoll, events, 16, 0, NULL, 0) == 16)
        continue;
    return 1;
}

int cosched_arrivals_sleep(struct cosched_arrivals *arrivals, uint64_t limit_ns) {
    const int before = errno; /* the program's */
    int result = arrivals->epoll < 0 ? -EBADF : look(arrivals);
    if (result == 0) {
        int epoll = __atomic_load_n(&arrivals->epoll, __ATOMIC_ACQUIRE);
        if (epoll <= 0)
            result = -EAGAIN; /* another thread makes it at this moment */
        else if (!is_ours(arrivals)) {
            arrivals->epoll = -1; /* the program closed it; its number may be another file's */
            result = -EBADF;
        } else
            result = sleep_on(epoll, limit_ns);
    }
    errno = before;
    return result;
}

void cosched_arrivals_close(struct cosched_arrivals *arrivals) {
    if (arrivals->epoll > 0 && is_ours(arrivals)) {
        close(arrivals->epoll);
        close(arrivals->proof);
    }
    *arrivals = (struct cosched_arrivals){0};
}
