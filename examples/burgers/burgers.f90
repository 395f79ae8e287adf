! burgers integrates Burgers' equation in a channel, 0 < x < 2, whose inflow is disturbed at random. An actuator in the middle must cancel the
! disturbance, so that the outflow is even:
!
!   u_t + (u^2 / 2)_x = nu u_xx + a(t) exp(-(x - 1)^2 / 2 s^2),    u(0, t) = 1/2 + disturbance, |disturbance| <= 1/10
!
! Twelve sensors measure u from 0.5 to 1.05. The reward is -<(u - 1/2)^2> in units of (1/10)^2, the mean over 1.1 < x < 1.5. This is a task of
! J. Viquerat et al., "Beacon, a lightweight deep reinforcement learning benchmark library for flow control", Appl. Sci. 14, 3561 (2024), with
! other parameters.
!
! ./burgers is a child of rlinf. ./burgers none and ./burgers random play 20 episodes without rlinf, with no control or with random actions, and print
! the mean return. With -DPOLICY the program has no part of rlinf but an exported policy: ./steered policy.bin [SEED ...] plays an episode for each
! seed, or 20 episodes. FIELD=FILE names a file for the flow of the first episode, a line per action, including the time before it in which the channel fills.
program burgers
#ifdef POLICY
    use policy
#else
    use rlb
#endif
    implicit none
    integer, parameter :: cells = 200, sensors = 12, steps = 200, substeps = 5, fill = 200
    real(8), parameter :: dx = 2d0/cells, dt = 0.01d0, nu = 1d-3, mean = 0.5d0, strength = 0.1d0, width = 0.05d0
    integer, parameter :: knot = 50 ! substeps from one random inflow to the next; linear between them

    real(8) :: u(cells), gust(2), seen(sensors), action(1), reward
    integer(8) :: random
    integer :: clock = 0, field = 0, status
    character(256) :: mode, file
#ifndef POLICY
    integer :: going
    type(rlb_spec) :: spec
#endif
    type(c_ptr) :: r

#ifdef POLICY
    mode = "policy.bin"
    if (command_argument_count() > 0) call get_command_argument(1, mode)
    call check(policy_open(r, mode))
    print '("policy: mean return ",g0.6)', steered()
    call policy_close(r)
#else
    if (command_argument_count() > 0) then
        call get_command_argument(1, mode)
        print '(a,": mean return ",f0.1)', trim(mode), baseline(mode == "random")
        stop
    end if
    call get_environment_variable("FIELD", file, status=status)
    if (status == 0) open (newunit=field, file=file)

    spec = rlb_new("Burgers", max_steps=steps)
    call rlb_observe(spec, "state", seen)
    call rlb_act(spec, action, low=-1d0, high=1d0)
    r = rlb_open(spec)
    going = merge(0, -1, c_associated(r))
    do while (going >= 0)
        call begin(rlb_seed(r))
        call rlb_send_init(r, seen)
        going = rlb_recv_action(r, action)
        do while (going == 1)
            call advance(action(1))
            call rlb_send_state(r, seen, reward)
            going = rlb_recv_action(r, action)
        end do
        if (field /= 0) close (field)
        field = 0
    end do
    if (len(rlb_error()) > 0) error stop "burgers: "//rlb_error()
    call rlb_close(r)
#endif

contains

    ! begin fills the channel with disturbed flow, which depends on the seed alone.
    subroutine begin(seed)
        integer(8), intent(in) :: seed
        integer :: i
        random = seed
        clock = 0
        u = mean
        gust(2) = 0
        do i = 1, fill
            call advance(0d0)
        end do
    end subroutine

    ! advance applies an action for the time of a step, and sets seen and reward.
    subroutine advance(a)
        real(8), intent(in) :: a
        real(8) :: half(cells), inflow
        integer :: i, first, last
        do i = 1, substeps
            if (mod(clock, knot) == 0) gust = [gust(2), strength*draw()]
            inflow = mean + gust(1) + (gust(2) - gust(1))*mod(clock, knot)/knot
            clock = clock + 1
            half = u + dt*rate(u, inflow, a) ! Heun's method
            u = (u + half + dt*rate(half, inflow, a))/2
        end do
        seen = [((u(nint((0.5d0 + 0.05d0*i)/dx)) - mean)/strength, i=0, sensors - 1)]
        first = nint(1.1d0/dx)
        last = nint(1.5d0/dx)
        reward = -sum((u(first:last) - mean)**2)/(last - first + 1)/strength**2
        if (field /= 0) write (field, '(*(f0.4,:,","))') u
    end subroutine

    ! rate returns u_t by finite volumes, with upwind fluxes, as u > 0 everywhere, and slopes limited by minmod.
    function rate(v, inflow, a)
        real(8), intent(in) :: v(cells), inflow, a
        real(8) :: rate(cells), w(0:cells + 1), slope(0:cells), flux(0:cells), x
        integer :: i
        w = [inflow, v, v(cells)]
        slope(0) = 0
        do i = 1, cells
            slope(i) = (sign(0.5d0, w(i) - w(i - 1)) + sign(0.5d0, w(i + 1) - w(i)))*min(abs(w(i) - w(i - 1)), abs(w(i + 1) - w(i)))
        end do
        flux = (w(0:cells) + slope/2)**2/2 - nu*(w(1:cells + 1) - w(0:cells))/dx
        do i = 1, cells
            x = (i - 0.5d0)*dx
            rate(i) = (flux(i - 1) - flux(i))/dx + max(-1d0, min(1d0, a))*exp(-(x - 1)**2/(2*width**2))
        end do
    end function

    ! draw returns a number in [-1, 1): the next of G. Marsaglia's xorshift sequence of 64 bits, J. Stat. Softw. 8, 14 (2003).
    real(8) function draw()
        integer :: i
        if (random == 0) random = 1
        do i = 1, 8 ! similar seeds give different sequences
            random = ieor(random, ishft(random, 13))
            random = ieor(random, ishft(random, -7))
            random = ieor(random, ishft(random, 17))
        end do
        draw = real(ishft(random, -11), 8)/2d0**52 - 1
    end function

    ! baseline returns the mean return of 20 episodes with no control, or with random actions.
    real(8) function baseline(any)
        logical, intent(in) :: any
        integer :: episode, t
        baseline = 0
        do episode = 1, 20
            call begin(int(1000*episode, 8))
            do t = 1, steps
                action = 0
                if (any) call random_number(action)
                if (any) action = 2*action - 1
                call advance(action(1))
                baseline = baseline + reward/20
            end do
        end do
    end function

#ifdef POLICY
    ! steered returns the mean return of the policy in an episode for each seed of the command line, or in 20 episodes.
    real(8) function steered()
        type(policy_state), save :: s
        integer(8) :: seed
        integer :: episode, episodes, t
        real(c_float) :: chosen(1)
        steered = 0
        episodes = max(command_argument_count() - 1, 0)
        if (episodes == 0) episodes = 20
        do episode = 1, episodes
            seed = 1000*episode
            if (command_argument_count() > 1) then
                call get_command_argument(episode + 1, mode)
                read (mode, *) seed
            end if
            call begin(seed)
            call policy_begin(s)
            do t = 1, steps
                call check(policy_act(r, s, real(seen, c_float), chosen))
                action = chosen
                call advance(action(1))
                steered = steered + reward/episodes
            end do
        end do
    end function

    subroutine check(code)
        integer(c_int), intent(in) :: code
        if (code /= 0) error stop "burgers: "//policy_text(code)
    end subroutine
#endif
end program
