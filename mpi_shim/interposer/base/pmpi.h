/*
 * pmpi.h - finds the MPI library's functions at run time.
 *
 * The shim is preloaded into every process of a job, also into shells and interpreters. So it
 * must load without libmpi. On the first MPI call it looks up each PMPI function, and each
 * object whose address is one of Open MPI's handles. By then the library is loaded, possibly
 * outside of the dynamic linker's global scope (Python extensions load it with RTLD_LOCAL).
 */
#ifndef COSCHED_PMPI_H
#define COSCHED_PMPI_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

#define COSCHED_MPI_HAS_4_1 (MPI_VERSION > 4 || (MPI_VERSION == 4 && MPI_SUBVERSION >= 1))
#if MPI_VERSION >= 4 || (defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION >= 5)
#define COSCHED_MPI_HAS_ISENDRECV 1
#else
#define COSCHED_MPI_HAS_ISENDRECV 0
#endif
#if defined(MPICH_NUMVERSION) && MPICH_NUMVERSION >= 40200000
#define COSCHED_MPI_HAS_MPIX 1
#else
#define COSCHED_MPI_HAS_MPIX 0
#endif
/* MPICH 4.2 has the other extensions and not this call. */
#if defined(MPICH_NUMVERSION) && MPICH_NUMVERSION >= 40300000
#define COSCHED_MPI_HAS_IS_COMPLETE 1
#else
#define COSCHED_MPI_HAS_IS_COMPLETE 0
#endif

/* Inside the shim a count has the widest type that the library's calls take. LARGE names the
 * form of a COUNTED call that takes this type. */
#if MPI_VERSION >= 4
typedef MPI_Count cosched_count;
#define COSCHED_LARGE(name) name##_c
#else
typedef int cosched_count;
#define COSCHED_LARGE(name) name
#endif

/* Names a call as this version of MPI prefers. */
#if COSCHED_MPI_HAS_4_1
#define COSCHED_WIDE(name) name##_c
#else
#define COSCHED_WIDE(name) name##_x
#endif

/* Requests that a call only reads: const in MPI 4.1, but not in Intel MPI's headers. */
#if COSCHED_MPI_HAS_4_1
typedef __typeof__(_Generic(&PMPI_Request_get_status_all,
                       int (*)(int, MPI_Request *, int *, MPI_Status *): (MPI_Request *)0,
                       default: (const MPI_Request *)0)) cosched_requests_seen;
#endif

/* Calls that the shim needs itself, beyond those that it wraps. */
#define COSCHED_PMPI_OTHERS(ONE)                                                                   \
    ONE(Comm_rank) ONE(Comm_size) ONE(Comm_group) ONE(Comm_remote_group) ONE(Comm_test_inter)      \
    ONE(Comm_create_keyval) ONE(Comm_set_attr) ONE(Comm_get_attr)                                  \
    ONE(Comm_dup) ONE(Comm_idup) ONE(Comm_free)                                                    \
    ONE(Comm_set_errhandler) ONE(Comm_get_errhandler) ONE(Comm_call_errhandler)                    \
    ONE(Errhandler_free) ONE(Comm_get_parent)                                                      \
    ONE(Publish_name) ONE(Lookup_name) ONE(Unpublish_name)                                         \
    ONE(Group_free) ONE(Group_size) ONE(Group_translate_ranks)                                     \
    ONE(Get_address) ONE(Type_get_envelope) ONE(Type_get_extent) ONE(Type_get_true_extent)         \
    ONE(Type_commit) ONE(Type_free) ONE(Type_create_struct) ONE(Type_contiguous)                   \
    ONE(Pack) ONE(Unpack) ONE(Cancel) ONE(Test_cancelled) ONE(Error_class)                         \
    ONE(Abort) ONE(Initialized) ONE(Finalized) ONE(Get_library_version) ONE(COSCHED_WIDE(Type_size))          \
    ONE(COSCHED_WIDE(Get_elements)) ONE(COSCHED_WIDE(Status_set_elements))

struct cosched_pmpi {
#define EACH_CALL(name) __typeof__(PMPI_##name) *name;
#include "base/each_call.h"
#define ONE_POINTER(name) __typeof__(PMPI_##name) *name;
#define ONE(name) ONE_POINTER(name)
    COSCHED_PMPI_OTHERS(ONE)
#undef ONE
#undef ONE_POINTER
#if MPI_VERSION >= 4
    __typeof__(PMPI_Type_create_struct_c) *Type_create_struct_c;
    __typeof__(PMPI_Pack_c) *Pack_c;
    __typeof__(PMPI_Unpack_c) *Unpack_c;
#endif
#if COSCHED_MPI_HAS_MPIX
    __typeof__(PMPIX_Stream_comm_create) *Stream_comm_create;
    __typeof__(PMPIX_Stream_comm_create_multiplex) *Stream_comm_create_multiplex;
    __typeof__(PMPIX_Threadcomm_init) *Threadcomm_init;
#endif
#if COSCHED_MPI_HAS_IS_COMPLETE
    __typeof__(PMPIX_Request_is_complete) *Request_is_complete;
#endif
};

extern struct cosched_pmpi cosched_pmpi;

/* Open MPI's handles are addresses of objects in its library. Naming one would bind the shim to
 * libmpi when it is loaded, so the shim reads them from this table. */
#ifdef OPEN_MPI
#define COSCHED_PMPI_OBJECTS(ONE)                                                                  \
    ONE(ompi_mpi_comm_world) ONE(ompi_mpi_comm_self) ONE(ompi_mpi_comm_null)                       \
    ONE(ompi_mpi_group_null) ONE(ompi_mpi_byte) ONE(ompi_mpi_packed)                               \
    ONE(ompi_mpi_datatype_null) ONE(ompi_request_null) ONE(ompi_message_null)                      \
    ONE(ompi_message_no_proc) ONE(ompi_mpi_int) ONE(ompi_mpi_op_sum) ONE(ompi_mpi_op_min)            \
    ONE(ompi_mpi_errors_return) ONE(ompi_mpi_info_null)

struct cosched_pmpi_objects {
#define ONE(name) void *name;
    COSCHED_PMPI_OBJECTS(ONE)
#undef ONE
};

extern struct cosched_pmpi_objects cosched_pmpi_objects;

#undef OMPI_PREDEFINED_GLOBAL
#define OMPI_PREDEFINED_GLOBAL(type, object) ((type)cosched_pmpi_objects.object)
#endif

#ifdef OPEN_MPI
/* Sets whether the library yields in its waits. Returns the old value. NULL: not available. */
extern bool (*cosched_pmpi_yield_when_idle)(bool yields);
#endif

/* Finds the library and fills the tables above. Returns 0, or an error with a line in `why`:
 * -ENOENT if there is no library, or only a serial stand-in for one; -ENOEXEC if it is one that
 * this shim was not built for; -ENOSYS if the library lacks a call, whose pointer is then NULL,
 * while the other calls work. */
int cosched_pmpi_load(char *why, unsigned long size);

/* The path of a profiling tool that is linked between the program and the library. The shim's
 * calls of PMPI_x bypass it. NULL: there is none. */
extern const char *cosched_pmpi_bypassed;

/* Whether a code address belongs to the MPI library or to one of its plug-ins. */
bool cosched_pmpi_contains(const void *code);

/* The same for the address that a call returns to. It remembers the answers. */
bool cosched_pmpi_called_from(const void *caller);

#endif
