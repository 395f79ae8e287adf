package collectivestest

import (
	"context"
	"fmt"
	"slices"

	"github.com/rlinf/rlinf/collectives"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
)

// sizes are the tested numbers of elements in Data. The largest needs more than one chunk in shared memory.
var sizes = []int{0, 1, 7, 1000, 65537}

var types = []tensor.DType{tensor.F32, tensor.F64, tensor.I32, tensor.I64, tensor.U8, tensor.BF16}

// Conformance runs every operation with every algorithm that this world's groups support, or only with
// opts.Algorithm if it is set. Member m of the group is on ranks[m]; a rank may be listed more than once. If
// wrap is not nil, it replaces the host of each member. opts holds the options that the suite does not
// choose itself. Conformance returns the number of operations, and an error for the first wrong result.
func Conformance(ctx context.Context, w *spmd.World, ranks []int, wrap func(collectives.Host) collectives.Host,
	opts collectives.Options) (made int, err error) {
	ends, err := w.NewComm(ranks, "conformance")
	if err != nil {
		return 0, err
	}
	counts, errs := make([]int, len(ends)), make(chan error, len(ends))
	for i, end := range ends {
		w.Go(fmt.Sprintf("member %d", end.Rank()), func() error {
			err := runMember(ctx, w, end, wrap, opts, &counts[i])
			errs <- err
			return err
		})
	}
	for range ends {
		if e := <-errs; err == nil {
			err = e
		}
	}
	return counts[0], err
}

// runMember runs the suite on one member. All algorithms use the same Comm in turn, so that a message left
// behind by an operation disturbs the next operation.
func runMember(ctx context.Context, w *spmd.World, end spmd.Comm, wrap func(collectives.Host) collectives.Host,
	opts collectives.Options, made *int) error {
	var host collectives.Host = w
	if wrap != nil {
		host = wrap(host)
	}
	b := &tester{ctx: ctx, size: end.Size(), me: end.Rank(), made: made, types: types, known: make(map[Case]*caseData)}
	if race || slices.Max(w.Nodes()) > 0 { // to save time
		b.types = []tensor.DType{tensor.F32}
	}
	algorithms := collectives.Algorithms()
	if opts.Algorithm != "" {
		algorithms = []string{opts.Algorithm}
	}
	for _, private := range []bool{false, true} {
		if err := b.allocate(w, private); err != nil {
			return err
		}
		for _, name := range algorithms {
			if private && name != collectives.Auto && name != "mpi" { // other algorithms treat all memory alike
				continue
			}
			opts.Algorithm, opts.Fast, opts.Debug = name, !private, private && name == collectives.Auto
			g, err := collectives.New(host, end, opts)
			if err != nil {
				return err
			}
			b.g = g
			for kind := spmd.Barrier; kind <= spmd.SendReceive; kind++ {
				if !g.Supports(name, kind) {
					continue
				}
				if err := b.runKind(kind); err != nil {
					return fmt.Errorf("algorithm %s, %d members, private memory %v: %w", name, b.size, private, err)
				}
			}
		}
	}
	return b.g.Close()
}

// A tester is the state of one member in the suite.
type tester struct {
	ctx        context.Context
	g          *collectives.Group
	size, me   int
	data, send []byte // memory for the longest buffers and their guard bytes
	made       *int
	types      []tensor.DType
	known      map[Case]*caseData // keyed by the case, with Type zero
}

// A caseData is a member's input and expected output in a case.
type caseData struct{ data, send, want []int16 }

func (b *tester) expect(c Case) *caseData {
	c.Type = 0
	e := b.known[c]
	if e == nil {
		data, send := c.Buffers(b.me)
		e = &caseData{short(data), short(send), short(c.Want(b.me))}
		b.known[c] = e
	}
	return e
}

func short(x []int) []int16 {
	if x == nil {
		return nil
	}
	y := make([]int16, len(x))
	for i, v := range x {
		y[i] = int16(v)
	}
	return y
}

const guard = 64

func (b *tester) allocate(w *spmd.World, private bool) (err error) {
	const room = 8*(65537+3*64) + 3*guard
	if private {
		b.data, b.send = make([]byte, room), make([]byte, room)
		return nil
	}
	if b.data, err = w.Alloc(room); err == nil {
		b.send, err = w.Alloc(room)
	}
	return err
}

// runKind runs the operations of one kind.
func (b *tester) runKind(kind spmd.CollectiveKind) error {
	for _, t := range b.types {
		for i, n := range sizes {
			for _, op := range ops(kind, n) {
				for _, root := range slices.Compact([]int{0, b.size - 1}) {
					if root > 0 && !rooted(kind) {
						continue
					}
					for _, uneven := range []bool{false, true} {
						if uneven && !blocks(kind) {
							continue
						}
						c := Case{Kind: kind, Type: t, N: n, Op: op, Root: root, Uneven: uneven, Size: b.size}
						if err := b.check(c, (i+int(t))%2 == 0); err != nil {
							return fmt.Errorf("%+v: %w", c, err)
						}
					}
				}
			}
		}
	}
	return nil
}

func ops(kind spmd.CollectiveKind, n int) []spmd.Op {
	if n != 7 || kind != spmd.Reduce && kind != spmd.AllReduce && kind != spmd.ReduceScatter {
		return []spmd.Op{spmd.Sum}
	}
	return []spmd.Op{spmd.Sum, spmd.Prod, spmd.Min, spmd.Max}
}

func rooted(k spmd.CollectiveKind) bool {
	return k == spmd.Broadcast || k == spmd.Reduce || k == spmd.Gather || k == spmd.Scatter
}

func blocks(k spmd.CollectiveKind) bool {
	return k == spmd.ReduceScatter || k == spmd.AllGather || k == spmd.Gather || k == spmd.Scatter || k == spmd.AllToAll
}

// check runs one operation and compares this member's result.
func (b *tester) check(c Case, start bool) error {
	*b.made++
	e := b.expect(c)
	data, send := e.data, e.send
	at := guard + c.Type.Size() // unaligned memory
	for _, mem := range [][]byte{b.data, b.send} {
		for i := range min(len(mem), at+max(len(data), len(send))*c.Type.Size()+guard) {
			mem[i] = 0xa5
		}
	}
	call := spmd.Collective{Kind: c.Kind, DType: c.Type, Op: c.Op, Root: c.Root, To: (b.me + 1) % b.size,
		From: (b.me - 1 + b.size) % b.size}
	call.Data = b.data[at : at+len(data)*c.Type.Size()]
	fill(call.Data, c.Type, data)
	if send != nil {
		call.Send = b.send[at : at+len(send)*c.Type.Size()]
		fill(call.Send, c.Type, send)
	}
	call.Counts, call.SendCounts = c.Counts(b.me)
	var err error
	if start {
		err = b.g.Start(b.ctx, call).Wait()
	} else {
		err = b.g.Run(b.ctx, call)
	}
	if err != nil {
		return err
	}
	if err := compare(call.Data, c.Type, e.want); err != nil {
		return fmt.Errorf("member %d: %w", b.me, err)
	}
	if err := compare(call.Send, c.Type, send); err != nil {
		return fmt.Errorf("member %d: of what was sent, %w", b.me, err)
	}
	for name, mem := range map[string][]byte{"Data": b.data[:at+len(call.Data)+guard],
		"Send": b.send[:at+len(call.Send)+guard]} {
		n := len(mem) - at - guard
		for i, x := range mem {
			if (i < at || i >= at+n) && x != 0xa5 {
				return fmt.Errorf("member %d: byte %d, outside of %s, was overwritten", b.me, i-at, name)
			}
		}
	}
	return nil
}
