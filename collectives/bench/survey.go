package bench

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rlinf/rlinf/collectives"
	"github.com/rlinf/rlinf/collectives/bench/report"
	"github.com/rlinf/rlinf/spmd"
)

// A place describes where one rank runs.
type place struct {
	Host     string
	PID      int
	CPU      string
	Kernel   string
	Governor string
	Cache    int64
	Affinity string
	MaxProcs int
}

// here returns the place of this rank. Facts that the system does not give stay empty. cache is the size
// of the last-level cache; 0: what the system says.
func here(d spmd.Description, cache int64) place {
	const cpu0 = "/sys/devices/system/cpu/cpu0/"
	p := place{Host: d.Host, PID: d.PID, CPU: "unknown CPU", Kernel: runtime.GOOS, MaxProcs: runtime.GOMAXPROCS(0)}
	if model := field("/proc/cpuinfo", "model name"); model != "" {
		p.CPU = model
	}
	if release := firstLine("/proc/sys/kernel/osrelease"); release != "" {
		p.Kernel = "Linux " + release
	}
	p.Governor = firstLine(cpu0 + "cpufreq/scaling_governor")
	if p.Cache = cache; cache == 0 {
		levels, _ := filepath.Glob(cpu0 + "cache/index*/size")
		for _, path := range levels {
			p.Cache = max(p.Cache, parseSize(firstLine(path)))
		}
	}
	p.Affinity = field("/proc/self/status", "Cpus_allowed_list")
	return p
}

// field returns the value of a line "name: value" of a file, or "" if there is none.
func field(path, name string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		key, value, ok := strings.Cut(line, ":")
		if ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func firstLine(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(text), "\n")
	return strings.TrimSpace(line)
}

// parseSize parses the size of a cache in the form that the kernel writes: 32768K.
func parseSize(s string) int64 {
	n, err := strconv.ParseInt(strings.TrimRight(s, "KM"), 10, 64)
	switch {
	case err != nil:
		return 0
	case strings.HasSuffix(s, "K"):
		n <<= 10
	case strings.HasSuffix(s, "M"):
		n <<= 20
	}
	return n
}

// cpusOf returns the CPUs of a list like 0-3,8.
func cpusOf(list string) []int {
	var cpus []int
	for _, part := range strings.Split(list, ",") {
		low, high, isRange := strings.Cut(part, "-")
		lo, err := strconv.Atoi(low)
		if err != nil {
			continue
		}
		hi := lo
		if isRange {
			if hi, err = strconv.Atoi(high); err != nil {
				continue
			}
		}
		for c := lo; c <= hi; c++ {
			cpus = append(cpus, c)
		}
	}
	return cpus
}

// survey adds the machines of the world to the report. It returns the lowest rank of each rank's host,
// and finds that of each rank's process. Every rank gets all results and uses the same amount of
// communication memory, because measured buffers must not lie differently on rank 0. Collective.
func (r *Run) survey(ctx context.Context) (hosts []int, err error) {
	w, m := r.w, &r.rep.Machine
	d, me, size := w.Describe(), w.Rank(), w.Size()
	mine, err := json.Marshal(here(d, r.opts.Cache))
	if err != nil {
		return nil, err
	}
	lengths := make([]int64, size)
	lengths[me] = int64(len(mine))
	if err := r.group.Run(ctx, collectives.AllGather(lengths, nil)); err != nil {
		return nil, err
	}
	counts, ends, total := make([]int, size), make([]int, size), 0
	for rank, n := range lengths {
		total += int(n)
		counts[rank], ends[rank] = int(n), total
	}
	all := make([]byte, total)
	copy(all[ends[me]-counts[me]:], mine)
	if err := r.group.Run(ctx, collectives.AllGather(all, counts)); err != nil {
		return nil, err
	}
	places := make([]place, size)
	for rank := range places {
		p := &places[rank]
		if err := json.Unmarshal(all[ends[rank]-counts[rank]:ends[rank]], p); err != nil {
			return nil, err
		}
		onHost := func(q place) bool { return q.Host == p.Host }
		inProcess := func(q place) bool { return q.Host == p.Host && q.PID == p.PID }
		r.processes = append(r.processes, slices.IndexFunc(places, inProcess))
		hosts = append(hosts, slices.IndexFunc(places, onHost))
	}
	m.Hosts = hostsOf(places)
	m.Transport, m.Library, m.Launcher, m.Threads, m.Shared = d.Transport, d.Library, d.Launcher, d.Threads, d.Shared
	m.Wait = "spins 20 µs, yields the core up to 1 ms, then sleeps"
	if d.Transport == "local" {
		m.Wait = "goroutines sleep until woken"
	}
	m.Ranks, m.Nodes, m.ClockStep = size, 1+slices.Max(w.Nodes()), float64(clockStep())
	return hosts, nil
}

// hostsOf groups the places of all ranks by host.
func hostsOf(places []place) []report.Host {
	var list []report.Host
	cpus := map[string]map[int]bool{}
	for r, p := range places {
		at := slices.IndexFunc(list, func(h report.Host) bool { return h.Name == p.Host })
		if at < 0 {
			at = len(list)
			list = append(list, report.Host{Name: p.Host, CPU: p.CPU, Kernel: p.Kernel, Governor: p.Governor,
				Cache: p.Cache, MaxProcs: p.MaxProcs})
			cpus[p.Host] = map[int]bool{}
		}
		h := &list[at]
		h.Ranks = append(h.Ranks, r)
		h.Affinity = append(h.Affinity, p.Affinity)
		for _, c := range cpusOf(p.Affinity) {
			cpus[p.Host][c] = true
		}
		if h.CPUs = len(cpus[p.Host]); h.CPUs == 0 {
			h.CPUs = runtime.NumCPU()
		}
	}
	return list
}

// clockStep returns the smallest difference that two readings of the clock show.
func clockStep() time.Duration {
	step := time.Second
	for range 1000 {
		start := time.Now()
		d := time.Since(start)
		for d <= 0 {
			d = time.Since(start)
		}
		step = min(step, d)
	}
	return step
}
