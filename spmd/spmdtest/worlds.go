package spmdtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
)

// worlds returns the test cases of programs that return spmd.Again.
func worlds() []Case {
	return []Case{
		{"every world is as the first", inWorlds(20, oneOfMany)},
		{"kept memory outlives its world, and other memory comes again as zeros", inWorlds(12, keeping)},
		{"a message that nobody received does not reach the next world", inWorlds(4, stray)},
	}
}

// inWorlds returns a program that runs f in n successive worlds. Each rank has its own state, which f gets in every
// world.
func inWorlds[T any](n int, f func(ctx context.Context, w *spmd.World, world int, state *T) error) func(
	context.Context, *spmd.World) error {
	type rank struct {
		world int
		state T
	}
	var mu sync.Mutex
	ranks := make(map[int]*rank)
	return func(ctx context.Context, w *spmd.World) error {
		mu.Lock()
		r := ranks[w.Rank()]
		if r == nil {
			r = new(rank)
			ranks[w.Rank()] = r
		}
		mu.Unlock()
		if err := f(ctx, w, r.world, &r.state); err != nil {
			return fmt.Errorf("world %d: %w", r.world, err)
		}
		if r.world++; r.world < n {
			return fmt.Errorf("%d worlds of %d: %w", r.world, n, spmd.Again)
		}
		mu.Lock()
		defer mu.Unlock()
		delete(ranks, w.Rank())
		return nil
	}
}

// oneOfMany uses every feature of a world, with a different placement in each world. ended counts the goroutines of
// World.Go that have ended in earlier worlds.
func oneOfMany(ctx context.Context, w *spmd.World, world int, ended *atomic.Int64) error {
	if n, hash := w.Calls(); n != 0 || hash != 0 {
		return fmt.Errorf("it has made %d calls before its first", n)
	}
	if n := ended.Load(); n != int64(world) {
		return fmt.Errorf("%d goroutines of World.Go have ended", n)
	}
	n := w.Size()
	s := site{"many", []int{world % n, (world + 1) % n, world % n}, []int{(world + 2) % n, (2*world + 1) % n}}
	self := func(m *spmd.Member) (*spmd.Member, error) { return m, nil }
	from, err := spmd.Launch(w, spmd.GroupSpec{Name: "from", Ranks: s.from, Comms: []string{"ring"}}, self)
	if err != nil {
		return err
	}
	to, err := spmd.Launch(w, spmd.GroupSpec{Name: "to", Ranks: s.to, Direct: []string{"from"}}, self)
	if err != nil {
		return err
	}
	ch, err := spmd.NewChannel(w, spmd.ChannelSpec{Name: "items", From: from.Spec(), To: to.Spec(), MaxSize: 16,
		ItemBytes: 256, Shared: true})
	if err != nil {
		return err
	}
	sc := &scene{w, from, to, ch}
	err = sc.play(ctx, func(ctx context.Context, m *spmd.Member) error {
		if err := exchange(ctx, []spmd.Comm{m.Comm("ring")}); err != nil {
			return err
		}
		for _, key := range kinds {
			snd, err := ch.Sender(m, key)
			if err != nil {
				return err
			}
			for i := range 3 {
				if err := put(ctx, snd, 100*world+i, 1); err != nil {
					return err
				}
			}
		}
		return ch.Close(m)
	}, func(ctx context.Context, m *spmd.Member) error {
		for _, key := range kinds {
			if key.To != spmd.AnyMember && key.To != m.Index() {
				continue
			}
			rcv, err := ch.Receiver(m, key)
			if err != nil {
				return err
			}
			for {
				i, _, err := get(ctx, rcv)
				if errors.Is(err, spmd.ErrClosed) {
					break
				}
				if err != nil {
					return err
				}
				if i/100 != world {
					return fmt.Errorf("key %v: item %d", key, i)
				}
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := useWorld(ctx, w, world); err != nil {
		return err
	}
	w.SetStep(int64(world))
	w.Go("late", func() error { // main returns before this function
		time.Sleep(2 * time.Millisecond)
		ended.Add(1)
		return nil
	})
	return nil
}

// useWorld uses the features of a world that need no group: shared memory, a collective of the library, and message
// spaces.
func useWorld(ctx context.Context, w *spmd.World, world int) error {
	if sh, ok := w.Shared(); ok {
		sig, err := signals(ctx, w, sh, w.Size())
		if err != nil {
			return err
		}
		ranks := mates(w)
		sh.Post(&sig[w.Rank()], uint32(world+1))
		for _, r := range ranks {
			if err := sh.Await(ctx, &sig[r], 0, r); err != nil {
				return err
			}
			if v := sig[r].Value.Load(); v != uint32(world+1) {
				return fmt.Errorf("the signal of rank %d is %d", r, v)
			}
		}
	}
	if w.HasNative() && world%5 == 0 {
		native, err := w.NewNative(w.Ranks(), "native") // the transport closes it
		if err != nil {
			return err
		}
		sum := tensor.New(tensor.I32, 1)
		sum.I32()[0] = int32(w.Rank() + 1)
		c := spmd.Collective{Kind: spmd.AllReduce, DType: tensor.I32, Data: sum.Bytes()}
		if err := native.Run(ctx, &c); err != nil {
			return err
		}
		if got, want := sum.I32()[0], int32(w.Size()*(w.Size()+1)/2); got != want {
			return fmt.Errorf("the library's sum is %d, want %d", got, want)
		}
	}
	spaces, err := w.Spaces()
	if err != nil {
		return err
	}
	for i, s := range spaces {
		if want := []string{"world", "from", "to"}; !slices.Contains(want, s.Name) || (i == 0) != (s.Name == "world") ||
			len(spaces) > len(want) {
			return fmt.Errorf("the message spaces are %v", spaces)
		}
	}
	return nil
}

// keeping passes some memory to World.Keep in every world: whole pieces of Alloc, and parts of pieces. It checks that
// kept memory does not change while other memory is allocated and freed.
func keeping(ctx context.Context, w *spmd.World, world int, kept *map[int][]byte) error {
	ends, err := w.NewComm(w.Ranks(), "keeping")
	if err != nil {
		return err
	}
	for seed, b := range *kept {
		if err := check(b, seed); err != nil {
			return fmt.Errorf("kept memory: %w", err)
		}
	}
	if err := passOn(ctx, w, ends[0], (*kept)[longest]); err != nil {
		return fmt.Errorf("kept memory: %w", err)
	}
	now := map[int][]byte{}
	for seed, b := range *kept {
		if seed == longest || (seed+world)%3 > 0 {
			now[seed] = b
		}
	}
	if world == 0 {
		if now[longest], err = w.Alloc(100_000); err != nil {
			return err
		}
		fill(now[longest], longest)
	}
	for i, n := range []int{1, 64, 1000, 5000, 70_000, 300_001, 2 << 20, 4096, 33} {
		b, err := w.Alloc(n)
		if err != nil {
			return err
		}
		for at, x := range b {
			if x != 0 {
				return fmt.Errorf("byte %d of new memory is %d", at, x)
			}
		}
		seed := 100*world + i + 1
		fill(b, seed)
		switch (world + i) % 3 {
		case 0:
			now[seed] = b
		case 1:
			part := b[n/3 : n/3+(n+1)/2]
			fill(part, seed)
			now[seed] = part
		}
	}
	for _, b := range now {
		w.Keep(b)
	}
	w.Keep(nil)
	*kept = now
	return nil
}

// longest is the seed of the piece that is kept in all worlds.
const longest = 0

// passOn sends the piece b of this rank's memory to the next rank. It also checks that the ranks of the node see each
// other's pieces through shared memory. All pieces hold the same pattern.
func passOn(ctx context.Context, w *spmd.World, c spmd.Comm, b []byte) error {
	if b == nil {
		return nil
	}
	n := w.Size()
	in, err := w.Alloc(len(b))
	if err != nil {
		return err
	}
	var reqs [2]spmd.Request
	if reqs[0], err = c.Irecv(in, (w.Rank()+n-1)%n, 0); err != nil {
		return err
	}
	if reqs[1], err = c.Isend(b, (w.Rank()+1)%n, 0); err != nil {
		return err
	}
	if err := c.Wait(ctx, reqs[:]); err != nil {
		return err
	}
	if err := check(in, longest); err != nil {
		return err
	}
	clear(in)
	fill(in, 1) // the next Alloc of this memory must zero it
	sh, ok := w.Shared()
	if !ok {
		return nil
	}
	at, ok := sh.Locate(b)
	if !ok {
		return errors.New("it is not located")
	}
	all, err := tell(ctx, w, uint64(at))
	if err != nil {
		return err
	}
	for _, r := range mates(w) {
		v, err := sh.View(r, int64(all[r]), len(b))
		if err != nil {
			return err
		}
		if r == w.Rank() && unsafe.SliceData(v) != unsafe.SliceData(b) {
			return errors.New("its view is another memory")
		}
		if err := check(v, longest); err != nil {
			return fmt.Errorf("of rank %d: %w", r, err)
		}
	}
	return nil
}

// stray sends messages that nobody receives, in communicators that the next world makes again.
func stray(ctx context.Context, w *spmd.World, world int, _ *struct{}) error {
	if w.Size() == 1 {
		return nil // MPI need not complete a send to the same rank if nobody receives it
	}
	self := func(m *spmd.Member) (*spmd.Member, error) { return m, nil }
	g, err := spmd.Launch(w, spmd.GroupSpec{Name: "stray", Ranks: w.Ranks(), Comms: []string{"a", "b"}}, self)
	if err != nil {
		return err
	}
	ends, err := w.NewComm(w.Ranks(), "stray")
	if err != nil {
		return err
	}
	n, m := w.Size(), g.Here()[0]
	for _, c := range []spmd.Comm{m.Comm("a"), m.Comm("b"), ends[0]} {
		for tag, bytes := range []int{1, 100, 4000} {
			out, in := make([]byte, bytes), make([]byte, bytes)
			var reqs [2]spmd.Request
			if reqs[0], err = c.Irecv(in, (w.Rank()+n-1)%n, tag); err != nil {
				return err
			}
			for more := range 3 { // only the first message is received
				fill(out, 10*world+more)
				if reqs[1], err = c.Isend(out, (w.Rank()+1)%n, tag); err != nil {
					return err
				}
				if err := c.Wait(ctx, reqs[:]); err != nil {
					return err
				}
			}
			if err := check(in, 10*world); err != nil {
				return err
			}
		}
	}
	return nil
}

// Leaving returns a program that needs three or more ranks and an Options.StallTimeout of one second. It runs in three
// worlds. In the first and the last world, rank 1 ends while rank 2 waits for it, and rank 2 must get an error. In the
// second world, rank 1 only works for long, and rank 2 must get no error.
func Leaving() func(ctx context.Context, w *spmd.World) error { return inWorlds(3, leaving) }

func leaving(ctx context.Context, w *spmd.World, world int, _ *struct{}) error {
	ends, err := w.NewComm(w.Ranks(), "leaving")
	if err != nil {
		return err
	}
	c := ends[0]
	switch {
	case w.Rank() == 1 && world == 1:
		time.Sleep(3 * time.Second)
		_, err := c.Isend([]byte{1}, 2, 0)
		return err
	case w.Rank() != 2:
		return nil
	}
	r, err := c.Irecv(make([]byte, 1), 1, 0)
	if err != nil {
		return err
	}
	err = c.Wait(ctx, []spmd.Request{r})
	if world == 1 {
		return err
	}
	if err == nil || !strings.Contains(err.Error(), "receive from member 1") &&
		!strings.Contains(err.Error(), "bytes from member 1") || !strings.Contains(err.Error(), "has left") {
		return fmt.Errorf("a wait for a rank that has left: %v", err)
	}
	return c.Cancel(&r)
}

// Many returns a program of n >= 200 worlds that uses every feature of a world. The program fails if the process grows
// after the first 60 to 119 worlds. It needs Linux, which reports the size of the process.
func Many(n int) func(ctx context.Context, w *spmd.World) error {
	start := (n-1)%60 + 60 // a world with the same placement and the same sizes of kept memory as the last world
	var reads sync.Mutex   // so that a rank does not count the files that another rank of the process reads
	type state struct {
		late  atomic.Int64
		kept  map[int][]byte
		start usage
	}
	return inWorlds(n, func(ctx context.Context, w *spmd.World, world int, s *state) error {
		if err := errors.Join(oneOfMany(ctx, w, world, &s.late), keeping(ctx, w, world, &s.kept)); err != nil {
			return err
		}
		if world != start && world != n-1 {
			return nil
		}
		ends, err := w.NewComm(w.Ranks(), "all have done their work")
		if err == nil {
			err = exchange(ctx, ends)
		}
		if err != nil {
			return err
		}
		reads.Lock()
		now, err := used()
		reads.Unlock()
		if world < n-1 {
			s.start = now
			return err
		}
		if err != nil {
			return err
		}
		return now.exceeds(s.start)
	})
}

// A usage holds the amounts of resources that the process uses.
type usage struct{ memory, shared, mapped, files, goroutines int64 }

// used reads the usage of this process from Linux.
func used() (u usage, err error) {
	debug.FreeOSMemory()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return u, err
	}
	for line := range strings.Lines(string(status)) {
		var kib int64
		name, rest, _ := strings.Cut(line, ":")
		fmt.Sscan(rest, &kib)
		switch name {
		case "VmRSS":
			u.memory = kib
		case "RssShmem":
			u.shared = kib
		}
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return u, err
	}
	files, err := os.ReadDir("/proc/self/fd")
	u.mapped, u.files = int64(strings.Count(string(maps), "\n")), int64(len(files))
	u.goroutines = int64(runtime.NumGoroutine())
	return u, err
}

// exceeds returns an error if a resource has grown by more than 5 % plus a constant since an earlier usage.
func (u usage) exceeds(earlier usage) error {
	for _, x := range []struct {
		what           string
		was, is, slack int64 // slack is the allowed growth in addition to 5 %
	}{
		{"KiB of memory", earlier.memory, u.memory, 1024},
		{"KiB of shared memory", earlier.shared, u.shared, 1024},
		{"mappings", earlier.mapped, u.mapped, 5},
		{"files", earlier.files, u.files, 0},
		{"goroutines", earlier.goroutines, u.goroutines, 20}, // goroutines of another rank may be about to end
	} {
		if x.is > x.was+x.was/20+x.slack {
			return fmt.Errorf("the process has grown from %d to %d %s", x.was, x.is, x.what)
		}
	}
	return nil
}
