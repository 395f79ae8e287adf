! person is person.c's arm, as a solver that owns its loop.
program person
    use rlb
    implicit none
    type(rlb_spec) :: spec
    type(c_ptr) :: r
    real(8) :: x(2), action(2)
    integer :: going, t
    spec = rlb_new("arm")
    spec%intervene = 1
    call rlb_observe(spec, "state", x)
    call rlb_act(spec, action, low=-1d0, high=1d0)
    r = rlb_open(spec)
    going = merge(0, -1, c_associated(r))
    do while (going >= 0)
        x = 0
        t = 0
        call rlb_send_init(r, x)
        going = rlb_recv_action(r, action)
        do while (going == 1)
            t = t + 1
            if (mod(t, 2) == 0) then
                action = [-0.5d0, real(t, 8)]
                call rlb_intervened(r, action)
            end if
            x = x + action
            call rlb_send_last(r, x, 0d0, merge(RLB_TERMINATED, 0_c_int, t == 4))
            going = rlb_recv_action(r, action)
        end do
    end do
    call rlb_close(r)
    if (len(rlb_error()) > 0) error stop "person: "//rlb_error()
end program
