! The policy of policy.h for Fortran. Compile policy.c and link with its object and -lm.
!
!   type(c_ptr) :: p
!   type(policy_state), save :: s      ! an episode begins
!   code = policy_open(p, "policy.bin")
!   code = policy_act(p, s, @OBSERVATIONSaction)
!
! The results are those of policy.h; 0 is success. A policy_state may be too large for the stack: save it.
module policy
    use, intrinsic :: iso_c_binding
    implicit none
    private
    public :: policy_state, policy_open, policy_close, policy_begin, policy_act, policy_text@PUBLIC
    public :: c_ptr, c_float, c_int, c_int8_t, c_int32_t

    integer, parameter, public :: policy_chunk = @CHUNK, policy_repeat = @REPEAT
    integer, parameter, public :: policy_actions = @ACTIONS, policy_values = @VALUES

    type, bind(c) :: policy_state
        private
        integer(c_int32_t) :: started = 0, left = 0
        real(c_float) :: memory(@MEMORY)
        real(c_float) :: work(@WORK)
        integer(c_int32_t) :: ints(@INTS)
        integer(c_int8_t) :: bytes(@BYTES)
    end type

    interface
        integer(c_int) function open_policy(p, path) bind(c, name="policy_open")
            import :: c_int, c_ptr, c_char
            type(c_ptr), intent(out) :: p
            character(kind=c_char), intent(in) :: path(*)
        end function

        subroutine policy_close(p) bind(c)
            import :: c_ptr
            type(c_ptr), value :: p
        end subroutine

        subroutine policy_begin(s) bind(c)
            import :: policy_state
            type(policy_state), intent(inout) :: s
        end subroutine

        integer(c_int) function policy_act(p, s, &
@FORTRAN_NAMES) bind(c)
            import :: c_int, c_ptr, c_float, c_int8_t, c_int32_t, policy_state
            type(c_ptr), value :: p
            type(policy_state), intent(inout) :: s
@FORTRAN_TYPES        end function
@FORTRAN_VALUE
        type(c_ptr) function text_of(code) bind(c, name="policy_text")
            import :: c_int, c_ptr
            integer(c_int), value :: code
        end function

        integer(c_size_t) function length_of(text) bind(c, name="strlen")
            import :: c_ptr, c_size_t
            type(c_ptr), value :: text
        end function
    end interface

contains

    integer(c_int) function policy_open(p, path) result(code)
        type(c_ptr), intent(out) :: p
        character(*), intent(in) :: path
        code = open_policy(p, trim(path)//c_null_char)
    end function

    ! policy_text describes a result.
    function policy_text(code) result(text)
        integer(c_int), intent(in) :: code
        character(:), allocatable :: text
        character(kind=c_char), pointer :: letters(:)
        integer :: i
        call c_f_pointer(text_of(code), letters, [length_of(text_of(code))])
        allocate (character(size(letters)) :: text)
        do i = 1, size(letters)
            text(i:i) = letters(i)
        end do
    end function
end module
