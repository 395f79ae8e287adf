! Plays the vectors of an export, as play.c does: play policy.bin vectors.bin.
program play
    use policy
    implicit none
    type(c_ptr) :: p
    type(policy_state), save :: s
    integer(c_int32_t) :: steps, begins
    integer :: t, k, f, wrong = 0
    real(8) :: worst = 0, off = 0
    real(8), parameter :: half(*) = [@HALVES]
    character(1000) :: weights, vectors
    @KIND :: want(policy_actions, policy_chunk), action(policy_actions)
    real(c_float) :: value(policy_values), critic(policy_values)
@DECLARE
    call get_command_argument(1, weights)
    call get_command_argument(2, vectors)
    call check(policy_open(p, weights))
    open (newunit=f, file=vectors, access="stream", form="unformatted", status="old", action="read")
    read (f) steps
    do t = 1, steps
        read (f) begins
@READ        read (f) want, value
        if (begins /= 0) call policy_begin(s)
        do k = 0, policy_chunk*policy_repeat - 1
            call check(policy_act(p, s, @PASSaction))
            if (@DISCRETE) then
                wrong = wrong + count(abs(action - want(:, k/policy_repeat + 1)) > 0)
            else
                worst = max(worst, maxval(abs(real(action, 8) - want(:, k/policy_repeat + 1))/half))
            end if
        end do
@CRITIC    end do
    print *, worst, off, wrong, 0
    call policy_close(p)

contains

    subroutine check(code)
        integer(c_int), intent(in) :: code
        if (code /= 0) error stop policy_text(code)
    end subroutine
end program
