/*
 * each_call.h - lists the names of the calls in calls.h, each of its forms once.
 *
 * The including file first defines EACH_CALL(name), which is undefined here. It has no include
 * guard, since a file may include it more than once.
 */
#define CALL(name, parameters, arguments) EACH_CALL(name)
#if MPI_VERSION >= 4
#define COUNTED(name, parameters, arguments) EACH_CALL(name) EACH_CALL(name##_c)
#else
#define COUNTED(name, parameters, arguments) EACH_CALL(name)
#endif
#define COLLECTIVE(name, comm, parameters, arguments) CALL(name, parameters, arguments)
#define COUNTED_COLLECTIVE(name, comm, parameters, arguments) COUNTED(name, parameters, arguments)
#define NONBLOCKING COLLECTIVE
#define COUNTED_NONBLOCKING COUNTED_COLLECTIVE
#include "base/calls.h"
#undef CALL
#undef COUNTED
#undef EACH_CALL
