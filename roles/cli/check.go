package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/rlinf/rlinf/env/external"
	"github.com/rlinf/rlinf/internal/figures"
	"github.com/rlinf/rlinf/internal/gpu"
	"github.com/rlinf/rlinf/internal/printable"
	"github.com/rlinf/rlinf/internal/runfolder"
	"github.com/rlinf/rlinf/roles/advice"
	"github.com/rlinf/rlinf/roles/cli/args"
	"github.com/rlinf/rlinf/roles/cli/bench"
	"github.com/rlinf/rlinf/roles/cli/verdict"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/job"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/roles/task"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/spmd/mpi"
	"github.com/urfave/cli/v2"
)

// runCheck describes the job of a configuration, with the number of ranks that it asks for. It also writes the verdict:
// the job runs, or these overrides would make it run. It returns an error if the job does not run, or the exit code of
// a request to stop that came while check waited for simulators.
func runCheck(c *cli.Context, reg config.Registries, tasks task.Tasks, hub *external.Hub) (stop int, _ error) {
	cfg, err := args.ReadConfig(c, reg, c.Args().Slice(), c.App.ErrWriter)
	switch {
	case err != nil && c.Bool("json"):
		return 0, new(findings).write(c.App.Writer, "cannot be read", nil, err)
	case err != nil:
		return 0, err
	case len(config.ExternalUses(cfg, nil)) == 0:
		return 0, judge(c, reg, tasks, hub, cfg)
	}
	return stoppable(c, hub, func(*loop.Requests) error { return judge(c, reg, tasks, hub, cfg) })
}

// judge writes the description and the verdict of runCheck.
func judge(c *cli.Context, reg config.Registries, tasks task.Tasks, hub *external.Hub, cfg *config.Config) error {
	if c.Bool("policy") && c.Bool("json") {
		return config.Usagef("--policy: not with --json")
	}
	path, overrides := c.String("config"), c.Args().Slice()
	var found findings
	out := c.App.Writer
	if c.Bool("json") {
		out = io.Discard
	}
	cfg, untried := meet(reg, hub, cfg)
	if errors.Is(untried, external.ErrStopRequested) {
		return untried
	}
	err := errors.Join(untried, examine(c, reg, tasks, cfg, out, &found))
	if err == nil && c.Bool("policy") {
		if err := writePolicy(out, found.plan); err != nil {
			return err
		}
	}
	v := verdict.Judge(cfg, err, func(more []string, standIn bool) (*config.Config, error) {
		cfg, err := args.ReadConfig(c, reg, slices.Concat(overrides, more), io.Discard)
		if cfg == nil {
			return nil, err
		}
		reg := reg
		if standIn {
			reg = verdict.StandIn(reg, cfg)
		}
		return cfg, examine(c, reg, tasks, cfg, io.Discard, new(findings))
	})
	given := overrides
	if c.IsSet("np") {
		given = append([]string{"-np", c.String("np")}, overrides...)
	}
	if c.Bool("json") {
		return found.write(c.App.Writer, v.Headline(), v.Overrides, err)
	}
	text := v.Text(path, given)
	if err != nil {
		return config.Usagef("%w\n%w", err, args.Commands(text))
	}
	fmt.Fprintln(c.App.Writer, text)
	return nil
}

// meet returns cfg with the greetings of the simulators that the job starts, and tries a step of each. The error has
// the mistakes of simulators that fail. A simulator that does not start is left out, because the plan reports it.
func meet(reg config.Registries, hub *external.Hub, cfg *config.Config) (*config.Config, error) {
	met, greetings := *cfg, map[string]string{}
	var failed []error
	for _, u := range config.ExternalUses(&met, []int{0}) {
		x := &u.Env.External
		if x.Listen != "" || len(x.Command) == 0 {
			continue
		}
		source := strings.Join(x.Command, "\x00")
		if known, ok := greetings[source]; ok { // evaluations have the simulator of training, as a rule
			x.Greeting = known
			continue
		}
		greeting, err := hub.Ask(*u.Env)
		if errors.Is(err, external.ErrStopRequested) {
			return &met, err
		} else if err != nil {
			continue
		}
		greetings[source], x.Greeting = greeting, greeting
		n, err := external.EnvsPerChild(*x)
		if err == nil {
			err = bench.TryEnv(reg, *u.Env, max(n, 1))
		}
		if err != nil {
			failed = append(failed, cfg.Mistake(u.Key+".command", strings.Join(x.Command, " "),
				"a simulator that makes a step: "+err.Error()))
		}
	}
	return &met, errors.Join(failed...)
}

// examine plans cfg on the ranks that the job would have. It writes a description of the plan to w, and adds the plan
// to the findings. The error lists all mistakes.
func examine(c *cli.Context, reg config.Registries, tasks task.Tasks, cfg *config.Config, w io.Writer,
	result *findings) error {
	np, err := args.LocalRanks(c, cfg)
	if err != nil {
		return err
	}
	if n, launcher := mpi.Launched(); launcher != "" && !c.IsSet("np") {
		np = n
	} else if !c.IsSet("np") {
		np = min(max(np, cfg.Cluster.NumNodes), config.MaxRanks)
	}
	nodes := args.SpreadNodes(np, min(max(cfg.SPMD.Nodes, cfg.Cluster.NumNodes, 1), config.MaxRanks))
	p, open, err := advice.Provisional(cfg, reg, tasks, nodes)
	if err != nil {
		return errors.Join(err, loop.CheckPaths(cfg))
	}
	if err := loop.CheckStart(&p.JobPlan); err != nil {
		return err
	}
	for r := range nodes {
		if err := p.CheckFiles(r); err != nil {
			return err
		}
	}
	if open != nil {
		fmt.Fprintln(w, "the placement auto is planned when training starts; what follows has all on rank 0")
	}
	result.add(p, nodes)
	if crowd := crowdHere(nodes); crowd != "" {
		result.Warnings = append(result.Warnings, crowd)
		fmt.Fprintln(w, "warning:", crowd)
	}
	return describe(w, p, nodes)
}

// writePolicy writes how the policy of p computes actions.
func writePolicy(w io.Writer, p *task.Plan) error {
	if p.Policy == nil {
		return config.Usagef("--policy: this job has a language model: expected a job in environments")
	}
	n, err := p.Policy()
	if err != nil {
		return config.Usagef("--policy: %w", err)
	}
	return n.Write(w)
}

// crowdHere says that the ranks of a node share fewer cores of this machine than there are ranks. Rank i is on node
// nodes[i]. crowdHere returns "" if each rank can have a core. It also returns "" under a launcher, because the
// launcher gives this process its cores.
func crowdHere(nodes []int) string {
	if _, launcher := mpi.Launched(); launcher != "" {
		return ""
	}
	here := runfolder.Provenance{Transport: "local", MaxProcs: runtime.GOMAXPROCS(0)}
	binding, most := runfolder.Binding(), map[int]int{}
	for _, node := range nodes {
		if most[node]++; most[node] > len(here.Hosts) {
			here.Hosts, here.Binding = append(here.Hosts, ""), append(here.Binding, binding)
		}
	}
	crowd := here.Crowd()
	if crowd == "" {
		return ""
	}
	if len(most) > 1 {
		crowd += " on each node, if nodes are like this machine"
	} else {
		crowd += " of this machine"
	}
	return crowd + ": " + runfolder.CrowdAdvice
}

// findings are the result of rlinf check, as JSON.
type findings struct {
	Runs      bool         `json:"runs"` // whether the job runs without overrides
	Verdict   string       `json:"verdict"`
	Errors    []string     `json:"errors"`
	Overrides []string     `json:"overrides"`           // fix some of the errors
	Placement string       `json:"placement,omitempty"` // collocated, disaggregated or hybrid
	Ranks     []rankReport `json:"ranks,omitempty"`
	Batches   []string     `json:"batches,omitempty"` // lines about the batches of an iteration
	Warnings  []string     `json:"warnings,omitempty"`

	plan *task.Plan
}

// A rankReport describes one rank. Memory is in bytes.
type rankReport struct {
	Rank    int              `json:"rank"`
	Node    int              `json:"node"`
	Workers []string         `json:"workers"`
	Bytes   map[string]int64 `json:"bytes"`
}

// add adds the placement, batches and ranks of the plan p to r. Rank i is on node nodes[i].
func (r *findings) add(p *task.Plan, nodes []int) {
	r.Placement, r.Batches, r.Warnings = fmt.Sprint(p.Placement.Mode()), p.Lines, p.Notes
	r.plan = p
	for rank, node := range nodes {
		mem := p.MemoryOf(rank)
		bytes := map[string]int64{"parameters": mem.Parameters, "optimiser": mem.Optimiser, "rollouts": mem.Rollouts,
			"channels": mem.Channels, "replay": mem.Replay, "activations": mem.Activations,
			"messages": mem.Messages, "texts": mem.Texts, "all": mem.Sum()}
		if mem.Device > 0 {
			bytes["gpu"] = mem.Device
		}
		r.Ranks = append(r.Ranks, rankReport{rank, node, p.NamesOn(rank), bytes})
	}
}

// write writes the findings to out, with the headline of the verdict and the overrides. The lines of err are the
// mistakes. write returns err as a usage error.
func (r *findings) write(out io.Writer, headline string, overrides []string, err error) error {
	r.Runs, r.Verdict = err == nil, headline
	r.Overrides, r.Errors = append([]string{}, overrides...), []string{}
	if err != nil {
		r.Errors = strings.Split(err.Error(), "\n")
		err = config.UsageError{Err: err}
	}
	return errors.Join(json.NewEncoder(out).Encode(r), err)
}

// describe writes the table of ranks with their memory, and the batches. It returns an error if this machine has too
// little memory.
func describe(out io.Writer, p *task.Plan, nodes []int) error {
	devices, note := gpu.Devices()
	fmt.Fprintf(out, "%s on %s, %s\n", figures.Count(len(nodes), "rank"), figures.Count(nodes[len(nodes)-1]+1, "node"),
		p.Placement.Mode())
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	columns := p.MemoryColumns
	fmt.Fprint(w, "rank\tnode\tworkers\tdevice")
	for _, c := range columns {
		fmt.Fprint(w, "\t", c.Name)
	}
	fmt.Fprintln(w)
	local, sharing := map[int]int{}, map[[2]int][]int{} // sharing: ranks with actors by node and number of the device
	for r, node := range nodes {
		device := "cpu"
		if len(devices) > 0 && p.OnDevices(r) > 0 {
			number := local[node] % len(devices)
			device, sharing[[2]int{node, number}] = devices[number].Name, append(sharing[[2]int{node, number}], r)
		}
		local[node]++
		fmt.Fprintf(w, "%d\t%d\t%s\t%s", r, node, strings.Join(p.NamesOn(r), " "), device)
		for mem, i := p.MemoryOf(r), 0; i < len(columns); i++ {
			fmt.Fprintf(w, "\t%s", figures.MiB(columns[i].Bytes(mem)))
		}
		fmt.Fprintln(w)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if note != "" {
		fmt.Fprintln(out, note)
	}
	inOrder := func(a, b [2]int) int { return slices.Compare(a[:], b[:]) }
	for _, at := range slices.SortedFunc(maps.Keys(sharing), inOrder) {
		if ranks := sharing[at]; len(ranks) > 1 {
			fmt.Fprintf(out, "warning: the actors of ranks %s share GPU %d of node %d, %s\n", spmd.PlacementOf(ranks),
				at[1], at[0], devices[at[1]].UUID)
		}
	}
	for _, line := range p.Lines {
		fmt.Fprintln(out, printable.Line(line))
	}
	simulators := config.ExternalUses(p.Config, p.Placement.Ranks("env"))
	if cores, counted := sideBySide(p.Config, p.Job, 0, len(nodes)); len(simulators) > 0 {
		fmt.Fprintf(out, "cores: %d for each rank (%s at the same time)\n", cores, counted)
	}
	if err := writeOwn(out, p.Config.OwnKeys()); err != nil {
		return err
	}
	for _, note := range p.Notes {
		fmt.Fprintln(out, "warning:", note)
	}
	for node := range nodes[len(nodes)-1] + 1 {
		if err := p.CheckMemory(nodes, node, job.AvailableOn(nodes, node)); err != nil {
			return config.UsageError{Err: err}
		}
	}
	return nil
}

// writeOwn writes a line for each given key of users' own parts: value, origin and meaning. A last line says which
// commands show the keys that have their defaults.
func writeOwn(out io.Writer, keys []config.OwnKey) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	defaults, lists := 0, []string(nil)
	for _, k := range keys {
		if k.Origin != "default" {
			fmt.Fprintf(w, "%s\t%s\t(%s)\t%s\n", printable.Line(k.Key), printable.Line(k.Value),
				printable.Line(k.Origin), printable.Line(k.Doc))
			continue
		}
		defaults++
		if list := printable.Quote(thisProgram()) + " config " + k.Section; !slices.Contains(lists, list) {
			lists = append(lists, list)
		}
	}
	if err := w.Flush(); err != nil || defaults == 0 {
		return err
	}
	_, err := fmt.Fprintf(out, "defaults of %s: %s\n", figures.Count(defaults, "other key"), strings.Join(lists, ", "))
	return err
}
