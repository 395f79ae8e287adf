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

func pairFlag() cli.Flag {
	return &cli.StringFlag{Name: "pair", Usage: "the two `RANKS`, as 0,4", DefaultText: "the first and the last"}
}

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

// benchP2P is rlinf bench p2p.
func benchP2P(c *cli.Context, reg config.Registries) (int, error) {
	p := bench.Pair{Window: c.Int("window"), Check: c.Bool("check")}
	var err error
	if p.Sizes, err = sizesOf(c); err != nil {
		return 0, err
	}
	if p.Ops, err = named(c, "op", bench.PairOps(), func(i int) string { return bench.PairOps()[i] }); err != nil {
		return 0, err
	}
	if p.Ranks, err = pairOf(c); err != nil {
		return 0, err
	}
	return runBench(c, reg, "p2p", benchRanks, func(ctx context.Context, r *bench.Run, _ *spmd.World) error {
		return r.P2P(ctx, p)
	}, nil)
}

// pairOf reads --pair.
func pairOf(c *cli.Context) (pair [2]int, err error) {
	world := worldSize(c)
	if world < 2 {
		return pair, config.UsageError{Err: fmt.Errorf("%s on %d rank: expected at least 2 (-np 2, or more under a "+
			"launcher)",
			c.Command.Name, world)}
	}
	if !c.IsSet("pair") {
		return [2]int{0, world - 1}, nil
	}
	ranks, err := parseList("pair", c.String("pair"), func(s string) (int, error) {
		r, err := strconv.Atoi(s)
		if err != nil || r < 0 || r >= world {
			return 0, fmt.Errorf("%q: expected ranks from 0 to %d", s, world-1)
		}
		return r, nil
	})
	if err != nil {
		return pair, err
	}
	if len(ranks) != 2 || ranks[0] == ranks[1] {
		return pair, config.UsageError{Err: fmt.Errorf("--pair %s: expected two different ranks, as 0,1",
			c.String("pair"))}
	}
	return [2]int{ranks[0], ranks[1]}, nil
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

// benchOverlap is rlinf bench overlap.
func benchOverlap(c *cli.Context, reg config.Registries) (int, error) {
	o := bench.Overlapping{Check: c.Bool("check")}
	var err error
	if o.Sizes, err = sizesOf(c); err != nil {
		return 0, err
	}
	if o.Kinds, err = named(c, "op", kindNames()[1:], func(i int) spmd.Kind { return spmd.Kind(i + 1) }); err != nil {
		return 0, err
	}
	types, err := named(c, "type", bench.TypeNames(), func(i int) tensor.DType {
		return bench.TypeOf(bench.TypeNames()[i])
	})
	if err != nil {
		return 0, err
	}
	if o.Type = types[0]; len(types) > 1 {
		return 0, config.UsageError{Err: fmt.Errorf("--type %s: expected one of %s", c.String("type"),
			strings.Join(bench.TypeNames(), ", "))}
	}
	algorithms := collectives.Algorithms()
	if o.Algorithms, err = named(c, "algo", algorithms, func(i int) string { return algorithms[i] }); err != nil {
		return 0, err
	}
	ranks := benchRanks
	if c.IsSet("link") {
		link, err := parseLink(c.String("link"))
		if err != nil {
			return 0, err
		}
		if _, launcher := mpi.Launched(); launcher != "" {
			return 0, config.UsageError{Err: fmt.Errorf("--link: %s has started the ranks: expected it without a "+
				"launcher, with -np",
				launcher)}
		}
		ranks = func(c *cli.Context, _ io.Writer) ([]spmd.Transport, error) {
			np := c.Int("np")
			// two for a rank, as under a launcher: it computes and communicates; one for the link
			runtime.GOMAXPROCS(max(2*np+1, runtime.GOMAXPROCS(0)))
			return local.NewLinked(np, link), nil
		}
	}
	return runBench(c, reg, "overlap", ranks, func(ctx context.Context, r *bench.Run, _ *spmd.World) error {
		return r.Overlap(ctx, o)
	}, nil)
}

// parseLink reads LATENCY,RATE.
func parseLink(text string) (local.Link, error) {
	wrong := config.UsageError{Err: fmt.Errorf("--link %s: expected a latency up to 1s and a rate from 1kB/s to "+
		"1000GB/s, as 50us,1GB/s", text)}
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
			Usage: "how long the consumer computes on each item, for back-pressure",
			Value: 100 * time.Microsecond}, time.Nanosecond, time.Hour),
		pairFlag(), checkFlag(),
	})
}

// benchChannel is rlinf bench channel.
func benchChannel(c *cli.Context, reg config.Registries) (int, error) {
	p := bench.Conveyor{Depth: c.Int("depth"), Window: c.Int("window"), Consume: c.Duration("consume"),
		Check: c.Bool("check")}
	var err error
	if p.Sizes, err = sizesOf(c); err != nil {
		return 0, err
	}
	if p.Ranks, err = pairOf(c); err != nil {
		return 0, err
	}
	return runBench(c, reg, "channel", benchRanks, func(ctx context.Context, r *bench.Run, _ *spmd.World) error {
		return r.Channel(ctx, p)
	}, nil)
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

// benchWeights is rlinf bench weights.
func benchWeights(c *cli.Context, reg config.Registries) (int, error) {
	s := bench.Sync{Source: c.Int("source"), Patch: c.Bool("patch"), Changed: c.Float64("changed"),
		Check: c.Bool("check")}
	var err error
	world := worldSize(c)
	if world < 2 {
		return 0, config.UsageError{Err: fmt.Errorf("weights on %d rank: expected at least 2 (-np 2, or more under a "+
			"launcher)", world)}
	}
	if s.Sizes, err = sizesOf(c); err != nil {
		return 0, err
	}
	rank := func(text string) (int, error) {
		r, err := strconv.Atoi(text)
		if err != nil || r < 0 || r >= world {
			return 0, fmt.Errorf("%q: expected ranks from 0 to %d", text, world-1)
		}
		return r, nil
	}
	if s.Source >= world {
		return 0, config.UsageError{Err: fmt.Errorf("--source %d: expected a rank from 0 to %d", s.Source, world-1)}
	}
	if c.IsSet("readers") {
		if s.Readers, err = parseList("readers", c.String("readers"), rank); err != nil {
			return 0, err
		}
	} else {
		for r := range world {
			if r != s.Source {
				s.Readers = append(s.Readers, r)
			}
		}
	}
	s.Slots, err = parseList("slots", c.String("slots"), func(text string) (int, error) {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 || n > 2 {
			return 0, fmt.Errorf("%q: expected 0, 1 or 2", text)
		}
		return n, nil
	})
	if err != nil {
		return 0, err
	}
	switch wire := c.String("wire"); wire {
	case "f32", "bf16":
		s.Wire = bench.TypeOf(wire)
	default:
		return 0, config.UsageError{Err: fmt.Errorf("--wire %s: expected f32 or bf16", wire)}
	}
	if s.Wire == tensor.BF16 && slices.Contains(s.Slots, 0) {
		return 0, config.UsageError{Err: fmt.Errorf("--wire bf16 with --slots %s: expected slots 1 or 2: what is "+
			"read in place is "+
			"not rounded", c.String("slots"))}
	}
	if s.Bucket, err = parseBytes(c.String("bucket")); err != nil || s.Bucket < 1 {
		return 0, config.UsageError{Err: fmt.Errorf("--bucket %s: expected a size > 0, as 4M", c.String("bucket"))}
	}
	if s.Sizes[0] < 4 {
		return 0, config.UsageError{Err: fmt.Errorf("weights of %d bytes: expected at least 4, one float32",
			s.Sizes[0])}
	}
	return runBench(c, reg, "weights", benchRanks, func(ctx context.Context, r *bench.Run, _ *spmd.World) error {
		return r.Weights(ctx, s)
	}, nil)
}
