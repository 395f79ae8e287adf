package job

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/rlinf/rlinf/internal/figures"
	"github.com/rlinf/rlinf/spmd/mpi"
	"golang.org/x/sys/unix"
)

// Available is an amount of memory that this process can still allocate.
type Available struct {
	Free  int64  // bytes
	Where string // what limits the amount: the machine, a control group, or a resource limit
}

// String returns, for example, "this machine has 512 MiB free".
func (r Available) String() string {
	return fmt.Sprintf("%s has %s free", r.Where, figures.MiB(r.Free))
}

// AvailableOn returns the memory that the ranks of a node can allocate in total. The node must be the node of this
// process. Rank r is on node nodes[r].
func AvailableOn(nodes []int, node int) Available {
	processes := 1
	if n, _ := mpi.Launched(); n > 1 {
		processes = 0
		for _, at := range nodes {
			if at == node {
				processes++
			}
		}
	}
	return FindAvailable("/", processes)
}

// FindAvailable returns the smallest of three amounts: the free memory of this machine, the free memory in the control
// groups of this process, and the resource limits of this process times the number of processes. A container or a Slurm
// job has such control groups. root is the folder with /proc and /sys.
func FindAvailable(root string, processes int) Available {
	const addressable = 1 << 47
	least := Available{addressable, "the address space of a process"}
	have := func(free int64, of string) {
		if free < least.Free {
			least = Available{max(free, 0), of}
		}
	}
	if kib, ok := numbers(filepath.Join(root, "proc/meminfo"))["MemAvailable:"]; ok {
		have(kib<<10, "this machine")
	}
	groups, _ := os.ReadFile(filepath.Join(root, "proc/self/cgroup"))
	for line := range strings.Lines(string(groups)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) < 3 {
			continue
		}
		mount, limit, used, prefix := "sys/fs/cgroup", "memory.max", "memory.current", ""
		if slices.Contains(strings.Split(parts[1], ","), "memory") { // control groups of version 1
			mount, limit, used, prefix = "sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
				"total_"
		} else if parts[1] != "" {
			continue
		}
		for group := path.Clean("/" + parts[2]); ; group = path.Dir(group) { // parents may be invisible
			dir := filepath.Join(root, mount, group)
			if most, ok := numbers(filepath.Join(dir, limit))[""]; ok {
				stat := numbers(filepath.Join(dir, "memory.stat"))
				cache := stat[prefix+"inactive_file"] + stat[prefix+"active_file"] // freed when memory is short
				have(min(most, addressable)-numbers(filepath.Join(dir, used))[""]+cache, "control group "+group)
			}
			if group == "/" {
				break
			}
		}
	}
	text, _ := os.ReadFile(filepath.Join(root, "proc/self/statm"))
	pages := append(strings.Fields(string(text)), make([]string, 6)...)
	for _, l := range []struct {
		resource int
		used     string
		of       string
	}{{unix.RLIMIT_AS, pages[0], "the limit of ulimit -v"}, {unix.RLIMIT_DATA, pages[5], "the limit of ulimit -d"}} {
		var most unix.Rlimit
		if unix.Getrlimit(l.resource, &most) == nil && most.Cur < addressable {
			now, _ := strconv.ParseInt(l.used, 10, 64)
			have((int64(most.Cur)-now*int64(os.Getpagesize()))*int64(processes), l.of)
		}
	}
	return least
}

// numbers reads a file with a word and a number on each line. It returns a map from words to numbers. If a line has
// only a number, its word is "". Other lines are ignored.
func numbers(file string) map[string]int64 {
	text, _ := os.ReadFile(file)
	found := map[string]int64{}
	for line := range strings.Lines(string(text)) {
		word, number, ok := strings.Cut(strings.TrimSuffix(strings.TrimSpace(line), " kB"), " ")
		if !ok {
			word, number = "", word
		}
		if n, err := strconv.ParseInt(strings.TrimSpace(number), 10, 64); err == nil {
			found[word] = n
		}
	}
	return found
}
