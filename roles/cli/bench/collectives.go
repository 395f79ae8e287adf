package bench

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rlinf/rlinf/collectives"
	"github.com/rlinf/rlinf/collectives/bench"
	results "github.com/rlinf/rlinf/collectives/bench/report"
	"github.com/rlinf/rlinf/roles/cli/args"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
	"github.com/urfave/cli/v2"
)

func collectiveFlags() []cli.Flag {
	return slices.Concat(sizeFlags("8", "64M"), []cli.Flag{
		&cli.StringFlag{Name: "op", Usage: "`LIST` of operations, or all: " + strings.Join(kindNames(), ", "),
			Value: "allreduce"},
		&cli.StringFlag{Name: "redop", Usage: "reduction: sum, prod, min, max", Value: "sum"},
		&cli.StringFlag{Name: "type", Aliases: []string{"d"}, Usage: "`LIST` of element types, or all: " +
			strings.Join(bench.TypeNames(), ", "), Value: "f32"},
		&cli.StringFlag{Name: "algo", Usage: "`LIST` of algorithms, or all: " + strings.Join(collectives.Algorithms(),
			", "), Value: "auto"},
		&cli.StringFlag{Name: "np-sweep", Usage: "`LIST` of group sizes, counted from rank 0, as 2,4,8",
			DefaultText: "all ranks"},
		&cli.StringFlag{Name: "mem", Usage: "`LIST` of memories, measured in turns: arena (communication memory), go " +
			"(Go's heap)", Value: "arena"},
		&cli.StringFlag{Name: "place", Usage: "in: results overwrite the input; out: a separate buffer; both: in turns",
			Value: "in"},
		&cli.StringFlag{Name: "root", Usage: "root of operations that have one: a rank, or rotate", Value: "0"},
		&cli.BoolFlag{Name: "off-cache",
			Usage: "use different buffers in each call: twice the last-level cache in total, if memory allows"},
		&cli.BoolFlag{Name: "check", Usage: "verify results; exit code 3 if any is wrong",
			Value: true},
		&cli.StringFlag{Name: "data", Usage: "integer: exact in any order; real: sums that must be rounded, compared " +
			"with a tolerance", Value: "integer"},
		&cli.BoolFlag{Name: "baseline",
			Usage: "also the library's blocking call, in a loop in C and through Go, all in turns"},
		&cli.BoolFlag{Name: "shuffle", Usage: "measure in a random order, from --seed"},
		&cli.Uint64Flag{Name: "seed", Usage: "seed of --shuffle", Value: 1},
		&cli.StringFlag{Name: "table", Usage: "table of algorithms from which auto chooses first, `FILE`.json"},
		&cli.StringFlag{Name: "tune",
			Usage: "measure every algorithm and write the table of the fastest to `FILE`.json"},
		args.Float(cli.Float64Flag{Name: "check-min-busbw",
			Usage: "exit code 3 if the best bus bandwidth of an operation is below this many `GB/s`"}, 0, 1e9),
	})
}

func kindNames() (names []string) {
	for k := spmd.Barrier; k <= spmd.SendReceive; k++ {
		names = append(names, k.String())
	}
	return names
}

// benchCollectives is rlinf bench.
func benchCollectives(c *cli.Context, reg config.Registries) (int, error) {
	plan, err := collectivePlan(c)
	if err != nil {
		return 0, err
	}
	least := c.Float64("check-min-busbw")
	table := c.String("tune")
	verdict := func(r *results.Report) []string { return r.BelowBusBandwidth(least) }
	return runBench(c, reg, "collectives", benchRanks, func(ctx context.Context, r *bench.Run, w *spmd.World) error {
		if plan.Baseline && !w.HasNative() {
			return fmt.Errorf("--baseline: the transport %q has no library underneath: expected mpirun or srun, and a "+
				"build with -tags mpi", w.Describe().Transport)
		}
		if err := r.Collectives(ctx, *plan); err != nil || table == "" || r.Stopped() || w.Rank() != 0 {
			return err
		}
		return r.Tune().Write(table)
	}, verdict)
}

// collectivePlan reads the flags.
func collectivePlan(c *cli.Context) (*bench.Plan, error) {
	world := worldSize(c)
	p := &bench.Plan{Check: c.Bool("check"), OffCache: c.Bool("off-cache"), Baseline: c.Bool("baseline"),
		Shuffle: c.Bool("shuffle"), Seed: c.Uint64("seed")}
	var err error
	if p.Sizes, err = sizesOf(c); err != nil {
		return nil, err
	}
	if p.Kinds, err = named(c, "op", kindNames(), func(i int) spmd.Kind { return spmd.Kind(i) }); err != nil {
		return nil, err
	}
	ops := []string{"sum", "prod", "min", "max"}
	redops, err := named(c, "redop", ops, func(i int) spmd.Op { return spmd.Op(i) })
	if err != nil {
		return nil, err
	}
	if p.Op = redops[0]; len(redops) > 1 {
		return nil, config.UsageError{Err: fmt.Errorf("--redop %s: expected one of %s", c.String("redop"),
			strings.Join(ops, ", "))}
	}
	if p.Types, err = named(c, "type", bench.TypeNames(), func(i int) tensor.DType {
		return bench.TypeOf(bench.TypeNames()[i])
	}); err != nil {
		return nil, err
	}
	algorithms := collectives.Algorithms()
	if p.Algorithms, err = named(c, "algo", algorithms, func(i int) string { return algorithms[i] }); err != nil {
		return nil, err
	}
	if c.IsSet("tune") {
		if c.IsSet("algo") {
			return nil, config.UsageError{Err: fmt.Errorf("--tune measures every algorithm: expected it without " +
				"--algo")}
		}
		p.Algorithms = algorithms[1:] // auto is what the table is for
	}
	memories := []string{"arena", "go"}
	if p.Memory, err = named(c, "mem", memories, func(i int) string { return memories[i] }); err != nil {
		return nil, err
	}
	places := []string{"in", "out", "both"}
	place := slices.Index(places, c.String("place"))
	if place < 0 {
		return nil, config.UsageError{Err: fmt.Errorf("--place %s: expected in, out or both", c.String("place"))}
	}
	p.InPlace, p.OutOfPlace = place != 1, place != 0
	if p.Rotate = c.String("root") == "rotate"; !p.Rotate {
		if p.Root, err = strconv.Atoi(c.String("root")); err != nil || p.Root < 0 || p.Root >= world {
			return nil, config.UsageError{Err: fmt.Errorf("--root %s: expected a rank from 0 to %d, or rotate",
				c.String("root"),
				world-1)}
		}
	}
	switch data := c.String("data"); data {
	case "integer":
	case "real":
		p.Real = true
	default:
		return nil, config.UsageError{Err: fmt.Errorf("--data %s: expected integer or real", data)}
	}
	if p.Ranks, err = groupSizes(c, world); err != nil {
		return nil, err
	}
	if file := c.String("table"); file != "" {
		if p.Table, err = collectives.ReadTable(file); err != nil {
			return nil, config.UsageError{Err: fmt.Errorf("--table: %w", err)}
		}
	}
	return p, nil
}

// named reads a list of names, or all, and returns their values.
func named[T any](c *cli.Context, flag string, names []string, of func(i int) T) ([]T, error) {
	text := c.String(flag)
	if text == "all" {
		text = strings.Join(names, ",")
	}
	return parseList(flag, text, func(s string) (T, error) {
		i := slices.Index(names, s)
		if i < 0 {
			var none T
			return none, fmt.Errorf("%q: expected some of %s, or all", s, strings.Join(names, ", "))
		}
		return of(i), nil
	})
}

// groupSizes reads --np-sweep; without it, all ranks are one group.
func groupSizes(c *cli.Context, world int) ([]int, error) {
	if !c.IsSet("np-sweep") {
		return []int{world}, nil
	}
	return parseList("np-sweep", c.String("np-sweep"), func(s string) (int, error) {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 || n > world {
			return 0, fmt.Errorf("%q: expected numbers from 1 to %d, the ranks that there are", s, world)
		}
		return n, nil
	})
}
