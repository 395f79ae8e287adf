! served is the simulator of served.c with doubles, in Fortran. With the argument "all", one call steps all environments,
! and user is not null.
module counters
    use iso_c_binding
    use rlb
    implicit none

    type, bind(C) :: counter
        integer(c_int64_t) :: count = 0
        real(c_double) :: action(2) = 0
    end type
    type(counter), allocatable, target :: all(:)
    type(c_ptr) :: given = c_null_ptr ! as user

contains

    subroutine expect(user)
        type(c_ptr), intent(in) :: user
        if (c_associated(user) .neqv. c_associated(given)) error stop "a user that nobody gave, or none"
        if (c_associated(user)) then
            if (.not. c_associated(user, given)) error stop "another user"
        end if
    end subroutine

    subroutine show(k, out, row)
        type(counter), intent(in) :: k
        type(rlb_out), intent(in) :: out
        integer, intent(in) :: row
        real(c_double), pointer :: state(:, :)
        integer(c_int8_t), pointer :: image(:, :)
        integer :: i
        call c_f_pointer(out%obs(1), state, [3, row])
        call c_f_pointer(out%obs(2), image, [12, row])
        state(:, row) = [real(k%count, c_double), k%action]
        image(:, row) = [(transfer(int(iand(k%count + i, 255_c_int64_t), c_int16_t), [0_c_int8_t], 1), i=0, 11)]
    end subroutine

    subroutine advance(k, action, out, row)
        type(counter), intent(inout) :: k
        real(c_double), intent(in) :: action(2)
        type(rlb_out), intent(in) :: out
        integer, intent(in) :: row
        real(c_float), pointer :: reward(:), half(:)
        integer(c_int8_t), pointer :: terminated(:)
        call c_f_pointer(out%reward, reward, [row])
        call c_f_pointer(out%info, half, [row])
        call c_f_pointer(out%terminated, terminated, [row])
        k%count = k%count + 1
        k%action = action
        if (any(action < -1d0 .or. action > 1.7d0)) k%count = -1000 ! beyond the bounds
        call show(k, out, row)
        reward(row) = real(action(1) - action(2), c_float)
        terminated(row) = merge(1_c_int8_t, 0_c_int8_t, k%count == 1000)
        half(row) = real(k%count, c_float)/2
    end subroutine

    integer(c_int) function start(user, num_envs, child) bind(C)
        type(c_ptr), value :: user
        integer(c_int), value :: num_envs, child
        call expect(user)
        allocate (all(0:num_envs - 1))
        start = merge(-1, 0, num_envs == 13 .or. child < 0)
    end function

    subroutine reset(user, env, seed, out) bind(C)
        type(c_ptr), value :: user
        integer(c_int), value :: env
        integer(c_int64_t), value :: seed
        type(rlb_out), intent(in) :: out
        call expect(user)
        all(env) = counter(mod(seed, 1000_c_int64_t))
        call show(all(env), out, 1)
    end subroutine

    subroutine step(user, env, action, out) bind(C)
        type(c_ptr), value :: user
        integer(c_int), value :: env
        real(c_double), intent(in) :: action(2)
        type(rlb_out), intent(in) :: out
        call expect(user)
        call advance(all(env), action, out, 1)
    end subroutine

    subroutine step_all(user, mask, action, out) bind(C)
        type(c_ptr), value :: user
        integer(c_int8_t), intent(in) :: mask(0:*)
        real(c_double), intent(in) :: action(2, 0:*)
        type(rlb_out), intent(in) :: out
        integer :: env
        call expect(user)
        do env = 0, size(all) - 1
            if (mask(env) == 1) call advance(all(env), action(:, env), out, env + 1)
        end do
    end subroutine

    subroutine save(user, env, state) bind(C)
        type(c_ptr), value :: user
        integer(c_int), value :: env
        integer(c_int8_t), intent(out) :: state(24)
        call expect(user)
        state = transfer(all(env), state)
    end subroutine

    subroutine load(user, env, state, out) bind(C)
        type(c_ptr), value :: user
        integer(c_int), value :: env
        integer(c_int8_t), intent(in) :: state(24)
        type(rlb_out), intent(in) :: out
        call expect(user)
        all(env) = transfer(state, all(env))
        call show(all(env), out, 1)
    end subroutine

    ! expert answers with numbers of what is seen, the second beyond the bounds for counts above 170.
    subroutine expert(user, env, now, action) bind(C)
        type(c_ptr), value :: user
        integer(c_int), value :: env
        type(rlb_out), intent(in) :: now
        real(c_double), intent(out) :: action(2)
        real(c_double), pointer :: state(:)
        call expect(user)
        call c_f_pointer(now%obs(1), state, [3])
        action = [merge(1d0, -1d0, mod(all(env)%count, 2_c_int64_t) == 0), state(1)/100]
    end subroutine

    subroutine render(user, env, width, height, rgb) bind(C)
        type(c_ptr), value :: user
        integer(c_int), value :: env, width, height
        integer(c_int8_t), intent(out) :: rgb(3, width, height)
        call expect(user)
        rgb = int(iand(all(env)%count, 127_c_int64_t), c_int8_t)
    end subroutine
end module

program served
    use counters
    implicit none
    type(rlb_spec) :: spec
    type(rlb_callbacks) :: procedures
    real(c_double) :: state(3), action(2)
    integer(c_int8_t) :: image(3, 2, 2)
    integer(c_int), target :: anything

    spec = rlb_new("served", max_steps=5, state_size=24)
    call rlb_observe(spec, "state", state)
    call rlb_observe(spec, "image", image)
    call rlb_act(spec, action, low=-1d0, high=1.7d0)
    call rlb_figure(spec, "half")
    procedures = rlb_callbacks(start=c_funloc(start), reset=c_funloc(reset), step=c_funloc(step), &
                               save=c_funloc(save), load=c_funloc(load), render=c_funloc(render), &
                               expert=c_funloc(expert))
    if (command_argument_count() > 0) then
        procedures%step_all = c_funloc(step_all)
        given = c_loc(anything)
        if (rlb_serve(spec, procedures, given) /= 0) error stop "served: failed"
    else if (rlb_serve(spec, procedures) /= 0) then
        error stop "served: failed"
    end if
end program
