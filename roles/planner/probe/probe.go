package probe

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/rlinf/rlinf/roles/planner"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/spmd/local"
	"github.com/rlinf/rlinf/tensor"
	"gonum.org/v1/gonum/stat"
)

// Host returns the name of this host. It returns "" if the name is unknown.
func Host() string {
	name, err := os.Hostname()
	if err != nil {
		return ""
	}
	return name
}

// Machine measures this machine as one node of a cluster with this many equal nodes. memory is the number of bytes that
// the ranks of a node may use.
func Machine(ctx context.Context, build string, nodes int, memory int64) (*planner.Machine, error) {
	m := &planner.Machine{Build: build, Host: Host(), Cores: runtime.GOMAXPROCS(0), Nodes: nodes, Memory: memory,
		Copy: copyRate(), Network: planner.Usual()}
	m.Cores = min(m.Cores, runtime.NumCPU())
	var err error
	if m.Process, err = link(ctx, 0); err != nil {
		return nil, err
	}
	m.SameNode, err = link(ctx, 1)
	return m, err
}

// copyRate returns the bytes per second at which a core copies memory that exceeds its caches. It is the median of
// several copies.
func copyRate() float64 {
	const size = 32 << 20
	dst, src := make([]byte, size), make([]byte, size)
	copy(dst, src) // the system allocates memory at the first touch
	var rates []float64
	for range 5 {
		start := time.Now()
		copy(dst, src)
		rates = append(rates, size/time.Since(start).Seconds())
	}
	return Median(rates)
}

// Median sorts samples, and returns their median. It returns 0 if there are no samples.
func Median(samples []float64) float64 {
	if len(samples) == 0 {
		return 0
	}
	slices.Sort(samples)
	return stat.Quantile(0.5, stat.LinInterp, samples, nil)
}

// sizes are the sizes of the items that measure a link, in bytes.
var sizes = [...]int{64, 256 << 10}

// link measures the link between two workers, one on rank 0 and one on the given rank, which can also be 0.
func link(ctx context.Context, rank int) (planner.Link, error) {
	var times [len(sizes)]float64
	err := inWorld(ctx, rank+1, func(ctx context.Context, w *spmd.World) error {
		for i, size := range sizes {
			if err := roundTrips(ctx, w, i, size, rank, &times[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return planner.Link{}, fmt.Errorf("measure a link: %w", err)
	}
	return linkOf(times), nil
}

// inWorld runs main on n goroutine ranks. If ctx ends, it waits for main, because a world that ends early writes an
// error. It then returns the cause.
func inWorld(ctx context.Context, n int, main func(context.Context, *spmd.World) error) error {
	if err := spmd.Run(context.WithoutCancel(ctx), local.New(n), spmd.Options{}, main); err != nil {
		return err
	}
	return context.Cause(ctx)
}

// linkOf returns the link on which an item of sizes[i] bytes takes times[i] seconds.
func linkOf(times [len(sizes)]float64) planner.Link {
	l := planner.Link{PerByte: max(0, (times[1]-times[0])/float64(sizes[1]-sizes[0]))}
	l.Latency = max(0, times[0]-l.PerByte*float64(sizes[0]))
	return l
}

// roundTrips sends items of a size from rank 0 to another rank and back. It sets *seconds to half of the median round
// trip. The workers fill and read the items.
func roundTrips(ctx context.Context, w *spmd.World, number, size, other int, seconds *float64) error {
	self := func(m *spmd.Member) (*spmd.Member, error) { return m, nil }
	here := spmd.GroupSpec{Name: fmt.Sprintf("here %d", number), Ranks: []int{0}}
	there := spmd.GroupSpec{Name: fmt.Sprintf("there %d", number), Ranks: []int{other}}
	a, err := spmd.Launch(w, here, self)
	if err != nil {
		return err
	}
	b, err := spmd.Launch(w, there, self)
	if err != nil {
		return err
	}
	layout := tensor.NewLayout(tensor.Field{Name: "data", DType: tensor.U8, Shape: []int{size}})
	spec := spmd.ChannelSpec{Name: "out " + here.Name, From: here, To: there, ItemBytes: layout.Size()}
	out, err := spmd.NewChannel(w, spec)
	if err != nil {
		return err
	}
	spec.Name, spec.From, spec.To = "back "+here.Name, there, here
	back, err := spmd.NewChannel(w, spec)
	if err != nil {
		return err
	}
	const warm, trips = 50, 400
	answer := spmd.Call(b, ctx, "answer", func(ctx context.Context, m *spmd.Member) (struct{}, error) {
		return struct{}{}, pass(ctx, m, out, back, layout, warm+trips, nil, false)
	})
	ask := spmd.Call(a, ctx, "ask", func(ctx context.Context, m *spmd.Member) (struct{}, error) {
		var times []float64
		err := pass(ctx, m, back, out, layout, warm+trips, &times, true)
		if err == nil {
			*seconds = Median(times[warm:]) / 2
		}
		return struct{}{}, err
	})
	if _, err := ask.Wait(ctx); err != nil {
		return err
	}
	_, err = answer.Wait(ctx)
	return err
}

// pass receives n items on one channel and sends n items on the other, in turn. If sendFirst is true, it begins with a
// send. It appends the seconds of each round to *times, unless times is nil.
func pass(ctx context.Context, m *spmd.Member, in, out *spmd.Channel, layout *tensor.Layout, n int, times *[]float64,
	sendFirst bool) error {
	receiver, err := in.Receiver(m, spmd.Key{To: 0})
	if err != nil {
		return err
	}
	sender, err := out.Sender(m, spmd.Key{To: 0})
	if err != nil {
		return err
	}
	mine := make([]byte, layout.Size())
	send := func() error {
		item, err := sender.Take(ctx, layout)
		if err != nil {
			return err
		}
		copy(item.Dict.Must("data").Bytes(), mine)
		return sender.Put(ctx, item)
	}
	for range n {
		start := time.Now()
		if sendFirst {
			if err := send(); err != nil {
				return err
			}
		}
		item, err := receiver.Get(ctx)
		if err != nil {
			return err
		}
		copy(mine, item.Dict.Must("data").Bytes())
		receiver.Release(item)
		if !sendFirst {
			if err := send(); err != nil {
				return err
			}
		}
		if times != nil {
			*times = append(*times, time.Since(start).Seconds())
		}
	}
	return nil
}
