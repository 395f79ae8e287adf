! rod: two heaters bring a rod of 16 cells to a wanted temperature, against cold ends. The solver owns its loop and plays one environment.
program rod
    use rlb
    implicit none
    real(8) :: seen(5), heat(2), cells(0:17), wanted
    integer :: going
    type(rlb_spec) :: spec
    type(c_ptr) :: r

    spec = rlb_new("rod", max_steps=50)
    call rlb_observe(spec, "state", seen)
    call rlb_act(spec, heat, low=-1d0, high=1d0)
    r = rlb_open(spec)
    going = merge(0, -1, c_associated(r))
    do while (going >= 0)
        cells = 0
        wanted = mod(abs(rlb_seed(r)), 1000_8)/1000d0 + 0.5d0
        call look()
        call rlb_send_init(r, seen)
        going = rlb_recv_action(r, heat)
        do while (going == 1)
            cells(5) = cells(5) + heat(1)
            cells(12) = cells(12) + heat(2)
            cells(1:16) = cells(1:16) + 0.2d0*(cells(0:15) - 2*cells(1:16) + cells(2:17))
            call look()
            call rlb_send_state(r, seen, -sum(abs(cells(4:13) - wanted))/10)
            going = rlb_recv_action(r, heat)
        end do
    end do
    if (len(rlb_error()) > 0) error stop "rod: "//rlb_error()
    call rlb_close(r)

contains

    subroutine look()
        seen = [cells(3), cells(6), cells(9), cells(14), wanted]
    end subroutine
end program
