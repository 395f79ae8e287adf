package play

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/video/videotest"
	"github.com/rlinf/rlinf/roles/internal/rolestest"
)

// TestCamera films two of three environments, whose episodes end at different times.
func TestCamera(t *testing.T) {
	cfg := env.DefaultConfig()
	cfg.EnvType, cfg.VideoCfg.SaveVideo, cfg.VideoCfg.NumEnvs, cfg.VideoCfg.Width, cfg.VideoCfg.Height = "CartPole-v1",
		true, 2, 64, 64
	s, err := NewStage(rolestest.Registries().Envs, cfg, env.Eval, 0, 3, 1)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "film.png")
	var lengths [3]int
	play := func() {
		t.Helper()
		s.Seeder.Rewind()
		if err := s.Begin(); err != nil {
			t.Fatal(err)
		}
		for k := 1; !s.Over(); k++ {
			copy(s.Action.Must("action").I32(), []int32{1, int32(k % 2), 0}) // environment 1 balances for a while
			if err := s.Step(); err != nil {
				t.Fatal(err)
			}
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

	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if play(); s.camera.film != nil {
		t.Error("an evaluation was filmed that nobody asked to film")
	}
}
