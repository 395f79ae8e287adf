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

func checkFlag() cli.Flag {
	return &cli.BoolFlag{Name: "check", Usage: "compare what arrives with what was sent; exit code 3 if anything is " +
		"wrong", Value: true}
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

// benchP2P runs the command rlinf bench p2p.
func benchP2P(f *flags, reg config.Registries) (int, error) {
	p := bench.MessagePlan{Sizes: f.sizes(), Ops: f.names("op", bench.PairOps()), Ranks: f.pair(),
		Window: f.Int("window"), Check: f.Bool("check")}
	return runBench(f, reg, benchRanks, func(ctx context.Context, r *bench.Run, _ *spmd.World) error {
		return r.P2P(ctx, p)
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

// benchOverlap runs the command rlinf bench overlap.
func benchOverlap(f *flags, reg config.Registries) (int, error) {
	p := bench.Plan{Sizes: f.sizes(), Kinds: f.kinds(kindNames()[1:]), Ranks: []int{f.world()},
		Types:      []tensor.DType{bench.TypeOf(f.name("type", bench.TypeNames()))},
		Algorithms: f.names("algo", collectives.Algorithms()), Memory: []string{"arena"}, InPlace: true,
		Check: f.Bool("check")}
	ranks := benchRanks
	if f.IsSet("link") {
		link, err := parseLink(f.String("link"))
		if err != nil {
			f.wrong("%w", err)
		}
		if _, launcher := mpi.Launched(); launcher != "" {
			f.wrong("--link: %s has started the ranks: expected it without a launcher, with -np", launcher)
		}
		ranks = func(c *cli.Context, _ io.Writer) ([]spmd.Transport, error) {
			np := c.Int("np")
			// Two threads for each rank, as under a launcher: one computes, one communicates. One more for the link.
			runtime.GOMAXPROCS(max(2*np+1, runtime.GOMAXPROCS(0)))
			return local.NewLinked(np, link), nil
		}
	}
	return runBench(f, reg, ranks, func(ctx context.Context, r *bench.Run, _ *spmd.World) error {
		return r.Overlap(ctx, p)
	})
}

// parseLink reads LATENCY,RATE.
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

// benchChannel runs the command rlinf bench channel.
func benchChannel(f *flags, reg config.Registries) (int, error) {
	p := bench.ChannelPlan{Sizes: f.sizes(), Ranks: f.pair(), Depth: f.Int("depth"), Window: f.Int("window"),
		Consume: f.Duration("consume"), Check: f.Bool("check")}
	return runBench(f, reg, benchRanks, func(ctx context.Context, r *bench.Run, _ *spmd.World) error {
		return r.Channel(ctx, p)
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

// benchWeights runs the command rlinf bench weights.
func benchWeights(f *flags, reg config.Registries) (int, error) {
	world := f.several()
	s := bench.WeightsPlan{Sizes: f.sizes(), Source: f.Int("source"), Patch: f.Bool("patch"),
		Changed: f.Float64("changed"), Check: f.Bool("check")}
	if s.Source >= world {
		f.wrong("--source %d: expected a rank from 0 to %d", s.Source, world-1)
	}
	if f.IsSet("readers") {
		s.Readers = f.ranks("readers", world)
	} else {
		for r := range world {
			if r != s.Source {
				s.Readers = append(s.Readers, r)
			}
		}
	}
	s.Slots = f.numbers("slots", 0, 2, "0, 1 or 2")
	s.Wire = tensor.F32
	if f.either("wire", "f32", "bf16") == 1 {
		s.Wire = tensor.BF16
	}
	if s.Wire == tensor.BF16 && slices.Contains(s.Slots, 0) {
		f.wrong("--wire bf16 with --slots %s: expected slots 1 or 2: what is read in place is not rounded",
			f.String("slots"))
	}
	s.Bucket = f.bytes("bucket", "4M")
	if f.err == nil && s.Sizes[0] < 4 {
		f.wrong("weights of %d bytes: expected at least 4, one float32", s.Sizes[0])
	}
	return runBench(f, reg, benchRanks, func(ctx context.Context, r *bench.Run, _ *spmd.World) error {
		return r.Weights(ctx, s)
	})
}
