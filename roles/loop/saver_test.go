package loop

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/env/all"
	"github.com/rlinf/rlinf/roles/embodied/play"
	"github.com/rlinf/rlinf/roles/internal/rolestest"
	"github.com/rlinf/rlinf/roles/member"
	"github.com/rlinf/rlinf/tensor"
)

// random sets tensors of every type, with leading dimension n, from r.
func random(d *tensor.Dict, r *rand.Rand, prefix string, n int) {
	for i, dtype := range []tensor.DType{tensor.F32, tensor.F64, tensor.I32, tensor.I64, tensor.U8} {
		t := tensor.New(dtype, append([]int{n}, [][]int{{}, {3}, {2, 2}, {1}, {5}}[i]...)...)
		for k := range t.Bytes() {
			t.Bytes()[k] = byte(r.Uint32())
		}
		d.Set(prefix+dtype.String(), t)
	}
}

// ranges cuts [0, n) at random.
func ranges(r *rand.Rand, n int) (rs [][2]int) {
	for lo := 0; lo < n; {
		hi := lo + 1 + r.IntN(n-lo)
		rs = append(rs, [2]int{lo, hi})
		lo = hi
	}
	return rs
}

// The joined state does not depend on how environments are divided among shares, and shares among ranks.
func TestSharesOfAnySplitJoin(t *testing.T) {
	const n = 12
	r := rand.New(rand.NewPCG(1, 7))
	var want member.State
	var sim, perEnv tensor.Dict // the states of environments in env workers and in algorithms
	random(&want.Model, r, "layer.", 4)
	random(&want.Trainer, r, "adam.", 3)
	random(&sim, r, "cartpole.", n)
	random(&perEnv, r, "trainer.env.", n)
	rolestest.AddAll(&want.Envs, sim)
	rolestest.AddAll(&want.Envs, perEnv)
	for split := range 200 {
		ranks := make([][]member.Share, 1+r.IntN(5))
		give := func(s member.Share) {
			at := &ranks[r.IntN(len(ranks))]
			*at = append(*at, s)
		}
		for _, x := range ranges(r, n) {
			give(member.Share{Kind: "envs", Lo: x[0], Hi: x[1], Dict: sim.Slice(x[0], x[1])})
		}
		give(member.Share{Kind: "model", Dict: want.Model})
		for _, x := range ranges(r, n) { // actors divide the environments in their own way
			give(member.Share{Kind: "envs", Lo: x[0], Hi: x[1], Dict: perEnv.Slice(x[0], x[1])})
		}
		give(member.Share{Kind: "trainer", Dict: want.Trainer})
		var blobs [][]byte
		for _, shares := range ranks {
			r.Shuffle(len(shares), func(i, j int) { shares[i], shares[j] = shares[j], shares[i] })
			blobs = append(blobs, EncodeShares(nil, shares))
		}
		got, err := JoinShares(ranks[0], blobs[1:], n)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range []struct {
			name      string
			got, want tensor.Dict
		}{{"model", got.Model, want.Model}, {"trainer", got.Trainer, want.Trainer}, {"envs", got.Envs, want.Envs}} {
			if err := rolestest.SameDict(d.got, d.want); err != nil {
				t.Fatalf("split %d over %d ranks: %s: %v", split, len(ranks), d.name, err)
			}
		}
	}
}

func TestSharesComeBack(t *testing.T) {
	var d tensor.Dict
	random(&d, rand.New(rand.NewPCG(1, 8)), "", 2)
	want := []member.Share{{Kind: "envs", Lo: 3, Hi: 5, Dict: d}, {Kind: "model"}, {Kind: "trainer", Dict: d}}
	got, err := decodeShares(EncodeShares([]byte("before"), want)[len("before"):])
	if err != nil || len(got) != len(want) {
		t.Fatalf("%d shares, %v; want %d", len(got), err, len(want))
	}
	for i, w := range want {
		if g := got[i]; g.Kind != w.Kind || g.Lo != w.Lo || g.Hi != w.Hi || rolestest.SameDict(g.Dict, w.Dict) != nil {
			t.Errorf("share %d is %v, want %v", i, g, w)
		}
	}
	if got, err := decodeShares(nil); err != nil || got != nil {
		t.Errorf("of nothing: %v, %v", got, err)
	}
}

// newShards returns stages of CartPole that hold sizes environments each, one behind the other.
func newShards(t *testing.T, sizes ...int) (shards []*play.Stage) {
	t.Helper()
	cfg := env.DefaultConfig()
	cfg.EnvType, cfg.Seed, cfg.TotalNumEnvs, cfg.FrameStack = "CartPole-v1", 3, 12, 2
	first := 0
	for _, n := range sizes {
		s, err := play.NewStage(all.Registry(), cfg, env.Train, first, n, 1)
		if err != nil {
			t.Fatal(err)
		}
		shards = append(shards, s)
		first += n
	}
	return shards
}

// playShards takes the steps from..to-1, with actions that depend on the step and the environment alone. It returns the
// observations before each action, the rewards and the ends, of all environments in their order.
func playShards(t *testing.T, shards []*play.Stage, from, to int) []byte {
	t.Helper()
	var obs, reward, terminated []byte
	for step := from; step < to; step++ {
		e := 0
		for _, s := range shards {
			if err := s.Begin(); err != nil {
				t.Fatal(err)
			}
			obs = append(obs, s.Now.Obs.Must("state").Bytes()...)
			for i := range s.Action.Must("action").I32() {
				s.Action.Must("action").I32()[i] = int32((step + e) * 7 / 5 % 2)
				e++
			}
			if err := s.Step(); err != nil {
				t.Fatal(err)
			}
			reward = append(reward, s.Now.Reward.Bytes()...)
			terminated = append(terminated, s.Now.Terminated.Bytes()...)
		}
	}
	return slices.Concat(obs, reward, terminated)
}

// saveShards returns the joined state of the shards, and takes their episodes so far.
func saveShards(t *testing.T, shards []*play.Stage) member.State {
	t.Helper()
	var shares []member.Share
	lo := 0
	for _, s := range shards {
		d, err := s.Save()
		if err != nil {
			t.Fatal(err)
		}
		shares = append(shares, member.Share{Kind: "envs", Lo: lo, Hi: lo + s.Vec.Len(), Dict: d})
		lo += s.Vec.Len()
		s.Episodes.Take()
	}
	st, err := JoinShares(nil, [][]byte{EncodeShares(nil, shares)}, lo)
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// A resumed run has the same episodes if its environments are divided in another way.
func TestShardsTakeUpTheStateOfOtherShards(t *testing.T) {
	before, resumed := newShards(t, 6, 6), newShards(t, 4, 1, 7)
	playShards(t, before, 0, 50)
	st := saveShards(t, before)
	lo := 0
	for _, s := range resumed {
		if err := s.Load(st.Envs.Slice(lo, lo+s.Vec.Len())); err != nil {
			t.Fatal(err)
		}
		lo += s.Vec.Len()
	}
	if a, b := playShards(t, before, 50, 200), playShards(t, resumed, 50, 200); !bytes.Equal(a, b) {
		t.Error("environments taken up by shards of other sizes go on in another way")
	}
	var a, b []env.Episode
	for _, s := range before {
		a = append(a, s.Episodes.Take()...)
	}
	for _, s := range resumed {
		b = append(b, s.Episodes.Take()...)
	}
	x, y := env.Summarize(a), env.Summarize(b)
	if !reflect.DeepEqual(x, y) || x.NumTrajectories == 0 || fmt.Sprint(a) != fmt.Sprint(b) {
		t.Errorf("episodes %+v, of the shards that went on %+v", y, x)
	}
	wrong := st.Envs.Slice(0, 3)
	if err := resumed[0].Load(wrong); err == nil {
		t.Error("the state of 3 environments is taken up by 4")
	}
}

// TestJoin: a tensor that only some environments have is in no checkpoint.
func TestJoin(t *testing.T) {
	say := func(lo, hi int, names ...string) []byte {
		var d tensor.Dict
		for _, name := range names {
			d.Set(name, tensor.New(tensor.I64, hi-lo, 1))
		}
		return EncodeShares(nil, []member.Share{{Kind: "envs", Lo: lo, Hi: hi, Dict: d}})
	}
	st, err := JoinShares(nil, [][]byte{say(2, 4, "both"), say(0, 2, "both", "one")}, 4)
	if got, _ := st.Envs.Get("both"); err != nil || st.Envs.Len() != 1 || got.IsZero() || got.Dim(0) != 4 {
		t.Errorf("%v, %v", st.Envs, err)
	}
}

// TestSharesAreNotCopied: a replay buffer may fill most of the memory. A share that has all environments is written
// without a copy, and a share for another rank is encoded with a single allocation.
func TestSharesAreNotCopied(t *testing.T) {
	var d tensor.Dict
	random(&d, rand.New(rand.NewPCG(1, 9)), "", 1000)
	st, err := JoinShares([]member.Share{{Kind: "envs", Lo: 0, Hi: 1000, Dict: d}}, nil, 1000)
	if err != nil || st.Envs.Len() != d.Len() {
		t.Fatalf("%v, %v", st.Envs, err)
	}
	for i := range d.Len() {
		name, x := d.Entry(i)
		if &st.Envs.Must(name).Bytes()[0] != &x.Bytes()[0] {
			t.Errorf("%s is a copy", name)
		}
	}
	if n := testing.AllocsPerRun(10, func() {
		EncodeShares(nil, []member.Share{{Kind: "envs", Lo: 0, Hi: 1000, Dict: d}, {Kind: "trainer", Dict: d}})
	}); n > 2 { // the race detector's own is one
		t.Errorf("encoded in %v pieces of memory, want 1", n)
	}
}
