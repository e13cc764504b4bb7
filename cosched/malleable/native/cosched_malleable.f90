! cosched_malleable.f90 - for malleable MPI programs in Fortran: the calls of cosched/malleable.h, which
! has what they do. A row is the last index of an array, so that rows lie one behind the other.
! cosched_job_comm gives a communicator for mpif.h and "use mpi".
module cosched_malleable
    use, intrinsic :: iso_c_binding
    implicit none

    integer(c_int), parameter :: COSCHED_LEFT = 1

    type, bind(c) :: cosched_block
        type(c_ptr) :: data = c_null_ptr
        integer(c_int64_t) :: rows = 0
        integer(c_int64_t) :: first = 0
        integer(c_int64_t) :: row_bytes = 0
    end type

    interface
        integer(c_int) function cosched_job_begin(job, minimum, ideal) bind(c)
            import
            type(c_ptr), intent(out) :: job
            integer(c_int32_t), value :: minimum, ideal
        end function

        integer(c_int) function cosched_job_scatter(job, block, whole, rows, row_bytes) bind(c)
            import
            type(c_ptr), value :: job, whole
            type(cosched_block), intent(out) :: block
            integer(c_int64_t), value :: rows, row_bytes
        end function

        integer(c_int) function cosched_job_next(job, count, step) bind(c)
            import
            type(c_ptr), value :: job
            integer(c_int64_t), value :: count
            integer(c_int64_t), intent(out) :: step
        end function

        logical(c_bool) function cosched_job_resized(job) bind(c)
            import
            type(c_ptr), value :: job
        end function

        integer(c_int) function cosched_job_bcast(job, value, bytes) bind(c)
            import
            type(c_ptr), value :: job, value
            integer(c_int64_t), value :: bytes
        end function

        integer(c_int) function cosched_job_redistribute(job, blocks, count) bind(c)
            import
            type(c_ptr), value :: job
            type(cosched_block), intent(inout) :: blocks(*)
            integer(c_int32_t), value :: count
        end function

        integer(c_int) function cosched_job_gather(job, block, whole) bind(c)
            import
            type(c_ptr), value :: job, whole
            type(cosched_block), intent(in) :: block
        end function

        integer(c_int) function cosched_job_comm(job) bind(c, name="cosched_job_comm_f")
            import
            type(c_ptr), value :: job
        end function

        logical(c_bool) function cosched_job_joined(job) bind(c)
            import
            type(c_ptr), value :: job
        end function

        logical(c_bool) function cosched_job_left(job) bind(c)
            import
            type(c_ptr), value :: job
        end function

        integer(c_int) function cosched_job_ask(job, nodes) bind(c)
            import
            type(c_ptr), value :: job
            integer(c_int32_t), value :: nodes
        end function

        ! predict: a function with bind(c) of (integer(c_int32_t), value :: nodes; type(c_ptr), value ::
        ! data) that returns a real(c_double), by c_funloc; c_null_funptr takes it back.
        integer(c_int) function cosched_job_predict(job, predict, data) bind(c)
            import
            type(c_ptr), value :: job
            type(c_funptr), value :: predict
            type(c_ptr), value :: data
        end function

        real(c_double) function cosched_job_exec_time(job) bind(c)
            import
            type(c_ptr), value :: job
        end function

        real(c_double) function cosched_job_exec_time_comm(job) bind(c)
            import
            type(c_ptr), value :: job
        end function

        integer(c_int) function cosched_job_end(job) bind(c)
            import
            type(c_ptr), value :: job
        end function
    end interface
end module
