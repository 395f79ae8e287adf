package cli

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"golang.org/x/sys/cpu"
	"golang.org/x/sys/unix"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/gpu"
	"github.com/rlinf/rlinf/internal/runfolder"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/job"
	"github.com/rlinf/rlinf/spmd/mpi"
)

// writeVersion writes the version and the parts of this binary.
func writeVersion(out io.Writer) error {
	b := runfolder.ReadBuild()
	fmt.Fprintf(out, "rlinf %s", b.Version)
	if b.Revision != "" {
		fmt.Fprintf(out, " (%s)", b.Revision)
	}
	tags := b.Tags
	if tags == "" {
		tags = "none"
	}
	fmt.Fprintf(out, "\n%s %s\ntags: %s\n", b.Go, b.Platform, tags)
	if mpi.Compiled {
		_, err := fmt.Fprintln(out, "MPI: compiled in")
		return err
	}
	_, err := fmt.Fprintln(out, "MPI: not compiled in (scripts/build --tags mpi)")
	return err
}

// writeDoctor writes what this machine offers to a job: a line for each thing that has made jobs
// slow or fail.
func writeDoctor(out io.Writer) error {
	if err := writeVersion(out); err != nil {
		return err
	}
	line := func(name, format string, args ...any) {
		fmt.Fprintf(out, "%-14s %s\n", name, fmt.Sprintf(format, args...))
	}
	line("cores", "%d, this process may use %s; GOMAXPROCS %d", runtime.NumCPU(), runfolder.Binding(),
		runtime.GOMAXPROCS(0))
	line("vectors", "%s", vectors())
	line("memory", "%v", job.FindAvailable("/", 1))
	var fs unix.Statfs_t
	if err := unix.Statfs("/dev/shm", &fs); err == nil {
		line("/dev/shm", "%s free", job.Mebibytes(int64(fs.Bavail)*fs.Bsize))
	} else {
		line("/dev/shm", "%v", err)
	}
	var lock unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &lock); err == nil {
		text := "unlimited"
		if lock.Cur != unix.RLIM_INFINITY {
			text = job.Mebibytes(int64(lock.Cur)) + ": RDMA networks want it unlimited"
		}
		line("memlock", "%s", text)
	}
	line("single copy", "%s", singleCopy())
	for _, tool := range []string{"mpirun", "mpiexec", "srun"} {
		if path, err := exec.LookPath(tool); err == nil {
			line(tool, "%s", path)
		}
	}
	if n, launcher := mpi.Launched(); launcher != "" {
		line("launched by", "%s, %d processes", launcher, n)
	}
	devices, note := gpu.Devices()
	for i, d := range devices {
		line(fmt.Sprintf("GPU %d", i), "%s, %s, %s", d.Name, job.Mebibytes(d.Memory), d.UUID)
	}
	if note != "" {
		line("GPU", "%s", note)
	}
	return nil
}

func vectors() string {
	switch {
	case cpu.X86.HasAVX512F && cpu.X86.HasAVX512VL:
		return "AVX-512"
	case cpu.X86.HasAVX2 && cpu.X86.HasFMA:
		return "AVX2"
	}
	return "none that the kernels use: products run in portable Go"
}

// singleCopy says whether a process may read another's memory. MPI libraries do so for large
// messages within a node.
func singleCopy() string {
	scope, err := os.ReadFile("/proc/sys/kernel/yama/ptrace_scope")
	if err == nil && strings.TrimSpace(string(scope)) != "0" {
		return "restricted by ptrace_scope " + strings.TrimSpace(string(scope)) +
			": large messages within a node are copied twice"
	}
	return "allowed"
}

// listEnvs lists the environments of reg with their observations and actions.
func listEnvs(out io.Writer, reg config.Registries) error {
	for _, name := range reg.Envs.Names() {
		cfg := env.DefaultConfig()
		cfg.EnvType = name
		spec, err := job.Probe(reg, cfg)
		if err != nil {
			fmt.Fprintf(out, "%-26s %v\n", name, err)
			continue
		}
		var obs []string
		for _, f := range spec.Obs {
			obs = append(obs, fmt.Sprintf("%s %v%v", f.Name, f.DType, f.Shape))
		}
		fmt.Fprintf(out, "%-26s observes %s; takes %s; %d steps\n", name, strings.Join(obs, ", "),
			describeSpace(spec.Action), spec.MaxSteps)
	}
	return nil
}

func describeSpace(s env.Space) string {
	switch s.Kind {
	case env.Discrete:
		return fmt.Sprintf("one of %d actions", s.Nvec[0])
	case env.MultiDiscrete:
		return fmt.Sprintf("choices of %v", s.Nvec)
	}
	return fmt.Sprintf("%d numbers in [%v, %v]", s.Dim(), s.Low[0], s.High[0])
}
