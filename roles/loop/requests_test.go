package loop

import (
	"math"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// QUIT writes all stacks and ends the process at once, even if the process was started with QUIT ignored.
func TestQuit(t *testing.T) {
	if os.Getenv("RLINF_TEST_QUIT") != "" {
		Watch()
		syscall.Kill(os.Getpid(), syscall.SIGQUIT)
		select {}
	}
	for _, began := range []string{"", "trap '' QUIT; "} {
		cmd := exec.Command("sh", "-c", began+`exec "$0" -test.run "^TestQuit$"`, os.Args[0])
		cmd.Env = append(os.Environ(), "RLINF_TEST_QUIT=yes")
		out, _ := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != ExitCrashed ||
			!strings.Contains(string(out), "loop.TestQuit(") {
			t.Errorf("%sQUIT: exit code %d, %s\nexpected %d and the stacks", began, code, out, ExitCrashed)
		}
	}
}

// A run stops by itself, to be queued again: after runner.max_time, or before the end of the Slurm job by a twentieth
// of its time, at most two minutes.
func TestStopsInTime(t *testing.T) {
	const none = 0
	for _, c := range []struct {
		name          string
		maxTime       time.Duration
		slurm         time.Duration // from the start to the end of the job
		want          time.Duration // from the start to the stop
		unreadableEnd string
	}{
		{name: "for ever", want: none},
		{name: "max_time", maxTime: time.Hour, want: time.Hour},
		{name: "a short job", slurm: 10 * time.Minute, want: 9*time.Minute + 30*time.Second},
		{name: "a long job", slurm: 24 * time.Hour, want: 24*time.Hour - 2*time.Minute},
		{name: "max_time before the end of the job", maxTime: time.Hour, slurm: 24 * time.Hour, want: time.Hour},
		{name: "max_time after the end of the job", maxTime: 48 * time.Hour, slurm: 24 * time.Hour,
			want: 24*time.Hour - 2*time.Minute},
		{name: "a job without end", unreadableEnd: "Unknown", want: none},
		{name: "an end of 0", unreadableEnd: "0", want: none},
		{name: "an end before the clock", unreadableEnd: "-9223372036854775808", want: none},
		{name: "an end in the year 2262", unreadableEnd: "9223372037", want: none},
		{name: "an end in 292 billion years", unreadableEnd: "9223372036854775807", want: none},
		{name: "an end beyond the numbers", unreadableEnd: "9223372036854775808", want: none},
		{name: "a huge end and max_time", maxTime: time.Hour, unreadableEnd: "9223372036854775807", want: time.Hour},
		{name: "a max_time of 292 years", maxTime: math.MaxInt64, want: none},
	} {
		t.Run(c.name, func(t *testing.T) {
			start := time.Unix(1_800_000_000, 0)
			end := c.unreadableEnd
			if c.slurm > 0 {
				end = strconv.FormatInt(start.Add(c.slurm).Unix(), 10)
			}
			t.Setenv("SLURM_JOB_END_TIME", end)
			r := &Requests{started: start}
			r.Expire(c.maxTime)
			at := r.deadline.Load()
			if got := time.Unix(0, at).Sub(start); at == 0 && c.want != none || at != 0 && got != c.want {
				t.Errorf("stops after %v, want %v", got, c.want)
			}
		})
	}

	t.Setenv("SLURM_JOB_END_TIME", strconv.FormatInt(time.Now().Unix()-1, 10))
	r := &Requests{started: time.Now().Add(-time.Minute)}
	if stop, save := r.Vote(); stop != 0 || save {
		t.Errorf("before there is an end: votes %d, %t", stop, save)
	}
	r.Expire(0)
	if stop, save := r.Vote(); stop != ExitRequeue || !save {
		t.Errorf("past the end: votes %d, %t, want %d and a checkpoint", stop, save, ExitRequeue)
	}
}

// TestAtStop: INT and TERM call f(true) alone, also after USR1, which calls f(false).
func TestAtStop(t *testing.T) {
	for _, c := range []struct {
		signals []syscall.Signal
		want    string
	}{{[]syscall.Signal{syscall.SIGINT}, "urgent "}, {[]syscall.Signal{syscall.SIGUSR1}, "soon "},
		{[]syscall.Signal{syscall.SIGUSR1, syscall.SIGTERM}, "soon urgent "}} {
		r := Watch()
		told := make(chan string, 4)
		cancel := r.AtStop(func(atOnce bool) {
			if atOnce {
				told <- "urgent "
			} else {
				told <- "soon "
			}
		})
		got := ""
		for _, s := range c.signals {
			r.arrived <- s
			got += <-told
		}
		time.Sleep(10 * time.Millisecond) // for a call too many
		cancel()
		r.Close()
		if got != c.want || len(told) > 0 {
			t.Errorf("%v: told %q and %d more, want %q", c.signals, got, len(told), c.want)
		}
	}
}
