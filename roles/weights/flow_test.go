package weights

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy/lm"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/internal/rolestest"
	"github.com/rlinf/rlinf/roles/job"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/spmd/local"
	"github.com/rlinf/rlinf/tensor"
)

// A network returns a part of a network, and a function that sets the part's memory to the values of a version.
type network func(lm.Shard) (p *nn.Params[float32], fill func(version int64))

// layersOf is the number of layers of every network in these tests.
const layersOf = 3

// byHand is a network with vectors that all members of a stage have, matrices that are cut along both axes, a frozen
// matrix, and a buffer that all members have. It also has an embedding of 9 tokens on the first and the last stage, of
// which the last of 4 members has no row.
func byHand(part lm.Shard) (*nn.Params[float32], func(int64)) {
	p := new(nn.Params[float32])
	p.Group("actor")
	add := func(declare func(string, ...int) int, name string, axis, rows, cols int) {
		if axis >= 0 {
			n := []int{rows, cols}[axis]
			per := (n + 3) / 4 * 4 / part.Size
			s := nn.Slice{Axis: axis, From: min(n, part.Index*per), To: min(n, (part.Index+1)*per), Whole: n}
			p.Cut(name, s)
			*[]*int{&rows, &cols}[axis] = s.To - s.From
		}
		declare(name, rows, cols)
	}
	embed := func() { add(p.Add, "embed", 1, 5, 9) }
	if part.First == 0 {
		embed()
	}
	for i := part.First; i < part.End; i++ {
		name := fmt.Sprintf("%d.", i)
		add(p.Add, name+"norm", -1, 1, 7)
		add(p.Add, name+"up", 1, 5, 8)
		add(p.Add, name+"down", 0, 8, 3)
		add(p.AddFrozen, name+"base", 1, 3, 16)
	}
	if part.End == layersOf {
		if part.First > 0 {
			embed()
		}
		add(p.Add, "norm", -1, 1, 3)
	}
	p.AddBuffer("seen", 1, 2)
	return p, func(version int64) {
		for i, f := range p.Layout().Fields() {
			s := p.SliceOf(f.Name)
			whole := s.WholeShape(f.Shape)
			x := tensor.Of(p.State()[p.Layout().Offset(i):][:f.Bytes()], f.DType, f.Shape...)
			for row := range f.Shape[0] {
				for col := range f.Shape[1] {
					at := []int{row, col}
					at[s.Axis] += s.From
					value := float32(version) + float32(at[0]*whole[1]+at[1])/64 + 1000*float32(len(f.Name))
					if here := row*f.Shape[1] + col; f.DType == tensor.F64 {
						x.F64()[here] = float64(value)
					} else {
						x.F32()[here] = value
					}
				}
			}
		}
	}
}

// language returns a network that is a language model.
func language(o lm.Options) network {
	return func(part lm.Shard) (*nn.Params[float32], func(int64)) {
		o := o
		o.Part = part
		m, err := lm.New(new(nn.Params[float32]), lm.Config{Family: lm.Qwen2, Vocab: 30, Hidden: 32, Layers: layersOf,
			Heads: 8, KVHeads: 4, HeadDim: 16, Intermediate: 64, Eps: 1e-5, InitRange: 0.1, Tied: true, QKVBias: true,
			Rope: lm.Rope{Theta: 1e4, Type: lm.RopeDefault}}, o)
		if err != nil {
			panic(err)
		}
		return m.Params, func(version int64) { m.Init(uint64(version)) }
	}
}

// A grid arranges members: replicas × stages × members of a stage.
type grid struct{ replicas, stages, size int }

func (g grid) members() int { return g.replicas * g.stages * g.size }

// part returns the part of a member. With 2 stages, the first has 2 layers and the second has 1.
func (g grid) part(member int) lm.Shard {
	p := lm.Shard{Index: member % g.size, Size: g.size, End: layersOf}
	switch stage := member / g.size % g.stages; {
	case g.stages == 2 && stage == 0:
		p.End = 2
	case g.stages == 2:
		p.First = 2
	}
	return p
}

// training are layouts of actors, and answering are those of rollouts.
var (
	training  = []grid{{1, 1, 1}, {1, 1, 2}, {1, 1, 4}, {1, 2, 1}, {1, 2, 2}, {2, 1, 2}}
	answering = []grid{{1, 1, 1}, {1, 1, 2}, {1, 1, 4}}
)

// A site has the ranks of the members of components.
type site struct {
	name           string
	ranks, nodes   int
	actors, reader func(member, members int) int // the rank of a member
}

func inTurn(member, _ int) int              { return member }
func spread(member, members int) int        { return member * 4 / members }
func backwards(member, members int) int     { return 3 - member*4/members }
func onSecondNode(member, _ int) int        { return 4 + member }
func onOneRank(int, int) int                { return 0 }
func inPairs(member, members int) int       { return member * 2 / members }
func twoOnEachSide(member, _ int) int       { return []int{1, 2, 4, 5}[member] }
func inAlternation(member, members int) int { return []int{0, 4, 1, 5}[member*4/members] }

var sites = []site{
	{"one node", 4, 1, inTurn, inTurn},
	{"one node, crossed", 4, 1, spread, backwards},
	{"one rank", 1, 1, onOneRank, onOneRank},
	{"two ranks", 2, 1, inPairs, inPairs},
	{"two nodes, spread", 4, 2, spread, spread},
	{"two nodes, crossed", 4, 2, spread, backwards},
	{"two nodes, apart", 8, 2, inTurn, onSecondNode},
	{"two nodes, rollouts on both", 8, 2, inTurn, twoOnEachSide},
	{"two nodes, all on both", 8, 2, inAlternation, twoOnEachSide},
	{"four nodes", 8, 4, inTurn, twoOnEachSide},
}

// A trial sends versions of a network from actors to rollouts.
type trial struct {
	network
	site
	actor, rollout grid
	config         *config.Config
	round          bool // F32 values arrive as BF16
}

const versions = 3

// run compares all versions that rollouts have received with their parts of the network, and returns the number of
// received bytes.
func (c *trial) run(t *testing.T) (received int64) {
	t.Helper()
	place := func(name string, g grid, at func(int, int) int) spmd.GroupSpec {
		s := spmd.GroupSpec{Name: name}
		for m := range g.members() {
			s.Ranks = append(s.Ranks, at(m, g.members()))
		}
		return s
	}
	actors, rollouts := place("actor", c.actor, c.actors), place("rollout", c.rollout, c.reader)
	j := &job.Job{Config: c.config, SyncInterval: 1, Placement: new(spmd.Placement)}
	j.Placement.Add(actors.Name, actors.Ranks)
	j.Placement.Add(rollouts.Name, rollouts.Ranks)

	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errors.New("hangs: a minute has passed"))
	defer cancel()
	var sum, done atomic.Int64
	err := spmd.Run(ctx, local.New(c.ranks), spmd.Options{Log: t.Output(), VirtualNodes: c.nodes},
		func(ctx context.Context, w *spmd.World) error {
			ws, fills, err := c.open(ctx, w, j)
			if err != nil {
				return err
			}
			n := progress{done: &done, actors: int64(len(actors.Ranks)), rollouts: int64(len(rollouts.Ranks))}
			_, err = spmd.Launch(w, actors, func(m *spmd.Member) (struct{}, error) {
				w.Go("publish", func() error { return n.publish(ctx, ws, m, fills[m.Index()]) })
				return struct{}{}, nil
			})
			if err != nil {
				return err
			}
			_, err = spmd.Launch(w, rollouts, func(m *spmd.Member) (struct{}, error) {
				p, _ := c.network(c.rollout.part(m.Index()))
				if err := p.Alloc(tensor.Heap); err != nil {
					return struct{}{}, err
				}
				collector := ws.Collector(m, p.State())
				w.Go("read", func() error { return n.read(ctx, c, collector, m.Index()) })
				return struct{}{}, nil
			})
			if err != nil {
				return err
			}
			if err := n.reach(ctx, versions, versions); err != nil {
				return err
			}
			ws.Close()
			for _, l := range ws.ends {
				sum.Add(l.weights.Received())
			}
			return nil
		})
	test.OK(t, err)
	return sum.Load()
}

// A progress counts the versions that members have finished.
type progress struct {
	done             *atomic.Int64
	actors, rollouts int64 // members
}

// publish publishes all versions of an actor. It publishes a version when all readers have the version before.
func (n progress) publish(ctx context.Context, ws *Sync, m *spmd.Member, fill func(int64)) error {
	for v := range int64(versions) {
		if err := n.reach(ctx, v, v); err != nil {
			return err
		}
		fill(v)
		n.done.Add(1)
		// The replicas on this rank change together, and the first one publishes.
		if err := n.reach(ctx, v+1, v); err != nil {
			return err
		}
		if err := ws.Publish(ctx, m, v); err != nil {
			return err
		}
	}
	return nil
}

// read adopts and compares all versions.
func (n progress) read(ctx context.Context, c *trial, collector *Assembler, rollout int) error {
	for v := range int64(versions) {
		if err := c.compare(ctx, collector, rollout, v); err != nil {
			return fmt.Errorf("rollout %d: version %d: %w", rollout, v, err)
		}
		n.done.Add(1)
	}
	return nil
}

// reach waits until the actors have filled this number of versions, and the rollouts have read this number.
func (n progress) reach(ctx context.Context, filled, read int64) error {
	for n.done.Load() < filled*n.actors+read*n.rollouts {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(10 * time.Microsecond):
		}
	}
	return nil
}

// open makes this rank's actors and its end of the weights, with functions that fill the actors.
func (c *trial) open(ctx context.Context, w *spmd.World, j *job.Job) (*Sync, map[int]func(int64), error) {
	params, fills := map[member]*nn.Params[float32]{}, map[int]func(int64){}
	for of, alloc := range map[string]tensor.Allocator{"actor": w.Alloc, "rollout": tensor.Heap} {
		for _, m := range j.MembersOn(of, w.Rank()) {
			g := map[string]grid{"actor": c.actor, "rollout": c.rollout}[of]
			p, fill := c.network(g.part(m))
			if err := p.Alloc(alloc); err != nil {
				return nil, nil, err
			}
			if params[member{component: of, index: m}] = p; of == "actor" {
				fills[m] = fill
			}
		}
	}
	declared := map[lm.Shard]*nn.Params[float32]{}
	ws, err := New(ctx, w, j, SyncSpec{Label: "weights", Readers: []string{"rollout"},
		Params: func(of string, m int) *nn.Params[float32] { return params[member{component: of, index: m}] },
		Part: func(of string, m int) *nn.Params[float32] {
			part := map[string]grid{"actor": c.actor, "rollout": c.rollout}[of].part(m)
			if declared[part] == nil {
				declared[part], _ = c.network(part)
			}
			return declared[part]
		}})
	return ws, fills, err
}

// compare adopts a version and compares it with the values of a rollout's part.
func (c *trial) compare(ctx context.Context, r *Assembler, rollout int, version int64) error {
	state, got, err := r.Adopt(ctx, version)
	if err != nil || got != version {
		return errors.Join(err, fmt.Errorf("got version %d", got))
	}
	p, fill := c.network(c.rollout.part(rollout))
	if err := p.Alloc(tensor.Heap); err != nil {
		return err
	}
	fill(version)
	l := p.Layout()
	for i, f := range l.Fields() {
		want, have := p.State()[l.Offset(i):][:f.Bytes()], state[l.Offset(i):][:f.Bytes()]
		if x := tensor.Of(want, f.DType, f.Shape...); c.round && f.DType == tensor.F32 {
			short := make([]uint16, x.Len())
			tensor.ToBF16(short, x.F32())
			tensor.FromBF16(x.F32(), short)
		}
		if !bytes.Equal(want, have) {
			return fmt.Errorf("%s differs", f.Name)
		}
	}
	return nil
}

// lacking returns the bytes of a version that readers need and that are not on their node. A reader that puts its part
// together gets each element once. A reader with the part of an actor gets the whole part.
func (c *trial) lacking() (missing int64) {
	type element struct {
		part lm.Shard // the part of an actor; else zero
		name string
		at   int
	}
	each := func(part lm.Shard, f func(name string, at, size int)) {
		p, _ := c.network(part)
		for _, field := range p.Layout().Fields() {
			s := p.SliceOf(field.Name)
			whole := s.WholeShape(field.Shape)
			s.Block(whole).Within(0, 1<<30, func(at, _, n int) {
				for i := range n {
					f(field.Name, at+i, field.DType.Size())
				}
			})
		}
	}
	node := func(rank int) int { return rank * c.nodes / c.ranks }
	for n := range c.nodes {
		here, seen := map[element]bool{}, map[element]bool{}
		parts := map[lm.Shard]bool{}
		for m := range c.actor.members() {
			part := c.actor.part(m)
			on := node(c.actors(m, c.actor.members())) == n
			parts[part] = parts[part] || on
			if on {
				each(part, func(name string, at, _ int) { here[element{lm.Shard{}, name, at}] = true })
			}
		}
		for m := range c.rollout.members() {
			if node(c.reader(m, c.rollout.members())) != n {
				continue
			}
			part := c.rollout.part(m)
			inPlace, equal := parts[part]
			if inPlace {
				continue
			}
			each(part, func(name string, at, size int) {
				e := element{lm.Shard{}, name, at}
				if !equal && here[e] {
					return
				}
				if equal {
					e.part = part
				}
				if !seen[e] {
					seen[e], missing = true, missing+int64(size)
				}
			})
		}
	}
	return missing
}

// TestReshard: each rollout has the bits of its part of every version, for any layout of actors. Each node receives the
// elements that its rollouts lack once.
func TestReshard(t *testing.T) {
	cfg, _ := rolestest.MustLoad(t, rolestest.Cartpole)
	for _, s := range sites {
		for _, actor := range training {
			for _, rollout := range answering {
				c := trial{network: byHand, site: s, actor: actor, rollout: rollout, config: cfg}
				t.Run(fmt.Sprintf("%s/%v to %v", s.name, actor, rollout), func(t *testing.T) {
					if got, want := c.run(t), versions*c.lacking(); got != want {
						t.Errorf("%d bytes, want %d", got, want)
					}
				})
			}
		}
	}
}

// TestReshardAnyWay: how weights travel changes no bit.
func TestReshardAnyWay(t *testing.T) {
	for _, way := range []struct {
		name      string
		overrides []string
		private   bool // ranks share no memory
	}{
		{name: "private", private: true},
		{name: "rounded", overrides: []string{"weight_syncer.bucket.bucket_dtype=bf16"}},
		{name: "patch", overrides: []string{"weight_syncer.type=patch"}},
		{name: "patch from the beginning, rounded", overrides: []string{"weight_syncer.type=patch",
			"weight_syncer.patch.init_sync.enabled=false", "weight_syncer.bucket.bucket_dtype=bf16"}},
		{name: "small buckets", overrides: []string{"weight_syncer.bucket.bucket_size=1KB"}},
	} {
		t.Run(way.name, func(t *testing.T) {
			if way.private {
				t.Setenv("RLINF_SHM", "off")
			}
			cfg, _ := rolestest.MustLoad(t, rolestest.Cartpole, way.overrides...)
			for _, s := range sites[6:9] {
				for _, actor := range training[3:] {
					for _, rollout := range answering {
						c := trial{network: byHand, site: s, actor: actor, rollout: rollout, config: cfg,
							round: strings.Contains(way.name, "rounded")}
						t.Run(fmt.Sprintf("%s/%v to %v", s.name, actor, rollout), func(t *testing.T) { c.run(t) })
					}
				}
			}
		})
	}
}

// TestReshardLanguage: the weights of a language model arrive, also if adapters and frozen weights travel.
func TestReshardLanguage(t *testing.T) {
	cfg, _ := rolestest.MustLoad(t, rolestest.Cartpole)
	for name, o := range map[string]lm.Options{
		"all": {},
		"adapters": {Kept: true, LoRA: &lm.LoRA{Rank: 2, Alpha: 2, Targets: []string{"q_proj", "o_proj", "down_proj",
			"lm_head"}}},
	} {
		for _, s := range sites[7:9] {
			for i, actor := range training {
				if testing.Short() && i < 4 { // the last two have all kinds of parts
					continue
				}
				for _, rollout := range answering {
					c := trial{network: language(o), site: s, actor: actor, rollout: rollout, config: cfg}
					t.Run(fmt.Sprintf("%s/%s/%v to %v", name, s.name, actor, rollout), func(t *testing.T) {
						if got, want := c.run(t), versions*c.lacking(); got != want {
							t.Errorf("%d bytes, want %d", got, want)
						}
					})
				}
			}
		}
	}
}

// quarter returns a part that has some rows of four.
func quarter(from, to int) *part {
	p := new(nn.Params[float32])
	p.Group("actor")
	p.Add("w", to-from, 3)
	p.Cut("w", nn.Slice{From: from, To: to, Whole: 4})
	return newPart(p)
}

// TestReshardPieces: if readers on several nodes need the same rows of a part, one broadcast sends these rows.
func TestReshardPieces(t *testing.T) {
	second, third, last := quarter(1, 2), quarter(2, 3), quarter(3, 4)
	flows := test.Must(newFlows([]member{{"actor", 0, 0, quarter(0, 4)}}, []member{{"rollout", 0, 1, third},
		{"rollout", 1, 2, second}, {"rollout", 2, 2, third}, {"inference", 0, 1, second}, {"inference", 1, 3, last}},
		[]int{0, 1, 2, 3}))(t)
	var got []string
	for _, f := range flows {
		text := fmt.Sprint(f.part.slices, " to")
		for _, r := range f.readers {
			text += fmt.Sprintf(" %s %d", r.component, r.index)
		}
		got = append(got, text)
	}
	rolestest.Expect(t, "flows", got, "[{0 0 0 0}] to",
		"[{0 1 3 4}] to rollout 0 inference 0 rollout 1 rollout 2", "[{0 3 4 4}] to inference 1")
}

// TestReshardLacks: if no actor has some parameters of a reader, the error names them.
func TestReshardLacks(t *testing.T) {
	_, err := newFlows([]member{{"actor", 0, 0, quarter(0, 2)}}, []member{{"rollout", 1, 1, quarter(0, 3)}},
		[]int{0, 0})
	if want := "rollout 1: the actors lack 12 of the 36 bytes of w"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
