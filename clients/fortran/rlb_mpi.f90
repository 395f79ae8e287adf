! rlb_mpi is rlb for a solver of many MPI processes, in one job with rlinf: the interface to clients/c/rlb_mpi.h. All ranks make the same calls, between
! MPI_Init and MPI_Finalize, and use comm in place of MPI_COMM_WORLD, which includes rlinf:
!
!   m = rlb_mpi_open(spec, comm)
!   going = merge(0, -1, c_associated(m))
!   do while (going >= 0)
!       call begin(comm, rlb_mpi_seed(m), level)
!       call rlb_mpi_send_init(m, level)
!       going = rlb_mpi_recv_action(m, inflow)
!       do while (going == 1)
!           call advance(comm, inflow, level, reward)
!           call rlb_mpi_send_state(m, level, reward)
!           going = rlb_mpi_recv_action(m, inflow)
!       end do
!   end do
!   call rlb_mpi_close(m)
!
! Only the data of rank 0 of comm, the root, counts: the solver must gather its data there. rlb_mpi_root returns the conversation, for rlb_obs and rlb_info, on the root,
! and null on other ranks.
!
! Compile: mpifort rlb.f90 rlb_mpi.f90 solver.f90 rlb_mpi_f.c rlb.c rlb_mpi.c -Iclients/c
module rlb_mpi
    use rlb
    use iso_c_binding
    implicit none
    private
    public :: rlb_mpi_open, rlb_mpi_root, rlb_mpi_seed, rlb_mpi_close
    public :: rlb_mpi_send_init, rlb_mpi_recv_action, rlb_mpi_send_state, rlb_mpi_send_last

    interface
        type(c_ptr) function rlb_mpi_open(spec, comm) bind(C, name="rlb_mpi_open_f")
            import
            type(rlb_spec), intent(in) :: spec
            integer, intent(out) :: comm ! the solver's ranks
        end function
        type(c_ptr) function rlb_mpi_root(m) bind(C, name="rlb_mpi_root_f")
            import
            type(c_ptr), value :: m
        end function
        integer(c_int64_t) function rlb_mpi_seed(m) bind(C)
            import
            type(c_ptr), value :: m
        end function
        subroutine rlb_mpi_send_init(m, obs) bind(C)
            import
            type(c_ptr), value :: m
            type(*), intent(in) :: obs(*)
        end subroutine
        integer(c_int) function rlb_mpi_recv_action(m, action) bind(C)
            import
            type(c_ptr), value :: m
            type(*) :: action(*)
        end function
        subroutine rlb_mpi_send_state(m, obs, reward) bind(C)
            import
            type(c_ptr), value :: m
            type(*), intent(in) :: obs(*)
            real(c_double), value :: reward
        end subroutine
        subroutine rlb_mpi_send_last(m, obs, reward, how) bind(C)
            import
            type(c_ptr), value :: m
            type(*), intent(in) :: obs(*)
            real(c_double), value :: reward
            integer(c_int), value :: how
        end subroutine
        subroutine rlb_mpi_close(m) bind(C, name="rlb_mpi_close_f")
            import
            type(c_ptr), value :: m
        end subroutine
    end interface
end module
