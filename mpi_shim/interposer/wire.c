#include "wire.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* What stands in place of a status byte that has not come. */
#define NOTHING 0xff

/* The size of a predefined type without gaps, or -1. Only predefined types are remembered:
 * they are never freed, so a handle cannot come to mean another type. */
static int flat_size(MPI_Datatype type) {
    static _Thread_local struct {
        MPI_Datatype type;
        int size; /* 0: free entry */
    } known[64];
    unsigned slot = (unsigned)(((uint64_t)(uintptr_t)type * UINT64_C(0x9e3779b97f4a7c15)) >> 58);
    int integers, addresses, datatypes, combiner = MPI_UNDEFINED;
    MPI_Count size = 0;
    MPI_Aint lower = 0, extent = 0, true_lower = 0, true_extent = 0;
    if (known[slot].size != 0 && known[slot].type == type)
        return known[slot].size;
    if (cosched_pmpi.Type_get_envelope(type, &integers, &addresses, &datatypes, &combiner) !=
            MPI_SUCCESS ||
        combiner != MPI_COMBINER_NAMED)
        return -1;
    cosched_pmpi.COSCHED_WIDE(Type_size)(type, &size);
    cosched_pmpi.Type_get_extent(type, &lower, &extent);
    cosched_pmpi.Type_get_true_extent(type, &true_lower, &true_extent);
    if (size <= 0 || size > 64 || lower != 0 || true_lower != 0 || extent != size ||
        true_extent != size)
        return -1;
    known[slot].type = type;
    known[slot].size = (int)size;
    return (int)size;
}

long long cosched_wire_flat_bytes(cosched_count count, MPI_Datatype type) {
    int size = flat_size(type);
    if (size < 0 || count > (cosched_count)(LLONG_MAX / 64))
        return -1;
    return (long long)count * size;
}

/* The library answers a wrong argument better than we would. */
static bool is_refused_anyway(cosched_count count, MPI_Datatype type) {
    return count < 0 || type == MPI_DATATYPE_NULL;
}

/* {one MPI_BYTE at `byte`, count x type at buf}, from MPI_BOTTOM. */
static int make_typed(struct cosched_wire *wire, const unsigned char *byte, const void *buf,
                      cosched_count count, MPI_Datatype type) {
    MPI_Datatype types[2] = {MPI_BYTE, type}, made;
    MPI_Aint at[2];
    int rc;
    cosched_pmpi.Get_address(byte, &at[0]);
    cosched_pmpi.Get_address(buf, &at[1]);
#if MPI_VERSION >= 4
    if (count > INT_MAX) {
        MPI_Count counts[2] = {1, count}, wide_at[2] = {at[0], at[1]};
        rc = cosched_pmpi.Type_create_struct_c(2, counts, wide_at, types, &made);
    } else
#endif
    {
        int counts[2] = {1, (int)count};
        rc = cosched_pmpi.Type_create_struct(2, counts, at, types, &made);
    }
    if (rc == MPI_SUCCESS)
        rc = cosched_pmpi.Type_commit(&made);
    if (rc != MPI_SUCCESS)
        return rc;
    wire->data = MPI_BOTTOM;
    wire->count = 1;
    wire->type = made;
    wire->heap = NULL;
    wire->shape = COSCHED_WIRE_TYPED;
    return MPI_SUCCESS;
}

/* Lays the message out, with the status byte at `byte` if it becomes a TYPED one. */
static int lay_out(struct cosched_wire *wire, struct cosched_wire_room *room,
                   const unsigned char *byte, const void *buf, cosched_count count,
                   MPI_Datatype type) {
    unsigned char *block = NULL;
    long long flat;
    if (is_refused_anyway(count, type)) {
        cosched_wire_plain(wire, buf, count, type);
        return MPI_SUCCESS;
    }
    flat = cosched_wire_flat_bytes(count, type);
    wire->heap = NULL;
    if (flat > 0 && buf == MPI_BOTTOM) {
        cosched_wire_plain(wire, buf, count, type);
        return MPI_SUCCESS;
    }
    if (flat >= 0 && flat <= COSCHED_WIRE_ROOM && room != NULL)
        block = room->bytes + 63;
    else if (flat >= 0 && flat <= COSCHED_WIRE_BOUNCE_MAX) {
        wire->heap = malloc((size_t)flat + 16);
        if (wire->heap != NULL)
            block = (unsigned char *)wire->heap + 15;
    }
    if (block == NULL) {
        MPI_Count size = 0;
        int rc = make_typed(wire, byte, buf, count, type);
        if (rc == MPI_SUCCESS) {
            cosched_pmpi.COSCHED_WIDE(Type_size)(type, &size);
            wire->bytes = (size_t)size * (size_t)count;
        }
        return rc;
    }
    wire->user = (void *)(uintptr_t)buf;
    wire->bytes = (size_t)flat;
    wire->block = block;
    wire->data = block;
    wire->count = (cosched_count)flat + 1;
    wire->type = MPI_BYTE;
    wire->shape = COSCHED_WIRE_BOUNCED;
    return MPI_SUCCESS;
}

static void fill(struct cosched_wire *wire, unsigned char scheduled) {
    if (wire->shape == COSCHED_WIRE_BOUNCED) {
        wire->block[0] = scheduled;
        memcpy(wire->block + 1, wire->user, wire->bytes);
    }
    cosched_shim_count(&cosched_shim.counters->sent, 1);
    cosched_shim_count(&cosched_shim.counters->bytes_sent, wire->bytes);
}

int cosched_wire_out(struct cosched_wire *wire, struct cosched_wire_room *room, const void *buf,
                     cosched_count count, MPI_Datatype type) {
    /* A pending TYPED send still reads its status byte: these two never go away. */
    static const unsigned char statuses[2] = {0, 1};
    int scheduled = cosched_is_scheduled(&cosched_shim.link);
    int rc = lay_out(wire, room, &statuses[scheduled], buf, count, type);
    if (rc == MPI_SUCCESS && wire->shape != COSCHED_WIRE_PLAIN)
        fill(wire, (unsigned char)scheduled);
    return rc;
}

int cosched_wire_out_again(struct cosched_wire *wire, const void *buf, cosched_count count,
                           MPI_Datatype type) {
    return lay_out(wire, NULL, &wire->byte, buf, count, type);
}

void cosched_wire_load(struct cosched_wire *wire) {
    if (wire->shape == COSCHED_WIRE_PLAIN)
        return;
    wire->byte = (unsigned char)cosched_is_scheduled(&cosched_shim.link);
    fill(wire, wire->byte);
}

int cosched_wire_in(struct cosched_wire *wire, struct cosched_wire_room *room, void *buf,
                    cosched_count count, MPI_Datatype type) {
    wire->byte = NOTHING;
    return lay_out(wire, room, &wire->byte, buf, count, type);
}

int cosched_wire_in_place(struct cosched_wire *wire, void *buf, cosched_count count,
                          MPI_Datatype type) {
    wire->byte = NOTHING;
    if (is_refused_anyway(count, type)) {
        cosched_wire_plain(wire, buf, count, type);
        return MPI_SUCCESS;
    }
    return make_typed(wire, &wire->byte, buf, count, type);
}

/* The bytes of a received message, the status byte included; 0 if there is none. */
static MPI_Count received_bytes(MPI_Status *status) {
    MPI_Count bytes = 0;
    if (status->MPI_SOURCE == MPI_PROC_NULL ||
        cosched_pmpi.COSCHED_WIDE(Get_elements)(status, MPI_BYTE, &bytes) != MPI_SUCCESS ||
        bytes == MPI_UNDEFINED || bytes < 0)
        return 0;
    return bytes;
}

bool cosched_wire_arrived(int error) {
    int class = MPI_SUCCESS;
    if (error == MPI_SUCCESS)
        return true;
    cosched_pmpi.Error_class(error, &class);
    return class == MPI_ERR_TRUNCATE;
}

void cosched_wire_trim(MPI_Status *status) {
    MPI_Count bytes = received_bytes(status);
    if (bytes > 0)
        cosched_pmpi.COSCHED_WIDE(Status_set_elements)(status, MPI_BYTE, bytes - 1);
}

void cosched_wire_deliver(struct cosched_wire *wire, MPI_Status *status) {
    struct cosched_task_counters *counters = cosched_shim.counters;
    MPI_Count bytes;
    if (wire->shape == COSCHED_WIRE_PLAIN)
        return;
    bytes = received_bytes(status);
    if (bytes > 0) {
        bytes--;
        cosched_pmpi.COSCHED_WIDE(Status_set_elements)(status, MPI_BYTE, bytes);
        if (wire->shape == COSCHED_WIRE_BOUNCED) {
            /* Of a truncated message some libraries count what was sent. */
            memcpy(wire->user, wire->block + 1,
                   (size_t)bytes < wire->bytes ? (size_t)bytes : wire->bytes);
            wire->byte = wire->block[0];
        }
    }
    cosched_shim_count(&counters->received, 1);
    cosched_shim_count(&counters->bytes_received, (uint64_t)bytes);
    if (wire->byte <= 1)
        cosched_arrived(&cosched_shim.link, wire->byte);
    else
        cosched_shim_count(&counters->foreign, 1); /* no shim put it there */
    wire->byte = NOTHING;
}

void cosched_wire_release(struct cosched_wire *wire) {
    if (wire->shape == COSCHED_WIRE_TYPED)
        cosched_pmpi.Type_free(&wire->type);
    else if (wire->heap != NULL)
        free(wire->heap);
    wire->heap = NULL;
    wire->shape = COSCHED_WIRE_PLAIN;
}
