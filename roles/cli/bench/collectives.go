package bench

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rlinf/rlinf/collectives"
	"github.com/rlinf/rlinf/collectives/bench"
	"github.com/rlinf/rlinf/roles/cli/args"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/spmd"
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
		&cli.BoolFlag{Name: "check", Usage: "verify results; exit code 3 if any is wrong", Value: true},
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

// benchCollectives runs the command rlinf bench.
func benchCollectives(f *flags, reg config.Registries) (int, error) {
	plan := collectivePlan(f)
	return runBench(f, reg, benchRanks, func(ctx context.Context, r *bench.Run, w *spmd.World) error {
		if plan.Baseline && !w.HasNative() {
			return fmt.Errorf("--baseline: the transport %q has no library underneath: expected mpirun or srun, and a "+
				"build with -tags mpi", w.Describe().Transport)
		}
		table := f.String("tune")
		if err := r.Collectives(ctx, plan); err != nil || table == "" || r.Stopped() || w.Rank() != 0 {
			return err
		}
		return r.Tune().Write(table)
	})
}

// collectivePlan reads the flags.
func collectivePlan(f *flags) bench.Plan {
	world := f.world()
	p := bench.Plan{Sizes: f.sizes(), Kinds: f.kinds(kindNames()), Ranks: []int{world}, Check: f.Bool("check"),
		OffCache: f.Bool("off-cache"), Baseline: f.Bool("baseline"), Shuffle: f.Bool("shuffle"), Seed: f.Uint64("seed")}
	ops := []string{"sum", "prod", "min", "max"}
	p.Op = spmd.Op(slices.Index(ops, f.name("redop", ops)))
	for _, name := range f.names("type", bench.TypeNames()) {
		p.Types = append(p.Types, bench.TypeOf(name))
	}
	p.Algorithms = f.names("algo", collectives.Algorithms())
	if f.IsSet("tune") {
		if f.IsSet("algo") {
			f.wrong("--tune measures every algorithm: expected it without --algo")
		}
		f.checkOld("tune", f.String("tune"), args.Begins(`\{\n  "schema": \d+,\n(  "machine": .*\n)?  "rules": `))
		p.Algorithms = collectives.Algorithms()[1:] // all but auto, which uses the table
	}
	p.Memory = f.names("mem", []string{"arena", "go"})
	place := f.either("place", "in", "out", "both")
	p.InPlace, p.OutOfPlace = place != 1, place != 0
	if p.Rotate = f.String("root") == "rotate"; !p.Rotate {
		var err error
		if p.Root, err = strconv.Atoi(f.String("root")); err != nil || p.Root < 0 || p.Root >= world {
			f.wrong("--root %s: expected a rank from 0 to %d, or rotate", f.String("root"), world-1)
		}
	}
	p.Real = f.either("data", "integer", "real") == 1
	if f.IsSet("np-sweep") {
		p.Ranks = f.numbers("np-sweep", 1, world, fmt.Sprintf("numbers from 1 to %d, the ranks that there are", world))
	}
	if file := f.String("table"); file != "" {
		var err error
		if p.Table, err = collectives.ReadTable(file); err != nil {
			f.wrong("--table: %w", err)
		}
	}
	return p
}

// kinds reads --op, a list of operations. The argument names has the valid names.
func (f *flags) kinds(names []string) (kinds []spmd.Kind) {
	for _, name := range f.names("op", names) {
		kinds = append(kinds, spmd.Kind(slices.Index(kindNames(), name)))
	}
	return kinds
}
