#include "status/comms.h"

#include <stdint.h>
#include <stdlib.h>

#include "base/handles.h"
#include "base/lock.h"
#include "base/state.h"

/* One thread at a time makes a record: a second record would replace the first, which its
 * thread still uses. */
static struct cosched_lock making;
static int key = MPI_KEYVAL_INVALID;

/* Each thread remembers some records. It forgets them when a communicator ends, since the
 * handle may be used again for another one. */
static uint64_t ended = 1;
#define REMEMBERED_BITS 4

/* An exempt communicator, where only prefixed messages matter: no ranks. It is never freed. */
static struct cosched_comm exempt = {.holders = 1, .exempt = true};

/* A communicator made from a session, in a process that has not called MPI_Init or has already
 * called MPI_Finalize. */
static MPI_Comm of_session;

/* The shim's own communicator, of this process alone. */
static MPI_Comm local;
static bool has_local;

/* The communicator whose error handler serves calls without a communicator. */
#if MPI_VERSION >= 4
#define OF_NO_COMM MPI_COMM_SELF
#else
#define OF_NO_COMM MPI_COMM_WORLD
#endif

struct cosched_comm *cosched_comms_hold(struct cosched_comm *record) {
    if (record != NULL)
        __atomic_fetch_add(&record->holders, 1, __ATOMIC_RELAXED);
    return record;
}

void cosched_comms_release(struct cosched_comm *record) {
    if (record != NULL && __atomic_sub_fetch(&record->holders, 1, __ATOMIC_ACQ_REL) == 0)
        free(record);
}

int cosched_comms_stay(MPI_Comm comm, int keyval, void *extra, void *value, void *copy,
                       int *flag) {
    (void)comm, (void)keyval, (void)extra, (void)value, (void)copy;
    *flag = 0;
    return MPI_SUCCESS;
}

static int copy_record(MPI_Comm comm, int keyval, void *extra, void *value, void *copy,
                       int *flag) {
    struct cosched_comm *record = value;
    (void)comm, (void)keyval, (void)extra;
    *flag = record->exempt;
    if (*flag)
        *(void **)copy = cosched_comms_hold(record);
    return MPI_SUCCESS;
}

static int delete_record(MPI_Comm comm, int keyval, void *value, void *extra) {
    (void)comm, (void)keyval, (void)extra;
    __atomic_fetch_add(&ended, 1, __ATOMIC_RELEASE);
    cosched_comms_release(value);
    return MPI_SUCCESS;
}

/* Whether there is a key for the attribute; the caller holds the lock. */
static bool has_key(void) {
    return key != MPI_KEYVAL_INVALID ||
           cosched_pmpi.Comm_create_keyval(copy_record, delete_record, &key, NULL) == MPI_SUCCESS;
}

/* Whether MPI_COMM_WORLD and MPI_COMM_SELF may be used. They may not in a program that uses
 * only sessions, nor in a session that outlives MPI_Finalize. */
static bool has_world(void) {
    int initialized = 0, finalized = 0;
    cosched_pmpi.Initialized(&initialized);
    if (initialized)
        cosched_pmpi.Finalized(&finalized);
    return initialized && !finalized;
}

/* Finds for each rank from `first` on, at most 256 of them, the rank in the world, or
 * MPI_UNDEFINED. Returns how many. */
static int translate(MPI_Group group, int first, int size, MPI_Group world, int there[256]) {
    int ranks[256], n = size - first < 256 ? size - first : 256;
    for (int i = 0; i < n; i++)
        ranks[i] = first + i;
    cosched_pmpi.Group_translate_ranks(group, n, ranks, world, there);
    return n;
}

/* Whether each process of the group is in the world too. */
static bool is_within(MPI_Group group, MPI_Group world) {
    int size = 0, there[256];
    cosched_pmpi.Group_size(group, &size);
    for (int first = 0; first < size; first += 256) {
        int n = translate(group, first, size, world, there);
        for (int i = 0; i < n; i++)
            if (there[i] == MPI_UNDEFINED)
                return false;
    }
    return true;
}

/* Whether comm's messages carry the byte, as comms.h has it. Needs no memory. */
static bool judge(MPI_Comm comm) {
    MPI_Group world, group;
    int inter = 0;
    bool within = true;
    /* Without MPI_COMM_WORLD there are only sessions, and no strangers. */
    if (!has_world() || cosched_pmpi.Comm_group(MPI_COMM_WORLD, &world) != MPI_SUCCESS)
        return true;
    cosched_pmpi.Comm_test_inter(comm, &inter);
    if (cosched_pmpi.Comm_group(comm, &group) == MPI_SUCCESS) {
        within = is_within(group, world);
        cosched_pmpi.Group_free(&group);
    }
    if (within && inter && cosched_pmpi.Comm_remote_group(comm, &group) == MPI_SUCCESS) {
        within = is_within(group, world);
        cosched_pmpi.Group_free(&group);
    }
    cosched_pmpi.Group_free(&world);
    return within;
}

static bool is_identity(const int *ranks, int size, int world_size) {
    for (int i = 0; i < size; i++)
        if (ranks[i] != i)
            return false;
    return size == world_size;
}

/* A record of the ranks of this group, or NULL. */
static struct cosched_comm *record_group(MPI_Group group) {
    struct cosched_comm *record;
    MPI_Group world;
    int size = 0, world_size = 0, there[256];
    cosched_pmpi.Group_size(group, &size);
    record = calloc(1, sizeof *record + (size_t)size * sizeof record->world[0]);
    if (record == NULL || cosched_pmpi.Comm_group(MPI_COMM_WORLD, &world) != MPI_SUCCESS) {
        free(record);
        return NULL;
    }
    for (int first = 0; first < size; first += 256) {
        int n = translate(group, first, size, world, there);
        for (int i = 0; i < n; i++)
            record->world[first + i] = there[i] == MPI_UNDEFINED ? -1 : there[i];
    }
    cosched_pmpi.Group_size(world, &world_size);
    cosched_pmpi.Group_free(&world);
    record->size = size;
    record->is_world = is_identity(record->world, size, world_size);
    return record;
}

static struct cosched_comm *make(MPI_Comm comm) {
    struct cosched_comm *record;
    MPI_Group group;
    int inter = 0, rc;
    if (!has_world())
        record = calloc(1, sizeof *record);
    else {
        cosched_pmpi.Comm_test_inter(comm, &inter);
        rc = inter ? cosched_pmpi.Comm_remote_group(comm, &group)
                   : cosched_pmpi.Comm_group(comm, &group);
        if (rc != MPI_SUCCESS)
            return NULL;
        record = record_group(group);
        cosched_pmpi.Group_free(&group);
    }
    if (record == NULL)
        return NULL;
    record->holders = 1;
    cosched_pmpi.Comm_rank(comm, &record->me);
    record->carries = cosched_state_uses_prefix() && judge(comm);
    return record;
}

/* The caller holds the lock. */
static struct cosched_comm *find_or_make(MPI_Comm comm) {
    struct cosched_comm *record = NULL;
    int found = 0;
    if (!has_key())
        return NULL;
    if (cosched_pmpi.Comm_get_attr(comm, key, &record, &found) == MPI_SUCCESS && found)
        return record;
    record = make(comm);
    if (record != NULL && cosched_pmpi.Comm_set_attr(comm, key, record) != MPI_SUCCESS) {
        cosched_comms_release(record);
        record = NULL;
    }
    return record;
}

static struct cosched_comm *look_up(MPI_Comm comm) {
    struct cosched_comm *record;
    /* An earlier communicator of a session may have ended. Then each thread comes here again. */
    if (!has_world())
        of_session = comm;
    cosched_lock_take(&making);
    record = find_or_make(comm);
    cosched_lock_give(&making);
    return record;
}

struct cosched_comm *cosched_comms_find(MPI_Comm comm) {
    static _Thread_local struct {
        MPI_Comm comm;
        uint64_t as_of;
        struct cosched_comm *record;
    } known[1 << REMEMBERED_BITS];
    if (comm == MPI_COMM_NULL || comm == MPI_COMM_SELF)
        return NULL;
    unsigned slot = cosched_handles_hash((uintptr_t)comm, REMEMBERED_BITS);
    uint64_t now = __atomic_load_n(&ended, __ATOMIC_ACQUIRE);
    if (known[slot].comm != comm || known[slot].as_of != now) {
        known[slot].record = look_up(comm);
        known[slot].comm = comm;
        known[slot].as_of = now;
    }
    return known[slot].record;
}

bool cosched_comms_carry(MPI_Comm comm) {
    struct cosched_comm *record;
    if (!cosched_state_uses_prefix() || comm == MPI_COMM_NULL)
        return false;
    if (comm == MPI_COMM_WORLD || comm == MPI_COMM_SELF)
        return true;
    record = cosched_comms_find(comm);
    return record != NULL ? record->carries : judge(comm);
}

void cosched_comms_exempt(MPI_Comm comm) {
    if (!cosched_state_uses_prefix() || comm == MPI_COMM_NULL)
        return;
    cosched_lock_take(&making);
    if (has_key() && cosched_pmpi.Comm_set_attr(comm, key, &exempt) == MPI_SUCCESS)
        cosched_comms_hold(&exempt);
    cosched_lock_give(&making);
}

/* Without its own error handler, an error in MPI_COMM_SELF would end the program. */
void cosched_comms_open(void) {
    has_local = cosched_pmpi.Comm_dup(MPI_COMM_SELF, &local) == MPI_SUCCESS;
    if (has_local)
        cosched_pmpi.Comm_set_errhandler(local, MPI_ERRORS_RETURN);
}

void cosched_comms_close(void) {
    if (has_local)
        cosched_pmpi.Comm_free(&local);
    has_local = false;
    /* A communicator of a session that goes on must be looked up again, as one of a session. */
    __atomic_fetch_add(&ended, 1, __ATOMIC_RELEASE);
}

bool cosched_comms_has_local(void) { return has_local; }

MPI_Comm cosched_comms_local(void) {
    if (has_local)
        return local;
    return has_world() ? MPI_COMM_SELF : of_session;
}

int cosched_comms_raise(MPI_Comm comm, int error) {
    if (error == MPI_SUCCESS)
        return error;
    if (comm == MPI_COMM_NULL)
        comm = has_world() ? OF_NO_COMM : of_session;
    cosched_pmpi.Comm_call_errhandler(comm, error);
    return error;
}
