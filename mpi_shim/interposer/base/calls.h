/*
 * calls.h - lists the MPI calls that the shim wraps in one table.
 *
 * The including file first defines
 *
 *   CALL(name, parameters, arguments)     a call with one form
 *   COUNTED(name, parameters, arguments)  a call that MPI 4 also has as name_c; its
 *                                         parameters have COUNT where the two differ
 *   COUNT                                 if it uses those parameters: the type of a count
 *
 * and may define
 *
 *   BEGINNING(name, parameters, arguments)          a call that begins MPI; unless defined, it
 *                                                   is a CALL
 *   COLLECTIVE(name, comm, parameters, arguments)   a call in which the ranks of comm wait for
 *                                                   each other; unless defined, it is left out
 *   NONBLOCKING(name, comm, parameters, arguments)  the same with a request
 *   COUNTED_COLLECTIVE, COUNTED_NONBLOCKING         those that MPI 4 also has as name_c; there
 *                                                   PLACE is the type of a displacement
 *
 * The table makes the pointers to the PMPI functions (pmpi.h), the declarations of the shim's
 * own functions (do.h) and the exported entries (entry.c). It has each call with which an
 * application moves, matches or completes a point-to-point message, in which it waits for other
 * ranks, or with which it begins MPI. It has no include guard, since a file may include it more
 * than once.
 */

#ifndef COLLECTIVE
#define COLLECTIVE(name, comm, parameters, arguments)
#define COUNTED_COLLECTIVE(name, comm, parameters, arguments)
#define NONBLOCKING(name, comm, parameters, arguments)
#define COUNTED_NONBLOCKING(name, comm, parameters, arguments)
#endif

/* Blocking sends */
COUNTED(Send, (const void *buf, COUNT count, MPI_Datatype type, int dest, int tag, MPI_Comm comm),
        (buf, count, type, dest, tag, comm))
COUNTED(Bsend, (const void *buf, COUNT count, MPI_Datatype type, int dest, int tag, MPI_Comm comm),
        (buf, count, type, dest, tag, comm))
COUNTED(Ssend, (const void *buf, COUNT count, MPI_Datatype type, int dest, int tag, MPI_Comm comm),
        (buf, count, type, dest, tag, comm))
COUNTED(Rsend, (const void *buf, COUNT count, MPI_Datatype type, int dest, int tag, MPI_Comm comm),
        (buf, count, type, dest, tag, comm))

/* Sends that make a request */
COUNTED(Isend,
        (const void *buf, COUNT count, MPI_Datatype type, int dest, int tag, MPI_Comm comm,
         MPI_Request *request),
        (buf, count, type, dest, tag, comm, request))
COUNTED(Ibsend,
        (const void *buf, COUNT count, MPI_Datatype type, int dest, int tag, MPI_Comm comm,
         MPI_Request *request),
        (buf, count, type, dest, tag, comm, request))
COUNTED(Issend,
        (const void *buf, COUNT count, MPI_Datatype type, int dest, int tag, MPI_Comm comm,
         MPI_Request *request),
        (buf, count, type, dest, tag, comm, request))
COUNTED(Irsend,
        (const void *buf, COUNT count, MPI_Datatype type, int dest, int tag, MPI_Comm comm,
         MPI_Request *request),
        (buf, count, type, dest, tag, comm, request))
COUNTED(Send_init,
        (const void *buf, COUNT count, MPI_Datatype type, int dest, int tag, MPI_Comm comm,
         MPI_Request *request),
        (buf, count, type, dest, tag, comm, request))
COUNTED(Bsend_init,
        (const void *buf, COUNT count, MPI_Datatype type, int dest, int tag, MPI_Comm comm,
         MPI_Request *request),
        (buf, count, type, dest, tag, comm, request))
COUNTED(Ssend_init,
        (const void *buf, COUNT count, MPI_Datatype type, int dest, int tag, MPI_Comm comm,
         MPI_Request *request),
        (buf, count, type, dest, tag, comm, request))
COUNTED(Rsend_init,
        (const void *buf, COUNT count, MPI_Datatype type, int dest, int tag, MPI_Comm comm,
         MPI_Request *request),
        (buf, count, type, dest, tag, comm, request))

/* Receives */
COUNTED(Recv,
        (void *buf, COUNT count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
         MPI_Status *status),
        (buf, count, type, source, tag, comm, status))
COUNTED(Irecv,
        (void *buf, COUNT count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
         MPI_Request *request),
        (buf, count, type, source, tag, comm, request))
COUNTED(Recv_init,
        (void *buf, COUNT count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
         MPI_Request *request),
        (buf, count, type, source, tag, comm, request))
COUNTED(Mrecv,
        (void *buf, COUNT count, MPI_Datatype type, MPI_Message *message, MPI_Status *status),
        (buf, count, type, message, status))
COUNTED(Imrecv,
        (void *buf, COUNT count, MPI_Datatype type, MPI_Message *message, MPI_Request *request),
        (buf, count, type, message, request))

/* Both at once */
COUNTED(Sendrecv,
        (const void *sendbuf, COUNT sendcount, MPI_Datatype sendtype, int dest, int sendtag,
         void *recvbuf, COUNT recvcount, MPI_Datatype recvtype, int source, int recvtag,
         MPI_Comm comm, MPI_Status *status),
        (sendbuf, sendcount, sendtype, dest, sendtag, recvbuf, recvcount, recvtype, source, recvtag,
         comm, status))
COUNTED(Sendrecv_replace,
        (void *buf, COUNT count, MPI_Datatype type, int dest, int sendtag, int source, int recvtag,
         MPI_Comm comm, MPI_Status *status),
        (buf, count, type, dest, sendtag, source, recvtag, comm, status))
#if COSCHED_MPI_HAS_ISENDRECV
COUNTED(Isendrecv,
        (const void *sendbuf, COUNT sendcount, MPI_Datatype sendtype, int dest, int sendtag,
         void *recvbuf, COUNT recvcount, MPI_Datatype recvtype, int source, int recvtag,
         MPI_Comm comm, MPI_Request *request),
        (sendbuf, sendcount, sendtype, dest, sendtag, recvbuf, recvcount, recvtype, source, recvtag,
         comm, request))
COUNTED(Isendrecv_replace,
        (void *buf, COUNT count, MPI_Datatype type, int dest, int sendtag, int source, int recvtag,
         MPI_Comm comm, MPI_Request *request),
        (buf, count, type, dest, sendtag, source, recvtag, comm, request))
#endif

/* Probes */
CALL(Probe, (int source, int tag, MPI_Comm comm, MPI_Status *status), (source, tag, comm, status))
CALL(Iprobe, (int source, int tag, MPI_Comm comm, int *flag, MPI_Status *status),
     (source, tag, comm, flag, status))
CALL(Mprobe, (int source, int tag, MPI_Comm comm, MPI_Message *message, MPI_Status *status),
     (source, tag, comm, message, status))
CALL(Improbe,
     (int source, int tag, MPI_Comm comm, int *flag, MPI_Message *message, MPI_Status *status),
     (source, tag, comm, flag, message, status))

/* Requests */
CALL(Start, (MPI_Request *request), (request))
CALL(Startall, (int count, MPI_Request requests[]), (count, requests))
CALL(Wait, (MPI_Request *request, MPI_Status *status), (request, status))
CALL(Waitall, (int count, MPI_Request requests[], MPI_Status statuses[]),
     (count, requests, statuses))
CALL(Waitany, (int count, MPI_Request requests[], int *index, MPI_Status *status),
     (count, requests, index, status))
CALL(Waitsome,
     (int count, MPI_Request requests[], int *outcount, int indices[], MPI_Status statuses[]),
     (count, requests, outcount, indices, statuses))
CALL(Test, (MPI_Request *request, int *flag, MPI_Status *status), (request, flag, status))
CALL(Testall, (int count, MPI_Request requests[], int *flag, MPI_Status statuses[]),
     (count, requests, flag, statuses))
CALL(Testany, (int count, MPI_Request requests[], int *index, int *flag, MPI_Status *status),
     (count, requests, index, flag, status))
CALL(Testsome,
     (int count, MPI_Request requests[], int *outcount, int indices[], MPI_Status statuses[]),
     (count, requests, outcount, indices, statuses))
CALL(Request_get_status, (MPI_Request request, int *flag, MPI_Status *status),
     (request, flag, status))
#if COSCHED_MPI_HAS_4_1
CALL(Request_get_status_all,
     (int count, cosched_requests_seen requests, int *flag, MPI_Status statuses[]),
     (count, requests, flag, statuses))
CALL(Request_get_status_any,
     (int count, cosched_requests_seen requests, int *index, int *flag, MPI_Status *status),
     (count, requests, index, flag, status))
CALL(Request_get_status_some,
     (int count, cosched_requests_seen requests, int *outcount, int indices[],
      MPI_Status statuses[]),
     (count, requests, outcount, indices, statuses))
#endif
CALL(Request_free, (MPI_Request *request), (request))

/* Collectives. Their messages are the library's own. */
COLLECTIVE(Barrier, comm, (MPI_Comm comm), (comm))
COUNTED_COLLECTIVE(Bcast, comm,
        (void *buffer, COUNT count, MPI_Datatype type, int root, MPI_Comm comm),
        (buffer, count, type, root, comm))
COUNTED_COLLECTIVE(Gather, comm,
        (const void *sendbuf, COUNT sendcount, MPI_Datatype sendtype, void *recvbuf, COUNT
         recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm),
        (sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root, comm))
COUNTED_COLLECTIVE(Gatherv, comm,
        (const void *sendbuf, COUNT sendcount, MPI_Datatype sendtype, void *recvbuf, const COUNT
         recvcounts[], const PLACE places[], MPI_Datatype recvtype, int root, MPI_Comm comm),
        (sendbuf, sendcount, sendtype, recvbuf, recvcounts, places, recvtype, root, comm))
COUNTED_COLLECTIVE(Scatter, comm,
        (const void *sendbuf, COUNT sendcount, MPI_Datatype sendtype, void *recvbuf, COUNT
         recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm),
        (sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root, comm))
COUNTED_COLLECTIVE(Scatterv, comm,
        (const void *sendbuf, const COUNT sendcounts[], const PLACE places[], MPI_Datatype
         sendtype, void *recvbuf, COUNT recvcount, MPI_Datatype recvtype, int root, MPI_Comm
         comm),
        (sendbuf, sendcounts, places, sendtype, recvbuf, recvcount, recvtype, root, comm))
COUNTED_COLLECTIVE(Allgather, comm,
        (const void *sendbuf, COUNT sendcount, MPI_Datatype sendtype, void *recvbuf, COUNT
         recvcount, MPI_Datatype recvtype, MPI_Comm comm),
        (sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm))
COUNTED_COLLECTIVE(Allgatherv, comm,
        (const void *sendbuf, COUNT sendcount, MPI_Datatype sendtype, void *recvbuf, const COUNT
         recvcounts[], const PLACE places[], MPI_Datatype recvtype, MPI_Comm comm),
        (sendbuf, sendcount, sendtype, recvbuf, recvcounts, places, recvtype, comm))
COUNTED_COLLECTIVE(Alltoall, comm,
        (const void *sendbuf, COUNT sendcount, MPI_Datatype sendtype, void *recvbuf, COUNT
         recvcount, MPI_Datatype recvtype, MPI_Comm comm),
        (sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm))
COUNTED_COLLECTIVE(Alltoallv, comm,
        (const void *sendbuf, const COUNT sendcounts[], const PLACE sendplaces[], MPI_Datatype
         sendtype, void *recvbuf, const COUNT recvcounts[], const PLACE recvplaces[], MPI_Datatype
         recvtype, MPI_Comm comm),
        (sendbuf, sendcounts, sendplaces, sendtype, recvbuf, recvcounts, recvplaces, recvtype,
         comm))
COUNTED_COLLECTIVE(Alltoallw, comm,
        (const void *sendbuf, const COUNT sendcounts[], const PLACE sendplaces[], const
         MPI_Datatype sendtypes[], void *recvbuf, const COUNT recvcounts[], const PLACE
         recvplaces[], const MPI_Datatype recvtypes[], MPI_Comm comm),
        (sendbuf, sendcounts, sendplaces, sendtypes, recvbuf, recvcounts, recvplaces, recvtypes,
         comm))
COUNTED_COLLECTIVE(Reduce, comm,
        (const void *sendbuf, void *recvbuf, COUNT count, MPI_Datatype type, MPI_Op op, int root,
         MPI_Comm comm),
        (sendbuf, recvbuf, count, type, op, root, comm))
COUNTED_COLLECTIVE(Allreduce, comm,
        (const void *sendbuf, void *recvbuf, COUNT count, MPI_Datatype type, MPI_Op op, MPI_Comm
         comm),
        (sendbuf, recvbuf, count, type, op, comm))
COUNTED_COLLECTIVE(Reduce_scatter, comm,
        (const void *sendbuf, void *recvbuf, const COUNT recvcounts[], MPI_Datatype type, MPI_Op
         op, MPI_Comm comm),
        (sendbuf, recvbuf, recvcounts, type, op, comm))
COUNTED_COLLECTIVE(Reduce_scatter_block, comm,
        (const void *sendbuf, void *recvbuf, COUNT recvcount, MPI_Datatype type, MPI_Op op,
         MPI_Comm comm),
        (sendbuf, recvbuf, recvcount, type, op, comm))
COUNTED_COLLECTIVE(Scan, comm,
        (const void *sendbuf, void *recvbuf, COUNT count, MPI_Datatype type, MPI_Op op, MPI_Comm
         comm),
        (sendbuf, recvbuf, count, type, op, comm))
COUNTED_COLLECTIVE(Exscan, comm,
        (const void *sendbuf, void *recvbuf, COUNT count, MPI_Datatype type, MPI_Op op, MPI_Comm
         comm),
        (sendbuf, recvbuf, count, type, op, comm))
COUNTED_COLLECTIVE(Neighbor_allgather, comm,
        (const void *sendbuf, COUNT sendcount, MPI_Datatype sendtype, void *recvbuf, COUNT
         recvcount, MPI_Datatype recvtype, MPI_Comm comm),
        (sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm))
COUNTED_COLLECTIVE(Neighbor_allgatherv, comm,
        (const void *sendbuf, COUNT sendcount, MPI_Datatype sendtype, void *recvbuf, const COUNT
         recvcounts[], const PLACE places[], MPI_Datatype recvtype, MPI_Comm comm),
        (sendbuf, sendcount, sendtype, recvbuf, recvcounts, places, recvtype, comm))
COUNTED_COLLECTIVE(Neighbor_alltoall, comm,
        (const void *sendbuf, COUNT sendcount, MPI_Datatype sendtype, void *recvbuf, COUNT
         recvcount, MPI_Datatype recvtype, MPI_Comm comm),
        (sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm))
COUNTED_COLLECTIVE(Neighbor_alltoallv, comm,
        (const void *sendbuf, const COUNT sendcounts[], const PLACE sendplaces[], MPI_Datatype
         sendtype, void *recvbuf, const COUNT recvcounts[], const PLACE recvplaces[], MPI_Datatype
         recvtype, MPI_Comm comm),
        (sendbuf, sendcounts, sendplaces, sendtype, recvbuf, recvcounts, recvplaces, recvtype,
         comm))
COUNTED_COLLECTIVE(Neighbor_alltoallw, comm,
        (const void *sendbuf, const COUNT sendcounts[], const MPI_Aint sendplaces[], const
         MPI_Datatype sendtypes[], void *recvbuf, const COUNT recvcounts[], const MPI_Aint
         recvplaces[], const MPI_Datatype recvtypes[], MPI_Comm comm),
        (sendbuf, sendcounts, sendplaces, sendtypes, recvbuf, recvcounts, recvplaces, recvtypes,
         comm))

/* Collectives that make a request */
NONBLOCKING(Ibarrier, comm, (MPI_Comm comm, MPI_Request *request), (comm, request))
COUNTED_NONBLOCKING(Ibcast, comm,
        (void *buffer, COUNT count, MPI_Datatype type, int root, MPI_Comm comm, MPI_Request
         *request),
        (buffer, count, type, root, comm, request))
COUNTED_NONBLOCKING(Igather, comm,
        (const void *sendbuf, COUNT sendcount, MPI_Datatype sendtype, void *recvbuf, COUNT
         recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm, MPI_Request *request),
        (sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root, comm, request))
COUNTED_NONBLOCKING(Igatherv, comm,
        (const void *sendbuf, COUNT sendcount, MPI_Datatype sendtype, void *recvbuf, const COUNT
         recvcounts[], const PLACE places[], MPI_Datatype recvtype, int root, MPI_Comm comm,
         MPI_Request *request),
        (sendbuf, sendcount, sendtype, recvbuf, recvcounts, places, recvtype, root, comm,
         request))
COUNTED_NONBLOCKING(Iscatter, comm,
        (const void *sendbuf, COUNT sendcount, MPI_Datatype sendtype, void *recvbuf, COUNT
         recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm, MPI_Request *request),
        (sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root, comm, request))
COUNTED_NONBLOCKING(Iscatterv, comm,
        (const void *sendbuf, const COUNT sendcounts[], const PLACE places[], MPI_Datatype
         sendtype, void *recvbuf, COUNT recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm,
         MPI_Request *request),
        (sendbuf, sendcounts, places, sendtype, recvbuf, recvcount, recvtype, root, comm,
         request))
COUNTED_NONBLOCKING(Iallgather, comm,
        (const void *sendbuf, COUNT sendcount, MPI_Datatype sendtype, void *recvbuf, COUNT
         recvcount, MPI_Datatype recvtype, MPI_Comm comm, MPI_Request *request),
        (sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm, request))
COUNTED_NONBLOCKING(Iallgatherv, comm,
        (const void *sendbuf, COUNT sendcount, MPI_Datatype sendtype, void *recvbuf, const COUNT
         recvcounts[], const PLACE places[], MPI_Datatype recvtype, MPI_Comm comm, MPI_Request
         *request),
        (sendbuf, sendcount, sendtype, recvbuf, recvcounts, places, recvtype, comm, request))
COUNTED_NONBLOCKING(Ialltoall, comm,
        (const void *sendbuf, COUNT sendcount, MPI_Datatype sendtype, void *recvbuf, COUNT
         recvcount, MPI_Datatype recvtype, MPI_Comm comm, MPI_Request *request),
        (sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm, request))
COUNTED_NONBLOCKING(Ialltoallv, comm,
        (const void *sendbuf, const COUNT sendcounts[], const PLACE sendplaces[], MPI_Datatype
         sendtype, void *recvbuf, const COUNT recvcounts[], const PLACE recvplaces[], MPI_Datatype
         recvtype, MPI_Comm comm, MPI_Request *request),
        (sendbuf, sendcounts, sendplaces, sendtype, recvbuf, recvcounts, recvplaces, recvtype,
         comm, request))
COUNTED_NONBLOCKING(Ialltoallw, comm,
        (const void *sendbuf, const COUNT sendcounts[], const PLACE sendplaces[], const
         MPI_Datatype sendtypes[], void *recvbuf, const COUNT recvcounts[], const PLACE
         recvplaces[], const MPI_Datatype recvtypes[], MPI_Comm comm, MPI_Request *request),
        (sendbuf, sendcounts, sendplaces, sendtypes, recvbuf, recvcounts, recvplaces, recvtypes,
         comm, request))
COUNTED_NONBLOCKING(Ireduce, comm,
        (const void *sendbuf, void *recvbuf, COUNT count, MPI_Datatype type, MPI_Op op, int root,
         MPI_Comm comm, MPI_Request *request),
        (sendbuf, recvbuf, count, type, op, root, comm, request))
COUNTED_NONBLOCKING(Iallreduce, comm,
        (const void *sendbuf, void *recvbuf, COUNT count, MPI_Datatype type, MPI_Op op, MPI_Comm
         comm, MPI_Request *request),
        (sendbuf, recvbuf, count, type, op, comm, request))
COUNTED_NONBLOCKING(Ireduce_scatter, comm,
        (const void *sendbuf, void *recvbuf, const COUNT recvcounts[], MPI_Datatype type, MPI_Op
         op, MPI_Comm comm, MPI_Request *request),
        (sendbuf, recvbuf, recvcounts, type, op, comm, request))
COUNTED_NONBLOCKING(Ireduce_scatter_block, comm,
        (const void *sendbuf, void *recvbuf, COUNT recvcount, MPI_Datatype type, MPI_Op op,
         MPI_Comm comm, MPI_Request *request),
        (sendbuf, recvbuf, recvcount, type, op, comm, request))
COUNTED_NONBLOCKING(Iscan, comm,
        (const void *sendbuf, void *recvbuf, COUNT count, MPI_Datatype type, MPI_Op op, MPI_Comm
         comm, MPI_Request *request),
        (sendbuf, recvbuf, count, type, op, comm, request))
COUNTED_NONBLOCKING(Iexscan, comm,
        (const void *sendbuf, void *recvbuf, COUNT count, MPI_Datatype type, MPI_Op op, MPI_Comm
         comm, MPI_Request *request),
        (sendbuf, recvbuf, count, type, op, comm, request))
COUNTED_NONBLOCKING(Ineighbor_allgather, comm,
        (const void *sendbuf, COUNT sendcount, MPI_Datatype sendtype, void *recvbuf, COUNT
         recvcount, MPI_Datatype recvtype, MPI_Comm comm, MPI_Request *request),
        (sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm, request))
COUNTED_NONBLOCKING(Ineighbor_allgatherv, comm,
        (const void *sendbuf, COUNT sendcount, MPI_Datatype sendtype, void *recvbuf, const COUNT
         recvcounts[], const PLACE places[], MPI_Datatype recvtype, MPI_Comm comm, MPI_Request
         *request),
        (sendbuf, sendcount, sendtype, recvbuf, recvcounts, places, recvtype, comm, request))
COUNTED_NONBLOCKING(Ineighbor_alltoall, comm,
        (const void *sendbuf, COUNT sendcount, MPI_Datatype sendtype, void *recvbuf, COUNT
         recvcount, MPI_Datatype recvtype, MPI_Comm comm, MPI_Request *request),
        (sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm, request))
COUNTED_NONBLOCKING(Ineighbor_alltoallv, comm,
        (const void *sendbuf, const COUNT sendcounts[], const PLACE sendplaces[], MPI_Datatype
         sendtype, void *recvbuf, const COUNT recvcounts[], const PLACE recvplaces[], MPI_Datatype
         recvtype, MPI_Comm comm, MPI_Request *request),
        (sendbuf, sendcounts, sendplaces, sendtype, recvbuf, recvcounts, recvplaces, recvtype,
         comm, request))
COUNTED_NONBLOCKING(Ineighbor_alltoallw, comm,
        (const void *sendbuf, const COUNT sendcounts[], const MPI_Aint sendplaces[], const
         MPI_Datatype sendtypes[], void *recvbuf, const COUNT recvcounts[], const MPI_Aint
         recvplaces[], const MPI_Datatype recvtypes[], MPI_Comm comm, MPI_Request *request),
        (sendbuf, sendcounts, sendplaces, sendtypes, recvbuf, recvcounts, recvplaces, recvtypes,
         comm, request))

/* One-sided calls that wait. The ranks of the window are known to the library alone, so the
 * ranks of the world stand for them. */
COLLECTIVE(Win_fence, MPI_COMM_WORLD, (int assertion, MPI_Win win), (assertion, win))
COLLECTIVE(Win_start, MPI_COMM_WORLD, (MPI_Group group, int assertion, MPI_Win win),
        (group, assertion, win))
COLLECTIVE(Win_complete, MPI_COMM_WORLD, (MPI_Win win), (win))
COLLECTIVE(Win_post, MPI_COMM_WORLD, (MPI_Group group, int assertion, MPI_Win win),
        (group, assertion, win))
COLLECTIVE(Win_wait, MPI_COMM_WORLD, (MPI_Win win), (win))
COLLECTIVE(Win_lock, MPI_COMM_WORLD, (int type, int rank, int assertion, MPI_Win win),
        (type, rank, assertion, win))
COLLECTIVE(Win_lock_all, MPI_COMM_WORLD, (int assertion, MPI_Win win), (assertion, win))
COLLECTIVE(Win_unlock, MPI_COMM_WORLD, (int rank, MPI_Win win), (rank, win))
COLLECTIVE(Win_unlock_all, MPI_COMM_WORLD, (MPI_Win win), (win))
COLLECTIVE(Win_flush, MPI_COMM_WORLD, (int rank, MPI_Win win), (rank, win))
COLLECTIVE(Win_flush_all, MPI_COMM_WORLD, (MPI_Win win), (win))
COLLECTIVE(Win_flush_local, MPI_COMM_WORLD, (int rank, MPI_Win win), (rank, win))
COLLECTIVE(Win_flush_local_all, MPI_COMM_WORLD, (MPI_Win win), (win))

/* Buffers of MPI_Bsend: each message grows by the status byte */
COUNTED(Buffer_attach, (void *buffer, COUNT size), (buffer, size))
CALL(Buffer_detach, (void *address, int *size), (address, size))
#if MPI_VERSION >= 4
CALL(Buffer_detach_c, (void *address, MPI_Count *size), (address, size))
#endif
#if COSCHED_MPI_HAS_4_1
COUNTED(Comm_attach_buffer, (MPI_Comm comm, void *buffer, COUNT size), (comm, buffer, size))
CALL(Comm_detach_buffer, (MPI_Comm comm, void *address, int *size), (comm, address, size))
CALL(Comm_detach_buffer_c, (MPI_Comm comm, void *address, MPI_Count *size), (comm, address, size))
COUNTED(Session_attach_buffer, (MPI_Session session, void *buffer, COUNT size),
        (session, buffer, size))
CALL(Session_detach_buffer, (MPI_Session session, void *address, int *size),
     (session, address, size))
CALL(Session_detach_buffer_c, (MPI_Session session, void *address, MPI_Count *size),
     (session, address, size))
#endif

/* The beginning of MPI. For its end see life.c, which acts inside MPI_Finalize. */
#ifndef BEGINNING
#define BEGINNING CALL
#endif
BEGINNING(Init, (int *argc, char ***argv), (argc, argv))
BEGINNING(Init_thread, (int *argc, char ***argv, int required, int *provided),
          (argc, argv, required, provided))
#undef BEGINNING
#undef COLLECTIVE
#undef COUNTED_COLLECTIVE
#undef NONBLOCKING
#undef COUNTED_NONBLOCKING
