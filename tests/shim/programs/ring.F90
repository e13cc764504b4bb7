! Ranks in a ring check every message that they receive, by each way into MPI from Fortran.
!
! One source makes three programs: FORM_MPIF includes mpif.h, FORM_USE uses the module mpi,
! FORM_F08 the module mpi_f08. They differ in the types of handles and statuses, and in the
! binding: Open MPI's calls PMPI_Send, MPICH's calls MPI_Send or PMPI_Wait. Each of these
! could bypass an interposer.
!
! Each rank prints its own counts of messages sent and received.

#if defined(FORM_F08)
#define HANDLE(kind) type(kind)
#define STATUS(name) type(MPI_Status) :: name
#define STATUSES(name, n) type(MPI_Status) :: name(n)
#define FIELD(name, which) name%which
#define FIELD_AT(name, i, which) name(i)%which
#define ONE_OF(name, i) name(i)
#else
#define HANDLE(kind) integer
#define STATUS(name) integer :: name(MPI_STATUS_SIZE)
#define STATUSES(name, n) integer :: name(MPI_STATUS_SIZE, n)
#define FIELD(name, which) name(which)
#define FIELD_AT(name, i, which) name(which, i)
#define ONE_OF(name, i) name(:, i)
#endif

program ring
#if defined(FORM_F08)
    use mpi_f08
#elif defined(FORM_USE)
    use mpi
#endif
    use, intrinsic :: iso_c_binding, only: c_ptr
    implicit none
#if defined(FORM_MPIF)
    include 'mpif.h'
#endif
    integer, parameter :: dp = kind(1.0d0)
    integer :: rank, ranks, left, right, error
    integer :: sent = 0, received = 0, wrong = 0

    call MPI_Init(error)
    call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
    call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
    right = modulo(rank + 1, ranks)
    left = modulo(rank - 1, ranks)
    call heat
    call around
    call from_anyone
    call sections
    call persistent
    call looking
    call matched
    call buffered
    call large
    call say('messages')
    call MPI_Finalize(error)
    if (wrong /= 0) stop 1

contains

    subroutine say(what)
        character(*), intent(in) :: what
        character(80) :: line
        write (line, '(a, a, i0, a, i0, a, i0, a, i0)') what, ': rank ', rank, ' sent ', sent, &
            ' received ', received, ' wrong ', wrong
        print '(a)', trim(line)
    end subroutine

    subroutine check(good, what)
        logical, intent(in) :: good
        character(*), intent(in) :: what
        if (good) return
        wrong = wrong + 1
        print '(a, i0, a, a)', 'rank ', rank, ' FAIL ', what
    end subroutine

    ! Heat on a circle, each rank a piece of it, against the whole computed alone.
    subroutine heat
        integer, parameter :: cells = 50, steps = 30
        real(dp) :: piece(0:cells + 1), after(cells)
        real(dp), allocatable :: whole(:)
        HANDLE(MPI_Request) :: requests(4)
        STATUSES(statuses, 4)
        integer :: i, step, number
        allocate (whole(cells * ranks))
        whole = [(sin(0.1_dp * i) + modulo(i, 7), i = 1, cells * ranks)]
        piece(1:cells) = whole(rank * cells + 1:(rank + 1) * cells)
        do step = 1, steps
            call MPI_Irecv(piece(0), 1, MPI_DOUBLE_PRECISION, left, 1, MPI_COMM_WORLD, &
                           requests(1), error)
            call MPI_Irecv(piece(cells + 1), 1, MPI_DOUBLE_PRECISION, right, 2, MPI_COMM_WORLD, &
                           requests(2), error)
            call MPI_Isend(piece(cells), 1, MPI_DOUBLE_PRECISION, right, 1, MPI_COMM_WORLD, &
                           requests(3), error)
            call MPI_Isend(piece(1), 1, MPI_DOUBLE_PRECISION, left, 2, MPI_COMM_WORLD, &
                           requests(4), error)
            call MPI_Waitall(4, requests, statuses, error)
            call check(error == MPI_SUCCESS, 'waitall')
            call check(FIELD_AT(statuses, 1, MPI_SOURCE) == left, 'source of the left cell')
            call check(FIELD_AT(statuses, 2, MPI_TAG) == 2, 'tag of the right cell')
            call MPI_Get_count(ONE_OF(statuses, 2), MPI_DOUBLE_PRECISION, number, error)
            call check(number == 1, 'count of the right cell')
            sent = sent + 2
            received = received + 2
            after = piece(1:cells) + 0.2_dp * &
                (piece(0:cells - 1) - 2 * piece(1:cells) + piece(2:cells + 1))
            piece(1:cells) = after
            whole = whole + 0.2_dp * (cshift(whole, -1) - 2 * whole + cshift(whole, 1))
        end do
        call check(all(abs(piece(1:cells) - whole(rank * cells + 1:(rank + 1) * cells)) &
                       < 1e-9_dp), 'heat')
        call say('heat')
    end subroutine

    subroutine around
        integer :: mine(3), theirs(8), number
        STATUS(status)
        mine = [rank, 10 * rank, 100 * rank]
        theirs = -1
        call MPI_Sendrecv(mine, 3, MPI_INTEGER, right, 3, theirs, 8, MPI_INTEGER, left, 3, &
                          MPI_COMM_WORLD, status, error)
        call MPI_Get_count(status, MPI_INTEGER, number, error)
        call check(number == 3, 'count of sendrecv')
        call check(FIELD(status, MPI_SOURCE) == left, 'source of sendrecv')
        call check(all(theirs == [left, 10 * left, 100 * left, -1, -1, -1, -1, -1]), 'sendrecv')
        call MPI_Sendrecv_replace(mine, 3, MPI_INTEGER, right, 4, left, 4, MPI_COMM_WORLD, &
                                  MPI_STATUS_IGNORE, error)
        call check(all(mine == [left, 10 * left, 100 * left]), 'sendrecv_replace')
        call MPI_Sendrecv(mine, 3, MPI_INTEGER, MPI_PROC_NULL, 5, theirs, 8, MPI_INTEGER, &
                          MPI_PROC_NULL, 5, MPI_COMM_WORLD, status, error)
        call check(FIELD(status, MPI_SOURCE) == MPI_PROC_NULL, 'sendrecv with nobody')
        sent = sent + 2
        received = received + 2
        call say('around')
    end subroutine

    ! Texts whose length tells who sent them.
    subroutine from_anyone
        character(64) :: text
        integer :: i, number
        STATUS(status)
        if (rank /= 0) then
            text = repeat('x', 64)
            call MPI_Ssend(text, 3 * rank, MPI_CHARACTER, 0, 60 + rank, MPI_COMM_WORLD, error)
            sent = sent + 1
        else
            do i = 1, ranks - 1
                text = ' '
                call MPI_Recv(text, 64, MPI_CHARACTER, MPI_ANY_SOURCE, MPI_ANY_TAG, &
                              MPI_COMM_WORLD, status, error)
                call MPI_Get_count(status, MPI_CHARACTER, number, error)
                call check(number == 3 * FIELD(status, MPI_SOURCE), 'count from anyone')
                call check(FIELD(status, MPI_TAG) == 60 + FIELD(status, MPI_SOURCE), &
                           'tag from anyone')
                call check(text == repeat('x', number), 'text from anyone')
                received = received + 1
            end do
        end if
        ! Or else what the next ring sends is also from anyone.
        call MPI_Barrier(MPI_COMM_WORLD, error)
        call say('from anyone')
    end subroutine

    ! Rows of a matrix: as sections, which mpi_f08 describes to MPI and the others copy, and
    ! as a datatype that is freed while the message still moves.
    subroutine sections
        integer :: table(5, 6), other(5, 6), i, j
        HANDLE(MPI_Datatype) :: row
        HANDLE(MPI_Request) :: requests(2)
        table = reshape([((1000 * rank + 10 * i + j, i = 1, 5), j = 1, 6)], [5, 6])
        other = 0
        if (modulo(rank, 2) == 0) then
            call MPI_Send(table(2, :), 6, MPI_INTEGER, right, 7, MPI_COMM_WORLD, error)
            call MPI_Recv(other(3, :), 6, MPI_INTEGER, left, 7, MPI_COMM_WORLD, &
                          MPI_STATUS_IGNORE, error)
        else
            call MPI_Recv(other(3, :), 6, MPI_INTEGER, left, 7, MPI_COMM_WORLD, &
                          MPI_STATUS_IGNORE, error)
            call MPI_Send(table(2, :), 6, MPI_INTEGER, right, 7, MPI_COMM_WORLD, error)
        end if
        call check(all(other(3, :) == [(1000 * left + 20 + j, j = 1, 6)]), 'section')
        call MPI_Type_vector(6, 1, 5, MPI_INTEGER, row, error)
        call MPI_Type_commit(row, error)
        call MPI_Irecv(other(4, 1), 1, row, left, 8, MPI_COMM_WORLD, requests(1), error)
        call MPI_Isend(table(5, 1), 1, row, right, 8, MPI_COMM_WORLD, requests(2), error)
        call MPI_Type_free(row, error)
        call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE, error)
        call check(all(other(4, :) == [(1000 * left + 50 + j, j = 1, 6)]), 'row')
        call check(all(other([1, 2, 5], :) == 0), 'beside the rows')
        sent = sent + 2
        received = received + 2
        call say('sections')
    end subroutine

    subroutine persistent
        integer, asynchronous :: mine, theirs
        integer :: round
        HANDLE(MPI_Request) :: requests(2)
        call MPI_Recv_init(theirs, 1, MPI_INTEGER, left, 9, MPI_COMM_WORLD, requests(1), error)
        call MPI_Send_init(mine, 1, MPI_INTEGER, right, 9, MPI_COMM_WORLD, requests(2), error)
        do round = 1, 4
            mine = 100 * rank + round
            if (round == 1) then
                call MPI_Start(requests(1), error)
                call MPI_Start(requests(2), error)
                call MPI_Wait(requests(2), MPI_STATUS_IGNORE, error)
                call MPI_Wait(requests(1), MPI_STATUS_IGNORE, error)
            else
                call MPI_Startall(2, requests, error)
                call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE, error)
            end if
            call read_again(theirs)
            call check(theirs == 100 * left + round, 'persistent')
            sent = sent + 1
            received = received + 1
        end do
        call MPI_Request_free(requests(1), error)
        call MPI_Request_free(requests(2), error)
        call say('persistent')
    end subroutine

    ! What MPI has written behind the compiler's back is read again.
    subroutine read_again(value)
        integer, volatile, intent(inout) :: value
        value = value + 0
    end subroutine

    ! Messages whose length is looked up first, and requests that are only tested.
    subroutine looking
        integer :: mine(5), theirs(5), number, index, i
        logical :: there
        HANDLE(MPI_Request) :: requests(2)
        STATUS(status)
        mine = [(rank + i, i = 1, 5)]
        call MPI_Isend(mine, 5, MPI_INTEGER, right, 10, MPI_COMM_WORLD, requests(1), error)
        call MPI_Probe(left, 10, MPI_COMM_WORLD, status, error)
        call MPI_Get_count(status, MPI_INTEGER, number, error)
        call check(number == 5, 'count of a probe')
        there = .false.
        do while (.not. there)
            call MPI_Iprobe(MPI_ANY_SOURCE, 10, MPI_COMM_WORLD, there, status, error)
        end do
        call MPI_Get_count(status, MPI_INTEGER, number, error)
        call check(number == 5, 'count of an iprobe')
        call MPI_Irecv(theirs, 5, MPI_INTEGER, left, 10, MPI_COMM_WORLD, requests(2), error)
        there = .false.
        do while (.not. there)
            call MPI_Test(requests(2), there, status, error)
        end do
        call MPI_Get_count(status, MPI_INTEGER, number, error)
        call check(number == 5, 'count of a test')
        call check(all(theirs == [(left + i, i = 1, 5)]), 'what was probed')
        call MPI_Waitany(2, requests, index, MPI_STATUS_IGNORE, error)
        ! MPICH 4.0 counts it from zero in mpi_f08 alone: only to be the same with the shim.
        if (rank == 0) print '(a, i0)', 'index of the waitany: ', index
        sent = sent + 1
        received = received + 1
        call say('looking')
    end subroutine

    subroutine matched
        integer :: mine(2), theirs(2), number
        HANDLE(MPI_Message) :: message
        HANDLE(MPI_Request) :: request
        STATUS(status)
        mine = [rank, -rank]
        call MPI_Isend(mine, 2, MPI_INTEGER, right, 11, MPI_COMM_WORLD, request, error)
        call MPI_Mprobe(left, 11, MPI_COMM_WORLD, message, status, error)
        call MPI_Get_count(status, MPI_INTEGER, number, error)
        call check(number == 2, 'count of an mprobe')
        call MPI_Mrecv(theirs, 2, MPI_INTEGER, message, status, error)
        call MPI_Get_count(status, MPI_INTEGER, number, error)
        call check(number == 2, 'count of an mrecv')
        call check(all(theirs == [left, -left]), 'what was matched')
        call MPI_Wait(request, MPI_STATUS_IGNORE, error)
        sent = sent + 1
        received = received + 1
        call say('matched')
    end subroutine

    ! A buffer that is exactly as large as the standard asks for.
    subroutine buffered
        integer :: mine, theirs, bytes
        character, allocatable, target :: buffer(:)
#if defined(FORM_F08)
        type(c_ptr) :: where_it_was
#else
        integer(MPI_ADDRESS_KIND) :: where_it_was
#endif
        call MPI_Pack_size(1, MPI_INTEGER, MPI_COMM_WORLD, bytes, error)
        bytes = bytes + MPI_BSEND_OVERHEAD
        allocate (buffer(bytes))
        call MPI_Buffer_attach(buffer, bytes, error)
        mine = 7 * rank
        call MPI_Bsend(mine, 1, MPI_INTEGER, right, 12, MPI_COMM_WORLD, error)
        call check(error == MPI_SUCCESS, 'bsend')
        call MPI_Recv(theirs, 1, MPI_INTEGER, left, 12, MPI_COMM_WORLD, MPI_STATUS_IGNORE, error)
        call check(theirs == 7 * left, 'what was buffered')
        call MPI_Buffer_detach(where_it_was, bytes, error)
        call check(bytes == size(buffer), 'size of the buffer')
        sent = sent + 1
        received = received + 1
        call say('buffered')
    end subroutine

    ! Beyond every limit of what is sent eagerly or copied.
    subroutine large
        integer, parameter :: length = 300000
        real(dp), allocatable :: mine(:), theirs(:)
        HANDLE(MPI_Request) :: request
        integer :: i, number
        STATUS(status)
        allocate (mine(length), theirs(length))
        mine = [(rank + 0.5_dp * i, i = 1, length)]
        call MPI_Irecv(theirs, length, MPI_DOUBLE_PRECISION, left, 13, MPI_COMM_WORLD, request, &
                       error)
        call MPI_Send(mine, length, MPI_DOUBLE_PRECISION, right, 13, MPI_COMM_WORLD, error)
        call MPI_Wait(request, status, error)
        call MPI_Get_count(status, MPI_DOUBLE_PRECISION, number, error)
        call check(number == length, 'count of a large message')
        call check(all(theirs == [(left + 0.5_dp * i, i = 1, length)]), 'a large message')
        sent = sent + 1
        received = received + 1
        call say('large')
    end subroutine
end program
