package plan

import (
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/roles/internal/rolestest"
	"github.com/rlinf/rlinf/spmd"
)

// TestPool: with cluster.auto_scheduler all ranks of actors, rollout and inference workers answer. The actors are
// spread over these ranks in order, and other components stay.
func TestPool(t *testing.T) {
	const auto, kl = "cluster.auto_scheduler=true", "algorithm.kl_beta=0.1"
	place := func(text string) string { return "cluster.component_placement={" + text + "}" }
	for _, c := range []struct {
		place               string
		more                []string
		actor, rollout      []int
		inference           []int
		note, mistake, line string
	}{
		{"actor: 0-1, rollout: 2-7", nil, []int{0, 1}, []int{0, 1, 2, 3, 4, 5, 6, 7}, nil,
			"2 of the 8 ranks that answer or train will train", "", "dealt to 8 rollout workers"},
		{"actor: '0-1:0-7', rollout: 2-5, inference: 6-7", []string{kl}, []int{0, 1, 2, 3, 4, 5, 6, 7},
			[]int{0, 1, 2, 3, 4, 5, 6, 7}, []int{0, 1, 2, 3, 4, 5, 6, 7}, "", "", ""},
		{"actor: '0-1:0-3', rollout: 2-7", nil, []int{0, 2, 4, 6}, []int{0, 1, 2, 3, 4, 5, 6, 7}, nil,
			"4 of the 8 ranks", "", ""},
		{"actor: '0:0-7', rollout: 1-3, reward: 4-7", nil, []int{0, 0, 1, 1, 2, 2, 3, 3}, []int{0, 1, 2, 3}, nil, "",
			"", ""},
		{"actor: all", nil, []int{0, 1, 2, 3, 4, 5, 6, 7}, []int{0, 1, 2, 3, 4, 5, 6, 7}, nil, "", "", ""},
		{"actor: 0-3, rollout: 4-7", []string{tensor2, answer2}, []int{0, 1, 2, 3}, []int{0, 1, 2, 3, 4, 5, 6, 7}, nil,
			"4 of the 8 ranks", "", "dealt to 4 rollout replicas"},
		{"actor: 0-3, rollout: 2-6, reward: 7", []string{answer2}, nil, nil, nil, "",
			"rollout.tensor_parallel_size: 2: expected 1 or 7", ""},
		{"actor: 0-1, rollout: 0-7", []string{"cluster.use_pre_process_policy=false"}, []int{0, 1},
			[]int{2, 3, 4, 5, 6, 7}, nil, "2 of the 8 ranks", "", ""},
		{"actor: all", []string{"cluster.use_pre_process_policy=false"}, nil, nil, nil, "", "no rank would answer", ""},
		{"actor: 0-1, rollout: 2-7", []string{"rollout.pipeline_stage_num=3", "data.rollout_batch_size=8"}, []int{0, 1},
			[]int{0, 1, 2, 3, 4, 5, 6, 7}, nil, "2 of the 8 ranks", "", ""},
		{"actor: 0-1, rollout: 2-7", []string{"data.rollout_batch_size=6"}, nil, nil, nil, "",
			"at least 8, a prompt for each rollout worker", ""},
	} {
		d := drafted(t, grpo, 8, append([]string{place(c.place), auto}, c.more...)...)
		expectMistake(t, c.place, d, c.mistake)
		if c.mistake != "" {
			continue
		}
		for of, want := range map[string][]int{"actor": c.actor, "rollout": c.rollout, "inference": c.inference} {
			test.EqualSlices(t, d.Placement.Ranks(of), want, "%s: %s on ranks", c.place, of)
		}
		if got := strings.Join(d.notes, "; "); !strings.Contains(got, c.note) || (c.note == "") != (got == "") {
			t.Errorf("%s: notes %q, expected %q", c.place, got, c.note)
		}
		p := d.pipeline()
		if got := strings.Join(p.lines(4), "; "); !strings.Contains(got, c.line) {
			t.Errorf("%s: %q, expected %q", c.place, got, c.line)
		}
		for from := range d.Replicas("rollout") {
			if !p.Pairs(0, d.Mesh("rollout").First(from), 0) {
				t.Errorf("%s: rollout worker %d cannot send to worker 0 of the next stage", c.place, from)
			}
		}
	}
}

// TestPoolMoves: the members of a pool move to the ranks that the placement names, and the pool is not made again. With
// cluster.use_pre_process_policy false, actors and rollout workers that are apart stay apart.
func TestPoolMoves(t *testing.T) {
	const apart, spread = "{actor: 0-1, rollout: 2-5, inference: 4}", "{actor: '0-1:0-3', rollout: 2-3, inference: 3}"
	const idle = "{actor: '3:0-1', rollout: '0-2,4-7'}" // rank 3 must not answer, and has no actor
	for _, c := range []struct{ start, pool, text, actor, rollout, inference, mistake string }{
		{idle, "{actor: '0,4', rollout: '0-2,4-7'}", "{rollout: 4-7}", "0,4", "4-6:0-5,7", "", ""},
		{apart, "{actor: 0-1, rollout: 2-5, inference: 0-5}", "{rollout: 4-5}", "0-1", "4-5:0-3", "0-5", ""},
		{apart, "", "{actor: '7:0-1', inference: 3}", "7:0-1", "2-5", "3:0-5", ""},
		{apart, "", "{actor: 6}", "6:0-1", "2-5", "0-5", ""},
		{apart, "", "{actor: 3-4}", "3-4", "2-5", "0-5", "rank 3 has actors and rollout workers: expected them apart"},
		{spread, "{actor: 0-3, rollout: 2-3, inference: 0-3}", "{rollout: 3}", "0-3", "3:0-1", "0-3", ""},
		{spread, "", "{actor: 2-3}", "2-3:0-3", "2-3", "0-3", ""},
	} {
		d := drafted(t, grpo, 8, "cluster.component_placement="+c.start, "cluster.auto_scheduler=true",
			"cluster.use_pre_process_policy=false", "algorithm.kl_beta=0.1")
		expectMistake(t, "at the start", d, "")
		d.Config.Cluster.AllowIdleRanks = false
		started := d.Config.At(d.Placement)
		if got := started.PlacementText(); c.pool != "" && got != c.pool {
			t.Fatalf("the pool is %s, expected %s", got, c.pool)
		}
		moved := test.Must(started.Moved(rolestest.Registries(), c.text))(t)
		test.Check(t, test.Err(started.Place(make([]int, 8))), "%s", c.start)
		moved.KeepMembers(d.Placement, make([]int, 8))
		place := test.Must(moved.Place(make([]int, 8)))(t)
		to := NewDraft(moved.At(place), rolestest.Registries(), make([]int, 8))
		expectMistake(t, c.text, to, "")
		for of, want := range map[string]string{"actor": c.actor, "rollout": c.rollout, "inference": c.inference} {
			if got := spmd.PlacementOf(to.Placement.Ranks(of)); got != want {
				t.Errorf("%s: %s on %s, expected %s", c.text, of, got, want)
			}
		}
		if _, err := d.Job.Moved(to.Job); (err == nil) != (c.mistake == "") ||
			err != nil && !strings.Contains(err.Error(), c.mistake) {
			t.Errorf("%s: %v, expected %q", c.text, err, c.mistake)
		}
	}
}
