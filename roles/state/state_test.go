package state

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rlinf/rlinf/collectives"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/roles/internal/rolestest"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
)

// A division says which part of a network each rank holds. Matrices are cut into `tensors` slices along an axis, and
// fields are dealt to `stages` in order. The last stage also has the first field. `first` is the first rank. `replicas`
// of these ranks divide the moments; 0 stands for 1.
type division struct {
	tensors, axis, stages, first, replicas int
}

func (d division) String() string {
	return fmt.Sprintf("%d slices along axis %d, %d stages, from rank %d, %d replicas", d.tensors, d.axis, d.stages,
		d.first, d.replicas)
}

const worldSize = 5

func divisions() []division {
	return []division{{1, 0, 1, 0, 0}, {1, 0, 1, 3, 0}, {2, 0, 1, 0, 0}, {2, 1, 1, 1, 0}, {4, 1, 1, 0, 0},
		{4, 0, 1, 1, 0}, {1, 0, 2, 0, 0}, {2, 1, 2, 1, 0}, {1, 0, 1, 0, 5}, {2, 0, 1, 1, 2}, {1, 0, 2, 0, 2}}
}

// A state is what a rank holds: a network with moments and counters.
type state struct {
	p, whole *nn.Params[float32]
	lo       int           // first element of p.Data with moments
	m        tensor.Tensor // moments of the elements from lo on
	counters tensor.Tensor
}

func shapes(scale int) [][]int {
	return [][]int{{11, 6 * scale}, {6, 16 * scale}, {7}, {3, 5}, {16 * scale, 6}, {9}}
}

// newState returns the state of one rank, or nil if it holds nothing.
func newState(t *testing.T, d division, rank, scale int) *state {
	rank -= d.first
	replicas, each := max(d.replicas, 1), d.tensors*d.stages
	if rank < 0 || rank >= replicas*each {
		return nil
	}
	replica := rank / each
	rank %= each
	s := &state{p: new(nn.Params[float32]), whole: new(nn.Params[float32]), counters: tensor.New(tensor.I64, 2)}
	s.whole.Group("actor")
	s.p.Group("actor")
	all := shapes(scale)
	stage, index := rank/d.tensors, rank%d.tensors
	for i, shape := range all {
		name := fmt.Sprint("layer.", i)
		s.whole.Add(name, shape...)
		if i*d.stages/len(all) != stage && !(i == 0 && stage == d.stages-1) {
			continue
		}
		if len(shape) < 2 || d.tensors == 1 {
			s.p.Add(name, shape...)
			continue
		}
		n := shape[d.axis]
		cut := nn.Slice{Axis: d.axis, From: index * n / d.tensors, To: (index + 1) * n / d.tensors, Whole: n}
		mine := slices.Clone(shape)
		mine[d.axis] = cut.To - cut.From
		s.p.Add(name, mine...)
		s.p.Cut(name, cut)
	}
	test.OK(t, s.p.Alloc(tensor.Heap))
	n := len(s.p.Data)
	s.lo = replica * n / replicas
	s.m = tensor.New(tensor.F32, (replica+1)*n/replicas-s.lo)
	return s
}

func (s *state) parts() []Part {
	if s == nil {
		return nil
	}
	return append(PartsOf(ModelFile, "", s.p, s.whole), PartOf(TrainerFile, "counters", s.counters, nn.Slice{}),
		FlatPart(TrainerFile, "optim.m", s.m, s.lo, s.p, s.whole))
}

// filled returns the state of one rank that holds everything, with random values, and the two files of this state.
func filled(t *testing.T, scale int) (s *state, files map[string][]byte) {
	s = newState(t, division{tensors: 1, stages: 1}, 0, scale)
	r := rand.New(rand.NewPCG(1, 2))
	s.counters.I64()[1] = 42
	var model, trainer tensor.Dict
	for i, f := range s.p.Fields {
		for j := range s.p.Of(i) {
			s.p.Of(i)[j] = r.Float32()
			s.m.F32()[f.Off+j] = r.Float32()
		}
		model.Set(f.Name, tensor.FromF32(s.p.Of(i), f.Shape...))
	}
	trainer.Set("counters", s.counters)
	trainer.Set("optim.m", s.m)
	files = map[string][]byte{}
	for file, d := range map[string]tensor.Dict{ModelFile: model, TrainerFile: trainer} {
		var b bytes.Buffer
		test.OK(t, tensor.WriteSafetensors(&b, d, nil))
		files[file] = b.Bytes()
	}
	return s, files
}

// sources returns the files as sources, with readers on rank 0.
func sources(t *testing.T, files map[string][]byte, rank int, watch func(io.ReaderAt) io.ReaderAt) (from []StateFile) {
	for _, file := range []string{ModelFile, TrainerFile} {
		r := test.Must(tensor.NewSafetensorsReader(watch(bytes.NewReader(files[file])), int64(len(files[file]))))(t)
		s := StateFile{File: file, Fields: r.Fields}
		if rank == 0 {
			s.Reader = r
		}
		from = append(from, s)
	}
	return from
}

func plain(r io.ReaderAt) io.ReaderAt { return r }

// collected returns the files that rank 0 writes from the ranks' states.
func collected(ctx context.Context, g *collectives.Group, c spmd.Comm, s *state, piece int) (map[string][]byte, error) {
	files := map[string][]byte{}
	err := collect(ctx, g, c, s.parts(), piece, func(c *Collection) error {
		for _, file := range []string{ModelFile, TrainerFile} {
			var b bytes.Buffer
			if err := c.Write(&b, file); err != nil {
				return err
			}
			files[file] = b.Bytes()
		}
		return nil
	})
	return files, err
}

// The files of a state have the same bytes for any division, and any other division can load them.
func TestStateInAnyDivision(t *testing.T) {
	whole, files := filled(t, 1)
	for _, from := range divisions() {
		for _, to := range divisions() {
			for _, piece := range []int{28, 1000} {
				err := rolestest.OnRanks(t, worldSize, func(ctx context.Context, rank int, g *collectives.Group,
					c spmd.Comm) error {
					before, after := newState(t, from, rank, 1), newState(t, to, rank, 1)
					for _, s := range []*state{before, after} {
						if err := distribute(ctx, g, sources(t, files, rank, plain), s.parts(), piece); err != nil {
							return err
						}
						if err := s.same(whole); err != nil {
							return fmt.Errorf("rank %d: %w", rank, err)
						}
						again, err := collected(ctx, g, c, s, piece)
						if err != nil {
							return err
						}
						for file, b := range again {
							if !bytes.Equal(b, files[file]) {
								return fmt.Errorf("other bytes in %s", file)
							}
						}
					}
					return nil
				})
				test.OK(t, err, "from %v to %v in pieces of %d", from, to, piece)
			}
		}
	}
}

// same compares each element of a rank's parameters and moments with the element of the whole.
func (s *state) same(whole *state) error {
	if s == nil {
		return nil
	}
	for i, f := range s.p.Fields {
		at := slices.IndexFunc(whole.p.Fields, func(w nn.ParamTensor) bool { return w.Name == f.Name })
		off, wrong := whole.p.Fields[at].Off, 0
		s.p.SliceOf(f.Name).Block(whole.p.Fields[at].Shape).Within(0, whole.p.Fields[at].Len(), func(x, here, n int) {
			for j := range n {
				if s.p.Of(i)[here+j] != whole.p.Data[off+x+j] {
					wrong++
				}
				if m := f.Off + here + j - s.lo; 0 <= m && m < s.m.Len() && s.m.F32()[m] != whole.m.F32()[off+x+j] {
					wrong++
				}
			}
		})
		if wrong > 0 {
			return fmt.Errorf("%d elements of %s are others", wrong, f.Name)
		}
	}
	if s.counters.I64()[1] != 42 {
		return errors.New("other counters")
	}
	return nil
}

// The order of tensors in a file does not depend on the ranks that hold them.
func TestOrder(t *testing.T) {
	err := rolestest.OnRanks(t, worldSize, func(ctx context.Context, rank int, g *collectives.Group,
		c spmd.Comm) error {
		var mine []Part
		for _, name := range []string{"b", "a"} {
			p := PartOf(ModelFile, fmt.Sprint(rank, name), tensor.New(tensor.U8, 1), nn.Slice{})
			p.Order = (rank + 3) % worldSize
			mine = append(mine, p)
		}
		return Collect(ctx, g, c, mine, func(c *Collection) error {
			var b bytes.Buffer
			if err := c.Write(&b, ModelFile); err != nil {
				return err
			}
			d, _, err := tensor.ReadSafetensors(b.Bytes())
			if err != nil {
				return err
			}
			names := ""
			for i := range d.Len() {
				name, _ := d.Entry(i)
				names += name + " "
			}
			if want := "2b 2a 3b 3a 4b 4a 0b 0a 1b 1a "; names != want {
				t.Errorf("the tensors are %s, want %s", names, want)
			}
			return nil
		})
	})
	test.Check(t, err)
}

// A meter remembers the largest transfer.
type meter struct{ largest, count atomic.Int64 }

func (m *meter) see(n int) {
	m.count.Add(1)
	for old := m.largest.Load(); int64(n) > old && !m.largest.CompareAndSwap(old, int64(n)); old = m.largest.Load() {
	}
}

// A metered communicator records the sizes of messages. If fails is not 0, the message with this number fails.
type metered struct {
	spmd.Comm
	*meter
	fails int
}

var errLink = errors.New("the link broke")

func (m *metered) Isend(b []byte, to, tag int) (spmd.Request, error) {
	if m.see(len(b)); m.fails > 0 && int(m.count.Load()) >= m.fails {
		return spmd.Request{}, errLink
	}
	return m.Comm.Isend(b, to, tag)
}

func (m *meter) Write(b []byte) (int, error) {
	m.see(len(b))
	return len(b), nil
}

type meteredFile struct {
	io.ReaderAt
	*meter
}

func (m meteredFile) ReadAt(b []byte, at int64) (int, error) {
	m.see(len(b))
	return m.ReaderAt.ReadAt(b, at)
}

// No piece is larger than it may be: in messages, in writes and in reads of files.
func TestPiecesAreSmall(t *testing.T) {
	const scale, piece = 100, 1 << 14
	_, files := filled(t, scale)
	var sent, written, read meter
	d := division{tensors: 2, axis: 1, stages: 2, first: 1}
	err := rolestest.OnRanks(t, worldSize, func(ctx context.Context, rank int, g *collectives.Group,
		c spmd.Comm) error {
		s := newState(t, d, rank, scale)
		from := sources(t, files, rank, func(r io.ReaderAt) io.ReaderAt { return meteredFile{r, &read} })
		if err := distribute(ctx, g, from, s.parts(), piece); err != nil {
			return err
		}
		return collect(ctx, g, &metered{c, &sent, 0}, s.parts(), piece, func(c *Collection) error {
			return errors.Join(c.Write(&written, ModelFile), c.Write(&written, TrainerFile))
		})
	})
	test.OK(t, err)
	for what, m := range map[string]*meter{"messages": &sent, "writes": &written, "reads": &read} {
		if n := m.largest.Load(); n > piece || n < piece/8 {
			t.Errorf("the largest of the %s has %d bytes, want at most %d and not much less", what, n, piece)
		}
	}
}

// If rank 0 cannot write, the other ranks learn that it needs no more pieces.
func TestWriteFails(t *testing.T) {
	full := errors.New("no space left on device")
	err := rolestest.OnRanks(t, worldSize, func(ctx context.Context, rank int, g *collectives.Group,
		c spmd.Comm) error {
		s := newState(t, division{tensors: 2, axis: 1, stages: 2, first: 1}, rank, 1)
		err := collect(ctx, g, c, s.parts(), 64, func(c *Collection) error {
			return c.Write(failing{full}, TrainerFile)
		})
		if rank == 0 && !errors.Is(err, full) || rank > 0 && err != nil {
			return fmt.Errorf("rank %d: %w", rank, err)
		}
		return nil
	})
	test.Check(t, err)
}

// A failing writer accepts the header of a file, and nothing after it.
type failing struct{ err error }

func (f failing) Write(b []byte) (int, error) {
	if len(b) == 8 || b[0] == '{' {
		return len(b), nil
	}
	return 0, f.err
}

// If a rank cannot send its pieces, the job ends with the rank's error, and rank 0 does not wait.
func TestSendFails(t *testing.T) {
	err := rolestest.OnRanks(t, worldSize, func(ctx context.Context, rank int, g *collectives.Group,
		c spmd.Comm) error {
		s := newState(t, division{tensors: 2, axis: 1, stages: 2, first: 1}, rank, 1)
		if rank == 2 {
			c = &metered{c, new(meter), 3}
		}
		_, err := collected(ctx, g, c, s, 64)
		if rank == 0 && err == nil {
			t.Error("rank 0 wrote all files")
		}
		return err
	})
	if !errors.Is(err, errLink) || !strings.Contains(err.Error(), "send a piece of layer.") {
		t.Errorf("%v, want the error of rank 2", err)
	}
}

// If a rank cannot read its file, or has a part that does not fit, all ranks end with the error of this rank.
func TestDistributeFails(t *testing.T) {
	_, files := filled(t, 1)
	for what, c := range map[string]struct {
		change func(rank int, from []StateFile, parts []Part)
		want   string
	}{
		"a file becomes short": {func(_ int, from []StateFile, _ []Part) {
			if r := from[1].Reader; r != nil {
				b := files[TrainerFile]
				short := test.Must(tensor.NewSafetensorsReader(bytes.NewReader(b[:len(b)-4]), int64(len(b))))(t)
				from[1].Reader = short
			}
		}, `trainer.safetensors: read safetensors: tensor "optim.m": EOF`},
		"one rank expects another shape": {func(rank int, _ []StateFile, parts []Part) {
			if rank == 2 {
				parts[0].Field.Shape = []int{66}
			}
		}, "model.safetensors: layer.0 is F32[11 6], expected F32[66]"},
		"a tensor of environments without rows": {func(_ int, from []StateFile, _ []Part) {
			from[1].File = EnvFile
			from[1].Fields = []tensor.Field{{Name: "clock", DType: tensor.I64}}
		}, "env.safetensors: clock is I64[], expected a row for each environment"},
	} {
		err := rolestest.OnRanks(t, worldSize, func(ctx context.Context, rank int, g *collectives.Group,
			_ spmd.Comm) error {
			d := division{tensors: 1, stages: 1, replicas: worldSize}
			from, parts := sources(t, files, rank, plain), newState(t, d, rank, 1).parts()
			c.change(rank, from, parts)
			return distribute(ctx, g, from, parts, 64)
		})
		test.Fails(t, err, c.want, "%s", what)
	}
}

// Together the parts of all ranks must have all elements, and files must have the tensors of all parts.
func TestPartsThatDoNotFit(t *testing.T) {
	_, files := filled(t, 1)
	d := division{tensors: 2, axis: 0, stages: 1}
	for what, c := range map[string]struct {
		change func(rank int, parts []Part) []Part
		want   string
	}{
		"nobody holds a slice": {func(rank int, parts []Part) []Part {
			if rank == 1 {
				return nil
			}
			return parts
		}, `tensor "layer.0": ranks hold 120 bytes, expected 264`},
		"other shapes": {func(rank int, parts []Part) []Part {
			if rank == 1 {
				parts[2].Field.Shape = []int{8}
			}
			return parts
		}, "layer.2 is F32[8] on rank 1, expected F32[7] as on ranks before it"},
	} {
		err := rolestest.OnRanks(t, worldSize, func(ctx context.Context, rank int, g *collectives.Group,
			c2 spmd.Comm) error {
			parts := c.change(rank, newState(t, d, rank, 1).parts())
			return Collect(ctx, g, c2, parts, func(c *Collection) error { return c.Write(io.Discard, ModelFile) })
		})
		test.Fails(t, err, c.want, "%s", what)
	}
	from := sources(t, files, 0, plain)
	given := Given{ModelFile: from[0].Fields, TrainerFile: from[1].Fields}
	parts := newState(t, d, 0, 1).parts()
	parts[0].Field.Name = "other"
	want := "model.safetensors: no other (F32[11 6]) in it"
	if err := given.fits(parts); err == nil || !strings.Contains(err.Error(), want) {
		t.Error(err)
	}
	parts = newState(t, d, 0, 1).parts()
	parts[len(parts)-1].Field.Shape = []int{3}
	if err := given.fits(parts); err == nil || !strings.Contains(err.Error(), "trainer.safetensors: optim.m is F32[") {
		t.Error(err)
	}
}
