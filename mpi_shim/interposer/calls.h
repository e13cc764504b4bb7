/*
 * calls.h - the one table of the MPI calls that the shim wraps.
 *
 * Who includes it defines three macros first:
 *
 *   CALL(name, parameters, arguments)     a call with one form
 *   COUNTED(name, parameters, arguments)  a call that MPI 4 also has as name_c; its
 *                                         parameters say COUNT where the two differ
 *   COUNT                                 the type of a count in this inclusion
 *
 * and, if it likes, BEGINNING(name, parameters, arguments) for what begins MPI, which else
 * is a CALL like the others.
 *
 * From it come the pointers to the PMPI functions (pmpi.h), the declarations of what
 * the shim does instead (below, do.h) and the exported entries (entry.c). A name is
 * here when an application can move, match or complete a point-to-point message with
 * it, or when it begins MPI. There is no include guard: that is the point.
 */

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
COUNTED(Mrecv, (void *buf, COUNT count, MPI_Datatype type, MPI_Message *message, MPI_Status *status),
        (buf, count, type, message, status))
COUNTED(Imrecv, (void *buf, COUNT count, MPI_Datatype type, MPI_Message *message, MPI_Request *request),
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

/* Looking before receiving */
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
CALL(Waitall, (int count, MPI_Request requests[], MPI_Status statuses[]), (count, requests, statuses))
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

/* Buffers of Bsend: each message grows by the status byte */
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

/* The beginning. The end is seen from inside MPI_Finalize: see shim.c. */
#ifndef BEGINNING
#define BEGINNING CALL
#endif
BEGINNING(Init, (int *argc, char ***argv), (argc, argv))
BEGINNING(Init_thread, (int *argc, char ***argv, int required, int *provided),
          (argc, argv, required, provided))
#undef BEGINNING
