package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/collectives/bench"
	results "github.com/rlinf/rlinf/collectives/bench/report"
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/philox"
	"github.com/rlinf/rlinf/roles/cli/args"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
	"github.com/urfave/cli/v2"
)

func envFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "config", Aliases: []string{"c"},
			Usage: "the environment of env.train in `FILE`.yaml, with its wrappers"},
		&cli.StringFlag{Name: "name", Usage: "a `LIST` of environments by their names; rlinf envs lists them",
			DefaultText: "without -c: all that this build has"},
		args.Int(cli.IntFlag{Name: "envs", Usage: "environments on each rank", Value: 64}, 1, env.MaxEnvs),
		&cli.BoolFlag{Name: "strict", Usage: "keys without effect are errors"},
	}
}

// benchEnv runs the command rlinf bench env.
func benchEnv(f *flags, reg config.Registries) (int, error) {
	n, tasks := f.Int("envs"), envTasks(f, reg)
	return runBench(f, reg, benchRanks, func(ctx context.Context, r *bench.Run, w *spmd.World) error {
		method := fmt.Sprintf("dissemination barrier, then a step of %d environments by each rank, with actions "+
			"drawn beforehand; resets included", n)
		if err := r.Columns(method, []string{"op", "n"}, []string{"steps_s", "steps_s_core", "steps_s_least",
			"steps_s_most"}); err != nil {
			return err
		}
		for _, cfg := range tasks {
			if err := benchOneEnv(ctx, r, reg, cfg, w.Rank(), n); err != nil {
				return fmt.Errorf("%s: %w", cfg.ID(), err)
			}
		}
		return nil
	})
}

// envTasks returns the environments to measure: those that --name lists, the environment of a configuration, or all
// that this build can make.
func envTasks(f *flags, reg config.Registries) (tasks []env.Config) {
	file, names := f.String("config"), reg.Envs.Names()
	if f.IsSet("name") {
		names = strings.Split(f.String("name"), ",")
	}
	switch {
	case f.IsSet("name") && file != "":
		f.wrong("expected -c FILE.yaml or --name NAME, or neither")
	case file != "":
		job, err := args.Config(f.Context, reg, f.App.ErrWriter)
		if err != nil {
			f.err = err
			return nil
		}
		tasks, names = []env.Config{job.Env.Train}, nil
	case f.Args().Present():
		f.wrong("argument %q: expected none without -c", f.Args().First())
	}
	for _, name := range names {
		cfg := env.DefaultConfig()
		cfg.EnvType = strings.TrimSpace(name)
		tasks = append(tasks, cfg)
	}
	return slices.DeleteFunc(tasks, func(cfg env.Config) bool {
		_, err := reg.Probe(cfg) // fails if the environment needs a build tag or a model
		if err != nil && (file != "" || f.IsSet("name")) {
			f.wrong("%w", err)
		}
		return err != nil
	})
}

// benchOneEnv measures n environments on each rank. It is collective over the world.
func benchOneEnv(ctx context.Context, r *bench.Run, reg config.Registries, cfg env.Config, rank, n int) error {
	p, err := newPlayer(reg, cfg, rank, n)
	if err != nil {
		return err
	}
	defer p.vec.Close()
	task := bench.Task{Op: cfg.ID(), Call: p.step, Units: float64(n)}
	return r.Task(ctx, task, func(row *results.Measurement, rates []float64) {
		sum := 0.0
		for _, rate := range rates {
			sum += rate
		}
		row.SetFigure("steps_s", sum)
		row.SetFigure("steps_s_core", task.Units*float64(len(rates))/(row.CPU*1e-6))
		row.SetFigure("steps_s_least", slices.Min(rates))
		row.SetFigure("steps_s_most", slices.Max(rates))
	})
}

// TryEnv makes n environments of cfg, begins their episodes, and takes a step with random actions.
func TryEnv(reg config.Registries, cfg env.Config, n int) error {
	cfg.External.MaxRestarts = 0
	p, err := newPlayer(reg, cfg, 0, n)
	if err != nil {
		return err
	}
	return errors.Join(p.step(context.Background(), 0), p.vec.Close())
}

// A player steps environments, and repeats a fixed list of actions.
type player struct {
	vec     env.Vec
	seeds   *env.Seeder
	out     *env.Step
	actions []tensor.Dict
}

func newPlayer(reg config.Registries, cfg env.Config, rank, n int) (*player, error) {
	vec, err := reg.Envs.New(cfg, n)
	if err != nil {
		return nil, err
	}
	p := &player{vec: vec, seeds: env.NewSeeder(cfg, env.Train, rank*n, n), out: vec.Spec().NewStep(n, 1)}
	const round = 16
	for i := range round {
		action := tensor.Dict{}
		action.Set("action", drawActions(vec.Spec().Action, n, uint64(rank*round+i)))
		p.actions = append(p.actions, action)
	}
	if err := vec.Reset(nil, p.seeds.Next(), p.out); err != nil {
		return nil, errors.Join(err, vec.Close())
	}
	p.seeds.Started(nil)
	return p, nil
}

func (p *player) step(_ context.Context, i int) error {
	action := p.actions[i%len(p.actions)]
	if mask, ok := p.out.Obs.Get(env.ActionMask); ok {
		p.vec.Spec().Action.Allow(action.Must("action").I32(), mask.U8())
	}
	if err := p.vec.Step(action, p.seeds.Next(), p.out); err != nil {
		return err
	}
	p.seeds.Observe(p.out)
	return nil
}

// drawActions returns random actions within the bounds of space, of shape [n, 1, A].
func drawActions(space env.Space, n int, counter uint64) tensor.Tensor {
	dim := space.Dim()
	s := philox.New(1, philox.Action, 0, counter)
	a := tensor.New(space.DType, n, 1, dim)
	for at := range n * dim {
		i := at % dim
		if space.DType == tensor.I32 {
			a.I32()[at] = int32(s.IntN(space.Nvec[i]))
		} else {
			a.F32()[at] = float32(s.Uniform(float64(max(space.Low[i], -10)), float64(min(space.High[i], 10))))
		}
	}
	return a
}
