package report

import (
	"math"
	"slices"
	"strings"
)

// curvesData has all metrics of a run, and the charts that show some of them.
type curvesData struct {
	Iterations array            `json:"iterations"`
	EnvSteps   *array           `json:"envSteps"` // nil without environments
	Hours      array            `json:"hours"`    // total time of the iterations so far, in hours
	Each       int              `json:"each"`     // rows per pair of points; if Each is 1, every row is a point
	Marks      []mark           `json:"marks"`
	Groups     []group          `json:"groups"`
	Rest       []string         `json:"rest"` // metrics in no chart
	Columns    map[string]curve `json:"columns"`
}

// A curve has the values of a metric. Smooth is their moving mean over all rows.
type curve struct {
	Raw    array    `json:"raw"`
	Smooth *array   `json:"smooth,omitempty"`
	Last   *float64 `json:"last"` // the newest finite value
}

// A mark is a vertical line in all charts over iterations.
type mark struct {
	At   float64 `json:"at"` // iteration
	Text string  `json:"text"`
}

type group struct {
	Title  string  `json:"title"`
	Charts []chart `json:"charts"`
}

type chart struct {
	Title  string   `json:"title"`
	Unit   string   `json:"unit,omitempty"`
	Series []series `json:"series"`
}

type series struct {
	Name   string `json:"name"`
	Metric string `json:"metric"`
}

// allCharts are the charts that a page can have. A page shows a chart if the run has one of the chart's metrics. If
// several charts name a metric, the first of these charts shows the metric. A * at the end of a name stands for any
// text. The chart then has a series for each metric that matches.
var allCharts = []struct {
	group, title, unit string
	series             []series
}{
	{"learning", "return", "", []series{{"training", "env/return"}, {"evaluation", "eval/return"}}},
	{"learning", "success in an episode", "share", []series{{"training", "env/success_once"},
		{"evaluation", "eval/success_once"}}},
	{"learning", "success by instruction, evaluation", "share", []series{{"", "eval/success_once/*"}}},
	{"learning", "reward of an answer", "", []series{{"training", "rollout/rewards"}}},
	{"learning", "right answers", "share", []series{{"training", "rollout/accuracy"}, {"evaluation", "eval/accuracy"}}},
	{"learning", "chance that one of n answers is right", "share", []series{{"", "eval/pass@*"}}},
	{"learning", "loss of fine-tuning", "nats per token", []series{{"training", "train/sft/loss"},
		{"evaluation", "eval/loss"}}},
	{"learning", "exact texts", "share", []series{{"evaluation", "eval/exact_match"}}},
	{"learning", "length of an episode", "steps", []series{{"training", "env/episode_len"},
		{"evaluation", "eval/episode_len"}}},
	{"training", "loss of the policy", "", []series{{"policy", "train/actor/policy_loss"}}},
	{"training", "loss of the critic", "", []series{{"critic", "train/critic/value_loss"}}},
	{"training", "losses of SAC", "", []series{{"critic", "train/sac/critic_loss"}, {"actor", "train/sac/actor_loss"},
		{"alpha", "train/sac/alpha_loss"}}},
	{"training", "losses of TD3", "", []series{{"critic", "train/td3/critic_loss"}, {"actor", "train/td3/actor_loss"}}},
	{"training", "loss of DQN", "", []series{{"loss", "train/dqn/loss"}}},
	{"training", "losses of IQL", "", []series{{"value", "train/iql/value_loss"}, {"critic", "train/iql/critic_loss"},
		{"actor", "train/iql/actor_loss"}}},
	{"training", "loss of cloning", "", []series{{"training", "train/bc/loss"}, {"validation", "train/bc/val_loss"}}},
	{"training", "loss of DAgger", "", []series{{"loss", "train/dagger/loss"}}},
	{"training", "divergence from the reference", "nats", []series{{"reference", "train/actor/kl_loss"}}},
	{"training", "step of the policy (KL)", "nats", []series{{"KL", "train/actor/approx_kl"}}},
	{"training", "clipped samples", "share", []series{{"clipped", "train/actor/clip_fraction"}}},
	{"training", "entropy", "nats", []series{{"entropy", "train/actor/entropy_loss"},
		{"entropy", "train/actor/entropy"}}},
	{"training", "explained variance", "", []series{{"critic", "train/critic/explained_variance"}}},
	{"training", "norm of the gradient", "", []series{{"actor", "train/actor/grad_norm"},
		{"critic", "train/critic/grad_norm"}}},
	{"training", "age of rollouts", "iterations", []series{{"mean", "rollout/staleness_mean"},
		{"oldest", "rollout/staleness_max"}}},
	{"training", "dropped rollouts", "", []series{{"dropped", "rollout/dropped"}}},
	{"training", "learning rate", "", []series{{"actor", "train/actor/lr"}, {"critic", "train/critic/lr"}}},
	{"training", "estimates of actions", "reward", []series{{"taken", "train/critic/q_data"},
		{"policy's", "train/actor/q_pi"}}},
	{"training", "simulators", "seconds in an iteration", []series{{"slowest rank", "time/simulate"}}},
	{"training", "environment steps", "per second", []series{{"rate", "time/env_steps_per_second"}}},
	{"training", "tokens", "per second", []series{{"rate", "time/tokens_per_second"}}},
	{"answers", "length of an answer", "tokens", []series{{"training", "rollout/response_length"},
		{"evaluation", "eval/response_length"}}},
	{"answers", "answers cut off", "share", []series{{"training", "rollout/truncated"},
		{"evaluation", "eval/truncated"}}},
	{"answers", "unreadable answers", "share", []series{{"training", "rollout/unparsable"},
		{"evaluation", "eval/unparsable"}}},
	{"answers", "pages of the engines' caches in use", "share", []series{{"mean", "engine/pages"},
		{"most", "engine/pages_max"}}},
	{"answers", "sequences that run in an engine", "", []series{{"mean", "engine/sequences"}}},
	{"answers", "groups with equal rewards", "share", []series{{"groups", "rollout/uninformative_groups"}}},
}

// mostBuckets is the maximum number of buckets of a curve.
const mostBuckets = 1000

// curves packs the metrics of r. If there are many rows, it joins rows into buckets, and keeps the lowest and the
// highest value of each bucket.
func (r *Run) curves(p *packer) *curvesData {
	m := r.Metrics
	if len(m.Steps) == 0 {
		return nil
	}
	b := newBuckets(len(m.Steps))
	d := &curvesData{Iterations: p.f64(b.ends(m.Steps)), Each: b.each, Columns: map[string]curve{}}
	seconds := m.seconds()
	for i := range seconds {
		seconds[i] /= 3600
	}
	d.Hours = p.f64(b.ends(seconds))
	if steps := m.Columns["env/steps"]; steps != nil {
		filled := slices.Clone(steps)
		for i := range filled {
			if !finite(filled[i]) && i > 0 {
				filled[i] = filled[i-1]
			}
		}
		d.EnvSteps = new(p.f64(b.ends(filled)))
	}
	d.Marks = append(r.resumes(), r.moveMarks()...)
	names := slices.DeleteFunc(m.names(), func(name string) bool { return name == "env/steps" })
	for _, name := range names {
		x := m.Columns[name]
		c := curve{Raw: p.f32(b.extremes(x))}
		if smooth := smoothed(x); smooth != nil {
			c.Smooth = new(p.f32(b.ends(smooth)))
		}
		if v, ok := m.last(name); ok {
			c.Last = &v
		}
		d.Columns[plain(name)] = c
	}
	d.Groups, d.Rest = chartsOf(names)
	return d
}

// chartsOf returns the charts of a run with the metrics in names, and the metrics that are in no chart.
func chartsOf(names []string) (groups []group, rest []string) {
	drawn := map[string]bool{}
	answers := slices.Contains(names, "rollout/response_length")
	for _, w := range allCharts {
		if w.title == "reward of an answer" && !answers {
			continue // in environments this metric is the mean reward of a step
		}
		c := chart{Title: w.title, Unit: w.unit}
		for _, s := range w.series {
			begin, all := strings.CutSuffix(s.Metric, "*")
			for _, name := range names {
				if drawn[name] || name != s.Metric && !(all && strings.HasPrefix(name, begin)) {
					continue
				}
				drawn[name] = true
				one := series{Name: s.Name, Metric: plain(name)}
				if all {
					one.Name = plain(name[strings.LastIndexByte(name, '/')+1:])
				}
				c.Series = append(c.Series, one)
			}
		}
		if len(c.Series) == 0 {
			continue
		}
		if n := len(groups); n == 0 || groups[n-1].Title != w.group {
			groups = append(groups, group{Title: w.group})
		}
		g := &groups[len(groups)-1]
		g.Charts = append(g.Charts, c)
	}
	for _, name := range names {
		if !drawn[name] {
			rest = append(rest, plain(name))
		}
	}
	return groups, rest
}

// buckets divides the rows of a table into buckets of equal size. A bucket becomes two points of a curve.
type buckets struct{ rows, each int }

func newBuckets(rows int) buckets {
	if rows <= 2*mostBuckets {
		return buckets{rows, 1}
	}
	return buckets{rows, (rows + mostBuckets - 1) / mostBuckets}
}

// ends returns the first and the last value of each bucket.
func (b buckets) ends(x []float64) []float64 {
	if b.each == 1 {
		return x
	}
	var out []float64
	for i := 0; i < b.rows; i += b.each {
		out = append(out, x[i], x[min(i+b.each, b.rows)-1])
	}
	return out
}

// extremes returns the lowest and the highest value of each bucket, in the order of the rows.
func (b buckets) extremes(x []float64) []float64 {
	if b.each == 1 {
		return x
	}
	var out []float64
	for i := 0; i < b.rows; i += b.each {
		low, high := -1, -1
		for k := i; k < min(i+b.each, b.rows); k++ {
			if !finite(x[k]) {
				continue
			}
			if low < 0 || x[k] < x[low] {
				low = k
			}
			if high < 0 || x[k] > x[high] {
				high = k
			}
		}
		switch {
		case low < 0:
			out = append(out, math.NaN(), math.NaN())
		case low == high:
			out = append(out, x[low], math.NaN())
		default:
			out = append(out, x[min(low, high)], x[max(low, high)])
		}
	}
	return out
}

// smoothed returns the moving mean of x, or nil if x has too few finite values. Each mean is over the row itself and
// len(x)/50 rows on each side.
func smoothed(x []float64) []float64 {
	const least = 30
	sums, counts := make([]float64, len(x)+1), make([]int, len(x)+1)
	for i, v := range x {
		sums[i+1], counts[i+1] = sums[i], counts[i]
		if finite(v) {
			sums[i+1] += v
			counts[i+1]++
		}
	}
	if counts[len(x)] < least || counts[len(x)] < len(x)/2 {
		return nil
	}
	out, half := make([]float64, len(x)), max(len(x)/50, 1)
	for i := range x {
		from, to := max(i-half, 0), min(i+half+1, len(x))
		out[i] = (sums[to] - sums[from]) / float64(counts[to]-counts[from]) // NaN if there are no values
	}
	return out
}
