package probe

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// ChildrenTime returns the processor time of the processes that this process has started, directly or not, and that
// still run.
func ChildrenTime() (busy time.Duration) {
	for _, pid := range descendants() {
		threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
		for _, path := range threads {
			text, _ := os.ReadFile(path) // a thread that has ended counts no more
			first, _, _ := strings.Cut(string(text), " ")
			ns, _ := strconv.ParseInt(first, 10, 64)
			busy += time.Duration(ns)
		}
	}
	return busy
}

// ChildrenMemory returns the memory of the processes that this process has started, in bytes. Shared memory counts in
// equal parts for the processes that share it.
func ChildrenMemory() (all int64) {
	for _, pid := range descendants() {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
		lines := bufio.NewScanner(bytes.NewReader(text))
		for lines.Scan() {
			if size, ok := strings.CutPrefix(lines.Text(), "Pss:"); ok {
				kB, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(size), " kB"), 10, 64)
				all += kB << 10
			}
		}
	}
	return all
}

// descendants returns the processes that this process has started, directly or not.
func descendants() (pids []int) {
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	children := map[int][]int{}
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil { // the process has ended
			continue
		}
		// The name of the program is in parentheses, and may contain any character.
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if len(fields) > 1 {
			parent, _ := strconv.Atoi(fields[1])
			children[parent] = append(children[parent], pid)
		}
	}
	next := children[os.Getpid()]
	for len(next) > 0 {
		pids = append(pids, next[0])
		next = append(next[1:], children[next[0]]...)
	}
	return pids
}
