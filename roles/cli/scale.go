package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rlinf/rlinf/internal/figures"
	"github.com/rlinf/rlinf/internal/moves"
	"github.com/rlinf/rlinf/internal/printable"
	"github.com/rlinf/rlinf/internal/runfolder"
	"github.com/rlinf/rlinf/roles/cli/args"
	"github.com/rlinf/rlinf/roles/cli/watch"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/roles/session"
	"github.com/rlinf/rlinf/roles/task"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/spmd/mpi"
	"github.com/urfave/cli/v2"
)

const scaleUsage = "rlinf scale RUN \"{actor: 0-3, env: 4-7}\"  # components that are not named keep their places"

const scaleDescription = "The job moves between two iterations: workers keep their numbers, and other ranks hold " +
	"them.\nThe number of actors stays, so the metrics do too. The command waits for the job's answer.\n" +
	"Ctrl-C ends the wait, and the request stays. For more ranks than the job has, the command prints\n" +
	"the line that resumes the run on them."

func scaleFlags() []cli.Flag {
	return []cli.Flag{&cli.BoolFlag{Name: "no-wait", Usage: "leave the request, and do not wait for the answer"}}
}

// runScale checks a placement, asks a running job to move there, and waits for the answer.
func runScale(c *cli.Context, reg config.Registries, tasks task.Tasks) (int, error) {
	words := c.Args().Slice()
	if len(words) != 2 {
		return 0, config.Usagef("scale: expected the folder of a run and a placement, as rlinf scale logs/job " +
			"\"{actor: 0-3, env: 4-7}\"")
	}
	dir, err := watch.OneRun(words[:1])
	if err != nil {
		return 0, config.Usagef("scale: %w", err)
	}
	r, err := readPlaced(reg, tasks, dir)
	if err != nil {
		return 0, config.Usagef("scale: %w", err)
	}
	status, err := runfolder.ReadStatus(dir)
	if err != nil {
		return 0, fmt.Errorf("scale: %w", err)
	}
	moved, err := r.check(reg, tasks, words[1], status == runfolder.Running)
	if err != nil {
		return 0, config.UsageError{Err: err}
	}
	switch need := extent(moved); {
	case need > len(r.nodes):
		return 0, config.Usagef("scale: the job has %s, and %s needs %d: expected ranks 0..%d, or a resume on more:\n"+
			"%w", figures.Count(len(r.nodes), "rank"), words[1], need, len(r.nodes)-1,
			args.Commands(r.resume(moved, need)))
	case status == runfolder.Done:
		return 0, config.Usagef("scale: %s: expected a run that runs, this one is done", dir)
	case status != runfolder.Running:
		return 0, config.Usagef("scale: %s: expected a run that runs, this one is %s; to resume it there:\n%w", dir,
			printable.Line(string(status)), args.Commands(r.resume(moved, len(r.nodes))))
	case r.samePlaces(moved):
		fmt.Fprintf(c.App.Writer, "%s has this placement already: %s\n", printable.Line(dir),
			printable.Line(moved.PlacementText()))
		return loop.ExitOK, nil
	}
	ctx, stop := signal.NotifyContext(c.Context, os.Interrupt)
	defer stop()
	id, err := moves.Ask(dir, moved.PlacementText())
	if err != nil {
		return 0, fmt.Errorf("scale: %w", err)
	}
	if c.Bool("no-wait") {
		fmt.Fprintf(c.App.Writer, "asked for %s; rlinf status %s shows when the job has moved\n",
			printable.Line(moved.PlacementText()), printable.Quote(dir))
		return loop.ExitOK, nil
	}
	fmt.Fprintf(c.App.ErrWriter, "asked for %s; the job answers between two iterations\n",
		printable.Line(moved.PlacementText()))
	a, err := await(ctx, dir, id)
	switch {
	case errors.Is(err, context.Canceled):
		fmt.Fprintf(c.App.ErrWriter, "the request stays; rlinf status %s shows when the job has moved\n",
			printable.Quote(dir))
		return loop.ExitInterrupted, nil
	case err != nil:
		return 0, fmt.Errorf("scale: %w", err)
	case a.Move == nil:
		return 0, fmt.Errorf("scale: the job refused: %s", printable.Line(a.Refused))
	}
	fmt.Fprintf(c.App.Writer, "moved after step %d: %s\n%s\n", a.Move.Step, printable.Line(a.Move.Change()),
		a.Move.Cost())
	return loop.ExitOK, nil
}

// The intervals at which await reads answers, and the status of the run. Reading the status creates a file.
const (
	answerEvery = 100 * time.Millisecond
	statusEvery = 2 * time.Second
)

// await returns the answer to the request id. If the run ends without an answer, await withdraws the request.
func await(ctx context.Context, dir, id string) (*moves.Answer, error) {
	tick := time.NewTicker(answerEvery)
	defer tick.Stop()
	over := runfolder.Running // the last known status of the run
	for looked := time.Now(); ; {
		a, err := moves.Find(dir, id)
		if a != nil || err != nil {
			return a, err
		}
		if over != runfolder.Running {
			err = fmt.Errorf("the run is %s now, and has not answered", over)
			return nil, errors.Join(err, moves.Withdraw(dir, id))
		}
		if time.Since(looked) >= statusEvery {
			if over, err = runfolder.ReadStatus(dir); err != nil {
				return nil, err
			}
			looked = time.Now()
			continue // the run may have answered before its end
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-tick.C:
		}
	}
}

// A placedRun is a run with its present placement.
type placedRun struct {
	dir   string
	cfg   *config.Config
	pool  *config.Config       // the configuration as read, if the run has a pool; else nil
	start runfolder.Provenance // the newest start of the run
	nodes []int                // the node of each rank
}

// readPlaced reads the run in dir.
func readPlaced(reg config.Registries, tasks task.Tasks, dir string) (*placedRun, error) {
	r := &placedRun{dir: dir}
	var err error
	if r.cfg, err = configOf(reg, dir); err != nil {
		return nil, err
	}
	if !r.cfg.Trains() {
		return nil, fmt.Errorf("%s: expected a run that trains", dir)
	}
	var ok bool
	if r.start, ok = runfolder.LastStart(dir); !ok || len(r.start.Hosts) == 0 {
		return nil, fmt.Errorf("%s: expected a run that has begun, with provenance.json", dir)
	}
	r.nodes = nodesOf(r.start.Hosts, r.cfg.SPMD.Nodes)
	all, _, err := moves.Read(dir)
	if err != nil {
		return nil, err
	}
	if r.cfg.Deals() {
		r.pool = r.cfg
	}
	var place *spmd.Placement
	if all = moves.Since(all, r.start.Started); len(all) > 0 {
		if r.cfg, err = r.cfg.Moved(reg, all[len(all)-1].After); err == nil {
			place, err = r.cfg.Place(r.nodes)
		}
	} else { // the members of a pool have places that the configuration does not name
		place = tasks.Of(r.cfg).Draft(r.cfg, reg, r.nodes).Common().Placement
	}
	if r.pool != nil && place != nil {
		r.cfg = r.cfg.At(place)
	}
	return r, err
}

// nodesOf returns the index of each rank's node. Each host is a node, unless there are virtual nodes.
func nodesOf(hosts []string, virtual int) []int {
	if virtual > 0 {
		return args.SpreadNodes(len(hosts), min(virtual, len(hosts)))
	}
	nodes := make([]int, len(hosts))
	var names []string
	for r, host := range hosts {
		if nodes[r] = slices.Index(names, host); nodes[r] < 0 {
			nodes[r], names = len(names), append(names, host)
		}
	}
	return nodes
}

// extent returns the number of ranks that the placement of cfg names.
func extent(cfg *config.Config) int {
	n, _ := cfg.ClusterSpec().Extent()
	return n
}

// check returns the configuration of the run with the placement in text, and the mistakes of the placement. If running
// is true, the run can move, unless the placement needs more ranks than the run has. Otherwise the run must be resumed.
// A move must keep the number of members of each component. In a resume, only the number of actors must stay.
func (r *placedRun) check(reg config.Registries, tasks task.Tasks, text string, running bool) (*config.Config, error) {
	from := r.cfg
	moved, err := from.Moved(reg, text)
	if moved == nil {
		return nil, err
	}
	moves := running && extent(moved) <= len(r.nodes) // else the run must be resumed
	if !moves && r.pool != nil {
		from = r.pool
		if moved, err = from.Moved(reg, text); moved == nil {
			return nil, err
		}
	}
	nodes := r.nodes
	if n := extent(moved); n > len(nodes) && n <= config.MaxRanks { // the run must be resumed, perhaps on more nodes
		nodes, moved.Cluster.NumNodes = args.SpreadNodes(n, r.hosts(n)), 0
	}
	now, nowErr := from.Place(r.nodes)
	if nowErr == nil {
		moved.KeepMembers(now, nodes)
	}
	then, thenErr := moved.Place(nodes)
	if moves && moved.Deals() && thenErr == nil {
		moved = moved.At(then)
	}
	// Ignore mistakes that the present configuration of the run also has. They concern files, whose paths are relative
	// to the folder in which the run was started.
	known := map[string]bool{}
	for _, line := range mistakes(tasks.Of(from).Draft(from, reg, r.nodes).Mistakes()) {
		known[withoutOrigin(line)] = true
	}
	var wrong []error
	for _, line := range mistakes(tasks.Of(moved).Draft(moved, reg, nodes).Mistakes()) {
		if !known[withoutOrigin(line)] {
			wrong = append(wrong, errors.New(line))
		}
	}
	if nowErr == nil && thenErr == nil {
		for _, name := range now.Components() {
			why := "members move, and their number stays"
			if name == "actor" {
				why = "their number decides the metrics"
			} else if !moves { // in a resume only the number of actors must stay
				continue
			}
			if a, b := len(now.Ranks(name)), len(then.Ranks(name)); a != b {
				wrong = append(wrong, fmt.Errorf("command line: cluster.component_placement.%s: %s: expected %s, as "+
					"now: %s", name, members(name, b), members(name, a), why))
			}
		}
	}
	return moved, errors.Join(wrong...)
}

// members returns n members of a component in words, such as 3 actors or 2 env workers.
func members(component string, n int) string {
	if component != "actor" {
		component += " worker"
	}
	return figures.Count(n, component)
}

// mistakes returns the lines of err.
func mistakes(err error) []string {
	if err == nil {
		return nil
	}
	return strings.Split(err.Error(), "\n")
}

// withoutOrigin returns a mistake without its origin, such as config.yaml:12.
func withoutOrigin(line string) string {
	_, text, _ := strings.Cut(line, ": ")
	return text
}

// samePlaces reports whether all components have the same ranks in cfg as now.
func (r *placedRun) samePlaces(cfg *config.Config) bool {
	now, err := r.cfg.Place(r.nodes)
	then, err2 := cfg.Place(r.nodes)
	return err == nil && err2 == nil && now.String() == then.String()
}

// hosts returns the number of hosts that n ranks need if no host gets more ranks than the fullest host has now. Ranks
// of one process need one host. If Open MPI oversubscribes hosts, the number of hosts does not change.
func (r *placedRun) hosts(n int) int {
	if r.start.Launcher == "" || r.start.Job == "" && !mpi.Compiled {
		return 1
	}
	ranks := map[string]int{}
	most := 0
	for _, host := range r.start.Hosts {
		ranks[host]++
		most = max(most, ranks[host])
	}
	if session.Oversubscribed(r.env) {
		return len(ranks)
	}
	return max(len(ranks), (n+most-1)/most)
}

// env returns a variable from the environment of the run's last start.
func (r *placedRun) env(name string) string { return r.start.Env[name] }

// resume returns the command that resumes the run on n ranks with the placement of cfg.
func (r *placedRun) resume(cfg *config.Config, n int) string {
	hosts := r.hosts(n)
	overrides := []string{"~cluster.component_placement", "+cluster.component_placement=" + cfg.PlacementText()}
	spec := cfg.ClusterSpec()
	spec.NumNodes, spec.AllowIdleRanks = 0, false
	if _, err := spmd.Place(spec, args.SpreadNodes(n, hosts)); err != nil {
		overrides = append(overrides, "cluster.allow_idle_ranks=true")
	}
	if own := r.cfg.Cluster.NumNodes; own > 0 && own != hosts && r.cfg.SPMD.Nodes == 0 {
		overrides = append(overrides, fmt.Sprintf("cluster.num_nodes=%d", hosts))
	}
	recorded, err := os.Stat(r.cfg.Folder())
	if here, err2 := os.Stat(r.dir); err != nil || err2 != nil || !os.SameFile(recorded, here) {
		overrides = append(overrides, "runner.logger.log_path="+filepath.Dir(r.dir),
			"runner.logger.experiment_name="+filepath.Base(r.dir))
	}
	tail := "--resume auto"
	for _, o := range overrides {
		tail += " " + printable.Quote(o)
	}
	if r.start.Job != "" { // the batch script of the job has the configuration
		return fmt.Sprintf("sbatch --nodes=%d --ntasks=%d SCRIPT %s", hosts, n, tail)
	}
	launch, ranks := "", ""
	if r.start.Launcher == "" || !mpi.Compiled {
		ranks = fmt.Sprintf("-np %d ", n)
	} else {
		launch = session.Launch(r.start.Launcher, n, r.env)
	}
	return fmt.Sprintf("%s%s -c %s %s%s", launch, printable.Quote(thisProgram()),
		printable.Quote(filepath.Join(r.dir, "config.yaml")), ranks, tail)
}
