// Package doctor answers: what do the machines of a job offer, and are they alike? It is the command rlinf doctor.
package doctor

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/rlinf/rlinf/internal/figures"
	"github.com/rlinf/rlinf/internal/gpu"
	"github.com/rlinf/rlinf/internal/runfolder"
	"github.com/rlinf/rlinf/roles/cli/args"
	"github.com/rlinf/rlinf/roles/job"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/spmd/mpi"
	"github.com/urfave/cli/v2"
)

// Command returns the command rlinf doctor. Under a launcher it compares all nodes.
func Command() *cli.Command {
	return &cli.Command{Name: "doctor", Usage: "show what this machine has; under mpirun or srun, check that all " +
		"nodes are alike",
		Action: args.NoArguments(func(c *cli.Context) error {
			n, _ := mpi.Launched()
			if n > 1 && mpi.Compiled {
				ranks, err := args.OpenWorld(c, nil, nil, os.Stderr, nil)
				if err != nil {
					return err
				}
				return spmd.Run(c.Context, ranks, spmd.Options{}, func(ctx context.Context, w *spmd.World) error {
					return compare(ctx, w, c.App.Writer, localFacts())
				})
			}
			if !mpi.Leads() {
				return nil
			}
			return write(c.App.Writer, localFacts())
		})}
}

// A fact is a line about one property of a machine. Each of these properties has made jobs slow or fail.
type fact struct {
	Name, Text string
	// Same is a text that must be equal on all nodes. It is "" for facts that may differ, such as free memory.
	Same string
}

// localFacts returns the facts of this machine and process.
func localFacts() []fact {
	facts := version()
	add := func(same bool, name, format string, args ...any) {
		f := fact{Name: name, Text: fmt.Sprintf(format, args...)}
		if same {
			f.Same = f.Text
		}
		facts = append(facts, f)
	}
	if text := mpi.Library(); text != "" {
		add(true, "MPI library", "%s", text)
	}
	add(true, "kernel", "%s", kernel())
	cores := fmt.Sprintf("%d", runtime.NumCPU())
	facts = append(facts, fact{"cores", fmt.Sprintf("%s, this process may use %s; GOMAXPROCS %d", cores,
		runfolder.Binding(), runtime.GOMAXPROCS(0)), cores + " for a process"})
	add(true, "vectors", "%s", runfolder.Vectors())
	add(false, "memory", "%v", job.FindAvailable("/", 1))
	var fs unix.Statfs_t
	if err := unix.Statfs("/dev/shm", &fs); err == nil {
		add(false, "/dev/shm", "%s free", figures.MiB(int64(fs.Bavail)*fs.Bsize))
	} else {
		add(true, "/dev/shm", "%v", err)
	}
	var lock unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &lock); err == nil {
		text := "unlimited"
		if lock.Cur != unix.RLIM_INFINITY {
			text = figures.MiB(int64(lock.Cur)) + ": RDMA networks want it unlimited"
		}
		add(true, "memlock", "%s", text)
	}
	add(true, "single copy", "%s", singleCopy())
	for _, tool := range []string{"mpirun", "mpiexec", "srun"} {
		if path, err := exec.LookPath(tool); err == nil {
			add(true, tool, "%s", path)
		}
	}
	if n, launcher := mpi.Launched(); launcher != "" {
		add(false, "launched by", "%s, %d processes", launcher, n)
	}
	devices, note := gpu.Devices()
	for i, d := range devices {
		name, memory := fmt.Sprintf("GPU %d", i), figures.MiB(d.Memory)
		facts = append(facts, fact{name, d.Name + ", " + memory + ", " + d.UUID, d.Name + ", " + memory})
	}
	if note != "" {
		add(true, "GPU", "%s", note)
	}
	return facts
}

// version returns the version of this binary and its build tags.
func version() []fact {
	b := runfolder.ReadBuild()
	text := "rlinf " + b.Version
	if b.Revision != "" {
		text += " (" + b.Revision + ")"
	}
	compiled := "MPI: not compiled in (scripts/build --tags mpi)"
	if mpi.Compiled {
		compiled = "MPI: compiled in"
	}
	var facts []fact
	for _, line := range []string{text, b.Go + " " + b.Platform, "tags: " + cmp.Or(b.Tags, "none"), compiled} {
		facts = append(facts, fact{Text: line, Same: line})
	}
	return facts
}

// WriteVersion writes the version of this binary and its build tags.
func WriteVersion(out io.Writer) error { return write(out, version()) }

func write(out io.Writer, facts []fact) error {
	var b strings.Builder
	for _, f := range facts {
		if f.Name != "" {
			fmt.Fprintf(&b, "%-14s ", f.Name)
		}
		b.WriteString(f.Text + "\n")
	}
	_, err := io.WriteString(out, b.String())
	return err
}

func kernel() string {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return err.Error()
	}
	return unix.ByteSliceToString(name.Sysname[:]) + " " + unix.ByteSliceToString(name.Release[:])
}

// singleCopy describes whether a process is allowed to read the memory of another process. MPI libraries send large
// messages within a node this way.
func singleCopy() string {
	scope, err := os.ReadFile("/proc/sys/kernel/yama/ptrace_scope")
	if err == nil && strings.TrimSpace(string(scope)) != "0" {
		return "restricted by ptrace_scope " + strings.TrimSpace(string(scope)) +
			": large messages within a node are copied twice"
	}
	return "allowed"
}
