package mpi

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Forget unsets the variables of launchers that have ended, and returns a line about them. It returns "" if there are
// none. A shell that a launcher started can outlive the launcher, for example in tmux, and then passes the variables on
// to its programs. Forget looks for the launcher's process and for its address. In doubt it keeps the variables,
// because the ranks of a job must not become programs of their own.
func Forget() string {
	var notes []string
	for _, l := range []struct {
		name     string
		started  bool
		ended    func() bool
		prefixes []string
	}{
		{"mpirun", positive("OMPI_COMM_WORLD_SIZE") > 0 && os.Getenv("PMIX_NAMESPACE") != "", pmixEnded,
			[]string{"OMPI_COMM_", "OMPI_FIRST_", "PMIX_"}},
		{"mpiexec", positive("PMI_SIZE") > 0 && speaksPMI(), pmiEnded, []string{"PMI_", "HYDI_"}},
		{"srun", positive("SLURM_STEP_NUM_TASKS") > 0, stepEnded, []string{"SLURM_STEP", "SLURM_PROCID"}},
	} {
		if !l.started || !l.ended() {
			continue
		}
		for _, variable := range os.Environ() {
			name, _, _ := strings.Cut(variable, "=")
			if slices.ContainsFunc(l.prefixes, func(p string) bool { return strings.HasPrefix(name, p) }) {
				os.Unsetenv(name)
			}
		}
		notes = append(notes, fmt.Sprintf("%s has ended: ignoring its variables %s", l.name,
			strings.Join(l.prefixes, "…, ")+"…"))
	}
	return strings.Join(notes, "; ")
}

// pmixEnded reports whether the daemon of Open MPI on this host has ended. Its folder is in PMIX_SERVER_TMPDIR, as
// …/pid.N, and it listens at the addresses in PMIX_SERVER_URI…, such as "7.0;tcp4://127.0.0.1:40001".
func pmixEnded() bool {
	folder := os.Getenv("PMIX_SERVER_TMPDIR")
	if _, err := os.Stat(folder); err == nil && runs(folder[strings.LastIndexByte(folder, '.')+1:]) {
		return false
	}
	ended := false
	for _, variable := range os.Environ() {
		name, uri, _ := strings.Cut(variable, "=")
		if !strings.HasPrefix(name, "PMIX_SERVER_URI") || uri == "" {
			continue
		}
		if _, address, _ := strings.Cut(uri, "://"); mayListen(address) {
			return false
		}
		ended = true
	}
	return ended
}

// pmiEnded reports whether the launcher at the other end of this process's PMI connection has ended.
func pmiEnded() bool {
	if address := os.Getenv("PMI_PORT"); address != "" {
		return !mayListen(address)
	}
	fd, _ := strconv.Atoi(os.Getenv("PMI_FD"))
	poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
	if _, err := unix.Poll(poll, 0); err != nil || poll[0].Revents&(unix.POLLHUP|unix.POLLRDHUP) == 0 {
		return false
	}
	// The launcher also closes the connection to a process that has called MPI_Finalize.
	maker, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	return err == nil && maker.Pid > 0 && !runs(strconv.Itoa(int(maker.Pid)))
}

// stepEnded reports whether srun and its task on this node have ended.
func stepEnded() bool {
	host, port := os.Getenv("SLURM_SRUN_COMM_HOST"), os.Getenv("SLURM_SRUN_COMM_PORT")
	if host == "" || port == "" || runs(os.Getenv("SLURM_TASK_PID")) {
		return false
	}
	c, err := net.DialTimeout("tcp", net.JoinHostPort(host, port), time.Second)
	if err == nil {
		c.Close()
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}

// runs reports whether there may be a process with this number.
func runs(pid string) bool {
	n, err := strconv.Atoi(pid)
	return err != nil || n <= 0 || unix.Kill(n, 0) != unix.ESRCH
}

// mayListen reports whether a process may listen at an address. It returns false only if the address belongs to this
// host and its port is free. It does not connect, because a launcher could mistake the end of the connection for the
// end of a rank.
func mayListen(address string) bool {
	host, text, err := net.SplitHostPort(address)
	port, err2 := strconv.ParseUint(text, 10, 16)
	if err != nil || err2 != nil || !isHere(host) {
		return true
	}
	for i, file := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		f, err := os.Open(file)
		if errors.Is(err, os.ErrNotExist) && i > 0 { // a host without IPv6
			continue
		} else if err != nil {
			return true
		}
		defer f.Close()
		lines := bufio.NewScanner(f)
		for lines.Scan() { // number, local address, remote address, state; 0A is LISTEN
			fields := strings.Fields(lines.Text())
			if len(fields) > 3 && fields[3] == "0A" && strings.HasSuffix(fields[1], fmt.Sprintf(":%04X", port)) {
				return true
			}
		}
		if lines.Err() != nil {
			return true
		}
	}
	return false
}

// isHere reports whether host is the name or an address of this host.
func isHere(host string) bool {
	if name, err := os.Hostname(); err == nil && host == name || host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	if ip == nil || ip.IsLoopback() {
		return ip != nil
	}
	own, _ := net.InterfaceAddrs()
	return slices.ContainsFunc(own, func(a net.Addr) bool {
		n, ok := a.(*net.IPNet)
		return ok && n.IP.Equal(ip)
	})
}
