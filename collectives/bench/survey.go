package bench

import (
	"cmp"
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

// A place describes the host and the process of one rank.
type place struct {
	report.Host // Affinity has the CPUs of this rank only
	PID         int
	Free        int64
	ClockStep   time.Duration
}

// here returns the place of this rank. Fields that the system does not provide stay empty.
func here(d spmd.WorldInfo, opts *Options) place {
	const cpu0 = "/sys/devices/system/cpu/cpu0/"
	p := place{PID: d.PID, Free: opts.Free, ClockStep: clockStep(), Host: report.Host{
		Name: d.Host, CPU: cmp.Or(field("/proc/cpuinfo", "model name"), "unknown CPU"), Kernel: runtime.GOOS,
		Governor: read(cpu0 + "cpufreq/scaling_governor"), Cache: opts.Cache,
		Affinity: []string{field("/proc/self/status", "Cpus_allowed_list")}, MaxProcs: runtime.GOMAXPROCS(0)}}
	if release := read("/proc/sys/kernel/osrelease"); release != "" {
		p.Kernel = "Linux " + release
	}
	if p.Cache == 0 {
		levels, _ := filepath.Glob(cpu0 + "cache/index*/size")
		for _, path := range levels {
			p.Cache = max(p.Cache, parseSize(read(path)))
		}
	}
	return p
}

// field returns the value of a line "name: value" of a file, or "" if there is none.
func field(path, name string) string {
	for line := range strings.Lines(read(path)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// read returns the text of a file without spaces around it, or "" if there is no such file.
func read(path string) string {
	text, _ := os.ReadFile(path)
	return strings.TrimSpace(string(text))
}

// parseSize parses the size of a cache in the form that the kernel writes: 32768K. Other texts give 0.
func parseSize(s string) int64 {
	digits := strings.TrimRight(s, "KM")
	n, _ := strconv.ParseInt(digits, 10, 64)
	return n << map[string]int{"K": 10, "M": 20}[s[len(digits):]]
}

// cpusOf returns the CPUs of a list like 0-3,8.
func cpusOf(list string) (cpus []int) {
	for part := range strings.SplitSeq(list, ",") {
		low, high, _ := strings.Cut(part, "-")
		first, err := strconv.Atoi(low)
		last, err2 := strconv.Atoi(cmp.Or(high, low))
		if err != nil || err2 != nil {
			continue
		}
		for c := first; c <= last; c++ {
			cpus = append(cpus, c)
		}
	}
	return cpus
}

// survey adds the hosts of the world to the report, and sets r.processes and r.budget. Every rank gets the same
// results. survey is collective over the world.
func (r *Run) survey(ctx context.Context) error {
	w, m := r.w, &r.rep.Machine
	d, me, size := w.Describe(), w.Rank(), w.Size()
	mine, err := json.Marshal(here(d, &r.opts))
	if err != nil {
		return err
	}
	lengths, counts, total := make([]int64, size), make([]int, size), 0
	lengths[me] = int64(len(mine))
	if err := r.reports.Run(ctx, collectives.AllGather(lengths, nil)); err != nil {
		return err
	}
	for rank, n := range lengths {
		counts[rank] = int(n)
		total += int(n)
	}
	all, begin := make([]byte, total), 0
	for _, n := range counts[:me] {
		begin += n
	}
	copy(all[begin:], mine)
	if err := r.reports.Run(ctx, collectives.AllGather(all, counts)); err != nil {
		return err
	}
	places, b := make([]place, size), &r.budget
	for rank := range places {
		p := &places[rank]
		if err := json.Unmarshal(all[:counts[rank]], p); err != nil {
			return err
		}
		all = all[counts[rank]:]
		onHost := func(q place) bool { return q.Name == p.Name }
		inProcess := func(q place) bool { return onHost(q) && q.PID == p.PID }
		r.processes = append(r.processes, slices.IndexFunc(places, inProcess))
		b.hosts = append(b.hosts, slices.IndexFunc(places, onHost))
		b.cache = max(b.cache, int(p.Cache))
		if rank == 0 || int(p.Free) < b.free {
			b.free = int(p.Free)
		}
		m.ClockStep = max(m.ClockStep, float64(p.ClockStep))
	}
	m.Hosts = hostsOf(places)
	m.Transport, m.Library, m.Launcher, m.Threads, m.Shared = d.Transport, d.Library, d.Launcher, d.Threads, d.Shared
	m.Wait = "spins 20 µs, yields the core up to 1 ms, then sleeps"
	if d.Transport == "local" {
		m.Wait = "goroutines sleep until woken"
	}
	m.Ranks, m.Nodes = size, 1+slices.Max(w.Nodes())
	return nil
}

// hostsOf groups the places of all ranks by host.
func hostsOf(places []place) []report.Host {
	var list []report.Host
	for r, p := range places {
		at := slices.IndexFunc(list, func(h report.Host) bool { return h.Name == p.Name })
		if at < 0 {
			at = len(list)
			list = append(list, p.Host)
			list[at].Affinity = nil
		}
		h := &list[at]
		h.Ranks, h.Affinity = append(h.Ranks, r), append(h.Affinity, p.Affinity...)
	}
	for i := range list {
		h := &list[i]
		cpus := cpusOf(strings.Join(report.Distinct(h.Affinity), ","))
		h.CPUs = cmp.Or(len(report.Distinct(cpus)), runtime.NumCPU())
	}
	return list
}

// clockStep returns the smallest difference between two readings of the clock.
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
