package play

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/programs"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/internal/video/videotest"
	"github.com/rlinf/rlinf/roles/internal/rolestest"
	"github.com/rlinf/rlinf/tensor"
)

// TestCamera films two of three environments, whose episodes end at different times.
func TestCamera(t *testing.T) {
	cfg := env.DefaultConfig()
	cfg.EnvType, cfg.VideoCfg.SaveVideo, cfg.VideoCfg.NumEnvs, cfg.VideoCfg.Width, cfg.VideoCfg.Height = "CartPole-v1",
		true, 2, 64, 64
	s := test.Must(NewStage(rolestest.Registries().Envs, cfg, env.Eval, 0, 3, 1))(t)
	file := filepath.Join(t.TempDir(), "film.png")
	var lengths [3]int
	play := func() {
		t.Helper()
		s.Seeder.Rewind()
		test.OK(t, s.Begin())
		for k := 1; !s.Over(); k++ {
			copy(s.Action.Must("action").I32(), []int32{1, int32(k % 2), 0}) // environment 1 balances for a while
			test.OK(t, s.Step())
			for n := range lengths {
				if _, ended := s.Now.Took(n); !ended {
					lengths[n] = k + 1
				}
			}
		}
	}
	s.camera.file = file
	play()
	film, _ := videotest.Frames(t, file)
	if lengths[0] >= lengths[1] || len(film) != lengths[1]+1 {
		t.Fatalf("%d frames of episodes of %v steps, want the first states and each step of the longer one of two",
			len(film), lengths)
	}
	light := func(frame, n int) uint32 { r, _, _, _ := film[frame].At(64*n+5, 5).RGBA(); return r >> 8 }
	for _, c := range []struct {
		what     string
		frame, n int
		want     uint32
	}{
		{"the first state", 0, 0, 250}, {"the end of the first", lengths[0], 0, 250},
		{"what follows it", lengths[0] + 1, 0, 125},
		{"the second meanwhile", lengths[0] + 1, 1, 250}, {"the end", lengths[1], 1, 250},
		{"the first at the end", lengths[1], 0, 125},
	} {
		if got := light(c.frame, c.n); got+1 < c.want || got > c.want {
			t.Errorf("%s: paper of brightness %d, want %d", c.what, got, c.want)
		}
	}

	test.OK(t, os.Remove(file))
	if play(); s.camera.film != nil {
		t.Error("an evaluation was filmed that nobody asked to film")
	}
}

// A blind is a Vec that cannot draw its second picture.
type blind struct {
	env.Vec
	pictures int
}

func (b *blind) Render(v env.View, mask []bool, rgb tensor.Tensor) error {
	if b.pictures++; b.pictures == 3 { // the first call only asks whether it can draw
		return errors.New("no display")
	}
	return env.Render(b.Vec, v, mask, rgb)
}

// An error of a film does not end the evaluation, and the next evaluation is filmed again.
func TestEvaluationWithoutAFilm(t *testing.T) {
	reg := rolestest.Registries().Envs.With("blind", func(cfg env.Config, n int) (env.Vec, error) {
		cfg.EnvType = "CartPole-v1"
		v, err := rolestest.Registries().Envs.New(cfg, n)
		return &blind{Vec: v}, err
	})
	cfg := env.DefaultConfig()
	cfg.EnvType, cfg.VideoCfg.SaveVideo = "blind", true
	s := test.Must(NewStage(reg, cfg, env.Eval, 0, 2, 1))(t)
	dir := t.TempDir()
	test.OK(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	good := filepath.Join(dir, "film.png")
	for i, c := range []struct{ file, want string }{
		{good, "no display"}, {filepath.Join(dir, "file", "film.png"), "not a directory"}, {good, ""},
	} {
		s.Record(c.file, programs.Entered{})
		test.OK(t, s.Begin())
		for !s.Over() {
			test.OK(t, s.Step())
		}
		err := s.FilmError()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("film %d: %v, want %q", i, err, c.want)
		}
		if s.FilmError() != nil {
			t.Error("the error of a film is returned twice")
		}
		files, err := filepath.Glob(filepath.Join(dir, "*film*"))
		if hidden, _ := filepath.Glob(filepath.Join(dir, ".*film*")); err != nil || len(hidden) > 0 ||
			(len(files) > 0) != (i == 2) {
			t.Errorf("film %d left %v and %v (%v)", i, files, hidden, err)
		}
	}
}
