package cli

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/rlinf/rlinf/env/external"
	"github.com/rlinf/rlinf/internal/figures"
	"github.com/rlinf/rlinf/roles/advice"
	"github.com/rlinf/rlinf/roles/cli/args"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/job"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/roles/task"
	"github.com/rlinf/rlinf/scripts/slurm"
	"github.com/urfave/cli/v2"
)

// slurmFlags returns the flags of rlinf slurm, in addition to the flags of the configuration.
func slurmFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "template", Value: "train", Usage: "the kind of script: `NAME` is one of " +
			strings.Join(slurm.Names(), ", ")},
		&cli.StringFlag{Name: "nodes", Usage: "number `N` of nodes; for a hetjob N,M: nodes with actors, and others",
			DefaultText: "cluster.num_nodes"},
		args.Int(cli.IntFlag{Name: "cpus", Usage: "CPU cores for each rank",
			DefaultText: "as many as env and rollout workers share a rank"}, 1, 1<<16),
		args.Int(cli.IntFlag{Name: "gpus", Usage: "GPUs on each node; for a hetjob, on each node with actors",
			DefaultText: "none asked for"}, 1, 1<<10),
		&cli.StringFlag{Name: "time", Usage: "the time limit in Slurm's format, `HH:MM:SS`, or auto: measure the job " +
			"as rlinf plan does, and add a margin", DefaultText: "the template's"},
		&cli.StringFlag{Name: "profile", Usage: "with --time auto: read what the operations cost from `FILE`"},
		&cli.StringFlag{Name: "machine", Usage: "with --time auto: predict for the machine in `FILE`"},
		&cli.StringFlag{Name: "partition", Usage: "the `PARTITION` to submit to", DefaultText: "the cluster's"},
		&cli.StringFlag{Name: "account", Usage: "the `ACCOUNT` to charge", DefaultText: "yours"},
		&cli.StringFlag{Name: "mem", Usage: "memory on each node in Slurm's format, `32G`",
			DefaultText: "the cluster's"},
		&cli.StringFlag{Name: "qos", Usage: "the `QOS` of the job", DefaultText: "the cluster's"},
		&cli.StringFlag{Name: "constraint", Usage: "the `FEATURES` that nodes must have, in Slurm's format",
			DefaultText: "none"},
		&cli.GenericFlag{Name: "sbatch", Value: new(lines), Usage: "one more `OPTION` of sbatch, as --exclusive; it " +
			"goes into the script as it is; may be repeated"},
		&cli.GenericFlag{Name: "module", Value: new(lines), Usage: "load this `MODULE` first; may be repeated"},
	}
}

// lines are the values of a repeated flag.
type lines []string

// Set adds a value.
func (l *lines) Set(text string) error {
	*l = append(*l, text)
	return nil
}

func (l *lines) String() string { return strings.Join(*l, " ") }

// runSlurm prints the batch script of a job. It returns the exit code of a request to stop.
func runSlurm(c *cli.Context, reg config.Registries, tasks task.Tasks, hub *external.Hub) (stop int, _ error) {
	return stoppable(c, hub, func(asked *loop.Requests) error { return batchScript(c, reg, tasks, hub, asked) })
}

// batchScript prints the batch script of a job: a template with the resources that the placement needs.
func batchScript(c *cli.Context, reg config.Registries, tasks task.Tasks, hub *external.Hub,
	asked *loop.Requests) error {
	template := c.String("template")
	if !slices.Contains(slurm.Names(), template) {
		return config.Usagef("--template %s: expected one of %s", template, strings.Join(slurm.Names(), ", "))
	}
	if err := checkSlurm(c); err != nil {
		return config.UsageError{Err: err}
	}
	if err := args.CheckFile(c); err != nil {
		return err
	}
	cfg, err := args.ReadConfig(c, reg, c.Args().Slice(), c.App.ErrWriter)
	if err != nil {
		return err
	}
	if _, whole := cfg.Extent(); whole && !c.IsSet("np") {
		return config.UsageError{Err: errors.Join(cfg.Err(), errors.New("cluster.component_placement: takes as many "+
			"ranks as there are: expected -np N, the ranks of the job"))}
	}
	np, err := args.LocalRanks(c, cfg)
	if err != nil {
		return err
	}
	parts, err := slurmParts(c, cfg, reg, tasks, np, slurm.Parts(template))
	if err != nil {
		return config.UsageError{Err: err}
	}
	run := cfg.Runner.Logger.ExperimentName
	if err := checkLine("runner.logger.experiment_name", run); err != nil {
		return config.UsageError{Err: err}
	}
	limit := c.String("time")
	if limit == autoTime {
		if limit, err = predictedTime(c, cfg, reg, tasks, hub, asked, np); err != nil {
			return err
		}
	} else if c.IsSet("profile") || c.IsSet("machine") {
		return config.Usagef("--profile, --machine: expected --time auto")
	}
	_, err = fmt.Fprint(c.App.Writer, slurm.Script(template, slurm.Resources{
		Name: run, Time: limit, Parts: parts, Config: c.String("config"), Run: run,
		Overrides: c.Args().Slice(), Partition: c.String("partition"), Account: c.String("account"),
		Mem: c.String("mem"), QOS: c.String("qos"), Constraint: c.String("constraint"),
		Options: *c.Generic("sbatch").(*lines), Modules: *c.Generic("module").(*lines),
	}))
	return err
}

// autoTime is the value of --time that takes the limit from a prediction.
const autoTime = "auto"

// The time limit is timeFactor times the prediction, and timeStart for the start of the job and its end.
const timeFactor, timeStart = 1.25, 5 * time.Minute

// predictedTime returns the time limit of a job on np ranks, in Slurm's format. It says how the limit was made.
func predictedTime(c *cli.Context, cfg *config.Config, reg config.Registries, tasks task.Tasks, hub *external.Hub,
	asked *loop.Requests, np int) (string, error) {
	x, err := newPlanning(c, cfg, reg, tasks, hub, asked)
	if err != nil {
		return "", err
	}
	j, err := x.onRanks(np)
	if err != nil {
		return "", err
	}
	layout := j.Present // the job runs as it is configured
	if layout == nil {
		layout = j.Winner()
	}
	whole := wholeJob(x.cfg, x.machine, &x.profile.Work, layout)
	if whole == nil {
		return "", config.Usagef("--time auto: expected runner.max_steps or runner.max_epochs: without them the job " +
			"has no end")
	}
	minutes := int(math.Ceil(whole.Seconds/60*timeFactor + timeStart.Minutes()))
	limit := fmt.Sprintf("%d-%02d:%02d:00", minutes/60/24, minutes/60%24, minutes%60)
	_, err = fmt.Fprintf(c.App.ErrWriter, "%s The time limit is %s: %s of this, and %v for start and end.\n", whole,
		limit, figures.Percent(timeFactor), timeStart)
	return limit, err
}

// checkSlurm returns an error if a word for the script is not valid for its flag, or has several lines. The script
// would run the second line as a command.
func checkSlurm(c *cli.Context) error {
	for _, flag := range slurmWords {
		values := lines{c.String(flag.name)}
		if more, ok := c.Generic(flag.name).(*lines); ok {
			values = *more
		}
		for _, text := range values {
			if c.IsSet(flag.name) && !flag.valid.MatchString(text) {
				return fmt.Errorf("--%s %q: expected %s", flag.name, text, flag.want)
			}
		}
	}
	for _, word := range append([]string{c.String("config")}, c.Args().Slice()...) {
		if err := checkLine("", word); err != nil {
			return err
		}
	}
	return nil
}

// checkLine returns an error if text does not fit into one line of a script.
func checkLine(where, text string) error {
	if !strings.ContainsFunc(text, unicode.IsControl) {
		return nil
	}
	if where != "" {
		where += ": "
	}
	return fmt.Errorf("%s%q: expected text of one line, without control characters", where, text)
}

// slurmWords has the flags whose values are copied into the script.
var slurmWords = []struct {
	name  string
	valid *regexp.Regexp
	want  string
}{
	{"partition", regexp.MustCompile(`^[\w.+-]+(,[\w.+-]+)*$`), "a name, or several with commas between them"},
	{"account", regexp.MustCompile(`^[\w.+-]+$`), "a name"},
	{"mem", regexp.MustCompile(`^[0-9]+[KMGT]?$`), "a size as 32G"},
	{"time", regexp.MustCompile(`^(([0-9]+-)?[0-9]+(:[0-9]+){0,2}|auto)$`),
		"a time as 90 (minutes), 04:00:00 or 1-12:00, or auto"},
	{"qos", regexp.MustCompile(`^[\w.+-]+$`), "a name"},
	{"constraint", regexp.MustCompile(`^[\w.+:,&|*()\[\]-]+$`), "names of features with &, |, * and brackets"},
	{"sbatch", regexp.MustCompile(`^--?[A-Za-z][^\p{Cc}]*$`), "one option of sbatch, as --exclusive"},
	{"module", regexp.MustCompile(`^[\w.+/-]+$`), "the name of a module, as openmpi/4.1"},
}

// slurmParts distributes np ranks evenly over the nodes of a job. The job has one part or, if it is a hetjob, two. In a
// hetjob, the first part has the nodes with actors. slurmParts returns an error if the job would not run on these
// nodes.
func slurmParts(c *cli.Context, cfg *config.Config, reg config.Registries, tasks task.Tasks, np,
	count int) ([]slurm.NodeSet, error) {
	asked, err := nodesAsked(c.String("nodes"), count)
	if err != nil {
		return nil, err
	}
	total := count // real nodes, not virtual ones
	if cfg.SPMD.Nodes == 0 && cfg.Cluster.NumNodes > 0 {
		total = cfg.Cluster.NumNodes
	} else if asked != nil {
		total = sum(asked)
	}
	if asked != nil && sum(asked) != total {
		return nil, fmt.Errorf("--nodes %s: expected %d in all, as cluster.num_nodes says", c.String("nodes"), total)
	}
	p, open, err := advice.Provisional(cfg, reg, tasks, args.SpreadNodes(np, max(total, cfg.SPMD.Nodes)))
	if err = errors.Join(err, loop.CheckOutputs(cfg)); err != nil {
		return nil, err
	}
	if open != nil && count == 2 {
		return nil, errors.New("cluster.component_placement: auto: expected ranks, for a hetjob")
	}
	j := p.Job
	ranks := []int{np} // ranks of each part
	if count == 2 {
		learners, err := actorRanks(j, np)
		if err != nil {
			return nil, err
		}
		ranks = []int{learners, np - learners}
	}
	nodes := asked
	if nodes == nil {
		nodes = []int{total}
		if count == 2 {
			learners := min(max(ranks[0]*total/np, 1), total-1) // in proportion to their ranks
			nodes = []int{learners, total - learners}
		}
	}
	parts, first := make([]slurm.NodeSet, count), 0
	for i := range parts {
		if nodes[i] < 1 || ranks[i]%nodes[i] != 0 {
			return nil, fmt.Errorf("ranks %d..%d on %d nodes: expected a number of nodes that divides %d "+
				"(cluster.num_nodes, --nodes)", first, first+ranks[i]-1, nodes[i], ranks[i])
		}
		parts[i] = slurm.NodeSet{Nodes: nodes[i], TasksPerNode: ranks[i] / nodes[i], CPUsPerTask: c.Int("cpus")}
		if parts[i].CPUsPerTask == 0 {
			parts[i].CPUsPerTask, _ = sideBySide(cfg, j, first, first+ranks[i])
		}
		first += ranks[i]
	}
	parts[0].GPUsPerNode = c.Int("gpus")
	return parts, nil
}

// nodesAsked parses text, the value of --nodes: a number of nodes for each part. It returns nil if text is "".
func nodesAsked(text string, parts int) ([]int, error) {
	if text == "" {
		return nil, nil
	}
	var nodes []int
	for word := range strings.SplitSeq(text, ",") {
		if n, err := strconv.Atoi(strings.TrimSpace(word)); err == nil && n > 0 {
			nodes = append(nodes, n)
		}
	}
	if len(nodes) != parts || len(nodes) != strings.Count(text, ",")+1 {
		want := "a number > 0"
		if parts == 2 {
			want = "two numbers > 0, as 1,4: nodes with actors, and others"
		}
		return nil, fmt.Errorf("--nodes %s: expected %s", text, want)
	}
	return nodes, nil
}

func sum(of []int) (s int) {
	for _, n := range of {
		s += n
	}
	return s
}

// actorRanks returns the number of ranks with actors. It returns an error unless actors are on the first ranks and
// other ranks follow.
func actorRanks(j *job.Job, np int) (int, error) {
	has := make([]bool, np)
	for _, r := range j.Placement.Ranks("actor") {
		has[r] = true
	}
	first := slices.Index(has, false)
	if first < 1 || slices.Contains(has[first:], true) {
		return 0, errors.New("cluster.component_placement: expected, for a hetjob, actors on the first ranks, and " +
			"ranks without actors after them")
	}
	return first, nil
}

// sideBySide returns how many cores a rank needs: the number of workers and simulators that work at the same time, as
// the maximum over the ranks from first to end-1. It counts env and rollout workers, because actors work before or
// after them. In place of an env worker that waits for external simulators, it counts the simulators that this worker
// starts. counted describes them, as "4 simulators and 1 rollout worker".
func sideBySide(c *config.Config, j *job.Job, first, end int) (cores int, counted string) {
	envRanks, simulators := j.Placement.Ranks("env"), 0 // simulators of an env worker
	for _, u := range config.ExternalUses(c, envRanks) {
		if u.Env.External.Listen == "" && len(envRanks) > 0 {
			simulators = max(simulators, config.Product(max(u.Env.External.N, 1), u.Vecs)/len(envRanks))
		}
	}
	envs, rollouts := make([]int, end), make([]int, end)
	for _, of := range []struct {
		ranks []int
		busy  []int
		each  int
	}{{envRanks, envs, max(1, simulators)}, {j.Placement.Ranks("rollout"), rollouts, 1}} {
		for _, r := range of.ranks {
			if r < end {
				of.busy[r] += of.each
			}
		}
	}
	what := "env worker"
	if simulators > 0 {
		what = "simulator"
	}
	cores, counted = 1, figures.Count(1, "actor")
	for r := first; r < end; r++ {
		if envs[r]+rollouts[r] < cores || envs[r]+rollouts[r] == cores && cores > 1 {
			continue
		}
		cores = envs[r] + rollouts[r]
		var parts []string
		if envs[r] > 0 {
			parts = append(parts, figures.Count(envs[r], what))
		}
		if rollouts[r] > 0 {
			parts = append(parts, figures.Count(rollouts[r], "rollout worker"))
		}
		counted = strings.Join(parts, " and ")
	}
	return cores, counted
}
