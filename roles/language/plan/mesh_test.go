package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/env/text"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy/lm"
	"github.com/rlinf/rlinf/roles/internal/rolestest"
)

// TestParts: the members of a stage have its layers, and divide each. Worked by hand.
func TestParts(t *testing.T) {
	d := drafted(t, sft, 8, tensor2, stages2, "cluster.component_placement.actor=0-7",
		"actor.model.pipeline_layers=[5,3]")
	for member := range 8 {
		want := lm.Shard{Index: member % 2, Size: 2, First: 0, End: 5}
		if member/2%2 == 1 {
			want.First, want.End = 5, 8
		}
		test.Equal(t, d.Part("actor", member), want, "member %d", member)
	}
}

// TestDeal: stages have about the same cost, and a layer at least.
func TestDeal(t *testing.T) {
	for _, c := range []struct {
		costs []int
		want  []int
	}{
		{[]int{1, 1, 1, 1}, []int{4}},
		{[]int{1, 1, 1, 1}, []int{2, 2}},
		{[]int{3, 1, 1, 1, 1, 1}, []int{2, 4}},       // 4 and 4
		{[]int{1, 1, 1, 1, 1, 3}, []int{4, 2}},       // 4 and 4
		{[]int{1, 1, 1, 1, 1, 1, 1}, []int{2, 3, 2}}, // middles 0.5 and 1.5 are below 7/3, 4.5 is below 14/3
		{[]int{100, 1, 1, 1}, []int{1, 1, 1, 1}},     // the last three have one each, although all is in the first
		{[]int{1, 1, 1, 100}, []int{1, 1, 1, 1}},
		{[]int{9, 1, 1, 1, 1, 1, 1, 9}, []int{1, 3, 3, 1}},
	} {
		test.EqualSlices(t, divideLayers(c.costs, len(c.want)), c.want, "%v in %d stages", c.costs, len(c.want))
	}
	c := lm.Config{Hidden: 10, Heads: 4, KVHeads: 2, HeadDim: 3, Intermediate: 7, Layers: 3, Vocab: 11,
		Experts: lm.Experts{Count: 8, PerToken: 2, Intermediate: 5, SharedIntermediate: 4,
			Dense: []bool{true, false, true}}}
	// attention 2·10·(4+2)·3 = 360; dense 3·10·7 = 210; experts 3·10·(2·5+4) = 420; embedding and head 10·11 = 110
	if got, want := layerCosts(&c), []int{680, 780, 680}; !slices.Equal(got, want) {
		t.Errorf("costs %v, want %v", got, want)
	}
}

const sft, grpo = "../../configs/addition_sft.yaml", "../../configs/addition_grpo.yaml"

// drafted returns the draft of a file on this number of ranks of one node.
func drafted(t *testing.T, file string, ranks int, overrides ...string) *Draft {
	t.Helper()
	cfg, _ := rolestest.MustLoad(t, file, append(overrides, "cluster.allow_idle_ranks=true")...)
	return NewDraft(cfg, rolestest.Registries(), make([]int, ranks))
}

// expectMistake fails unless the mistakes of a draft contain want; "": there are none.
func expectMistake(t *testing.T, what string, d *Draft, want string) {
	t.Helper()
	err := d.Mistakes()
	if (err == nil) != (want == "") || !strings.Contains(fmt.Sprint(err), want) {
		t.Errorf("%s: %v, want %q", what, err, want)
	}
}

const (
	tensor2 = "actor.model.tensor_model_parallel_size=2"
	stages2 = "actor.model.pipeline_model_parallel_size=2"
	answer2 = "rollout.tensor_parallel_size=2"
)

// TestMembersOfMeshes: members that cannot be arranged are a mistake that says which sizes fit, and batches are divided
// among replicas.
func TestMembersOfMeshes(t *testing.T) {
	on := func(ranks string) string { return "cluster.component_placement.actor=" + ranks }
	for _, c := range []struct {
		file      string
		overrides []string
		actors    int
		want      string // a part of the mistakes; "": none
	}{
		{sft, []string{on("0-7"), tensor2, stages2}, 2, ""},
		{sft, []string{on("0-7"), tensor2}, 4, ""},
		{sft, []string{on("0-5"), tensor2}, 3, "64: expected a multiple of 3 replicas of 2 actors"},
		{sft, []string{on("0-4"), tensor2}, 0, "tensor_model_parallel_size: 2: expected 1 or 5 (a divisor " +
			"of 5: 5 actor workers in 1 stage)"},
		{sft, []string{on("0-4"), stages2}, 0, "pipeline_model_parallel_size: 2: expected 1 or 5 (a " +
			"divisor of 5 actor workers)"},
		{sft, []string{on("0"), tensor2}, 0, "tensor_model_parallel_size: 2: expected 1 (a divisor of 1: " +
			"1 actor worker in 1 stage)"},
		{sft, []string{on("0-5"), stages2, "actor.model.tensor_model_parallel_size=4"}, 0, "expected 1 or 3 (a " +
			"divisor of 3: 6 actor workers in 2 stages)"},
		{grpo, []string{on("0-3"), "cluster.component_placement.rollout=4-7", tensor2, answer2}, 2, ""},
		{grpo, []string{on("0-3"), "cluster.component_placement.rollout=4-6", tensor2, answer2}, 0,
			"rollout.tensor_parallel_size: 2: expected 1 or 3"},
		{grpo, []string{on("0-7"), tensor2, answer2, "data.rollout_batch_size=2"}, 4, "data.rollout_batch_size: 2: " +
			"expected a multiple of 4 replicas of 2 actors"},
	} {
		d := drafted(t, c.file, 8, c.overrides...)
		expectMistake(t, fmt.Sprintf("%q", c.overrides), d, c.want)
		test.Equal(t, d.Actors, c.actors, "%q: replicas", c.overrides)
	}
}

// TestDivideModels: a model that cannot be divided is a mistake that says what fits.
func TestDivideModels(t *testing.T) {
	model := lm.Config{Family: lm.Qwen2, Vocab: 30, Hidden: 256, Layers: 6, Heads: 8, KVHeads: 4, HeadDim: 32,
		Intermediate: 512, Eps: 1e-5, Tied: true} // 8 blocks
	for _, c := range []struct {
		overrides []string
		change    func(*lm.Config)
		want      string // a part of the mistakes; "": none
		layers    []int
	}{
		{[]string{tensor2, stages2}, nil, "", []int{3, 3}},
		{[]string{stages2, "actor.model.pipeline_layers=[4,2]"}, nil, "", []int{4, 2}},
		{[]string{stages2, "actor.model.pipeline_layers=[4,3]"}, nil,
			"actor.model.pipeline_layers: [4 3]: expected 6 layers in all, those of the model", nil},
		{[]string{"actor.model.pipeline_model_parallel_size=4",
			"actor.model.pipeline_layers=[9223372036854775807,9223372036854775807,7,1]"}, nil,
			"expected 6 layers in all", nil},
		{[]string{"actor.model.pipeline_model_parallel_size=8"}, nil,
			"actor.model.pipeline_model_parallel_size: 8: expected at most 6, the model's layers", nil},
		{[]string{"actor.model.tensor_model_parallel_size=8"}, nil, "tensor_model_parallel_size: 8: expected " +
			"1, 2 or 4 (a divisor of 4 key heads and of the 8 blocks of this model's sums)", nil},
		{[]string{tensor2}, func(c *lm.Config) { c.KVHeads = 1 }, "expected 1 (a divisor of 1 key heads", nil},
		{[]string{tensor2}, func(c *lm.Config) { c.Intermediate = 511 }, "expected 1 (a divisor of 4 key heads and " +
			"of the 1 blocks", nil},
	} {
		d := drafted(t, sft, 8, append(c.overrides, "cluster.component_placement.actor=0-7")...)
		d.Model = model
		if c.change != nil {
			c.change(&d.Model)
		}
		d.checkMeshes()
		expectMistake(t, fmt.Sprintf("%q", c.overrides), d, c.want)
		if got := d.layers("actor", d.Mesh("actor").Stages); c.layers != nil && !slices.Equal(got, c.layers) {
			t.Errorf("%q: layers %v, want %v", c.overrides, got, c.layers)
		}
	}
	const patch, answer4 = "weight_syncer.type=patch", "rollout.tensor_parallel_size=4"
	for _, c := range []struct {
		override []string
		want     string
	}{
		{nil, ""},
		{[]string{answer4}, ""},
		{[]string{"rollout.tensor_parallel_size=8"}, "rollout.tensor_parallel_size: 8: expected 1, 2 or 4"},
		{[]string{stages2}, ""},
		{[]string{patch, answer4}, ""},
		{[]string{patch, "weight_syncer.patch.init_sync.enabled=false"}, ""},
		{[]string{patch, "weight_syncer.patch.init_sync.enabled=false", answer4},
			"weight_syncer.patch.init_sync.enabled: false: expected true (rollout and actor divide the model in"},
		{[]string{patch, "weight_syncer.patch.init_sync.prefixes=[model]", stages2},
			"weight_syncer.patch.init_sync.prefixes: model: expected null (rollout and actor divide"},
	} {
		d := drafted(t, grpo, 8, append([]string{tensor2, answer2, "cluster.component_placement.actor=0-7"},
			c.override...)...)
		d.Model = model
		d.checkMeshes()
		expectMistake(t, fmt.Sprint(c.override), d, c.want)
	}
}

// TestSharesOfMemory: the members of a replica hold the model's matrices once, and its vectors once for each member
// that divides a layer. A tied embedding is on both ends of a pipeline.
func TestSharesOfMemory(t *testing.T) {
	d := drafted(t, sft, 8, tensor2, stages2, "cluster.component_placement.actor=0-7")
	d.Model = lm.Config{Family: lm.Qwen2, Vocab: 32, Hidden: 256, Layers: 6, Heads: 8, KVHeads: 4, HeadDim: 32,
		Intermediate: 512, Eps: 1e-5, Tied: true, Rope: lm.Rope{Theta: 1e4, Type: lm.RopeDefault}}
	d.checkMeshes()
	m := test.Must(d.New())(t)
	want := 32 * 256 // the embedding of the other end
	for _, w := range m.Tensors() {
		n := 1
		for _, size := range w.Shape {
			n *= size
		}
		if len(w.Shape) == 1 {
			n *= 2
		}
		want += n
	}
	d.Limit.Tokens, d.Limit.Sequences, d.Train = 64, 4, new(text.Dataset)
	got := 0
	for member := range 4 {
		s := d.share("actor", member, member)
		if got += int(s.trunk / 4); s.trained != s.trunk {
			t.Errorf("member %d: %d bytes of the %d of its weights are trained", member, s.trained, s.trunk)
		}
	}
	if got != want {
		t.Errorf("a replica holds %d weights, want %d", got, want)
	}
	first, last := d.MemoryOf(0), d.MemoryOf(3)
	if first.Activations <= last.Activations || first.Parameters != last.Parameters-8*256 {
		t.Errorf("first stage %+v, last stage %+v: expected more activations, and the norm in the last", first, last)
	}
	d.Config.Actor.FSDPConfig.ShardingStrategy = "full_shard"
	if got := d.MemoryOf(0); got.Optimiser != first.Optimiser/2 || got.Parameters != first.Parameters {
		t.Errorf("2 replicas that divide moments: %+v, without %+v", got, first)
	}
	if first.Messages == 0 {
		t.Error("no messages")
	}
	if got, want := d.WorkersOn(7), "actor[7]@1,1,1"; len(got) != 1 || got[0] != want {
		t.Errorf("rank 7 has %q, want %s", got, want)
	}
}

// TestBubble: an update of fewer micro-batches than 2p is a warning. Worked by hand: 64 texts on 2 replicas are 32.
func TestBubble(t *testing.T) {
	for _, c := range []struct {
		stages, micro int
		want          string
	}{
		{1, 32, ""},
		{2, 8, ""}, // 4 micro-batches
		{2, 16, "with 2 micro-batches in an update the 2 stages work 67 % of the time: expected at least 4"},
		{4, 8, "with 4 micro-batches in an update the 4 stages work 57 % of the time: expected at least 8"},
		{4, 5, "with 7 micro-batches"},
		{4, 4, ""},
	} {
		d := drafted(t, sft, 8, fmt.Sprintf("actor.model.pipeline_model_parallel_size=%d", c.stages),
			fmt.Sprintf("cluster.component_placement.actor=0-%d", 2*c.stages-1))
		d.batch, d.Limit.Sequences = 64, c.micro
		d.Train = &text.Dataset{Samples: []text.Sample{{IDs: []int32{1, 2}}}}
		d.checkBubble()
		if got := strings.Join(d.Notes(), ""); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%d stages, micro-batches of %d: %q, want %q", c.stages, c.micro, got, c.want)
		}
	}
}
