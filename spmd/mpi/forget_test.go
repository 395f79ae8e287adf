package mpi

import (
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rlinf/rlinf/internal/test"
)

// makesSocket is set in a child of TestForget: a launcher that makes a connection and ends.
const makesSocket = "RLINF_TEST_MAKES_SOCKET"

// TestForget: variables of launchers that have ended are unset, and those of all other launchers stay.
func TestForget(t *testing.T) {
	if os.Getenv(makesSocket) != "" {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		if err == nil {
			err = unix.Sendmsg(3, []byte{0}, unix.UnixRights(pair[0]), nil, 0)
		}
		test.OK(t, err)
		os.Exit(0) // TestMain would build programs
	}
	listener := test.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	live := listener.Addr().String()
	closed := test.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	free := closed.Addr().String()
	closed.Close()
	defer listener.Close()
	child := exec.Command("true")
	test.OK(t, child.Run())
	dead, alive := fmt.Sprint(child.Process.Pid), fmt.Sprint(os.Getpid())
	folder := func(pid string) string {
		path := filepath.Join(t.TempDir(), "pid."+pid)
		test.OK(t, os.Mkdir(path, 0o700))
		return path
	}
	port := func(address string) string { return address[strings.LastIndexByte(address, ':')+1:] }
	host := test.Must(os.Hostname())(t)
	open, _ := descriptors(t)
	halves := test.Must(unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0))(t)
	unix.Close(halves[1])
	defer unix.Close(halves[0])
	left := socketOfDead(t)

	type env = map[string]string
	openmpi := func(more env) env {
		all := env{"OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_RANK": "2", "OMPI_FIRST_RANKS": "0",
			"PMIX_NAMESPACE": "7"}
		maps.Copy(all, more)
		return all
	}
	pmi := func(name, value string) env { return env{"PMI_SIZE": "4", "PMI_RANK": "2", name: value} }
	srun := func(task, address string) env {
		return env{"SLURM_STEP_NUM_TASKS": "4", "SLURM_PROCID": "2", "PMIX_NAMESPACE": "7", "SLURM_TASK_PID": task,
			"SLURM_SRUN_COMM_HOST": "127.0.0.1", "SLURM_SRUN_COMM_PORT": port(address)}
	}
	both := openmpi(env{"PMIX_SERVER_URI4": "7.0;tcp4://" + live})
	maps.Copy(both, srun(dead, free))
	nested := openmpi(env{"PMIX_SERVER_URI4": "7.0;tcp4://" + free})
	maps.Copy(nested, srun(alive, free))
	for _, c := range []struct {
		name string
		env  env
		note string // names of launchers that have ended
		by   string
	}{
		{"Open MPI", openmpi(env{"PMIX_SERVER_URI4": "7.0;tcp4://" + live}), "", "mpirun"},
		{"Open MPI, ended", openmpi(env{"PMIX_SERVER_URI4": "7.0;tcp4://" + free, "PMIX_SERVER_TMPDIR": "/gone/pid.1"}),
			"mpirun", ""},
		{"Open MPI, killed", openmpi(env{"PMIX_SERVER_URI4": "7.0;tcp4://" + free,
			"PMIX_SERVER_TMPDIR": folder(dead)}), "mpirun", ""},
		{"Open MPI, its daemon lives", openmpi(env{"PMIX_SERVER_URI4": "7.0;tcp4://" + free,
			"PMIX_SERVER_TMPDIR": folder(alive)}), "", "mpirun"},
		{"Open MPI, one of two addresses", openmpi(env{"PMIX_SERVER_URI4": "7.0;tcp4://" + free,
			"PMIX_SERVER_URI3": "7.0;tcp4://" + live}), "", "mpirun"},
		{"Open MPI, on another host", openmpi(env{"PMIX_SERVER_URI4": "7.0;tcp4://192.0.2.77:" + port(free)}), "",
			"mpirun"},
		{"Open MPI, another kind of address", openmpi(env{"PMIX_SERVER_URI4": "7.0;usock:/gone"}), "", "mpirun"},
		{"Open MPI, no address", openmpi(nil), "", "mpirun"},
		{"PMI by a port", pmi("PMI_PORT", live), "", "mpiexec"},
		{"PMI by a port, ended", pmi("PMI_PORT", free), "mpiexec", ""},
		{"PMI by a port, ended, by name", pmi("PMI_PORT", host+":"+port(free)), "mpiexec", ""},
		{"PMI by a port, on another host", pmi("PMI_PORT", "host:5000"), "", "mpiexec"},
		{"Hydra", pmi("PMI_FD", fmt.Sprint(open)), "", "mpiexec"},
		{"Hydra, after MPI_Finalize", pmi("PMI_FD", fmt.Sprint(halves[0])), "", "mpiexec"},
		{"Hydra, ended", pmi("PMI_FD", fmt.Sprint(left)), "mpiexec", ""},
		{"srun", srun(alive, live), "", "srun"},
		{"srun, killed", srun(alive, free), "", "srun"},
		{"srun, in a container that does not see the task", srun(dead, live), "", "srun"},
		{"srun, ended", srun(dead, free), "srun", ""},
		{"srun, no address", env{"SLURM_STEP_NUM_TASKS": "4", "SLURM_PROCID": "2", "SLURM_TASK_PID": dead}, "", "srun"},
		{"mpirun in a shell of an ended step", both, "srun", "mpirun"},
		{"a shell of an ended mpirun in a step", nested, "mpirun", "srun"},
		{"alone", nil, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			setLaunched(t, c.env)
			note, want := Forget(), ""
			if c.note != "" {
				want = c.note + " has ended: ignoring its variables "
			}
			if !strings.HasPrefix(note, want) || (note == "") != (want == "") || strings.Contains(note, "\n") {
				t.Errorf("note %q, want %q", note, want)
			}
			if n, by := Launched(); by != c.by || (n == 4) != (by != "") || Leads() != (by == "") && by != "srun" {
				t.Errorf("%d processes by %q, leads: %v, want those of %q", n, by, Leads(), c.by)
			}
			if again := Forget(); again != "" {
				t.Errorf("again: %s", again)
			}
		})
	}
}

// socketOfDead returns a connection that a process made which has ended, as had its other end.
func socketOfDead(t *testing.T) int {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	test.OK(t, err)
	its := os.NewFile(uintptr(pair[1]), "socket")
	child := exec.Command(os.Args[0], "-test.run=^TestForget$")
	child.Env, child.ExtraFiles = append(os.Environ(), makesSocket+"=1"), []*os.File{its}
	if text, err := child.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	its.Close()
	defer unix.Close(pair[0])
	rights := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(pair[0], make([]byte, 1), rights, unix.MSG_CMSG_CLOEXEC)
	test.OK(t, err)
	messages := test.Must(unix.ParseSocketControlMessage(rights[:n]))(t)
	fds := test.Must(unix.ParseUnixRights(&messages[0]))(t)
	t.Cleanup(func() { unix.Close(fds[0]) })
	return fds[0]
}
