#include "status/comms.h"

#include <pthread.h>
#include <stdint.h>

#include "base/state.h"

/* The verdict is kept as an attribute of the communicator, so that it ends with it. In
 * front of that, each thread remembers a few; `changes` makes it forget them when a
 * communicator ends, for its handle may come back as another one's. */
static pthread_once_t started = PTHREAD_ONCE_INIT;
static int key = MPI_KEYVAL_INVALID;
static uint64_t changes = 1;

/* A communicator made from a session, in a process that has not called MPI_Init, or has called
 * MPI_Finalize, too. */
static MPI_Comm of_session;

/* The shim's own, of this process alone. */
static MPI_Comm local;
static bool has_local;

/* Whose error handler hears of errors in calls that have no communicator. */
#if MPI_VERSION >= 4
#define OF_NO_COMM MPI_COMM_SELF
#else
#define OF_NO_COMM MPI_COMM_WORLD
#endif

enum verdict { UNKNOWN, CARRIES, LEFT_ALONE, EXEMPT };
static char verdicts[EXEMPT + 1]; /* an attribute is a pointer to one of these */

static int copy_verdict(MPI_Comm comm, int keyval, void *extra, void *value, void *copy, int *flag) {
    (void)comm, (void)keyval, (void)extra;
    *flag = value == &verdicts[EXEMPT];
    if (*flag)
        *(void **)copy = value;
    return MPI_SUCCESS;
}

static int delete_verdict(MPI_Comm comm, int keyval, void *value, void *extra) {
    (void)comm, (void)keyval, (void)value, (void)extra;
    __atomic_fetch_add(&changes, 1, __ATOMIC_RELEASE);
    return MPI_SUCCESS;
}

static void start(void) {
    if (cosched_pmpi.Comm_create_keyval(copy_verdict, delete_verdict, &key, NULL) != MPI_SUCCESS)
        key = MPI_KEYVAL_INVALID;
}

/* Whether MPI_COMM_WORLD and MPI_COMM_SELF may be named: sessions may be all there is, and they
 * may outlive MPI_Finalize. */
static bool has_world(void) {
    int initialized = 0, finalized = 0;
    cosched_pmpi.Initialized(&initialized);
    if (initialized)
        cosched_pmpi.Finalized(&finalized);
    return initialized && !finalized;
}

/* Whether each process of the group is in the world too. */
static bool is_within(MPI_Group group, MPI_Group world) {
    int size = 0, ranks[256], there[256];
    cosched_pmpi.Group_size(group, &size);
    for (int from = 0; from < size; from += 256) {
        int n = size - from < 256 ? size - from : 256;
        for (int i = 0; i < n; i++)
            ranks[i] = from + i;
        cosched_pmpi.Group_translate_ranks(group, n, ranks, world, there);
        for (int i = 0; i < n; i++)
            if (there[i] == MPI_UNDEFINED)
                return false;
    }
    return true;
}

static enum verdict judge(MPI_Comm comm) {
    MPI_Group world, group;
    int inter = 0;
    bool within = true;
    /* Sessions alone: there is no MPI_COMM_WORLD to compare with, and no stranger. */
    if (!has_world())
        return CARRIES;
    if (cosched_pmpi.Comm_group(MPI_COMM_WORLD, &world) != MPI_SUCCESS)
        return CARRIES;
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
    return within ? CARRIES : LEFT_ALONE;
}

static bool look_up(MPI_Comm comm) {
    char *value = NULL;
    int found = 0;
    pthread_once(&started, start);
    /* The one before may have ended, after which every thread comes here again. */
    if (!has_world())
        of_session = comm;
    if (key == MPI_KEYVAL_INVALID)
        return judge(comm) == CARRIES;
    if (cosched_pmpi.Comm_get_attr(comm, key, &value, &found) == MPI_SUCCESS && found)
        return value == &verdicts[CARRIES];
    enum verdict verdict = judge(comm);
    cosched_pmpi.Comm_set_attr(comm, key, &verdicts[verdict]);
    return verdict == CARRIES;
}

bool cosched_comms_carry(MPI_Comm comm) {
    static _Thread_local struct {
        MPI_Comm comm;
        uint64_t as_of;
        bool carries;
    } known[16];
    if (!cosched_shim_prefixes() || comm == MPI_COMM_NULL)
        return false;
    if (comm == MPI_COMM_WORLD || comm == MPI_COMM_SELF)
        return true;
    unsigned slot = (unsigned)(((uint64_t)(uintptr_t)comm * UINT64_C(0x9e3779b97f4a7c15)) >> 60);
    uint64_t now = __atomic_load_n(&changes, __ATOMIC_ACQUIRE);
    if (known[slot].comm != comm || known[slot].as_of != now) {
        known[slot].carries = look_up(comm);
        known[slot].comm = comm;
        known[slot].as_of = now;
    }
    return known[slot].carries;
}

/* Errors of MPI_COMM_SELF end the program, as long as the user does not think of it. */
void cosched_comms_open(void) {
    has_local = cosched_pmpi.Comm_dup(MPI_COMM_SELF, &local) == MPI_SUCCESS;
    if (has_local)
        cosched_pmpi.Comm_set_errhandler(local, MPI_ERRORS_RETURN);
}

void cosched_comms_close(void) {
    if (has_local)
        cosched_pmpi.Comm_free(&local);
    has_local = false;
    /* One of a session that goes on is looked up again, and so remembered as such. */
    __atomic_fetch_add(&changes, 1, __ATOMIC_RELEASE);
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

void cosched_comms_exempt(MPI_Comm comm) {
    pthread_once(&started, start);
    if (key != MPI_KEYVAL_INVALID && comm != MPI_COMM_NULL)
        cosched_pmpi.Comm_set_attr(comm, key, &verdicts[EXEMPT]);
}
