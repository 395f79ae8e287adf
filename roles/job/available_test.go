package job

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rlinf/rlinf/internal/test"
)

// TestFindRoom: the smallest limit counts, and Where names it.
func TestFindRoom(t *testing.T) {
	const none = "9223372036854771712\n" // no limit in control groups of version 1
	for _, c := range []struct {
		name  string
		files map[string]string
		want  string
	}{
		{"nobody says", nil, "the address space of a process has 134217728.0 MiB free"},
		{"a machine", map[string]string{"proc/meminfo": "MemTotal:       9000 kB\nMemAvailable:   4096 kB\n"},
			"this machine has 4.0 MiB free"},
		{"version 2, a job around the step", map[string]string{
			"proc/meminfo": "MemAvailable: 9000000 kB\n", "proc/self/cgroup": "0::/slurm/job_7/step_0\n",
			"sys/fs/cgroup/slurm/job_7/step_0/memory.max":     "max\n",
			"sys/fs/cgroup/slurm/job_7/step_0/memory.current": "1048576\n",
			"sys/fs/cgroup/slurm/job_7/memory.max":            "10485760\n",
			"sys/fs/cgroup/slurm/job_7/memory.current":        "8388608\n",
			"sys/fs/cgroup/slurm/job_7/" +
				"memory.stat": "anon 5242880\nfile 3145728\ninactive_file 1048576\nactive_file 2097152\n",
			"sys/fs/cgroup/slurm/memory.max": "104857600\n", "sys/fs/cgroup/slurm/memory.current": "8388608\n",
		}, "control group /slurm/job_7 has 5.0 MiB free"},
		{"version 2, of a container", map[string]string{
			"proc/meminfo": "MemAvailable: 9000000 kB\n", "proc/self/cgroup": "0::/\n",
			"sys/fs/cgroup/memory.max": "4194304\n", "sys/fs/cgroup/memory.current": "5242880\n",
		}, "control group / has 0.0 MiB free"},
		{"version 1, of a container that does not see its path", map[string]string{
			"proc/meminfo":     "MemAvailable: 9000000 kB\n",
			"proc/self/cgroup": "5:cpu:/docker/a\n4:hugetlb,memory:/docker/a\n0::/\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "8388608\n",
			"sys/fs/cgroup/memory/memory.usage_in_bytes": "3145728\n",
			"sys/fs/cgroup/memory/memory.stat":           "inactive_file 7\ntotal_inactive_file 1048576\n",
		}, "control group / has 6.0 MiB free"},
		{"version 1 without a limit", map[string]string{
			"proc/meminfo": "MemAvailable: 4096 kB\n", "proc/self/cgroup": "4:memory:/a\n",
			"sys/fs/cgroup/memory/a/memory.limit_in_bytes": none,
			"sys/fs/cgroup/memory/a/memory.stat":           "total_inactive_file 1048576\n",
		}, "this machine has 4.0 MiB free"},
	} {
		root := t.TempDir()
		for name, text := range c.files {
			path := filepath.Join(root, name)
			test.OK(t, os.MkdirAll(filepath.Dir(path), 0o777))
			test.OK(t, os.WriteFile(path, []byte(text), 0o666))
		}
		test.Equal(t, FindAvailable(root, 1).String(), c.want, "%s", c.name)
	}
}

// TestFindRoomWithinLimits: a resource limit applies to each process of a node.
func TestFindRoomWithinLimits(t *testing.T) {
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_AS, &was); err != nil || was.Cur < 1<<45 {
		t.Skipf("limit of %d, %v: not ours to raise", was.Cur, err)
	}
	limited := was
	limited.Cur = 1 << 45
	test.OK(t, unix.Setrlimit(unix.RLIMIT_AS, &limited))
	defer unix.Setrlimit(unix.RLIMIT_AS, &was)
	root := t.TempDir() // without the file that has the used memory
	if got, want := FindAvailable(root, 2).String(), "the limit of ulimit -v has 67108864.0 MiB free"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
