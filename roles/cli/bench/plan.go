package bench

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rlinf/rlinf/collectives"
	"github.com/rlinf/rlinf/collectives/bench"
	"github.com/rlinf/rlinf/roles/cli/args"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/spmd/local"
	"github.com/rlinf/rlinf/spmd/mpi"
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
		&cli.BoolFlag{Name: "check", Usage: "verify results; exit code 3 if any is wrong", Value: true},
		&cli.StringFlag{Name: "data", Usage: "integer: exact in any order; real: sums that must be rounded, compared " +
			"with a tolerance", Value: "integer"},
		&cli.BoolFlag{Name: "baseline",
			Usage: "also the library's blocking call, in a loop in C and through Go, all in turns; of barrier, " +
				"broadcast and allreduce"},
		&cli.BoolFlag{Name: "shuffle", Usage: "measure in a random order, from --seed"},
		&cli.Uint64Flag{Name: "seed", Usage: "seed of --shuffle", Value: 1},
		&cli.StringFlag{Name: "table", Usage: "table of algorithms from which auto chooses first, `FILE`.json"},
		&cli.StringFlag{Name: "tune",
			Usage: "measure every algorithm and write the table of the fastest to `FILE`.json"},
		args.Float(cli.Float64Flag{Name: "check-min-busbw",
			Usage: "exit code 3 if the best bus bandwidth of an operation is below this many `GB/s`"}, 0, 1e9),
	})
}

func overlapFlags() []cli.Flag {
	return slices.Concat(sizeFlags("4K", "4M"), []cli.Flag{
		&cli.StringFlag{Name: "op", Usage: "`LIST` of operations, or all: " + strings.Join(kindNames()[1:], ", "),
			Value: "allreduce"},
		&cli.StringFlag{Name: "type", Aliases: []string{"d"}, Usage: "element type: " + strings.Join(bench.TypeNames(),
			", "), Value: "f32"},
		&cli.StringFlag{Name: "algo", Usage: "`LIST` of algorithms, or all: " + strings.Join(collectives.Algorithms(),
			", "), Value: "auto"},
		&cli.StringFlag{Name: "link", Usage: "emulate a link between goroutine ranks: `LATENCY,RATE`, as 50us,1GB/s"},
		checkFlag(),
	})
}

func p2pFlags() []cli.Flag {
	return slices.Concat(sizeFlags("1", "4M"), []cli.Flag{
		&cli.StringFlag{Name: "op", Usage: "`LIST` of what to measure, or all: " + strings.Join(bench.PairOps(), ", "),
			Value: "all"},
		args.Int(cli.IntFlag{Name: "window",
			Usage: "messages under way at a time, for bandwidths and rates", Value: 64}, 1, 1<<16),
		pairFlag(), checkFlag(),
	})
}

func channelFlags() []cli.Flag {
	return slices.Concat(sizeFlags("64", "1M"), []cli.Flag{
		args.Int(cli.IntFlag{Name: "depth", Usage: "capacity of a queue, in items", Value: 2}, 1, 1<<16),
		args.Int(cli.IntFlag{Name: "window", Usage: "number of items in a stream", Value: 64}, 1, 1<<16),
		args.Duration(cli.DurationFlag{Name: "consume",
			Usage: "how long the consumer computes on each item, for back-pressure", Value: 100 * time.Microsecond},
			time.Nanosecond, time.Hour),
		pairFlag(), checkFlag(),
	})
}

func weightFlags() []cli.Flag {
	return slices.Concat(sizeFlags("64K", "16M"), []cli.Flag{
		args.Int(cli.IntFlag{Name: "source", Usage: "the rank that has the weights", Value: 0}, 0, config.MaxRanks),
		&cli.StringFlag{Name: "readers", Usage: "`LIST` of the ranks that receive them, as 1,2,3",
			DefaultText: "all but the source"},
		&cli.StringFlag{Name: "slots", Usage: "`LIST` of copies on each node: 0 (the source's own, used in place), " +
			"1, 2 (a version comes while another is in use)", Value: "0,1,2"},
		&cli.StringFlag{Name: "wire", Usage: "what they travel as: f32 or bf16", Value: "f32"},
		&cli.StringFlag{Name: "bucket", Usage: "`SIZE` that is sent at once", Value: "4M"},
		&cli.BoolFlag{Name: "patch", Usage: "send only what has changed, where that is less"},
		args.Float(cli.Float64Flag{Name: "changed",
			Usage: "fraction of the weights that changes from version to version", Value: 1}, 1e-6, 1),
		checkFlag(),
	})
}

func checkFlag() cli.Flag {
	return &cli.BoolFlag{Name: "check", Usage: "compare what arrives with what was sent; exit code 3 if anything is " +
		"wrong", Value: true}
}

func kindNames() (names []string) {
	for k := spmd.Barrier; k <= spmd.SendReceive; k++ {
		names = append(names, k.String())
	}
	return names
}

// benchPlan runs a benchmark of package bench, as the flags of its command say.
func benchPlan(f *flags, reg config.Registries) (int, error) {
	plan, table := f.plan(), f.String("tune")
	return runBench(f, reg, f.openRanks(), func(ctx context.Context, r *bench.Run, w *spmd.World) error {
		if err := r.Measure(ctx, plan); err != nil || table == "" || r.Stopped() || w.Rank() != 0 {
			return err
		}
		return r.Tune().Write(table)
	})
}

// plan reads the flags. A flag that the command does not have is false, 0 or empty.
func (f *flags) plan() bench.Suite {
	p := bench.Suite{Bench: f.bench(), Sizes: f.sizes(), Check: f.Bool("check"), Window: f.Int("window"),
		Depth: f.Int("depth"), Consume: f.Duration("consume"), Source: f.Int("source"), Patch: f.Bool("patch"),
		Changed: f.Float64("changed"), OffCache: f.Bool("off-cache"), Baseline: f.Bool("baseline"),
		Shuffle: f.Bool("shuffle"), Seed: f.Uint64("seed")}
	switch p.Bench {
	case "collectives":
		f.planCollectives(&p)
	case "overlap":
		f.planCalls(&p, kindNames()[1:])
		p.Types = []tensor.DType{bench.TypeOf(f.name("type", bench.TypeNames()))}
		p.Memory, p.InPlace = []string{"arena"}, true
	case "p2p":
		p.Ops, p.Pair = f.names("op", bench.PairOps()), f.pair()
	case "channel":
		p.Pair = f.pair()
	case "weights":
		f.planWeights(&p)
	}
	return p
}

// planCalls reads the kinds and algorithms of operations on all ranks. The argument kinds has the valid kinds.
func (f *flags) planCalls(p *bench.Suite, kinds []string) {
	for _, name := range f.names("op", kinds) {
		p.Kinds = append(p.Kinds, spmd.CollectiveKind(slices.Index(kindNames(), name)))
	}
	p.Algorithms, p.Ranks = f.names("algo", collectives.Algorithms()), []int{f.world()}
}

// planCollectives reads what only the benchmark of collectives has.
func (f *flags) planCollectives(p *bench.Suite) {
	world := f.world()
	f.planCalls(p, kindNames())
	for _, kind := range p.Kinds {
		if p.Baseline && !kind.Native() {
			f.wrong("--baseline with --op %v: expected barrier, broadcast or allreduce", kind)
		}
	}
	ops := []string{"sum", "prod", "min", "max"}
	p.Op = spmd.Op(slices.Index(ops, f.name("redop", ops)))
	for _, name := range f.names("type", bench.TypeNames()) {
		p.Types = append(p.Types, bench.TypeOf(name))
	}
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
		if p.Table, err = collectives.ReadTuningTable(file); err != nil {
			f.wrong("--table: %w", err)
		}
	}
}

// planWeights reads what only the benchmark of weights has.
func (f *flags) planWeights(p *bench.Suite) {
	world := f.several()
	if p.Source >= world {
		f.wrong("--source %d: expected a rank from 0 to %d", p.Source, world-1)
	}
	if f.IsSet("readers") {
		p.Readers = f.ranks("readers", world)
	} else {
		for r := range world {
			if r != p.Source {
				p.Readers = append(p.Readers, r)
			}
		}
	}
	p.Slots = f.numbers("slots", 0, 2, "0, 1 or 2")
	p.Wire = tensor.F32
	if f.either("wire", "f32", "bf16") == 1 {
		p.Wire = tensor.BF16
	}
	if p.Wire == tensor.BF16 && slices.Contains(p.Slots, 0) {
		f.wrong("--wire bf16 with --slots %s: expected slots 1 or 2: what is read in place is not rounded",
			f.String("slots"))
	}
	p.Bucket = f.bytes("bucket", "4M")
	if f.err == nil && p.Sizes[0] < 4 {
		f.wrong("weights of %d bytes: expected at least 4, one float32", p.Sizes[0])
	}
}

// openRanks returns the function that opens the ranks. With --link goroutine ranks have an emulated link.
func (f *flags) openRanks() openRanks {
	if !f.IsSet("link") {
		return benchRanks
	}
	link, err := parseLink(f.String("link"))
	if err != nil {
		f.wrong("%w", err)
	}
	if _, launcher := mpi.Launched(); launcher != "" {
		f.wrong("--link: %s has started the ranks: expected it without a launcher, with -np", launcher)
	}
	return func(c *cli.Context, _ io.Writer) ([]spmd.Transport, error) {
		np := c.Int("np")
		// Two threads for each rank, as under a launcher: one computes, one communicates. One more for the link.
		runtime.GOMAXPROCS(max(2*np+1, runtime.GOMAXPROCS(0)))
		return local.NewLinked(np, link), nil
	}
}

// parseLink parses LATENCY,RATE, such as 50us,1GB/s.
func parseLink(text string) (local.Link, error) {
	wrong := fmt.Errorf("--link %s: expected a latency up to 1s and a rate from 1kB/s to 1000GB/s, as 50us,1GB/s", text)
	latency, rate, ok := strings.Cut(text, ",")
	d, err := time.ParseDuration(latency)
	if !ok || err != nil || d < 0 || d > time.Second {
		return local.Link{}, wrong
	}
	digits := strings.TrimRight(rate, "kMGB/s")
	unit, known := map[string]float64{"B/s": 1, "kB/s": 1e3, "MB/s": 1e6, "GB/s": 1e9}[rate[len(digits):]]
	n, err := strconv.ParseFloat(digits, 64)
	if !known || err != nil || !(n*unit >= 1e3 && n*unit <= 1e12) {
		return local.Link{}, wrong
	}
	return local.Link{Latency: d, BytesPerSecond: n * unit}, nil
}
