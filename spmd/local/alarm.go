package local

import (
	"time"

	"golang.org/x/sys/unix"
)

// An alarm is a timer for one goroutine. Another goroutine can end the sleep early by calling
// ring. (A Go timer may be a millisecond late.)
type alarm struct {
	fd   int
	poll [1]unix.PollFd
	till unix.Timespec
	got  [8]byte
	one  [8]byte
}

func newAlarm() *alarm {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		panic("local: eventfd: " + err.Error())
	}
	return &alarm{fd: fd, poll: [1]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, one: [8]byte{1}}
}

// tune sets the timer slack of the calling thread to 1 ns. The default of Linux is 50 µs.
func (a *alarm) tune() { unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0) }

// sleep returns after d, or when another goroutine calls ring. An earlier ring counts too. If d is
// negative, there is no time limit.
func (a *alarm) sleep(d time.Duration) {
	var till *unix.Timespec
	if d >= 0 {
		a.till = unix.NsecToTimespec(int64(d))
		till = &a.till
	}
	unix.Ppoll(a.poll[:], till, nil)
	unix.Read(a.fd, a.got[:]) // resets the alarm
}

func (a *alarm) ring() { unix.Write(a.fd, a.one[:]) }

func (a *alarm) free() { unix.Close(a.fd) }
