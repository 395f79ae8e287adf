package cli

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/rlinf/rlinf/env/external"
	"github.com/rlinf/rlinf/roles/cli/args"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/roles/planner"
	"github.com/rlinf/rlinf/roles/task"
	"github.com/urfave/cli/v2"
)

// planFlags returns the flags of rlinf plan, in addition to the flags of the configuration.
func planFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "profile", Usage: "read what the job's operations cost from `FILE`, and measure nothing"},
		&cli.StringFlag{Name: "machine", Usage: "plan for the machine in `FILE`: its cores, nodes and links"},
		&cli.StringFlag{Name: "ranks", Usage: "plan for `N` ranks, or compare what the job costs on N,M,…",
			DefaultText: "those of the placement"},
		&cli.StringFlag{Name: "save-profile", Usage: "write what was measured to `FILE`"},
		args.Force(),
		&cli.BoolFlag{Name: "json", Usage: "write the plan as a JSON object"},
	}
}

const planUsage = `rlinf plan -c FILE.yaml [key=value ...]
   rlinf plan -c FILE.yaml --save-profile job.json
   rlinf plan -c FILE.yaml --profile job.json --machine cluster.json --ranks 8,64,512`

// A plannedJob is the result of rlinf plan as JSON.
type plannedJob struct {
	*planner.Found
	Ranks     int              `json:"ranks"`
	Sentences []string         `json:"sentences"`
	YAML      string           `json:"yaml"`            // empty if the present placement stays
	Whole     *planner.Bill    `json:"whole,omitempty"` // left out if only a time limit ends the job
	Machine   *planner.Machine `json:"machine"`
	Profile   *planner.Profile `json:"profile"`

	note string // says why there are fewer replicas; may be ""
}

// isProfile reports whether planner.Write has written the file that begins with head.
func isProfile(head []byte) bool { return args.Begins(`\{\n  "(machine|profile)": \{\n`)(head) }

// runPlan measures a job, searches for its best placement, and explains it. It returns the exit code of a request to
// stop that ended the measurement.
func runPlan(c *cli.Context, reg config.Registries, tasks task.Tasks, hub *external.Hub) (stop int, _ error) {
	return stoppable(c, hub, func(asked *loop.Requests) error { return plan(c, reg, tasks, hub, asked) })
}

// stoppable calls f, which may wait for simulators. If a request to stop ends f, stoppable returns its exit code.
func stoppable(c *cli.Context, hub *external.Hub, f func(asked *loop.Requests) error) (stop int, _ error) {
	asked := loop.Watch()
	defer asked.Close()
	asked.Expire(0) // stop before the end of a Slurm job
	defer asked.AtStop(hub.RequestStop)()
	err := f(asked)
	if errors.Is(err, external.ErrStopRequested) {
		fmt.Fprintln(c.App.ErrWriter, err)
		stop, _ = asked.Vote()
		return stop, nil
	}
	return 0, err
}

func plan(c *cli.Context, reg config.Registries, tasks task.Tasks, hub *external.Hub, asked *loop.Requests) error {
	cfg, err := args.Config(c, reg, c.App.ErrWriter)
	if err != nil {
		return err
	}
	asked.Expire(cfg.Runner.MaxTime)
	defer asked.AtStop(hub.RequestStop)()
	if out := c.String("save-profile"); out != "" {
		if err := args.CheckOut(c, "save-profile", out, isProfile); err != nil {
			return err
		}
	}
	x, err := newPlanning(c, cfg, reg, tasks, hub, asked)
	if err != nil {
		return err
	}
	counts, err := rankCounts(c, x.cfg)
	if err != nil {
		return err
	}
	var plans []*plannedJob
	for _, n := range counts {
		p, err := x.onRanks(n)
		if err != nil {
			return err
		}
		plans = append(plans, p)
	}
	if out := c.String("save-profile"); out != "" {
		if err := planner.Write(out, x.machine, x.profile); err != nil {
			return err
		}
	}
	switch {
	case len(plans) > 1 && c.Bool("json"):
		return json.NewEncoder(c.App.Writer).Encode(plans)
	case len(plans) > 1:
		return compareCosts(c.App.Writer, plans)
	case c.Bool("json"):
		return json.NewEncoder(c.App.Writer).Encode(plans[0])
	}
	return plans[0].explain(c.App.Writer)
}

// rankCounts returns the numbers of ranks to plan for.
func rankCounts(c *cli.Context, cfg *config.Config) (counts []int, err error) {
	if !c.IsSet("ranks") {
		n, err := args.LocalRanks(c, cfg)
		return []int{n}, err
	}
	for word := range strings.SplitSeq(c.String("ranks"), ",") {
		n, err := strconv.Atoi(strings.TrimSpace(word))
		if err != nil || n < 1 || n > config.MaxRanks {
			return nil, config.Usagef("--ranks %s: expected numbers from 1 to %d, as 8,64", c.String("ranks"),
				config.MaxRanks)
		}
		counts = append(counts, n)
	}
	if len(counts) > 1 && cfg.Runner.Steps(1) == math.MaxInt64 {
		return nil, config.Usagef("--ranks %s: expected runner.max_steps or runner.max_epochs, to compare what the "+
			"whole job costs", c.String("ranks"))
	}
	return counts, nil
}

// explain writes the plan for people.
func (j *plannedJob) explain(w io.Writer) error {
	if j.note != "" {
		fmt.Fprintf(w, "%s\n\n", j.note)
	}
	if err := j.Explain(w, j.Machine, j.Profile); err != nil {
		return err
	}
	if j.Whole != nil {
		fmt.Fprintln(w, j.Whole)
	}
	if j.YAML == "" {
		return nil
	}
	_, err := fmt.Fprintf(w, "\n%s", j.YAML)
	return err
}

// compareCosts writes what the whole job costs on each number of ranks.
func compareCosts(w io.Writer, plans []*plannedJob) error {
	cheapest := slices.MinFunc(plans, func(a, b *plannedJob) int {
		return cmp.Or(cmp.Compare(a.Whole.CoreHours, b.Whole.CoreHours), cmp.Compare(a.Whole.Seconds, b.Whole.Seconds))
	})
	fastest := slices.MinFunc(plans, func(a, b *plannedJob) int {
		return cmp.Or(cmp.Compare(a.Whole.Seconds, b.Whole.Seconds), cmp.Compare(a.Whole.CoreHours, b.Whole.CoreHours))
	})
	fmt.Fprintf(w, "The whole job: %s.\n\n", plans[0].Whole.Jobs())
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "ranks\titeration\twhole job\tcore hours\t\tlayout")
	for _, j := range plans {
		var marks []string
		if j == cheapest {
			marks = append(marks, "cheapest")
		}
		if j == fastest {
			marks = append(marks, "fastest")
		}
		best := j.Winner()
		fmt.Fprintf(t, "%d\t%s\t%s\t%.3g\t%s\t%s\n", j.Ranks, planner.Seconds(best.Seconds),
			planner.Seconds(j.Whole.Seconds), j.Whole.CoreHours, strings.Join(marks, ", "), best.Layout.String())
	}
	return t.Flush()
}
