package worker

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/collectives"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy/lm"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/roles/internal/rolestest"
	"github.com/rlinf/rlinf/roles/state"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
)

// A divided is the state of a member of a reasoning job: its part of the policy, the critic and the reference, and the
// tensors of the trainer's state.
type divided struct {
	model     *lm.Model
	critic    *algo.TextCritic
	reference *reference
	trainer   tensor.Dict

	replica, replicas int
}

// newDivided returns the state of one of several replicas that divide the moments.
func newDivided(c lm.Config, lora *lm.LoRA, part lm.Shard, replica, replicas int) (*divided, error) {
	m, err := lm.New(new(nn.Params[float32]), c, lm.Options{LoRA: lora, Part: part})
	if err == nil {
		err = m.Alloc(tensor.Heap)
	}
	if err != nil {
		return nil, err
	}
	r := &divided{model: m, replica: replica, replicas: replicas}
	if r.critic, err = algo.NewTextCritic(c, part, tensor.Heap, nil); err != nil {
		return nil, err
	}
	frozen, err := lm.New(new(nn.Params[float32]), c, lm.Options{Frozen: true, Part: part})
	if err == nil {
		err = frozen.Alloc(tensor.Heap)
	}
	r.reference = &reference{model: frozen, copied: lora == nil}
	d := &r.trainer
	d.Set("counters", tensor.New(tensor.I64, 2))
	for _, n := range r.networks() {
		for _, moment := range []string{"optim.m", "optim.v"} {
			d.Set(n.name+"."+moment, tensor.New(tensor.F32, len(n.p.Data)*(replica+1)/replicas-n.lo))
		}
		d.Set(n.name+".optim.steps", tensor.New(tensor.I64, 1))
		if n.name == "critic" {
			for i, f := range n.p.Fields {
				d.Set("critic."+f.Name, tensor.FromF32(n.p.Of(i), f.Shape...))
			}
		}
	}
	return r, err
}

func (r *divided) networks() []network {
	of := func(name string, m *lm.Model) network {
		return network{name, m.Params, m.Whole().Params, len(m.Params.Data) * r.replica / r.replicas}
	}
	return []network{of("actor", r.model), of("critic", r.critic.Model)}
}

func (r *divided) parts() []state.Part {
	model := state.PartsOf(state.ModelFile, "", r.model.Params, r.model.Whole().Params)
	return slices.Concat(model, trainerParts(r.trainer, r.networks()...), r.reference.parts())
}

// fill sets the state to random bytes. The gaps of flat tensors stay 0.
func (r *divided) fill() {
	random := rand.New(rand.NewPCG(1, 2))
	for _, p := range r.parts() {
		if !p.Gaps {
			for i := range p.Memory {
				p.Memory[i] = byte(random.Uint32())
			}
		}
	}
	for _, n := range r.networks() {
		for _, moment := range []string{"optim.m", "optim.v"} {
			x := r.trainer.Must(n.name + "." + moment).F32()
			for _, f := range n.p.Fields {
				for i := range f.Len() {
					x[f.Off+i] = random.Float32()
				}
			}
		}
	}
	for _, t := range r.reference.model.Tensors() {
		for i := range t.Data {
			t.Data[i] = random.Float32()
		}
	}
}

// files returns the files of a state that ranks hold in parts.
func files(ctx context.Context, g *collectives.Group, c spmd.Comm, mine []state.Part) ([][]byte, error) {
	var all [][]byte
	err := state.Collect(ctx, g, c, mine, func(c *state.Collection) error {
		for _, file := range []string{state.ModelFile, state.TrainerFile} {
			var b bytes.Buffer
			if err := c.Write(&b, file); err != nil {
				return err
			}
			all = append(all, b.Bytes())
		}
		return nil
	})
	return all, err
}

// TestStateInParts: a policy, its critic, its reference and its optimisers have the same files for any division among
// ranks, also if replicas divide the moments. Each division can load the files of each other one. If files have only
// weights, the reference and the critic get these weights.
func TestStateInParts(t *testing.T) {
	c := lm.Config{Family: lm.Qwen2, Vocab: 39, Hidden: 16, Layers: 3, Heads: 8, KVHeads: 4, HeadDim: 16,
		Intermediate: 24, Eps: 1e-5, MaxPositions: 64, QKVBias: true, Tied: true,
		Rope: lm.Rope{Theta: 1e4, Type: lm.RopeDefault}, InitRange: 0.3}
	for _, lora := range []*lm.LoRA{nil, {Rank: 3, Alpha: 5, Targets: lm.Targets},
		{Rank: 3, Alpha: 5, Targets: []string{"lm_head"}}} {
		whole, err := newDivided(c, lora, lm.Shard{}, 0, 1)
		test.OK(t, err)
		whole.fill()
		var want [][]byte
		err = rolestest.OnRanks(t, 1, func(ctx context.Context, _ int, g *collectives.Group,
			pieces spmd.Comm) (err error) {
			want, err = files(ctx, g, pieces, whole.parts())
			return err
		})
		test.OK(t, err)
		for _, d := range []struct{ size, stages, replicas int }{{1, 1, 1}, {2, 1, 1}, {4, 1, 1}, {1, 2, 1}, {2, 2, 1},
			{1, 3, 1}, {1, 1, 3}, {2, 2, 2}} {
			err := rolestest.OnRanks(t, d.size*d.stages*d.replicas, func(ctx context.Context, rank int,
				g *collectives.Group, pieces spmd.Comm) error {
				stage, replica := rank/d.size%d.stages, rank/d.size/d.stages
				part, err := newDivided(c, lora, lm.Shard{Index: rank % d.size, Size: d.size,
					First: stage * c.Layers / d.stages, End: (stage + 1) * c.Layers / d.stages}, replica, d.replicas)
				if err != nil {
					return err
				}
				from, err := part.takesUp(ctx, g, pieces, want)
				if err != nil || lora != nil {
					return err
				}
				return part.takesUpWeights(ctx, g, from)
			})
			test.OK(t, err, "%+v, lora %v", d, lora)
		}
	}
}

// takesUp checks that d writes the files again after it has read them. It returns the files as sources.
func (d *divided) takesUp(ctx context.Context, g *collectives.Group, pieces spmd.Comm,
	want [][]byte) ([]state.StateFile, error) {
	var from []state.StateFile
	for i, file := range []string{state.ModelFile, state.TrainerFile} {
		r, err := tensor.NewSafetensorsReader(bytes.NewReader(want[i]), int64(len(want[i])))
		if err != nil {
			return nil, err
		}
		from = append(from, state.StateFile{File: file, Fields: r.Fields, Reader: r})
	}
	if err := state.Distribute(ctx, g, from, d.parts()); err != nil {
		return nil, err
	}
	got, err := files(ctx, g, pieces, d.parts())
	if err != nil {
		return nil, err
	}
	for i, b := range got {
		if !bytes.Equal(b, want[i]) {
			return nil, fmt.Errorf("file %d has other bytes", i)
		}
	}
	return from, nil
}

// takesUpWeights checks that the reference and the critic of d have the policy's weights after they have read files of
// weights.
func (d *divided) takesUpWeights(ctx context.Context, g *collectives.Group, from []state.StateFile) error {
	alone := []state.Part{fromWeights(d.reference.model), fromWeights(d.critic.Model)}
	if err := state.Distribute(ctx, g, from[:1], alone); err != nil {
		return err
	}
	reference, critic := d.reference.model.Tensors(), d.critic.Model.Tensors()
	for i, x := range d.model.Tensors() {
		bits := tensor.FromF32(x.Data, len(x.Data)).Bytes()
		for _, y := range [][]float32{reference[i].Data, critic[i].Data} {
			if !bytes.Equal(tensor.FromF32(y, len(y)).Bytes(), bits) {
				return fmt.Errorf("%s is not the policy's", x.Name)
			}
		}
	}
	return nil
}
