package roles

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/rlinf/rlinf/internal/gpu"
	"github.com/rlinf/rlinf/spmd/mpi"
	"github.com/rlinf/rlinf/tensor"
	"github.com/urfave/cli/v2"
)

// runCheck shows what a configuration means, on the ranks that it would have, and refuses what would not run.
func runCheck(c *cli.Context, reg Registries) error {
	cfg, err := configOf(c)
	if err != nil {
		return err
	}
	np, err := localRanks(c, cfg)
	if n, launcher := mpi.Launched(); launcher != "" && !c.IsSet("np") {
		np = n
	}
	if err != nil {
		return err
	}
	nodes := make([]int, np)
	if n := max(cfg.SPMD.Nodes, cfg.Cluster.NumNodes); n > 1 {
		for r := range nodes {
			nodes[r] = r * n / np
		}
	}
	j, err := newJob(cfg, reg, nodes)
	if err != nil {
		return UsageError{err}
	}
	return j.describe(c.App.Writer, nodes)
}

// describe writes the table of ranks, the batches and the memory, and returns an error when that does not fit this machine.
func (j *job) describe(out io.Writer, nodes []int) error {
	devices, note := gpu.Devices()
	fmt.Fprintf(out, "%d ranks on %d nodes, %s\n", len(nodes), nodes[len(nodes)-1]+1, j.place.Mode())
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "rank\tnode\tworkers\tdevice\tmemory")
	worst, local := int64(0), map[int]int{}
	perNode := map[int]int64{}
	for r, node := range nodes {
		device := "cpu"
		if len(devices) > 0 {
			device = devices[local[node]%len(devices)].Name
		}
		local[node]++
		mem := j.memory(r)
		worst = max(worst, mem)
		perNode[node] += mem
		fmt.Fprintf(w, "%d\t%d\t%s\t%s\t%s\n", r, node, strings.Join(j.workersOn(r), " "), device, mebibytes(mem))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if note != "" {
		fmt.Fprintln(out, note)
	}
	if len(devices) > 0 && local[0] > len(devices) {
		fmt.Fprintf(out, "warning: %d ranks of a node share %d devices\n", local[0], len(devices))
	}
	for _, line := range BatchArithmetic(j.cfg, j.actors, j.rollouts, j.simulators) {
		fmt.Fprintln(out, line)
	}
	if have := availableMemory(); have > 0 {
		for node, need := range perNode {
			if need > have {
				return UsageError{fmt.Errorf("node %d needs %s for parameters, optimiser, rollouts and channels, and this machine has %s free: want fewer environments, shorter rollouts or more nodes",
					node, mebibytes(need), mebibytes(have))}
			}
		}
	}
	return nil
}

// memory returns the bytes that rank r takes for parameters, optimiser, trajectories and channels.
func (j *job) memory(r int) int64 {
	params := int64(j.paramBytes())
	on := func(name string) (n int) {
		for _, at := range j.place.Group(name).Ranks {
			if at == r {
				n++
			}
		}
		return n
	}
	bytes := int64(on("actor")) * (4*params + 2*int64(j.trajectoryLayout(j.train.envs/max(j.actors, 1)).Size()))
	if on("rollout") > 0 {
		bytes += params
	}
	for _, l := range j.train.lanes {
		ends := 0
		for _, at := range []int{j.place.Group("env").Ranks[l.env], j.place.Group("rollout").Ranks[l.rollout]} {
			if at == r {
				ends++
			}
		}
		bytes += int64(ends) * 2 * int64(j.stepLayout(l).Size()+j.actionLayout(l).Size())
		if j.place.Group("rollout").Ranks[l.rollout] == r {
			bytes += 2 * int64(j.trajectoryLayout(l.hi-l.lo).Size())
		}
	}
	return bytes
}

// paramBytes returns the size of one copy of the parameters.
func (j *job) paramBytes() int {
	pol, err := j.newPolicy(tensor.Heap)
	if err != nil {
		return 0 // newJob has made one
	}
	return 4 * len(pol.Params().Data)
}

func mebibytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

// availableMemory returns the bytes that this machine can still give, 0 where it does not say.
func availableMemory() int64 {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "MemAvailable:"); ok {
			n, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return n << 10
		}
	}
	return 0
}
