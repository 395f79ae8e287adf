package roles

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/rlinf/rlinf/internal/gpu"
	"github.com/rlinf/rlinf/spmd/mpi"
	"github.com/urfave/cli/v2"
)

// runCheck shows what a configuration means, on the ranks that it would have, and refuses what
// would not run.
func runCheck(c *cli.Context, reg Registries) error {
	cfg, err := readConfig(c, reg, c.Args().Slice(), c.App.ErrWriter)
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
	nodes := dealNodes(np, max(cfg.SPMD.Nodes, cfg.Cluster.NumNodes, 1))
	j, err := startJob(cfg, reg, nodes)
	if err != nil {
		return UsageError{err}
	}
	return describe(c.App.Writer, j, nodes)
}

// describe writes the table of ranks, the batches and the memory, and returns an error when that
// does not fit this machine.
func describe(out io.Writer, j *job, nodes []int) error {
	devices, note := gpu.Devices()
	fmt.Fprintf(out, "%d ranks on %d nodes, %s\n", len(nodes), nodes[len(nodes)-1]+1, j.place.Mode())
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	columns := "rank\tnode\tworkers\tdevice\tparameters\toptimiser\trollouts\tchannels"
	if j.offPolicy || j.offline {
		columns += "\treplay"
	}
	fmt.Fprintln(w, columns)
	local := map[int]int{}
	for r, node := range nodes {
		device := "cpu"
		if len(devices) > 0 {
			device = devices[local[node]%len(devices)].Name
		}
		local[node]++
		mem := j.memory(r)
		fmt.Fprintf(w, "%d\t%d\t%s\t%s\t%s\t%s\t%s\t%s", r, node, strings.Join(j.workersOn(r), " "), device,
			mebibytes(mem.parameters), mebibytes(mem.optimiser), mebibytes(mem.rollouts), mebibytes(mem.channels))
		if j.offPolicy || j.offline {
			fmt.Fprintf(w, "\t%s", mebibytes(mem.replay))
		}
		fmt.Fprintln(w)
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
	for _, line := range j.batchArithmetic() {
		fmt.Fprintln(out, line)
	}
	if err := writeOwn(out, j.cfg.OwnKeys()); err != nil {
		return err
	}
	if err := j.checkReplay(nodes, 0); err != nil {
		return UsageError{err}
	}
	for node := range nodes[len(nodes)-1] + 1 {
		if err := j.checkMemory(nodes, node, roomOn(nodes, node)); err != nil {
			return UsageError{err}
		}
	}
	return nil
}

// writeOwn writes a line for each key of users' own parts: its value, where that is from, and what it
// means.
func writeOwn(out io.Writer, keys []OwnKey) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, k := range keys {
		fmt.Fprintf(w, "%s\t%s\t(%s)\t%s\n", k.Key, k.Value, k.Origin, k.Doc)
	}
	return w.Flush()
}
