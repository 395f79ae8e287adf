//go:build mpi

package mpi

import (
	"io/fs"
	"math"
	"path"
	"strconv"
	"strings"
)

// cgroupOf returns the name of the control group that limits this process's processor time, and the number of cores
// that the group grants. If there is no limit, cores is +Inf. The limit of a group holds for all groups below it, so
// the smallest limit on the path to the top group counts. root is the root of the file system.
func cgroupOf(root fs.FS) (name string, cores float64) {
	cores = math.Inf(1)
	text, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return "", cores
	}
	for line := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n") {
		part := strings.SplitN(line, ":", 3) // number, controllers, path
		if len(part) < 3 {
			continue
		}
		dir, read := "sys/fs/cgroup", quota2
		if part[1] != "" { // version 1 has a hierarchy for each set of controllers
			if !strings.Contains(","+part[1]+",", ",cpu,") {
				continue
			}
			dir, read = "sys/fs/cgroup/cpu", quota1
		}
		for at := path.Join(dir, part[2]); strings.HasPrefix(at, dir); at = path.Dir(at) {
			if c := read(root, at); c < cores {
				name, cores = at, c
			}
		}
	}
	return name, cores
}

// quota2 returns the number of cores that a group of version 2 grants. The file cpu.max holds a quota and a period.
// The quota "max" means no limit.
func quota2(root fs.FS, dir string) float64 {
	text, _ := fs.ReadFile(root, path.Join(dir, "cpu.max"))
	quota, period, _ := strings.Cut(strings.TrimSpace(string(text)), " ")
	return ratio(quota, period)
}

// quota1 returns the number of cores that a group of version 1 grants. A quota of -1 means no limit.
func quota1(root fs.FS, dir string) float64 {
	quota, _ := fs.ReadFile(root, path.Join(dir, "cpu.cfs_quota_us"))
	period, _ := fs.ReadFile(root, path.Join(dir, "cpu.cfs_period_us"))
	return ratio(strings.TrimSpace(string(quota)), strings.TrimSpace(string(period)))
}

func ratio(quota, period string) float64 {
	q, err := strconv.ParseFloat(quota, 64)
	p, err2 := strconv.ParseFloat(period, 64)
	if err != nil || err2 != nil || q <= 0 || p <= 0 {
		return math.Inf(1)
	}
	return q / p
}
