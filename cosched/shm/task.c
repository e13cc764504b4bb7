#define _GNU_SOURCE
#include "cosched/task.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cosched/clock.h"
#include "cosched/guard.h"
#include "cosched/ring.h"

/* Without a heartbeat for this time the daemon counts as gone, and the task as scheduled. */
#define STALE_NS UINT64_C(600000000)

/* The bell's descriptor avoids low numbers: programs use these for their own files (dup2), or
 * after they have closed 0, 1 or 2. The first of these numbers that the limit on open files
 * allows is used. None makes the kernel's table larger than 1024 descriptors need. */
static const int bell_numbers[] = {1000, 240, 60, 3};

/* Runs inside a signal handler. The task counts as scheduled from now on. */
static void let_go(void *link) {
    __atomic_store_n(&((struct cosched_link *)link)->region, NULL, __ATOMIC_RELEASE);
}

static void unmap(struct cosched_job_region *region) {
    cosched_guard_remove(region);
    munmap(region, sizeof *region);
}

static int map_region(struct cosched_link *link, const struct cosched_admission *admission) {
    struct stat file;
    struct cosched_job_region *region;
    if (admission->region_bytes != sizeof *region || admission->slot >= COSCHED_TASKS_MAX)
        return -EPROTO;
    if (fstat(admission->region, &file) != 0)
        return -errno;
    if ((uint64_t)file.st_size < sizeof *region)
        return -EPROTO;
    region = mmap(NULL, sizeof *region, PROT_READ | PROT_WRITE, MAP_SHARED, admission->region, 0);
    if (region == MAP_FAILED)
        return -errno;
    /* Without a guard the task runs as well, unless its region is truncated. */
    if (cosched_guard_install() == 0)
        (void)cosched_guard_add(region, sizeof *region, let_go, link);
    if (region->header.magic != COSCHED_REGION_MAGIC || region->header.abi != COSCHED_ABI ||
        region->header.kind != COSCHED_KIND_JOB || region->header.bytes != sizeof *region ||
        __atomic_load_n(&region->header.ready, __ATOMIC_ACQUIRE) != 1) {
        unmap(region);
        return -EPROTO;
    }
    link->slot = admission->slot;
    link->counters = &region->tasks[admission->slot].counters;
    /* Last: a thread that sees the region, such as one of the MPI library, sees the rest too. */
    __atomic_store_n(&link->region, region, __ATOMIC_RELEASE);
    if (cosched_guard_torn(region))
        let_go(link);
    return 0;
}

static int move_up(int bell) {
    for (size_t i = 0; i < sizeof bell_numbers / sizeof *bell_numbers; i++) {
        int moved = fcntl(bell, F_DUPFD_CLOEXEC, bell_numbers[i]);
        if (moved >= 0) {
            close(bell);
            return moved;
        }
    }
    return bell;
}

static void keep_bell(struct cosched_link *link, int bell) {
    struct stat file;
    link->bell = move_up(bell);
    if (fstat(link->bell, &file) == 0) {
        link->bell_device = file.st_dev;
        link->bell_inode = file.st_ino;
    }
}

/* Returns whether the descriptor is still the bell. A program may close each descriptor that it
 * did not open, and then open its own file under that number. */
static int has_bell(const struct cosched_link *link) {
    struct stat file;
    return link->bell >= 0 && fstat(link->bell, &file) == 0 && S_ISFIFO(file.st_mode) &&
           file.st_dev == link->bell_device && file.st_ino == link->bell_inode;
}

void cosched_link_open(struct cosched_link *link) {
    memset(link, 0, sizeof *link);
    link->bell = -1;
    link->counters = &link->own_counters;
}

int cosched_attach(struct cosched_link *link, const char *socket_path,
                   const struct cosched_registration *registration, int timeout_ms) {
    struct cosched_admission admission = {0};
    cosched_link_open(link);
    int error = cosched_register(&admission, socket_path, registration, timeout_ms, link->reason);
    link->presence = admission.presence;
    if (error != 0)
        return error;
    keep_bell(link, admission.bell);
    link->pid = (int32_t)getpid();
    link->busy = registration->busy;
    error = map_region(link, &admission);
    close(admission.region);
    if (error != 0) {
        close(link->bell);
        link->bell = -1;
        link->presence = COSCHED_OTHER_VERSION;
        snprintf(link->reason, sizeof link->reason, "the job's region: %s", strerror(-error));
    }
    return error;
}

static void ring_bell(const struct cosched_link *link) {
    const int error = errno; /* the program's: its call succeeds, whether or not this does */
    char byte = 1;
    if (has_bell(link)) {
        /* Non-blocking: a full pipe wakes the daemon as well. */
        ssize_t ignored = write(link->bell, &byte, 1);
        (void)ignored;
    }
    errno = error;
}

void cosched_abandon(struct cosched_link *link) {
    if (link->region == NULL)
        return;
    link->counters = &link->own_counters;
    unmap(link->region);
    if (has_bell(link))
        close(link->bell);
    cosched_arrivals_close(&link->arrivals);
    link->region = NULL;
    link->bell = -1;
}

void cosched_detach(struct cosched_link *link) {
    struct cosched_job_region *region = cosched_link_region(link);
    if (region == NULL)
        return;
    if (link->pid != (int32_t)getpid()) {
        cosched_abandon(link);
        return;
    }
    __atomic_store_n(&link->region, NULL, __ATOMIC_RELEASE);
    link->counters = &link->own_counters;
    if (cosched_ring_post(&region->ring, cosched_request_pack(COSCHED_CMDOUT, link->slot, 0)) == 0)
        ring_bell(link);
}

int cosched_is_scheduled(const struct cosched_link *link) {
    return cosched_region_scheduled(cosched_link_region(link));
}

int cosched_is_contended(const struct cosched_link *link) {
    return cosched_region_contended(cosched_link_region(link));
}

int cosched_is_stale(const struct cosched_job_region *region) {
    uint64_t beat = __atomic_load_n(&region->heartbeat.beat_ns, __ATOMIC_ACQUIRE);
    uint64_t now = cosched_clock_ns(CLOCK_MONOTONIC);
    return now > beat && now - beat > STALE_NS;
}

int cosched_is_attended(const struct cosched_link *link) {
    const struct cosched_job_region *region = cosched_link_region(link);
    return region != NULL && !cosched_is_stale(region);
}

void cosched_looked(struct cosched_link *link) {
    const struct cosched_job_region *region = cosched_link_region(link);
    if (region != NULL && (__atomic_load_n(&region->status.word, __ATOMIC_RELAXED) & 1) == 0)
        __atomic_store_n(&link->looked, 1, __ATOMIC_RELAXED);
}

/* Exact, although the task's threads may race: these counters must add up. */
static void count(uint64_t *counter, uint64_t by) {
    __atomic_fetch_add(counter, by, __ATOMIC_RELAXED);
}

void cosched_arrived(struct cosched_link *link, int sender_scheduled) {
    struct cosched_job_region *region = cosched_link_region(link);
    if (!sender_scheduled || region == NULL)
        return;
    uint64_t word = __atomic_load_n(&region->status.word, __ATOMIC_ACQUIRE);
    if ((word & 1) != 0)
        return;
    struct cosched_task_counters *counters = link->counters;
    uint64_t epoch = word >> 1;
    uint64_t last = __atomic_load_n(&link->posted_epoch, __ATOMIC_RELAXED);
    if (__atomic_exchange_n(&link->looked, 0, __ATOMIC_RELAXED) == 0 && !link->busy) {
        count(&counters->stale, 1);
        return;
    }
    count(&counters->trapped, 1);
    /* Two threads may both get here: the one that loses the swap counts as suppressed. */
    if (last == epoch + 1 ||
        !__atomic_compare_exchange_n(&link->posted_epoch, &last, epoch + 1, 0, __ATOMIC_RELAXED,
                                     __ATOMIC_RELAXED)) {
        count(&counters->suppressed, 1);
        return;
    }
    if (cosched_ring_post(&region->ring,
                          cosched_request_pack(COSCHED_CMDSCH, link->slot, epoch)) != 0) {
        count(&counters->dropped, 1);
        return;
    }
    count(&counters->posted, 1);
    ring_bell(link);
}
