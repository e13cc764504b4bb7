#include "status/wire.h"

#include <limits.h>
#include <string.h>

#include "base/handles.h"
#include "status/comms.h"
#include "status/copy_memory.h"
#include "status/pack.h"

/* Stands in place of a status byte that has not arrived. */
#define NOTHING 0xff

/* The length up to which all messages are copied. */
#define ALWAYS LLONG_MAX

/* The most bytes that a call can count. */
#if MPI_VERSION >= 4
#define BYTES_MAX LLONG_MAX
#else
#define BYTES_MAX INT_MAX
#endif

#define REMEMBERED_BITS 6 /* types that each thread remembers */

enum { GAPS = -1, REFUSED = -2 };

/* Whether MPI accepts such a message. Most libraries refuse a datatype that is not committed.
 * MPI has no call to ask, but it checks a message to MPI_PROC_NULL like any other. */
static bool is_accepted(const void *buf, cosched_count count, MPI_Datatype type) {
    return cosched_pmpi.COSCHED_LARGE(Send)(buf, count, type, MPI_PROC_NULL, 0,
                                            cosched_comms_local()) == MPI_SUCCESS;
}

/* Returns the size of a predefined type without gaps. Otherwise GAPS, or REFUSED if MPI would
 * refuse to send `count` of it at `buf`. Only predefined types are remembered: they are never
 * freed, so their handles are never used again. */
static int flat_size(const void *buf, cosched_count count, MPI_Datatype type) {
    static _Thread_local struct {
        MPI_Datatype type;
        int size; /* 0: free entry */
    } known[1 << REMEMBERED_BITS];
    unsigned slot = cosched_handles_hash((uintptr_t)type, REMEMBERED_BITS);
    int integers, addresses, datatypes, combiner = MPI_UNDEFINED;
    MPI_Count size = 0;
    MPI_Aint lower = 0, extent = 0, true_lower = 0, true_extent = 0;
    if (known[slot].size != 0 && known[slot].type == type)
        return known[slot].size;
    if (!is_accepted(buf, count, type))
        return REFUSED;
    if (cosched_pmpi.Type_get_envelope(type, &integers, &addresses, &datatypes, &combiner) !=
            MPI_SUCCESS ||
        combiner != MPI_COMBINER_NAMED)
        return GAPS;
    cosched_pmpi.COSCHED_WIDE(Type_size)(type, &size);
    cosched_pmpi.Type_get_extent(type, &lower, &extent);
    cosched_pmpi.Type_get_true_extent(type, &true_lower, &true_extent);
    if (size <= 0 || size > 64 || lower != 0 || true_lower != 0 || extent != size ||
        true_extent != size)
        return GAPS;
    known[slot].type = type;
    known[slot].size = (int)size;
    return (int)size;
}

_Thread_local struct cosched_sent_type cosched_sent_type;

uint64_t cosched_wire_bytes(cosched_count count, MPI_Datatype type) {
    MPI_Count size = 0;
    if (count < 0 || type == MPI_DATATYPE_NULL)
        return 0;
    size = flat_size(NULL, 0, type);
    if (size == REFUSED)
        return 0;
    if (size <= 0)
        cosched_pmpi.COSCHED_WIDE(Type_size)(type, &size);
    return (uint64_t)size * (uint64_t)count;
}

void cosched_wire_count_new(cosched_count count, MPI_Datatype type) {
    MPI_Count size = 0;
    if (count < 0 || type == MPI_DATATYPE_NULL)
        return;
    size = flat_size(NULL, 0, type);
    if (size == REFUSED)
        return;
    if (size > 0)
        cosched_sent_type = (struct cosched_sent_type){type, (uint64_t)size};
    else
        cosched_pmpi.COSCHED_WIDE(Type_size)(type, &size);
    cosched_task_count(&cosched_state.link.counters->sent, 1);
    cosched_task_count(&cosched_state.link.counters->bytes_sent, (uint64_t)size * (uint64_t)count);
}

/* Makes the TYPED shape: one MPI_BYTE at `byte` and `count` of `type` at `buf`. */
static int make_typed(struct cosched_wire *wire, const unsigned char *byte, const void *buf,
                      cosched_count count, MPI_Datatype type) {
    MPI_Datatype types[2] = {MPI_BYTE, type}, made;
    MPI_Aint at[2];
    int rc;
    cosched_pmpi.Get_address(byte, &at[0]);
    cosched_pmpi.Get_address(buf, &at[1]);
#if MPI_VERSION >= 4
    MPI_Count lengths[2] = {1, count}, wide_at[2] = {at[0], at[1]};
    rc = cosched_pmpi.Type_create_struct_c(2, lengths, wide_at, types, &made);
#else
    int lengths[2] = {1, count};
    rc = cosched_pmpi.Type_create_struct(2, lengths, at, types, &made);
#endif
    if (rc == MPI_SUCCESS)
        rc = cosched_pmpi.Type_commit(&made);
    if (rc != MPI_SUCCESS)
        return rc;
    wire->data = MPI_BOTTOM;
    wire->count = 1;
    wire->type = made;
    wire->shape = COSCHED_WIRE_TYPED;
    return MPI_SUCCESS;
}

/* Returns a place for the copy of a message of wire->bytes, or NULL. */
static unsigned char *find_block(struct cosched_wire *wire, struct cosched_wire_room *room) {
    if (room != NULL && wire->bytes <= COSCHED_COPIES_ROOM)
        return room->bytes + 63;
    wire->heap = cosched_copy_memory_take(wire->bytes + 16);
    return wire->heap == NULL ? NULL : (unsigned char *)wire->heap + 15;
}

/* Duplicates the user's datatype, since the user may free it as soon as the call returns. */
static int hold_type(struct cosched_wire *wire) {
    int rc = cosched_pmpi.Type_contiguous(1, wire->user_type, &wire->user_type);
    if (rc == MPI_SUCCESS)
        rc = cosched_pmpi.Type_commit(&wire->user_type);
    wire->holds_type = rc == MPI_SUCCESS;
    return rc;
}

/* Lays the message out. A message longer than `copy_max` becomes TYPED, with its status byte at
 * `byte`: of bytes, if it is contiguous and they can be counted, otherwise of the user's elements.
 * The latter happens only with Open MPI, whose segments may end anywhere. */
static int lay_out(struct cosched_wire *wire, struct cosched_wire_room *room,
                   const unsigned char *byte, const void *buf, cosched_count count,
                   MPI_Datatype type, long long copy_max) {
    int rc = MPI_SUCCESS;
    int size = count < 0 || type == MPI_DATATYPE_NULL ? REFUSED : flat_size(buf, count, type);
    long long bytes = size;
    if (size == GAPS)
        bytes = cosched_pack_size(type, &rc);
    if (rc != MPI_SUCCESS)
        return rc;
    /* The library itself reports a wrong argument best. */
    if (size == REFUSED || __builtin_mul_overflow(bytes, (long long)count, &bytes) ||
        (size >= 0 && buf == MPI_BOTTOM && bytes > 0)) {
        cosched_wire_plain(wire, buf, count, type);
        return MPI_SUCCESS;
    }
    wire->user_type = size >= 0 ? MPI_DATATYPE_NULL : type;
    wire->bytes = (size_t)bytes;
    wire->heap = NULL;
    if (copy_max != ALWAYS &&
        (((size >= 0 || cosched_copies.of_any_type) && bytes > copy_max) || bytes >= BYTES_MAX))
        return size >= 0 && bytes <= BYTES_MAX
                   ? make_typed(wire, byte, buf, (cosched_count)bytes, MPI_BYTE)
                   : make_typed(wire, byte, buf, count, type);
    wire->block = find_block(wire, room);
    if (wire->block == NULL)
        return MPI_ERR_NO_MEM;
    wire->user = (void *)(uintptr_t)buf;
    wire->user_count = count;
    wire->data = wire->block;
    wire->count = (cosched_count)(bytes + 1);
    wire->type = MPI_BYTE;
    wire->shape = COSCHED_WIRE_COPIED;
    wire->holds_type = false;
    return MPI_SUCCESS;
}

/* Lays out a message whose data is read or written after the call has returned. */
static int lay_out_for_later(struct cosched_wire *wire, const void *buf, cosched_count count,
                             MPI_Datatype type, long long copy_max) {
    int rc = lay_out(wire, NULL, &wire->byte, buf, count, type, copy_max);
    if (rc == MPI_SUCCESS && wire->shape == COSCHED_WIRE_COPIED &&
        wire->user_type != MPI_DATATYPE_NULL) {
        rc = hold_type(wire);
        if (rc != MPI_SUCCESS)
            cosched_wire_release(wire);
    }
    return rc;
}

/* Copies the user's data into the message. */
static int gather(struct cosched_wire *wire) {
    if (wire->bytes == 0)
        return MPI_SUCCESS;
    if (wire->user_type != MPI_DATATYPE_NULL)
        return cosched_pack_out(wire->block + 1, wire->bytes, wire->user, wire->user_count,
                                wire->user_type);
    memcpy(wire->block + 1, wire->user, wire->bytes);
    return MPI_SUCCESS;
}

int cosched_wire_copy(struct cosched_wire *wire, const void *buf, cosched_count count,
                      MPI_Datatype type) {
    int rc = lay_out(wire, NULL, NULL, buf, count, type, ALWAYS);
    if (rc != MPI_SUCCESS || wire->shape == COSCHED_WIRE_PLAIN)
        return rc;
    wire->data = wire->block + 1;
    wire->count = (cosched_count)wire->bytes;
    if (wire->user_type == MPI_DATATYPE_NULL) {
        wire->count = count;
        wire->type = type;
    } else if (wire->bytes > BYTES_MAX)
        rc = MPI_ERR_COUNT;
    if (rc == MPI_SUCCESS)
        rc = gather(wire);
    if (rc != MPI_SUCCESS)
        cosched_wire_release(wire);
    return rc;
}

static int fill(struct cosched_wire *wire, unsigned char scheduled) {
    int rc = MPI_SUCCESS;
    if (wire->shape == COSCHED_WIRE_COPIED) {
        wire->block[0] = scheduled;
        rc = gather(wire);
    }
    cosched_task_count(&cosched_state.link.counters->sent, 1);
    cosched_task_count(&cosched_state.link.counters->bytes_sent, wire->bytes);
    return rc;
}

static int out(struct cosched_wire *wire, struct cosched_wire_room *room, const void *buf,
               cosched_count count, MPI_Datatype type, long long copy_max) {
    /* A pending TYPED send still reads its status byte, so these bytes are never freed. */
    static const unsigned char statuses[2] = {0, 1};
    int scheduled = cosched_state_is_scheduled();
    int rc = lay_out(wire, room, &statuses[scheduled], buf, count, type, copy_max);
    if (rc != MPI_SUCCESS || wire->shape == COSCHED_WIRE_PLAIN)
        return rc;
    if (wire->shape == COSCHED_WIRE_COPIED && wire->bytes >= BYTES_MAX)
        rc = MPI_ERR_COUNT;
    else
        rc = fill(wire, (unsigned char)scheduled);
    /* A copy that must not travel in one piece (copies.h). */
    if (rc == MPI_SUCCESS && wire->shape == COSCHED_WIRE_COPIED && cosched_copies.of_any_type &&
        (long long)wire->bytes > cosched_copies.out_max)
        rc = make_typed(wire, &statuses[scheduled], wire->block + 1, (cosched_count)wire->bytes,
                        MPI_BYTE);
    if (rc != MPI_SUCCESS)
        cosched_wire_release(wire);
    return rc;
}

int cosched_wire_out(struct cosched_wire *wire, struct cosched_wire_room *room, const void *buf,
                     cosched_count count, MPI_Datatype type) {
    return out(wire, room, buf, count, type, cosched_copies.out_max);
}

int cosched_wire_out_copied(struct cosched_wire *wire, struct cosched_wire_room *room,
                            const void *buf, cosched_count count, MPI_Datatype type) {
    return out(wire, room, buf, count, type, ALWAYS);
}

int cosched_wire_out_again(struct cosched_wire *wire, const void *buf, cosched_count count,
                           MPI_Datatype type) {
    return lay_out_for_later(wire, buf, count, type, cosched_copies.out_max);
}

int cosched_wire_load(struct cosched_wire *wire) {
    if (wire->shape == COSCHED_WIRE_PLAIN)
        return MPI_SUCCESS;
    wire->byte = (unsigned char)cosched_state_is_scheduled();
    return fill(wire, wire->byte);
}

int cosched_wire_in(struct cosched_wire *wire, struct cosched_wire_room *room, void *buf,
                    cosched_count count, MPI_Datatype type) {
    long long copy_max = cosched_copies.in_max;
    int rc = room != NULL ? lay_out(wire, room, &wire->byte, buf, count, type, copy_max)
                          : lay_out_for_later(wire, buf, count, type, copy_max);
    wire->byte = NOTHING;
    if (rc == MPI_SUCCESS && wire->shape == COSCHED_WIRE_COPIED)
        wire->block[0] = NOTHING;
    return rc;
}

/* A status's size in bytes, and whether the request was cancelled. Their places are part of Open
 * MPI's ABI, and of the ABI that MPICH and its relatives share. For other libraries MPI's own
 * functions are called. */
#if defined(OPEN_MPI)
static bool was_cancelled(const MPI_Status *status) { return status->_cancelled != 0; }
static MPI_Count bytes_of(const MPI_Status *status) { return (MPI_Count)status->_ucount; }
static void set_bytes(MPI_Status *status, MPI_Count bytes) { status->_ucount = (size_t)bytes; }
#elif !defined(MPI_ABI_VERSION) && (defined(MPICH_NUMVERSION) || defined(I_MPI_VERSION))
static bool was_cancelled(const MPI_Status *status) {
    return (status->count_hi_and_cancelled & 1) != 0;
}
static MPI_Count bytes_of(const MPI_Status *status) {
    return ((MPI_Count)((unsigned)status->count_hi_and_cancelled >> 1) << 32) |
           (unsigned)status->count_lo;
}
static void set_bytes(MPI_Status *status, MPI_Count bytes) {
    status->count_lo = (int)bytes;
    status->count_hi_and_cancelled =
        (int)((unsigned)(bytes >> 32) << 1) | (status->count_hi_and_cancelled & 1);
}
#else
static bool was_cancelled(const MPI_Status *status) {
    int cancelled = 0;
    cosched_pmpi.Test_cancelled(status, &cancelled);
    return cancelled != 0;
}
static MPI_Count bytes_of(const MPI_Status *status) {
    MPI_Count bytes = 0;
    cosched_pmpi.COSCHED_WIDE(Get_elements)(status, MPI_BYTE, &bytes);
    return bytes < 0 ? 0 : bytes;
}
static void set_bytes(MPI_Status *status, MPI_Count bytes) {
    cosched_pmpi.COSCHED_WIDE(Status_set_elements)(status, MPI_BYTE, bytes);
}
#endif

bool cosched_wire_arrived(int error) {
    int class = MPI_SUCCESS;
    if (error == MPI_SUCCESS)
        return true;
    cosched_pmpi.Error_class(error, &class);
    return class == MPI_ERR_TRUNCATE;
}

void cosched_wire_trim(MPI_Status *status) {
    MPI_Count bytes = status->MPI_SOURCE == MPI_PROC_NULL ? 0 : bytes_of(status);
    if (bytes > 0)
        set_bytes(status, bytes - 1);
}

/* Copies a received message to the user. For a truncated message some libraries count what was
 * sent, not what was received. */
static int hand_over(struct cosched_wire *wire, size_t bytes) {
    if (bytes > wire->bytes)
        bytes = wire->bytes;
    wire->byte = wire->block[0];
    wire->block[0] = NOTHING;
    if (bytes == 0)
        return MPI_SUCCESS;
    if (wire->user_type != MPI_DATATYPE_NULL)
        return cosched_pack_in(wire->block + 1, bytes, wire->user, wire->user_count,
                               wire->user_type);
    memcpy(wire->user, wire->block + 1, bytes);
    return MPI_SUCCESS;
}

int cosched_wire_deliver(struct cosched_wire *wire, MPI_Status *status) {
    struct cosched_task_counters *counters = cosched_state.link.counters;
    MPI_Count bytes;
    int rc = MPI_SUCCESS;
    if (wire->shape == COSCHED_WIRE_PLAIN)
        return rc;
    /* Over UCX the status of a cancelled request has the size of an earlier message. */
    if (was_cancelled(status)) {
        set_bytes(status, 0);
        return rc;
    }
    bytes = bytes_of(status);
    if (bytes > 0)
        set_bytes(status, --bytes);
    if (wire->shape == COSCHED_WIRE_COPIED)
        rc = hand_over(wire, (size_t)bytes);
    cosched_task_count(&counters->received, 1);
    cosched_task_count(&counters->bytes_received, (uint64_t)bytes);
    if (wire->byte <= 1)
        cosched_arrived(&cosched_state.link, wire->byte);
    else
        cosched_task_count(&counters->foreign, 1); /* not written by a shim */
    wire->byte = NOTHING;
    return rc;
}

void cosched_wire_release(struct cosched_wire *wire) {
    if (wire->shape == COSCHED_WIRE_PLAIN)
        return;
    if (wire->shape == COSCHED_WIRE_TYPED)
        cosched_pmpi.Type_free(&wire->type);
    else if (wire->holds_type)
        cosched_pmpi.Type_free(&wire->user_type);
    cosched_copy_memory_give(wire->heap);
    wire->heap = NULL;
    wire->shape = COSCHED_WIRE_PLAIN;
}

bool cosched_wire_is_short(const struct cosched_wire *wire) {
    int size;
    if (wire->shape != COSCHED_WIRE_PLAIN)
        return wire->shape == COSCHED_WIRE_COPIED && wire->bytes <= COSCHED_COPIES_ROOM;
    size = wire->type == MPI_DATATYPE_NULL || !cosched_comms_has_local()
               ? GAPS
               : flat_size(NULL, 0, wire->type);
    return size > 0 && wire->count <= COSCHED_COPIES_ROOM / size;
}
