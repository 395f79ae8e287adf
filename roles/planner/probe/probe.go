package probe

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/rlinf/rlinf/collectives"
	"github.com/rlinf/rlinf/roles/planner"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/spmd/local"
	"github.com/rlinf/rlinf/tensor"
	"gonum.org/v1/gonum/stat"
)

// Host returns the name of this host; "" if it has none.
func Host() string {
	name, err := os.Hostname()
	if err != nil {
		return ""
	}
	return name
}

// Machine measures this machine as one node of a cluster with this many equal nodes. free is the number of bytes of
// memory that its ranks may take.
func Machine(ctx context.Context, build string, nodes int, free int64) (*planner.Machine, error) {
	m := &planner.Machine{Build: build, Host: Host(), Cores: runtime.GOMAXPROCS(0), Nodes: nodes, Memory: free,
		Copy: copyRate(), Network: planner.Usual()}
	m.Cores = min(m.Cores, runtime.NumCPU())
	var err error
	if m.Process, err = link(ctx, 0); err != nil {
		return nil, err
	}
	m.SameNode, err = link(ctx, 1)
	return m, err
}

// copyRate returns the bytes per second at which a core copies memory beyond its caches. It is the median of several
// copies.
func copyRate() float64 {
	const size = 32 << 20
	dst, src := make([]byte, size), make([]byte, size)
	copy(dst, src) // the system gives the memory at the first touch
	var rates []float64
	for range 5 {
		start := time.Now()
		copy(dst, src)
		rates = append(rates, size/time.Since(start).Seconds())
	}
	return Median(rates)
}

// Median returns the median of samples, which it sorts. Without samples it is 0.
func Median(samples []float64) float64 {
	if len(samples) == 0 {
		return 0
	}
	slices.Sort(samples)
	return stat.Quantile(0.5, stat.LinInterp, samples, nil)
}

// sizes are the sizes in bytes of the items with which a link is measured.
var sizes = [...]int{64, 256 << 10}

// link measures a link between a worker on rank 0 and a worker on the rank other, which may also be 0.
func link(ctx context.Context, other int) (planner.Link, error) {
	var times [len(sizes)]float64
	err := spmd.Run(ctx, local.New(other+1), spmd.Options{}, func(ctx context.Context, w *spmd.World) error {
		for i, size := range sizes {
			if err := roundTrips(ctx, w, i, size, other, &times[i]); err != nil {
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

// linkOf returns the link on which an item of sizes[i] bytes takes times[i] seconds.
func linkOf(times [len(sizes)]float64) planner.Link {
	l := planner.Link{PerByte: max(0, (times[1]-times[0])/float64(sizes[1]-sizes[0]))}
	l.Latency = max(0, times[0]-l.PerByte*float64(sizes[0]))
	return l
}

// roundTrips sends items of a size to the rank other and back, and sets the seconds of one way. The workers fill and
// read the items.
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

// pass gets n items from the channel in, and puts n items into the channel out. If first is true, it begins with a put.
// It appends the seconds of each round to times, unless times is nil.
func pass(ctx context.Context, m *spmd.Member, in, out *spmd.Channel, layout *tensor.Layout, n int, times *[]float64,
	first bool) error {
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
		if first {
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
		if !first {
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

// mostSummed bounds the goroutine ranks that measure sums. unequal is the longer of the two times for which they
// compute between sums.
const mostSummed, unequal = 8, 60 * time.Microsecond

// AddSums adds to f the costs of sums over this many actors or critic workers. If they gather weights, it also adds the
// costs of gathers. With only one member it adds nothing. Goroutine ranks measure these costs, in a world with as many
// ranks as the job. If there are more ranks than cores, members that wait sleep at once, and wake up late. So the
// members compute between sums, in turn for a shorter and a longer time.
func AddSums(ctx context.Context, f *planner.Profile, members, ranks int) error {
	if members <= 1 {
		return nil
	}
	members = min(members, mostSummed)
	costs, err := sums(ctx, &f.Work, members, max(members, min(ranks, mostSummed)))
	f.Costs = append(f.Costs, costs...)
	return err
}

// sums measures sums of a few numbers and of a gradient, as training makes them, over the first members of a world of
// goroutine ranks. If the job gathers weights, it also measures a gather.
func sums(ctx context.Context, work *planner.Work, members, ranks int) ([]planner.Cost, error) {
	rows := []int{32, max(64, int(work.GradientBytes/4))}
	if work.Gathers+work.CriticGathers > 0 {
		rows = append(rows, rows[1])
	}
	times := make([][]float64, len(rows))
	err := spmd.Run(ctx, local.New(ranks), spmd.Options{}, func(ctx context.Context, w *spmd.World) error {
		if w.Rank() >= members {
			return nil
		}
		ends, err := w.NewComm(w.Ranks()[:members], "sums")
		if err != nil {
			return err
		}
		group, err := collectives.New(w, ends[0], collectives.Options{})
		if err != nil {
			return err
		}
		r := collectives.NewReducer(ctx, group, work.BucketBytes)
		memory, err := w.Alloc(4 * rows[1])
		if err != nil {
			return err
		}
		grad := tensor.Of(memory[:4*rows[1]], tensor.F32, rows[1]).F32()
		few, shares := make([]float64, rows[0]/2), make([]int, members)
		for i := range shares {
			shares[i] = (i+1)*len(grad)/members - i*len(grad)/members
		}
		begun := time.Now()
		for n := range 200 {
			for i := range rows {
				start := time.Now()
				computeFor(unequal / time.Duration(1+(w.Rank()+n*len(rows)+i)%2))
				switch i {
				case 0:
					err = r.Sum(few)
				case 1:
					err = r.Gradient(grad).Wait(nil)
				default:
					err = r.Gather(grad, shares)
				}
				if err != nil {
					return err
				}
				if w.Rank() == 0 && n > 2 {
					times[i] = append(times[i], max(0, time.Since(start)-unequal).Seconds())
				}
			}
			stop := []float64{0}
			if w.Rank() == 0 && time.Since(begun) > 300*time.Millisecond {
				stop[0] = 1
			}
			if err := r.Sum(stop); err != nil {
				return err
			}
			if stop[0] > 0 && n >= 9 {
				return nil
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("measure sums: %w", err)
	}
	var costs []planner.Cost
	for i := range rows {
		t := usual(times[i])
		op := planner.OpSum
		if i > 1 {
			op = planner.OpGather
		}
		costs = append(costs, planner.Cost{Op: op, Rows: rows[i], Members: members, Seconds: t, Busy: t})
	}
	return costs, nil
}
