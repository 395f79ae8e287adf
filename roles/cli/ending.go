package cli

import (
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
)

// endOnlyAsDocumented keeps two ends from this process that look like something else, until restore
// is called. A write to a reader that has gone away fails and does not kill: programs that this
// process starts keep the kernel's default, which signal.Ignore would change. A crash of Go's
// runtime ends by SIGABRT, exit code 134, because Go's own 2 means wrong usage here. It leaves a
// core file only with GOTRACEBACK=crash in the environment.
func endOnlyAsDocumented() (restore func()) {
	lost := make(chan os.Signal, 1)
	signal.Notify(lost, syscall.SIGPIPE)
	if os.Getenv("GOTRACEBACK") != "crash" {
		var core syscall.Rlimit
		if syscall.Getrlimit(syscall.RLIMIT_CORE, &core) == nil {
			core.Cur = 0
			syscall.Setrlimit(syscall.RLIMIT_CORE, &core) // else there is a core file
		}
	}
	debug.SetTraceback("crash")
	return func() { signal.Stop(lost) }
}
