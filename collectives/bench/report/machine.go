package report

import (
	"fmt"
	"strings"

	"github.com/rlinf/rlinf/internal/figures"
)

// A Platform describes the hardware and software under a benchmark.
type Platform struct {
	Version   string            `json:"version"` // version of this program
	Revision  string            `json:"revision,omitempty"`
	Tags      string            `json:"tags,omitempty"`
	Go        string            `json:"go"`
	Platform  string            `json:"platform"`
	Args      []string          `json:"args"`
	Variables map[string]string `json:"variables"` // variables that steer MPI, Slurm, the fabric and Go

	Transport string `json:"transport"`
	Library   string `json:"library,omitempty"`
	Launcher  string `json:"launcher,omitempty"`
	Threads   string `json:"threads,omitempty"` // the MPI thread level
	Wait      string `json:"wait"`              // how a rank waits
	Shared    string `json:"shared_memory"`     // memory that a rank can share with its node, or why it can share none

	Ranks     int     `json:"ranks"`
	Nodes     int     `json:"nodes"`
	Hosts     []Host  `json:"hosts"`
	ClockStep float64 `json:"clock_step_ns"` // the smallest difference between two readings of the clock
	// Roof is the memory bandwidth while all ranks copy memory that does not fit into the caches. It counts the bytes
	// that are read and the bytes that are written.
	Roof     float64 `json:"roof_gbs,omitempty"`
	RoofSize int64   `json:"roof_bytes,omitempty"` // bytes that each rank copied
}

// A Host is one machine and the ranks on it.
type Host struct {
	Name     string   `json:"name"`
	CPU      string   `json:"cpu"` // model
	Kernel   string   `json:"kernel"`
	Governor string   `json:"governor,omitempty"` // governor of the clock frequency; "" if not known
	Cache    int64    `json:"cache_bytes"`        // size of the last-level cache
	Ranks    []int    `json:"ranks"`
	CPUs     int      `json:"cpus"`       // number of CPUs that the ranks may use together
	Affinity []string `json:"affinity"`   // CPUs of each rank, such as 0-3,8
	MaxProcs int      `json:"gomaxprocs"` // GOMAXPROCS of a process
}

// Load returns the number of ranks per CPU on the fullest host.
func (m *Platform) Load() float64 {
	load := 0.0
	for _, h := range m.Hosts {
		load = max(load, h.load())
	}
	return load
}

// load returns the number of ranks per CPU of the host, or 0 if the CPUs are not known.
func (h *Host) load() float64 {
	if h.CPUs == 0 {
		return 0
	}
	return float64(len(h.Ranks)) / float64(h.CPUs)
}

// Warnings returns reasons why times are worse than necessary, or differ between starts.
func (m *Platform) Warnings() []string {
	var lines []string
	for _, h := range m.Hosts {
		switch {
		case h.load() > 1:
			lines = append(lines, fmt.Sprintf("*** OVERSUBSCRIBED %.1fx: %d ranks on %s of %s. Latencies are those "+
				"of the scheduler. ***", h.load(), len(h.Ranks), figures.Count(h.CPUs, "CPU"), h.Name))
		case m.Transport == "mpi" && h.unbound():
			lines = append(lines, fmt.Sprintf("*** UNBOUND: each of %d ranks of %s may run on any of CPUs %s, so "+
				"times differ between starts. Bind them: mpirun --bind-to core, srun --cpu-bind=cores. ***",
				len(h.Ranks), h.Name, h.Affinity[0]))
		}
	}
	return lines
}

// unbound reports whether there are several ranks and all of them may run on the same CPUs.
func (h *Host) unbound() bool {
	return len(h.Ranks) > 1 && len(h.Affinity) > 0 && h.Affinity[0] != "" && len(Distinct(h.Affinity)) == 1
}

// header returns the lines before the rows.
func (r *Report) header() []string {
	m := &r.Machine
	name := "rlinf bench"
	if r.Bench != "collectives" {
		name += " " + r.Bench
	}
	build := m.Version
	if m.Revision != "" {
		build += " git " + m.Revision[:min(12, len(m.Revision))]
		if strings.HasSuffix(m.Revision, "+dirty") {
			build += "+dirty"
		}
	}
	platform := m.Platform
	if m.Tags != "" {
		platform += " [" + m.Tags + "]"
	}
	lines := []string{fmt.Sprintf("%s %s, %s %s: %s on %s", name, build, m.Go, platform, figures.Count(m.Ranks, "rank"),
		figures.Count(m.Nodes, "node"))}
	lines = append(lines, m.Warnings()...)
	library, _, _ := strings.Cut(m.Library, "\n")
	transport := join(", ", m.Transport, strings.Join(strings.Fields(library), " "), m.Launcher, m.Threads)
	lines = append(lines, "transport: "+transport)
	if m.Roof > 0 {
		lines = append(lines, fmt.Sprintf("memory roof: %.1f GB/s", m.Roof))
	}
	return append(lines, "more columns: -o csv; all that is known: -o json")
}
