! arrays is a solver whose observations are arrays of all kinds, filled with 1, 2, 3 ... in the order of Fortran. The reward is the
! sum of the action.
program arrays
    use rlb
    implicit none
    real(4) :: small(3, 2), action(2)
    real(8) :: big(2, 2, 2)
    integer(1) :: image(3, 5, 4)
    integer :: i, going
    type(rlb_spec) :: spec
    type(c_ptr) :: r

    small = reshape([(real(i), i=1, 6)], [3, 2])
    big = reshape([(real(i, 8), i=1, 8)], [2, 2, 2])
    image = reshape([(int(i, 1), i=1, 60)], [3, 5, 4])
    spec = rlb_new("arrays", max_steps=7)
    call rlb_observe(spec, "small", small, low=-10d0, high=10d0)
    call rlb_observe(spec, "big", big)
    call rlb_observe(spec, "image", image)
    call rlb_act(spec, action, low=-2d0, high=3d0)
    r = rlb_open(spec)
    going = merge(0, -1, c_associated(r))
    do while (going >= 0)
        call rlb_obs(r, 2, big)
        call rlb_obs(r, 3, image)
        call rlb_send_init(r, small)
        going = rlb_recv_action(r, action)
        do while (going == 1)
            call rlb_send_state(r, small, real(sum(action), 8))
            going = rlb_recv_action(r, action)
        end do
    end do
    if (len(rlb_error()) > 0) error stop "arrays: "//rlb_error()
    call rlb_close(r)
end program
