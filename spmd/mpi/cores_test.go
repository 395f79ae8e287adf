//go:build mpi

package mpi

import (
	"math"
	"testing"
	"testing/fstest"

	"golang.org/x/sys/unix"

	"github.com/rlinf/rlinf/internal/test"
)

func TestCgroupBoundsCores(t *testing.T) {
	none := math.Inf(1)
	for _, c := range []struct {
		name  string
		files map[string]string
		group string
		cores float64
	}{
		{"no control groups", nil, "", none},
		{"no bound", map[string]string{
			"proc/self/cgroup":          "0::/job\n",
			"sys/fs/cgroup/job/cpu.max": "max 100000\n",
		}, "", none},
		{"version 2", map[string]string{
			"proc/self/cgroup":               "0::/job/task\n",
			"sys/fs/cgroup/job/task/cpu.max": "max 100000\n",
			"sys/fs/cgroup/job/cpu.max":      "150000 100000\n",
		}, "sys/fs/cgroup/job", 1.5},
		{"the narrowest counts", map[string]string{
			"proc/self/cgroup":               "0::/job/task\n",
			"sys/fs/cgroup/job/task/cpu.max": "100000 100000\n",
			"sys/fs/cgroup/job/cpu.max":      "400000 100000\n",
		}, "sys/fs/cgroup/job/task", 1},
		{"version 1", map[string]string{
			"proc/self/cgroup":                      "4:memory:/a\n3:cpu,cpuacct:/a\n0::/\n",
			"sys/fs/cgroup/cpu/a/cpu.cfs_quota_us":  "200000\n",
			"sys/fs/cgroup/cpu/a/cpu.cfs_period_us": "100000\n",
		}, "sys/fs/cgroup/cpu/a", 2},
		{"version 1, no bound", map[string]string{
			"proc/self/cgroup":                    "3:cpu:/\n",
			"sys/fs/cgroup/cpu/cpu.cfs_quota_us":  "-1\n",
			"sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
		}, "", none},
		{"a container, whose own group is the root that it sees", map[string]string{
			"proc/self/cgroup":      "0::/\n",
			"sys/fs/cgroup/cpu.max": "50000 100000\n",
		}, "sys/fs/cgroup", 0.5},
	} {
		root := fstest.MapFS{}
		for name, text := range c.files {
			root[name] = &fstest.MapFile{Data: []byte(text)}
		}
		if group, cores := cgroupOf(root); group != c.group || cores != c.cores {
			t.Errorf("%s: group %q with %v cores, want %q with %v", c.name, group, cores, c.group, c.cores)
		}
	}
}

func TestCrowded(t *testing.T) {
	set := func(cores ...int) (s unix.CPUSet) {
		for _, c := range cores {
			s.Set(c)
		}
		return s
	}
	two, four := set(0, 1), set(0, 1, 2, 3)
	for _, c := range []struct {
		name   string
		offers []offer
		want   bool
	}{
		{"a core each", []offer{{cpus: two, quota: math.Inf(1)}, {cpus: two, quota: math.Inf(1)}}, false},
		{"three ranks on two cores", []offer{{cpus: two, quota: math.Inf(1)}, {cpus: two, quota: math.Inf(1)},
			{cpus: two, quota: math.Inf(1)}}, true},
		{"ranks bound to cores of their own", []offer{{cpus: set(0), quota: math.Inf(1)},
			{cpus: set(1), quota: math.Inf(1)}}, false},
		{"both in one group with one core's time",
			[]offer{{cpus: four, quota: 1, group: 7}, {cpus: four, quota: 1, group: 7}}, true},
		{"each in a group of its own with one core's time",
			[]offer{{cpus: four, quota: 1, group: 7}, {cpus: four, quota: 1, group: 8}},
			false},
	} {
		test.Equal(t, oversubscribed(c.offers), c.want, "%s", c.name)
	}
}
