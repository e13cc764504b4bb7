#include "status/pack.h"

#include <stdlib.h>
#include <string.h>

#include "status/comms.h"

/* Where the data is. MPICH 4.0 refuses to pack from MPI_BOTTOM. So a datatype of absolute
 * addresses is shifted to one of distances from `base`. */
struct place {
    void *base;
    cosched_count count;
    MPI_Datatype type;
    bool shifted;
};

static int find_place(struct place *place, const void *buf, cosched_count count,
                      MPI_Datatype type) {
    MPI_Aint back;
    int rc;
    place->base = (void *)(uintptr_t)buf;
    place->count = count;
    place->type = type;
    place->shifted = buf == MPI_BOTTOM;
    if (!place->shifted)
        return MPI_SUCCESS;
    place->base = place;
    cosched_pmpi.Get_address(place, &back);
    back = -back;
#if MPI_VERSION >= 4
    MPI_Count wide_back = back;
    rc = cosched_pmpi.Type_create_struct_c(1, &count, &wide_back, &type, &place->type);
#else
    rc = cosched_pmpi.Type_create_struct(1, &count, &back, &type, &place->type);
#endif
    if (rc != MPI_SUCCESS)
        return rc;
    place->count = 1;
    return cosched_pmpi.Type_commit(&place->type);
}

static void leave_place(struct place *place) {
    if (place->shifted)
        cosched_pmpi.Type_free(&place->type);
}

long long cosched_pack_size(MPI_Datatype type, int *rc) {
    MPI_Count size = 0;
    *rc = cosched_pmpi.COSCHED_WIDE(Type_size)(type, &size);
    return *rc == MPI_SUCCESS && size >= 0 ? (long long)size : -1;
}

int cosched_pack_out(void *row, size_t bytes, const void *buf, cosched_count count,
                     MPI_Datatype type) {
    cosched_count position = 0;
    struct place place;
    int rc = find_place(&place, buf, count, type);
    if (rc != MPI_SUCCESS)
        return rc;
    rc = cosched_pmpi.COSCHED_LARGE(Pack)(place.base, place.count, place.type, row,
                                          (cosched_count)bytes, &position, cosched_comms_local());
    leave_place(&place);
    return rc;
}

static int unpack(const void *row, size_t bytes, void *buf, cosched_count count,
                  MPI_Datatype type) {
    cosched_count position = 0;
    struct place place;
    int rc = find_place(&place, buf, count, type);
    if (rc != MPI_SUCCESS)
        return rc;
    rc = cosched_pmpi.COSCHED_LARGE(Unpack)(row, (cosched_count)bytes, &position, place.base,
                                            place.count, place.type, cosched_comms_local());
    leave_place(&place);
    return rc;
}

/* Unpacks a part of an element. It packs the present element, overwrites its beginning with the
 * part, and unpacks it again, so that the rest keeps its value. */
static int unpack_part(const void *row, size_t bytes, size_t size, void *buf, MPI_Datatype type) {
    unsigned char *element = malloc(size);
    int rc;
    if (element == NULL)
        return MPI_ERR_NO_MEM;
    rc = cosched_pack_out(element, size, buf, 1, type);
    if (rc == MPI_SUCCESS) {
        memcpy(element, row, bytes);
        rc = unpack(element, size, buf, 1, type);
    }
    free(element);
    return rc;
}

int cosched_pack_in(const void *row, size_t bytes, void *buf, cosched_count count,
                    MPI_Datatype type) {
    MPI_Aint lower, extent;
    int rc;
    long long size = cosched_pack_size(type, &rc);
    if (size <= 0 || bytes == 0)
        return rc;
    size_t whole = bytes / (size_t)size, rest = bytes % (size_t)size;
    if ((long long)whole > (long long)count)
        return MPI_ERR_TRUNCATE;
    if (whole > 0)
        rc = unpack(row, whole * (size_t)size, buf, (cosched_count)whole, type);
    if (rc != MPI_SUCCESS || rest == 0)
        return rc;
    cosched_pmpi.Type_get_extent(type, &lower, &extent);
    return unpack_part((const unsigned char *)row + whole * (size_t)size, rest, (size_t)size,
                       (unsigned char *)buf + (MPI_Aint)whole * extent, type);
}
