package play

import (
	"fmt"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/programs"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/internal/video/videotest"
	"github.com/rlinf/rlinf/roles/internal/rolestest"
	"github.com/rlinf/rlinf/tensor"
)

// The lines of an instruction have the newest text of an environment, and fit into the columns.
func TestInstructions(t *testing.T) {
	words := []string{"", "put", "the", "red", "cube", "on", "green", "zone"}
	space := env.Space{Kind: env.Box, DType: tensor.I32, Shape: []int{2, 4}} // two observations, the newest last
	spec := env.Spec{Obs: []env.Field{{Name: "state", Space: env.Space{DType: tensor.F32, Shape: []int{1}}},
		{Name: "instruction", Space: space, Words: words}}}
	var obs tensor.Dict
	obs.Set("state", tensor.New(tensor.F32, 3, 1))
	obs.Set("instruction",
		tensor.FromI32([]int32{7, 7, 7, 7, 1, 2, 3, 4, 0, 0, 0, 0, 5, 99, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0}, 3, 2, 4))
	got := instructions(spec, &env.Step{Obs: obs}, 3, 8)
	if want := [][]string{{"put the", "red cube"}, {"on green"}, nil}; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %q, want %q", got, want)
	}
	spec = env.Spec{Obs: []env.Field{{Name: "text", Space: env.Space{DType: tensor.U8, Shape: []int{24}}, Text: true}}}
	obs = tensor.Dict{}
	obs.Set("text", tensor.New(tensor.U8, 2, 24))
	copy(obs.Must("text").U8(), "put the red cube")
	copy(obs.Must("text").U8()[24:], "stack")
	got = instructions(spec, &env.Step{Obs: obs}, 2, 8)
	if want := [][]string{{"put the", "red cube"}, {"stack"}}; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("text: got %q, want %q", got, want)
	}
	if got := wrapped("a extraordinarily long", 6); !reflect.DeepEqual(got, []string{"a", "extraordinarily", "long"}) {
		t.Errorf("a long word: %q", got)
	}
}

// The captions of a film have figures, which change from step to step.
func TestCaptions(t *testing.T) {
	cfg := env.DefaultConfig()
	cfg.EnvType, cfg.VideoCfg.SaveVideo, cfg.VideoCfg.Width, cfg.VideoCfg.Height = "CartPole-v1", true, 64, 16
	s := test.Must(NewStage(rolestest.Registries().Envs, cfg, env.Eval, 0, 1, 1))(t)
	file := filepath.Join(t.TempDir(), "film.png")
	s.Record(file, programs.Entered{})
	test.OK(t, s.Begin())
	for !s.Over() {
		test.OK(t, s.Step())
	}
	frames, _ := videotest.Frames(t, file)
	seen := map[string]bool{}
	for _, f := range frames {
		seen[string(f.Pix[f.PixOffset(0, 16):])] = true
	}
	if size := frames[0].Rect.Size(); size.X != 64 || size.Y != 16+2*13 || len(seen) != len(frames) {
		t.Errorf("%d frames of %v have %d captions, want two lines that differ in each", len(frames), size, len(seen))
	}
}
