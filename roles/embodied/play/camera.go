package play

import (
	"errors"
	"fmt"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/programs"
	"github.com/rlinf/rlinf/internal/video"
	"github.com/rlinf/rlinf/tensor"
)

// A Camera films evaluations of the first environments of a stage. Their episodes are shown side by
// side until the last one has ended. An environment whose episode has ended is drawn once more, and
// then darker. Below each stand its step, its return, and its instruction if it observes one.
type Camera struct {
	vec   env.Vec
	cfg   env.Video
	file  string // of the next evaluation; "": none
	by    programs.Entry
	film  *video.Film
	sheet *video.Sheet
	told  [][]string    // lines of the instruction of each environment in the film
	rgb   tensor.Tensor // [N, Height, Width, 3] of all environments
	on    []bool        // [N]: the episode runs
	dim   []bool        // [N]: the episode has ended, and its last frame has been drawn
}

// newCamera returns a camera for vec, or an error if vec cannot be drawn as cfg says.
func newCamera(vec env.Vec, cfg env.Video) (*Camera, error) {
	if err := video.CheckFormat(cfg.Format); err != nil {
		return nil, err
	}
	n := vec.Len()
	c := &Camera{vec: vec, cfg: cfg, rgb: cfg.View().NewPictures(n), on: make([]bool, n), dim: make([]bool, n)}
	return c, env.Render(vec, cfg.View(), c.on, c.rgb)
}

// Picture draws the first n environments as they are, side by side, with their instructions below.
// The stage must have a camera.
func (s *Stage) Picture(n int) (*video.Sheet, error) {
	c := s.camera
	for i := range n {
		c.on[i] = true
	}
	if err := env.Render(c.vec, c.cfg.View(), c.on, c.rgb); err != nil {
		return nil, err
	}
	told, lines := instructions(s.Vec.Spec(), s.Now, n, video.Columns(c.cfg.Width)), 0
	for _, text := range told {
		lines = max(lines, len(text))
	}
	sheet := video.NewSheet(n, c.cfg.Width, c.cfg.Height, lines)
	for i := range n {
		sheet.Put(i, c.rgb.Slice(i, i+1).U8())
		sheet.Caption(i, told[i])
	}
	return sheet, nil
}

// Record films the next evaluation into file. A film that is no PNG needs ffmpeg, which by starts.
// Without a camera Record does nothing.
func (s *Stage) Record(file string, by programs.Entry) {
	if s.camera != nil {
		s.camera.file, s.camera.by = file, by
	}
}

// start begins the film of an evaluation whose episodes have just begun, as now shows.
func (c *Camera) start(now *env.Step, episodes *env.Episodes) (err error) {
	if c.file == "" {
		return nil
	}
	n, lines := min(c.cfg.NumEnvs, len(c.on)), 0
	c.told = instructions(c.vec.Spec(), now, n, video.Columns(c.cfg.Width))
	for _, text := range c.told {
		lines = max(lines, len(text))
	}
	c.sheet = video.NewSheet(n, c.cfg.Width, c.cfg.Height, 2+lines)
	if c.film, err = video.Create(c.file, c.sheet, c.cfg.FPS, c.by); err != nil {
		return err
	}
	c.file = ""
	clear(c.dim)
	for n := range c.on {
		c.on[n] = n < c.cfg.NumEnvs
	}
	return c.shoot(episodes)
}

// step adds a frame after a step, and ends the film after the last one.
func (c *Camera) step(now *env.Step, episodes *env.Episodes) error {
	if c.film == nil {
		return nil
	}
	if err := c.shoot(episodes); err != nil {
		return err
	}
	running := false
	for n := range c.on {
		if _, ended := now.Took(n); ended {
			c.on[n] = false
		}
		running = running || c.on[n]
	}
	if running {
		return nil
	}
	err := c.film.Close()
	c.film = nil
	return err
}

// shoot adds a frame.
func (c *Camera) shoot(episodes *env.Episodes) error {
	if err := env.Render(c.vec, c.cfg.View(), c.on, c.rgb); err != nil {
		return err
	}
	for n := range min(c.cfg.NumEnvs, len(c.on)) {
		picture := c.rgb.Slice(n, n+1).U8()
		if !c.on[n] {
			if c.dim[n] {
				continue
			}
			c.dim[n] = true
			for i := range picture {
				picture[i] /= 2
			}
		}
		c.sheet.Put(n, picture)
		steps, ret := episodes.Progress(n)
		c.sheet.Caption(n, append([]string{fmt.Sprint("step ", steps), fmt.Sprintf("return %.4g", ret)}, c.told[n]...))
	}
	return c.film.Add(c.sheet)
}

// Film checks that the environments of cfg can be filmed, if it asks for that. A simulator in a
// program of its own may draw nothing: then there is no film, and undrawn names the simulator.
func Film(envs *env.Registry, cfg env.Config) (undrawn string, err error) {
	err = Drawable(envs, cfg)
	var none noPictures
	if errors.As(err, &none) && mayBeUndrawn(cfg) {
		return none.name, nil
	}
	return "", err
}

// mayBeUndrawn reports whether environments without pictures are left unfilmed, rather than an
// error.
func mayBeUndrawn(cfg env.Config) bool { return cfg.ID() == env.ExternalID }

// noPictures is the error of environments that cannot be drawn.
type noPictures struct{ name string }

func (e noPictures) Error() string { return e.name + " has no pictures" }

// Drawable returns an error if cfg asks for a film and its environments cannot be drawn.
func Drawable(envs *env.Registry, cfg env.Config) error {
	if !cfg.VideoCfg.SaveVideo {
		return nil
	}
	vec, err := envs.New(cfg, 1)
	if err != nil {
		return err
	}
	_, err = newCamera(vec, cfg.VideoCfg)
	if errors.Is(err, errors.ErrUnsupported) {
		err = noPictures{vec.Spec().Name}
	}
	return errors.Join(err, vec.Close())
}
