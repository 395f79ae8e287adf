package roles

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/durable"
	"github.com/rlinf/rlinf/internal/video"
	"github.com/rlinf/rlinf/tensor"
)

// A camera films evaluations of the first environments of a shard: their episodes side by side,
// until the last of them is over. What ended is shown once more, and then darker.
type camera struct {
	vec   env.Vec
	cfg   env.Video
	file  string // of the next evaluation; "": it is not filmed
	film  *video.Film
	sheet *video.Sheet
	rgb   tensor.Tensor // [N, Height, Width, 3] of all environments
	on    []bool        // [N]: the episode runs
	dim   []bool        // [N]: it is over, and was shown so
}

// newCamera returns one for vec, or an error if vec cannot be drawn as cfg says.
func newCamera(vec env.Vec, cfg env.Video) (*camera, error) {
	n := vec.Len()
	c := &camera{vec: vec, cfg: cfg, rgb: cfg.View().NewPictures(n), on: make([]bool, n), dim: make([]bool, n)}
	c.sheet = video.NewSheet(min(cfg.NumEnvs, n), cfg.Width, cfg.Height)
	return c, env.Render(vec, cfg.View(), c.on, c.rgb)
}

// start begins the film of an evaluation, whose episodes have just begun.
func (c *camera) start() (err error) {
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

// step adds what a step led to, and ends the film where it was the last.
func (c *camera) step(now *env.Step) error {
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
func (c *camera) shoot() error {
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

// videoFile returns where the film of the evaluation called name goes, in the run's folder unless
// the configuration names another.
func (c *Config) videoFile(name string) string {
	dir := c.Env.Eval.VideoCfg.VideoBaseDir
	if dir == "" {
		dir = filepath.Join(c.folder(), "videos")
	}
	return filepath.Join(dir, name+".avi")
}

// openVideos makes the folder of films, where the configuration names one, and sees that it can be
// written.
func (c *Config) openVideos() error {
	v := &c.Env.Eval.VideoCfg
	if !c.Evaluates() || !v.SaveVideo || v.VideoBaseDir == "" {
		return nil
	}
	err := os.MkdirAll(v.VideoBaseDir, 0o755)
	if err == nil {
		err = durable.Writable(v.VideoBaseDir)
	}
	if err != nil {
		err = fmt.Errorf("env.eval.video_cfg.video_base_dir: %s: want a folder that can be written: %w", v.VideoBaseDir,
			err)
	}
	return err
}

// drawable returns an error if the environments of cfg are to be filmed and cannot be drawn.
func drawable(reg Registries, cfg env.Config) error {
	if !cfg.VideoCfg.SaveVideo {
		return nil
	}
	vec, err := reg.Envs.New(cfg, 1)
	if err != nil {
		return err
	}
	_, err = newCamera(vec, cfg.VideoCfg)
	if errors.Is(err, errors.ErrUnsupported) {
		err = fmt.Errorf("%s has no pictures", vec.Spec().Name)
	}
	return errors.Join(err, vec.Close())
}
