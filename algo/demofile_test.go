package algo_test

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/tensor"
)

// fileOf writes episodes of these lengths. The image of transition k has bytes k, and its reward is k.
func fileOf(t *testing.T, episodes []algo.DemoEpisode) (path string, err error) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "demos.safetensors")
	h := algo.DemoHeader{Env: "maze", HasSuccess: true, SuccessRate: 0.5, Episodes: episodes, Fields: []tensor.Field{
		{Name: "observation.image", DType: tensor.U8, Shape: []int{300, 301, 3}},
		{Name: algo.FieldAction, DType: tensor.I32, Shape: []int{1, 1}}, {Name: algo.FieldReward, DType: tensor.F32},
		{Name: algo.FieldTerminated, DType: tensor.U8}, {Name: algo.FieldTruncated, DType: tensor.U8}}}
	return path, algo.WriteDemos(path, h, func(add func([]byte) error) error {
		k := byte(0)
		for _, e := range episodes {
			for i := range e.Len {
				row := bytes.Repeat([]byte{k}, 300*301*3)
				row = append(row, k, 0, 0, 0)
				reward := tensor.FromF32([]float32{float32(k)}, 1)
				row = append(row, reward.Bytes()...)
				row = append(row, 0, 0)
				if i == e.Len-1 {
					row[len(row)-1] = 1
				}
				k++
				test.OK(t, add(row))
			}
		}
		return nil
	})
}

// A written file has what was given, transition by transition, and what each episode was.
func TestDemoFile(t *testing.T) {
	episodes := []algo.DemoEpisode{{Len: 3, Return: 1e-9 + 1, Success: true, Instruction: "go left"},
		{Len: 1, Return: -2, Instruction: "turn to the büro"}, {Len: 2}}
	path, err := fileOf(t, episodes)
	test.OK(t, err)
	f, err := algo.OpenDemos(path)
	test.OK(t, err)
	defer f.Close()
	if !slices.Equal(f.Episodes, episodes) || f.Env != "maze" || f.SuccessRate != 0.5 || !f.HasSuccess ||
		f.Transitions() != 6 || len(f.Fields) != 5 {
		t.Errorf("%+v", f.DemoHeader)
	}
	rows := make([]byte, 2*300*301*3)
	test.OK(t, f.Read(0, 4, rows))
	if !bytes.Equal(rows, append(bytes.Repeat([]byte{4}, len(rows)/2), bytes.Repeat([]byte{5}, len(rows)/2)...)) {
		t.Error("images of transitions 4 and 5 are others")
	}
	// The same file, as training reads it.
	d, err := algo.ReadDemos(path, []tensor.Field{{Name: algo.FieldAction, DType: tensor.I32, Shape: []int{7, 2, 1, 1}},
		{Name: algo.FieldReward, DType: tensor.F32, Shape: []int{7, 2}}})
	test.OK(t, err)
	test.EqualSlices(t, d.Must(algo.FieldAction).I32(), []int32{0, 1, 2, 3, 4, 5}, "actions")
	test.EqualSlices(t, d.Must(algo.FieldReward).F32(), []float32{0, 1, 2, 3, 4, 5}, "rewards")
	if _, err := fileOf(t, nil); err == nil || !strings.Contains(err.Error(), "no episodes") {
		t.Errorf("without episodes: %v", err)
	}
}

// A file of transitions alone has the episodes that its flags end, the last one also without a flag.
func TestDemoFileWithoutEpisodes(t *testing.T) {
	var d tensor.Dict
	d.Set(algo.FieldReward, tensor.FromF32([]float32{1, 2, 4, 8}, 4))
	d.Set(algo.FieldTerminated, tensor.Of([]byte{0, 1, 0, 0}, tensor.U8, 4))
	d.Set(algo.FieldTruncated, tensor.New(tensor.U8, 4))
	f, err := algo.OpenDemos(writeDemos(t, d))
	test.OK(t, err)
	defer f.Close()
	if want := []algo.DemoEpisode{{Len: 2, Return: 3}, {Len: 2, Return: 12}}; !slices.Equal(f.Episodes, want) ||
		f.HasSuccess {
		t.Errorf("%+v, want %v", f.DemoHeader, want)
	}
}

// The episodes in the header of a file must agree with its transitions.
func TestDemoFileErrors(t *testing.T) {
	for want, change := range map[string]func(*tensor.Dict){
		"episode.length is 3 in episode 0: expected 2": func(d *tensor.Dict) {
			d.Set(algo.EpisodeLength, tensor.Of(tensor.New(tensor.I64, 1).Bytes(), tensor.I64, 1))
			d.Must(algo.EpisodeLength).I64()[0] = 3
		},
		"episode.return is F64[2]: expected F64[1]": func(d *tensor.Dict) {
			d.Set(algo.EpisodeReturn, tensor.New(tensor.F64, 2))
		},
		"no tensor truncated": func(d *tensor.Dict) { d.Set(algo.FieldTruncated, tensor.Tensor{}) },
		"reward is F64[2]":    func(d *tensor.Dict) { d.Set(algo.FieldReward, tensor.New(tensor.F64, 2)) },
	} {
		var all, d tensor.Dict
		all.Set(algo.FieldReward, tensor.FromF32([]float32{1, float32(math.Pi)}, 2))
		all.Set(algo.FieldTerminated, tensor.Of([]byte{0, 1}, tensor.U8, 2))
		all.Set(algo.FieldTruncated, tensor.New(tensor.U8, 2))
		all.Set(algo.EpisodeLength, tensor.New(tensor.I64, 1))
		all.Must(algo.EpisodeLength).I64()[0] = 2
		all.Set(algo.EpisodeReturn, tensor.New(tensor.F64, 1))
		change(&all)
		for i := range all.Len() {
			if name, x := all.Entry(i); !x.IsZero() {
				d.Set(name, x)
			}
		}
		if f, err := algo.OpenDemos(writeDemos(t, d)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, %v, want %q", f, err, want)
		}
	}
	text := filepath.Join(t.TempDir(), "x")
	test.OK(t, os.WriteFile(text, []byte("no tensors"), 0o600))
	if _, err := algo.OpenDemos(text); err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("a text: %v", err)
	}
}
