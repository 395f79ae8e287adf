! rlb lets rlinf train on a simulator that is written in Fortran. It is the Fortran interface to the C client, clients/c/rlb.h. There are two styles.
!
! The solver owns its loop, and plays one environment:
!
!   type(rlb_spec) :: spec
!   type(c_ptr) :: r
!   spec = rlb_new("tank")
!   call rlb_observe(spec, "level", level)                            ! real(8) or real(4); the array gives kind and shape
!   call rlb_act(spec, inflow, low=-1d0, high=1d0)
!   r = rlb_open(spec)
!   going = merge(0, -1, c_associated(r))
!   do while (going >= 0)
!       call begin(rlb_seed(r), level)
!       call rlb_send_init(r, level)
!       going = rlb_recv_action(r, inflow)
!       do while (going == 1)
!           call advance(inflow, level)
!           call rlb_send_state(r, level, reward(level))
!           going = rlb_recv_action(r, inflow)
!       end do
!   end do
!   call rlb_close(r)
!   if (len(rlb_error()) > 0) error stop "tank: "//rlb_error()        ! the end of the job is no error
!
! Or the simulator is served: rlb_serve calls procedures of yours, for as many environments as rlinf asks for:
!
!   failed = rlb_serve(spec, rlb_callbacks(start=c_funloc(start), reset=c_funloc(reset), step=c_funloc(step)))
!   if (failed /= 0) error stop "tank: "//rlb_error()
!
!   subroutine step(user, env, action, out) bind(C)                     ! an episode that ends is reset by its own call
!       type(c_ptr), value :: user                                    ! what rlb_serve was given, or null
!       integer(c_int), value :: env                                  ! counted from 0
!       real(c_double), intent(in) :: action(2)                       ! as the spec says
!       type(rlb_out), intent(in) :: out
!       real(c_double), pointer :: seen(:)
!       real(c_float), pointer :: reward
!       call c_f_pointer(out%obs(1), seen, [8])                       ! of the kind and shape in the spec
!       call c_f_pointer(out%reward, reward)
!       ...
!
! Compile: cc -c rlb.c && gfortran rlb.f90 tank.f90 rlb.o
module rlb
    use iso_c_binding
    implicit none
    private
    public :: rlb_spec, rlb_new, rlb_observe, rlb_act, rlb_figure, rlb_open, rlb_error
    public :: rlb_seed, rlb_send_init, rlb_recv_action, rlb_send_state, rlb_send_last, rlb_obs, rlb_info, rlb_close
    public :: rlb_intervened
    public :: rlb_callbacks, rlb_out, rlb_serve
    public :: c_ptr, c_associated, c_int, c_int64_t

    ! How an episode ended; ior combines both.
    integer(c_int), parameter, public :: RLB_TERMINATED = 1 ! by the task's own end, after which no reward can come
    integer(c_int), parameter, public :: RLB_TRUNCATED = 2  ! cut off from outside

    integer, parameter :: max_obs = 16, max_dims = 8, max_info = 64
    enum, bind(C)
        enumerator :: f32, f64, u8, discrete, multi_discrete
    end enum

    ! These two types equal rlb_space and rlb_spec of rlb.h, field by field.
    type, bind(C) :: rlb_space
        type(c_ptr) :: name = c_null_ptr
        integer(c_int) :: kind = 0, shape(max_dims) = 0
        real(c_double) :: low = 0, high = 0
        type(c_ptr) :: lows = c_null_ptr, highs = c_null_ptr
        integer(c_int) :: n = 0
        type(c_ptr) :: nvec = c_null_ptr
    end type

    ! An rlb_spec describes the solver. rlb_new makes one; rlb_observe, rlb_act and rlb_figure add to it.
    type, bind(C) :: rlb_spec
        type(c_ptr) :: name = c_null_ptr
        type(rlb_space) :: obs(max_obs)
        type(rlb_space) :: action
        integer(c_int) :: num_envs = 0, max_steps = 0
        type(c_ptr) :: info(max_info) = c_null_ptr
        integer(c_size_t) :: state_size = 0
        type(c_funptr) :: expert = c_null_funptr ! the solver owns its loop: subroutine (user, now, action), now(i) the c_ptr to observation i
        type(c_ptr) :: expert_data = c_null_ptr  ! user of expert
        integer(c_int) :: intervene = 0          ! 1: a person may act in place of the policy, see rlb_intervened and rlb_out
        real(c_double) :: period = 0             ! of a robot: seconds between two steps; 0: no robot
        type(c_ptr) :: goal_reward = c_null_ptr  ! the rule of rewards of a simulator with goals, as in rlb.h
        real(c_double) :: goal_threshold = 0
        integer(c_int) :: goal_terminates = 0
    end type

    ! An rlb_out has the arrays for the results of one of your procedures: of one environment, or a row for each. All arrays but obs are 0 before the call.
    type, bind(C) :: rlb_out
        type(c_ptr) :: obs(max_obs)            ! each in the kind and shape of its space; write all of it
        type(c_ptr) :: reward                  ! real(c_float)
        type(c_ptr) :: terminated, truncated   ! integer(c_int8_t), 1 where the episode has ended so
        type(c_ptr) :: info                    ! real(c_float), the figures of rlb_figure
        type(c_ptr) :: intervened              ! with intervene: integer(c_int8_t), 1 where a person acted in place of the policy
        type(c_ptr) :: taken                   ! with intervene: what the person did, real(c_float), or integer(c_int) for choices
    end type

    ! The procedures that rlb_serve calls, bind(C), described in rlb.h at rlb_callbacks. reset is required, and either step or step_all.
    type, bind(C) :: rlb_callbacks
        type(c_funptr) :: start = c_null_funptr    ! integer(c_int) function (user, num_envs, child): 0, or -1 to refuse
        type(c_funptr) :: reset = c_null_funptr    ! subroutine (user, env, seed, out), seed an integer(c_int64_t)
        type(c_funptr) :: step = c_null_funptr     ! subroutine (user, env, action, out)
        type(c_funptr) :: step_all = c_null_funptr ! subroutine (user, mask, action, out), mask an integer(c_int8_t) for each
        type(c_funptr) :: save = c_null_funptr     ! subroutine (user, env, state), state of state_size bytes
        type(c_funptr) :: load = c_null_funptr     ! subroutine (user, env, state, out)
        type(c_funptr) :: render = c_null_funptr   ! subroutine (user, env, width, height, rgb), rgb integer(c_int8_t) (3, width, height)
        type(c_funptr) :: expert = c_null_funptr   ! subroutine (user, env, now, action), now the rlb_out of the present observations
    end type

    ! rlb_observe adds an observation with the kind and shape of an array: numbers, with or without bounds; integers, each from 0 to its entry in
    ! choices minus 1; or an image of integer(1), 0 to 255 without a sign, (channels, width, height).
    interface rlb_observe
        procedure observe_f64, observe_f32, observe_choices, observe_u8
    end interface

    ! rlb_act sets the action, with the kind and shape of an array: numbers, or integers with choices.
    interface rlb_act
        procedure act_f64, act_f32, act_choices
    end interface

    ! The calls of rlb.h, which describes them. Arrays must be contiguous, and have the kind and shape of the spec.
    interface
        integer(c_int64_t) function rlb_seed(r) bind(C)
            import
            type(c_ptr), value :: r
        end function
        subroutine rlb_send_init(r, obs) bind(C)
            import
            type(c_ptr), value :: r
            type(*), intent(in) :: obs(*)
        end subroutine
        integer(c_int) function rlb_recv_action(r, action) bind(C)
            import
            type(c_ptr), value :: r
            type(*) :: action(*)
        end function
        subroutine rlb_send_state(r, obs, reward) bind(C)
            import
            type(c_ptr), value :: r
            type(*), intent(in) :: obs(*)
            real(c_double), value :: reward
        end subroutine
        subroutine rlb_send_last(r, obs, reward, how) bind(C)
            import
            type(c_ptr), value :: r
            type(*), intent(in) :: obs(*)
            real(c_double), value :: reward
            integer(c_int), value :: how
        end subroutine
        subroutine say_obs(r, i, values) bind(C, name="rlb_obs")
            import
            type(c_ptr), value :: r
            integer(c_int), value :: i
            type(*), intent(in) :: values(*)
        end subroutine
        subroutine say_info(r, i, figure) bind(C, name="rlb_info")
            import
            type(c_ptr), value :: r
            integer(c_int), value :: i
            real(c_double), value :: figure
        end subroutine
        subroutine rlb_intervened(r, action) bind(C)
            import
            type(c_ptr), value :: r
            type(*), intent(in) :: action(*)
        end subroutine
        subroutine rlb_close(r) bind(C)
            import
            type(c_ptr), value :: r
        end subroutine
        type(c_ptr) function rlb_open(spec) bind(C)
            import
            type(rlb_spec), intent(in) :: spec
        end function
        type(c_ptr) function error_c() bind(C, name="rlb_error")
            import
        end function
        integer(c_int) function serve(spec, callbacks, user) bind(C, name="rlb_serve")
            import
            type(rlb_spec), intent(in) :: spec
            type(rlb_callbacks), intent(in) :: callbacks
            type(c_ptr), value :: user
        end function
    end interface

contains

    ! rlb_new returns the spec of a simulator. Episodes are truncated after max_steps steps; 0: never. For a served simulator, num_envs is the number of
    ! environments (0: as many as rlinf asks for), and state_size the number of bytes that save writes.
    type(rlb_spec) function rlb_new(name, max_steps, num_envs, state_size) result(spec)
        character(*), intent(in) :: name
        integer, intent(in), optional :: max_steps, num_envs, state_size
        spec%name = c_string(name)
        if (present(max_steps)) spec%max_steps = max_steps
        if (present(num_envs)) spec%num_envs = num_envs
        if (present(state_size)) spec%state_size = int(state_size, c_size_t)
    end function

    ! rlb_serve plays environments until rlinf ends the conversation, and returns 0; -1 if the conversation failed, with the reason in rlb_error.
    integer(c_int) function rlb_serve(spec, callbacks, user) result(failed)
        type(rlb_spec), intent(in) :: spec
        type(rlb_callbacks), intent(in) :: callbacks
        type(c_ptr), intent(in), optional :: user
        if (present(user)) then
            failed = serve(spec, callbacks, user)
        else
            failed = serve(spec, callbacks, c_null_ptr)
        end if
    end function

    subroutine observe_f64(spec, name, array, low, high)
        type(rlb_spec), intent(inout) :: spec
        character(*), intent(in) :: name
        real(c_double), intent(in) :: array(..)
        real(c_double), intent(in), optional :: low, high
        call add_obs(spec, name, space(f64, shape(array), low, high))
    end subroutine

    subroutine observe_f32(spec, name, array, low, high)
        type(rlb_spec), intent(inout) :: spec
        character(*), intent(in) :: name
        real(c_float), intent(in) :: array(..)
        real(c_double), intent(in), optional :: low, high
        call add_obs(spec, name, space(f32, shape(array), low, high))
    end subroutine

    subroutine observe_u8(spec, name, array)
        type(rlb_spec), intent(inout) :: spec
        character(*), intent(in) :: name
        integer(c_int8_t), intent(in) :: array(..)
        call add_obs(spec, name, space(u8, shape(array)))
    end subroutine

    subroutine observe_choices(spec, name, array, choices)
        type(rlb_spec), intent(inout) :: spec
        character(*), intent(in) :: name
        integer(c_int), intent(in) :: array(:), choices(:)
        call add_obs(spec, name, choice(size(array), choices))
    end subroutine

    subroutine add_obs(spec, name, what)
        type(rlb_spec), intent(inout) :: spec
        character(*), intent(in) :: name
        type(rlb_space), intent(in) :: what
        integer :: i
        i = 1
        do while (c_associated(spec%obs(i)%name))
            if (i == max_obs) error stop "rlb_observe: more observations than there is room for"
            i = i + 1
        end do
        spec%obs(i) = what
        spec%obs(i)%name = c_string(name)
    end subroutine

    subroutine act_f64(spec, array, low, high)
        type(rlb_spec), intent(inout) :: spec
        real(c_double), intent(in) :: array(..)
        real(c_double), intent(in), optional :: low, high
        spec%action = space(f64, shape(array), low, high)
    end subroutine

    subroutine act_f32(spec, array, low, high)
        type(rlb_spec), intent(inout) :: spec
        real(c_float), intent(in) :: array(..)
        real(c_double), intent(in), optional :: low, high
        spec%action = space(f32, shape(array), low, high)
    end subroutine

    subroutine act_choices(spec, array, choices)
        type(rlb_spec), intent(inout) :: spec
        integer(c_int), intent(in) :: array(:), choices(:)
        spec%action = choice(size(array), choices)
    end subroutine

    ! rlb_figure adds a figure that each step reports.
    subroutine rlb_figure(spec, name)
        type(rlb_spec), intent(inout) :: spec
        character(*), intent(in) :: name
        integer :: i
        i = 1
        do while (c_associated(spec%info(i)))
            if (i == max_info) error stop "rlb_figure: more figures than there is room for"
            i = i + 1
        end do
        spec%info(i) = c_string(name)
    end subroutine

    ! space has the sizes in C's order: the last dimension of a Fortran array is the first of a C array.
    type(rlb_space) function space(kind, sizes, low, high)
        integer(c_int), intent(in) :: kind
        integer, intent(in) :: sizes(:)
        real(c_double), intent(in), optional :: low, high
        if (size(sizes) > max_dims) error stop "rlb: an array of more than 8 dimensions"
        space%kind = kind
        space%shape(:size(sizes)) = sizes(size(sizes):1:-1)
        if (present(low) .neqv. present(high)) error stop "rlb: expected low and high, or none"
        if (present(low)) space%low = low
        if (present(high)) space%high = high
    end function

    type(rlb_space) function choice(n, choices)
        integer, intent(in) :: n
        integer(c_int), intent(in) :: choices(:)
        integer(c_int), pointer :: kept(:)
        if (n /= size(choices)) error stop "rlb: expected as many choices as the array has numbers"
        allocate (kept(n)) ! as long as the program
        kept = choices
        choice = space(multi_discrete, [n])
        choice%nvec = c_loc(kept)
    end function

    ! rlb_obs sets observation i, counted from 1, of the next state; the following rlb_send_... gets the first observation.
    subroutine rlb_obs(r, i, values)
        type(c_ptr), intent(in) :: r
        integer, intent(in) :: i
        type(*), intent(in) :: values(*)
        call say_obs(r, i - 1, values)
    end subroutine

    ! rlb_info sets figure i, counted from 1, of the next state.
    subroutine rlb_info(r, i, figure)
        type(c_ptr), intent(in) :: r
        integer, intent(in) :: i
        real(c_double), intent(in) :: figure
        call say_info(r, i - 1, figure)
    end subroutine

    ! rlb_error returns the reason of the last failure; empty if no call failed.
    function rlb_error() result(text)
        character(:), allocatable :: text
        character(c_char), pointer :: c(:)
        type(c_ptr) :: p
        integer :: n
        p = error_c()
        text = ""
        if (.not. c_associated(p)) return
        call c_f_pointer(p, c, [512])
        do n = 1, 512
            if (c(n) == c_null_char) exit
            text = text//c(n)
        end do
    end function

    ! c_string returns a copy of text for C, which is never freed.
    type(c_ptr) function c_string(text)
        character(*), intent(in) :: text
        character(c_char), pointer :: copy(:)
        integer :: i
        allocate (copy(len_trim(text) + 1))
        do i = 1, len_trim(text)
            copy(i) = text(i:i)
        end do
        copy(len_trim(text) + 1) = c_null_char
        c_string = c_loc(copy)
    end function
end module
