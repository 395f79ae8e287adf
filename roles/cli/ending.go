package cli

import (
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
)

// endOnlyAsDocumented changes two ways in which this process could end. A write to a pipe without a reader fails
// instead of killing the process, until restore is called. (signal.Ignore would change this for child processes, too.)
// A crash of Go's runtime ends with SIGABRT and exit code 134, because Go's default, exit code 2, means wrong usage
// here. A crash leaves a core file only with GOTRACEBACK=crash in the environment.
func endOnlyAsDocumented() (restore func()) {
	lost := make(chan os.Signal, 1)
	signal.Notify(lost, syscall.SIGPIPE)
	if os.Getenv("GOTRACEBACK") != "crash" {
		var core syscall.Rlimit
		if syscall.Getrlimit(syscall.RLIMIT_CORE, &core) == nil {
			core.Cur = 0
			syscall.Setrlimit(syscall.RLIMIT_CORE, &core) // no core file
		}
	}
	debug.SetTraceback("crash")
	return func() { signal.Stop(lost) }
}
