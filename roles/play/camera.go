package play

import (
	"errors"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/video"
	"github.com/rlinf/rlinf/tensor"
)

// A Camera films evaluations of the first environments of a stage. Their episodes are shown side by
// side until the last one has ended. An environment whose episode has ended is drawn once more, and
// then darker.
type Camera struct {
	vec   env.Vec
	cfg   env.Video
	file  string // of the next evaluation; "": none
	film  *video.Film
	sheet *video.Sheet
	rgb   tensor.Tensor // [N, Height, Width, 3] of all environments
	on    []bool        // [N]: the episode runs
	dim   []bool        // [N]: the episode has ended, and its last frame has been drawn
}

// newCamera returns a camera for vec, or an error if vec cannot be drawn as cfg says.
func newCamera(vec env.Vec, cfg env.Video) (*Camera, error) {
	n := vec.Len()
	c := &Camera{vec: vec, cfg: cfg, rgb: cfg.View().NewPictures(n), on: make([]bool, n), dim: make([]bool, n)}
	c.sheet = video.NewSheet(min(cfg.NumEnvs, n), cfg.Width, cfg.Height)
	return c, env.Render(vec, cfg.View(), c.on, c.rgb)
}

// Picture draws the first n environments as they are, side by side. The stage must have a camera.
func (s *Stage) Picture(n int) (*video.Sheet, error) {
	c := s.camera
	for i := range n {
		c.on[i] = true
	}
	if err := env.Render(c.vec, c.cfg.View(), c.on, c.rgb); err != nil {
		return nil, err
	}
	for i := range n {
		c.sheet.Put(i, c.rgb.Slice(i, i+1).U8())
	}
	return c.sheet, nil
}

// Record films the next evaluation into file. Without a camera it does nothing.
func (s *Stage) Record(file string) {
	if s.camera != nil {
		s.camera.file = file
	}
}

// start begins the film of an evaluation whose episodes have just begun.
func (c *Camera) start() (err error) {
	if c.file == "" {
		return nil
	}
	if c.film, err = video.Create(c.file, c.sheet, c.cfg.FPS); err != nil {
		return err
	}
	c.file = ""
	clear(c.dim)
	for n := range c.on {
		c.on[n] = n < c.cfg.NumEnvs
	}
	return c.shoot()
}

// step adds a frame after a step, and ends the film after the last one.
func (c *Camera) step(now *env.Step) error {
	if c.film == nil {
		return nil
	}
	if err := c.shoot(); err != nil {
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
func (c *Camera) shoot() error {
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
