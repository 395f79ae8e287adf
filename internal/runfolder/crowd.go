package runfolder

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rlinf/rlinf/internal/figures"
)

// Crowd describes ranks that share fewer cores than there are ranks: "8 ranks share 2 cores". With several hosts it
// names one of them. It returns "" if every rank can have a core, or if the cores are not known.
func (p *Provenance) Crowd() string {
	var hosts []string
	for _, h := range p.Hosts {
		if !slices.Contains(hosts, h) {
			hosts = append(hosts, h)
		}
	}
	type crowd struct {
		ranks, cores, hosts int
		host                string
	}
	var worst crowd
	for _, h := range hosts {
		ranks, cores := crowded(p.coresOf(h))
		switch {
		case ranks == worst.ranks && cores == worst.cores:
			worst.hosts++
		case ranks*max(worst.cores, 1) > worst.ranks*cores:
			worst = crowd{ranks, cores, 1, h}
		}
	}
	text := CrowdText(worst.ranks, worst.cores)
	switch {
	case worst.ranks == 0:
		return ""
	case len(hosts) == 1:
		return text
	case worst.hosts == len(hosts):
		return text + " on each host"
	case worst.hosts > 1:
		return fmt.Sprintf("%s on each of %d hosts, such as %s", text, worst.hosts, worst.host)
	}
	return text + " on host " + worst.host
}

// coresOf returns the CPUs of each rank on a host, and the largest number of cores that they may use together. The
// result most is 0 if this number is not known.
func (p *Provenance) coresOf(host string) (bindings []string, most int) {
	if p.Transport == "local" { // all ranks are in one process
		most = p.MaxProcs
	}
	for i, of := range p.Hosts {
		if of == host && i < len(p.Binding) {
			bindings = append(bindings, p.Binding[i])
		}
		if of == host && i < len(p.Quota) && p.Quota[i] > 0 {
			most = p.Quota[i]
		}
	}
	return bindings, most
}

// Full reports whether the ranks fill the cores of every host. It returns false if the cores are not known, for example
// because ranks are bound to different cores.
func (p *Provenance) Full() bool {
	for _, h := range p.Hosts {
		bindings, most := p.coresOf(h)
		cores := 0
		if len(slices.Compact(slices.Clone(bindings))) == 1 {
			cores = len(CPUs(bindings[0]))
		}
		if most > 0 && (cores == 0 || most < cores) {
			cores = most
		}
		if cores == 0 || cores > len(bindings) {
			return false
		}
	}
	return len(p.Hosts) > 0
}

// CrowdAdvice follows a text of Crowd, after a colon.
const CrowdAdvice = "they take turns, so waits and times of single ranks say little; use fewer ranks, or more cores"

// CrowdText returns a text such as "8 ranks share 2 cores".
func CrowdText(ranks, cores int) string {
	return fmt.Sprintf("%d ranks share %s", ranks, figures.Count(cores, "core"))
}

// crowded returns the numbers of ranks and cores of the most crowded set of cores on a host. It returns 0 if no set has
// fewer cores than ranks. The sets are those to which ranks are bound, and all cores together. The argument most limits
// the number of cores, unless it is 0.
func crowded(bindings []string, most int) (ranks, cores int) {
	sets, all := make([]map[int]bool, len(bindings)), map[int]bool{}
	for i, b := range bindings {
		if sets[i] = CPUs(b); sets[i] == nil {
			return 0, 0
		}
		for cpu := range sets[i] {
			all[cpu] = true
		}
	}
	seen := map[string]bool{}
	judge := func(set map[int]bool) {
		n, size := 0, len(set)
		if most > 0 {
			size = min(size, most)
		}
		for _, s := range sets {
			if isSubset(s, set) {
				n++
			}
		}
		if n > size && n*max(cores, 1) > ranks*size {
			ranks, cores = n, size
		}
	}
	judge(all)
	for i, b := range bindings {
		if !seen[b] {
			seen[b] = true
			judge(sets[i])
		}
	}
	return ranks, cores
}

func isSubset(s, of map[int]bool) bool {
	if len(s) > len(of) {
		return false
	}
	for cpu := range s {
		if !of[cpu] {
			return false
		}
	}
	return true
}

// mostCPU is the highest number of a CPU that CPUs accepts. Linux has at most 8192 CPUs.
const mostCPU = 1 << 13

// CPUs returns the CPUs of a list such as 0-3,8. It returns nil if the list is empty or damaged.
func CPUs(list string) map[int]bool {
	cpus := map[int]bool{}
	for part := range strings.SplitSeq(list, ",") {
		first, last, isRange := strings.Cut(part, "-")
		from, err := strconv.ParseUint(first, 10, 32)
		to := from
		if err == nil && isRange {
			to, err = strconv.ParseUint(last, 10, 32)
		}
		if err != nil || to < from || to > mostCPU {
			return nil
		}
		for cpu := from; cpu <= to; cpu++ {
			cpus[int(cpu)] = true
		}
	}
	return cpus
}
