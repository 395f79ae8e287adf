package play

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/env/all"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/tensor"
)

// An episode is what a slow and plain observer has written down of an episode.
type episode struct {
	env  int
	rows [][]byte // transitions
}

// recordStages plays 12 environments of CartPole-v1, divided into stages of these sizes, for some steps. It returns
// the joined file. observe sees each step before and after it; nil sees nothing.
func recordStages(t *testing.T, cfg env.DataCollection, autoReset bool, steps int, observe func(s *Stage, after bool),
	sizes ...int) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "demos.safetensors")
	c := env.DefaultConfig()
	c.EnvType, c.Seed, c.TotalNumEnvs, c.AutoReset = "CartPole-v1", 3, 12, autoReset
	first, los := 0, []int(nil)
	for _, n := range sizes {
		s, err := NewStage(all.Registry(), c, env.Train, first, n, 1)
		test.OK(t, err)
		test.OK(t, s.RecordEpisodes(file, cfg, true))
		test.OK(t, s.Begin())
		for step := range steps {
			for i := range s.Action.Must("action").I32() {
				s.Action.Must("action").I32()[i] = int32((step + (first+i)*(step/7)) * 7 / 5 % 2)
			}
			if observe != nil {
				observe(s, false)
			}
			test.OK(t, s.Step())
			if observe != nil {
				observe(s, true)
			}
			if !autoReset && s.Over() {
				break
			}
		}
		test.OK(t, s.EndTape())
		los, first = append(los, first), first+n
	}
	j, err := JoinTapes(file, file, los, cfg)
	test.OK(t, err)
	if left, err := os.ReadDir(filepath.Dir(file)); err != nil || len(left) != 1 {
		t.Errorf("left %v, %v", left, err)
	}
	if j.Episodes == 0 || j.Played < j.Episodes {
		t.Errorf("%+v", j)
	}
	return file
}

// plain returns an observer, and the whole episodes of each environment that it has seen.
func plain() (observe func(s *Stage, after bool), ended *[]episode) {
	running, before := map[int][][]byte{}, tensor.Dict{}
	over := map[int]bool{}
	ended = new([]episode)
	row := func(x tensor.Tensor, i int) []byte { return x.At(i).Bytes() }
	return func(s *Stage, after bool) {
		if !after {
			before = tensor.Dict{}
			before.Set("state", s.Now.Obs.Must("state").Clone())
			return
		}
		for i := range s.Vec.Len() {
			done := s.Now.Terminated.U8()[i]|s.Now.Truncated.U8()[i] == 1
			next := s.Now.Obs
			if done && s.AutoReset {
				next = s.Now.FinalObs
			}
			running[i] = append(running[i], slices.Concat(row(before.Must("state"), i), row(next.Must("state"), i),
				row(s.Action.Must("action"), i), row(s.Now.Reward, i), row(s.Now.Terminated, i),
				row(s.Now.Truncated, i)))
			if done && !over[i] {
				*ended = append(*ended, episode{i, running[i]})
				running[i], over[i] = nil, !s.AutoReset
			}
		}
	}, ended
}

// rowsOf returns the transitions of a file.
func rowsOf(t *testing.T, path string) (rows [][]byte, episodes []algo.DemoEpisode) {
	t.Helper()
	f, err := algo.OpenDemos(path)
	test.OK(t, err)
	defer f.Close()
	rows = make([][]byte, f.Transitions())
	for i, field := range f.Fields {
		for k := range rows {
			part := make([]byte, field.Bytes())
			test.OK(t, f.Read(i, k, part))
			rows[k] = append(rows[k], part...)
		}
	}
	return rows, f.Episodes
}

// A tape has what a plain observer sees: whole episodes, environment after environment. A limit of transitions takes
// the first episodes of all environments, then the second ones.
func TestTape(t *testing.T) {
	for _, autoReset := range []bool{true, false} {
		for _, limit := range []int{0, 900} {
			observe, ended := plain()
			cfg := env.DataCollection{MaxSteps: limit}
			file := recordStages(t, cfg, autoReset, 120, observe, 12)
			byEnv, total := make([][]episode, 12), 0
			for _, e := range *ended {
				byEnv[e.env] = append(byEnv[e.env], e)
			}
			kept := make([]int, 12)
		rounds:
			for number := range 120 {
				for e, all := range byEnv {
					if number < len(all) {
						if total += len(all[number].rows); limit > 0 && total > limit {
							break rounds
						}
						kept[e]++
					}
				}
			}
			var want [][]byte
			var lengths []int
			for e, n := range kept {
				for _, e := range byEnv[e][:n] {
					want, lengths = append(want, e.rows...), append(lengths, len(e.rows))
				}
			}
			rows, episodes := rowsOf(t, file)
			if !slices.EqualFunc(rows, want, bytes.Equal) || len(want) < 250 || autoReset && len(*ended) < 24 {
				t.Errorf("auto_reset %v, limit %d: %d transitions, want %d others", autoReset, limit, len(rows),
					len(want))
			}
			for i, e := range episodes {
				if e.Len != lengths[i] || e.Return != float64(e.Len) || e.Success {
					t.Errorf("episode %d: %+v, want %d transitions", i, e, lengths[i])
				}
			}
			one, err := os.ReadFile(file)
			test.OK(t, err)
			for _, sizes := range [][]int{{5, 7}, {1, 1, 4, 6}} {
				other, err := os.ReadFile(recordStages(t, cfg, autoReset, 120, nil, sizes...))
				if err != nil || !bytes.Equal(one, other) {
					t.Errorf("auto_reset %v, limit %d: stages of %v give another file: %v", autoReset, limit, sizes,
						err)
				}
			}
		}
	}
}

// Unwanted episodes are left out. If none is wanted, an error says what was played.
func TestTapeSelects(t *testing.T) {
	least := 20.0
	_, all := rowsOf(t, recordStages(t, env.DataCollection{}, true, 120, nil, 12))
	_, some := rowsOf(t, recordStages(t, env.DataCollection{MinReturn: &least}, true, 120, nil, 12))
	all = slices.DeleteFunc(all, func(e algo.DemoEpisode) bool { return e.Return < least })
	if !slices.Equal(some, all) || len(all) == 0 {
		t.Errorf("%v, want %v", some, all)
	}
	two := []taped{{DemoEpisode: algo.DemoEpisode{Success: true, Len: 3}}, {DemoEpisode: algo.DemoEpisode{Len: 4}}}
	if got := selected(two, env.DataCollection{OnlySuccess: true}); len(got) != 1 || got[0].Len != 3 {
		t.Errorf("successes: %v", got)
	}
	file := filepath.Join(t.TempDir(), "demos")
	s := newShards(t, 12)[0]
	test.OK(t, s.RecordEpisodes(file, env.DataCollection{}, true))
	test.OK(t, s.EndTape())
	if _, err := JoinTapes(file, file, []int{0}, env.DataCollection{}); !errors.Is(err, ErrNothingRecorded) {
		t.Errorf("nothing: %v", err)
	}
	if _, err := JoinTapes(file, file, []int{0}, env.DataCollection{}); err == nil {
		t.Error("a tape that is not there")
	}
}

// An episode that was running when the state was loaded is not on the tape, because its beginning is not.
func TestTapeAfterLoad(t *testing.T) {
	s := newShards(t, 12)[0]
	playShards(t, []*Stage{s}, 0, 5)
	state, err := s.Save()
	test.OK(t, err)
	s = newShards(t, 12)[0]
	file := filepath.Join(t.TempDir(), "demos")
	test.OK(t, s.RecordEpisodes(file, env.DataCollection{}, true))
	test.OK(t, s.Load(state))
	playShards(t, []*Stage{s}, 5, 100)
	test.OK(t, s.EndTape())
	_, err = JoinTapes(file, file, []int{0}, env.DataCollection{})
	test.OK(t, err)
	rows, _ := rowsOf(t, file)
	// All episodes begin as after a reset: both frames of the stack are the same.
	f, err := algo.OpenDemos(file)
	test.OK(t, err)
	defer f.Close()
	at := 0
	for i, e := range f.Episodes {
		if size := f.Fields[0].Bytes() / 2; !bytes.Equal(rows[at][:size], rows[at][size:2*size]) ||
			bytes.Equal(rows[at][:size], make([]byte, size)) {
			t.Errorf("episode %d begins with %v", i, rows[at][:2*size])
		}
		at += e.Len
	}
}
