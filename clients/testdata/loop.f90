! loop is loop.c in Fortran.
module experts
    use iso_c_binding
    implicit none
contains
    ! expert goes on, and chooses the last digit of the count.
    subroutine expert(user, now, action) bind(C)
        type(c_ptr), value :: user
        type(c_ptr), intent(in) :: now(*)
        integer(c_int), intent(out) :: action(2)
        real(c_double), pointer :: state(:)
        if (c_associated(user)) error stop "a user that nobody gave"
        call c_f_pointer(now(1), state, [2])
        action = [0, mod(int(state(1)), 10)]
    end subroutine
end module

program loop
    use rlb
    use experts
    implicit none
    real(8) :: state(2)
    integer :: parity(1), action(2), going
    type(rlb_spec) :: spec
    type(c_ptr) :: r

    spec = rlb_new("loop")
    call rlb_observe(spec, "state", state)
    call rlb_observe(spec, "parity", parity, [2])
    call rlb_act(spec, action, [4, 10])
    call rlb_figure(spec, "tenth")
    spec%expert = c_funloc(expert)
    r = rlb_open(spec)
    going = merge(0, -1, c_associated(r))
    do while (going >= 0)
        state = [real(modulo(rlb_seed(r), 1000_8), 8), 0d0]
        parity = mod(int(state(1)), 2)
        call rlb_obs(r, 2, parity)
        call rlb_send_init(r, state)
        going = rlb_recv_action(r, action)
        do while (going == 1)
            state = [state(1) + 1, real(action(2), 8)]
            parity = mod(int(state(1)), 2)
            call rlb_obs(r, 2, parity)
            call rlb_info(r, 1, state(1)/10)
            if (action(1) /= 0) then
                call rlb_send_last(r, state, action(2)*0.5d0, action(1))
            else
                call rlb_send_state(r, state, action(2)*0.5d0)
            end if
            going = rlb_recv_action(r, action)
        end do
    end do
    if (len(rlb_error()) > 0) error stop "loop: "//rlb_error()
    call rlb_close(r)
end program
