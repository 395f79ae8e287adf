! point.c in Fortran.
#ifdef WITH_MPI
#define CALL_(name) rlb_mpi_/**/name
#else
#define CALL_(name) rlb_/**/name
#endif
program point
    use rlb
#ifdef WITH_MPI
    use rlb_mpi
    use mpi, only: MPI_Init, MPI_Finalize
#endif
    implicit none
    real(8) :: state(2), push(1), far, reward
    integer(8) :: seed
    integer :: going
    type(rlb_spec) :: spec
    type(c_ptr) :: r, root
#ifdef WITH_MPI
    integer :: comm, failed
    call MPI_Init(failed)
#endif

    spec = rlb_new("point", max_steps=40)
    call rlb_observe(spec, "state", state)
    call rlb_act(spec, push, -1d0, 1d0)
    call rlb_figure(spec, "success")
#ifdef WITH_MPI
    r = rlb_mpi_open(spec, comm)
    if (c_associated(r)) root = rlb_mpi_root(r)
#else
    r = rlb_open(spec)
    root = r
#endif
    going = merge(0, -1, c_associated(r))
    do while (going >= 0)
        seed = iand(CALL_(seed)(r), 1048575_8)
        state = [real(mod(seed, 1001_8), 8)/500 - 1, real(mod(seed/1001, 1001_8), 8)/500 - 1]
        call CALL_(send_init)(r, state)
        going = CALL_(recv_action)(r, push)
        do while (going == 1)
            push = max(-1d0, min(1d0, push))
            state(2) = state(2) + 0.2d0*push(1)
            state(1) = state(1) + 0.2d0*state(2)
            far = state(1)**2
            reward = -far - 0.1d0*state(2)*state(2)
            if (c_associated(root)) call rlb_info(root, 1, merge(1d0, 0d0, far < 0.01d0))
            if (far > 9) then
                call CALL_(send_last)(r, state, reward - 10, RLB_TERMINATED)
            else
                call CALL_(send_state)(r, state, reward)
            end if
            going = CALL_(recv_action)(r, push)
        end do
    end do
    if (len(rlb_error()) > 0) error stop "point: "//rlb_error()
    call CALL_(close)(r)
#ifdef WITH_MPI
    call MPI_Finalize(failed)
#endif
end program
