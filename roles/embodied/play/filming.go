package play

import (
	"errors"
	"fmt"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/programs"
	"github.com/rlinf/rlinf/internal/video"
	"github.com/rlinf/rlinf/tensor"
)

// A Filming films evaluations of the first environments of a stage. The film shows their episodes side by side until
// the last one has ended. The last picture of an ended episode is darkened. Captions below show the step, the
// return, and the instruction if the environment observes one.
type Filming struct {
	vec      env.Vec
	cfg      env.Video
	file     string // file of the next film; "" if the next evaluation is not filmed
	by       programs.Entered
	film     *video.Film
	sheet    *video.Sheet
	captions [][]string    // lines of each environment's instruction
	rgb      tensor.Tensor // pictures of all environments, [N, Height, Width, 3]
	on       []bool        // [N], whether the episode is running
	dim      []bool        // [N], whether the last picture of the ended episode has been darkened
	err      error         // the error that ended the last film
}

// newFilming returns a camera for vec, or an error if vec cannot be rendered as cfg asks.
func newFilming(vec env.Vec, cfg env.Video) (*Filming, error) {
	if err := video.CheckFormat(cfg.Format); err != nil {
		return nil, err
	}
	n := vec.Len()
	c := &Filming{vec: vec, cfg: cfg, rgb: cfg.View().NewPictures(n), on: make([]bool, n), dim: make([]bool, n)}
	return c, env.Render(vec, cfg.View(), c.on, c.rgb)
}

// Picture renders the first n environments side by side, with their instructions below. The stage must have a camera.
func (s *Stage) Picture(n int) (*video.Sheet, error) {
	c := s.camera
	for i := range n {
		c.on[i] = true
	}
	if err := env.Render(c.vec, c.cfg.View(), c.on, c.rgb); err != nil {
		return nil, err
	}
	sheet, captions := c.newSheet(s.Now, n, 0)
	for i := range n {
		sheet.Put(i, c.rgb.Slice(i, i+1).U8())
		sheet.Caption(i, captions[i])
	}
	return sheet, nil
}

// newSheet returns a sheet for pictures of the first n environments, and their instructions as captions. Below each
// picture the sheet has room for the caption and for extraLines more lines.
func (c *Filming) newSheet(now *env.Step, n, extraLines int) (sheet *video.Sheet, captions [][]string) {
	captions = instructions(c.vec.Spec(), now, n, video.Columns(c.cfg.Width))
	lines := 0
	for _, text := range captions {
		lines = max(lines, len(text))
	}
	return video.NewSheet(n, c.cfg.Width, c.cfg.Height, lines+extraLines), captions
}

// Record films the next evaluation into file. Formats other than PNG need the program ffmpeg, and starter starts this
// program. Without a camera Record does nothing.
func (s *Stage) Record(file string, starter programs.Entered) {
	if s.camera != nil {
		s.camera.file, s.camera.by = file, starter
	}
}

// FilmError returns the error that ended the film of the last evaluation, and forgets it. The evaluation went on
// without a film.
func (s *Stage) FilmError() (err error) {
	if s.camera != nil {
		err, s.camera.err = s.camera.err, nil
	}
	return err
}

// begin begins the film of an evaluation, if one was asked for. reset has the first observations of the evaluation's
// episodes.
func (c *Filming) begin(reset *env.Step, episodes *env.Episodes) {
	if c.file != "" {
		c.keep(c.start(reset, episodes))
		c.file = ""
	}
}

// watch adds a frame after a step of the environments, if the evaluation is filmed.
func (c *Filming) watch(now *env.Step, episodes *env.Episodes) {
	if c.film != nil {
		c.keep(c.step(now, episodes))
	}
}

// keep ends the film if err is not nil.
func (c *Filming) keep(err error) {
	if err == nil {
		return
	}
	if c.err = err; c.film != nil {
		c.err = errors.Join(err, c.film.Abandon())
		c.film = nil
	}
}

func (c *Filming) start(reset *env.Step, episodes *env.Episodes) (err error) {
	c.sheet, c.captions = c.newSheet(reset, min(c.cfg.NumEnvs, len(c.on)), 2)
	if c.film, err = video.Create(c.file, c.sheet, c.cfg.FPS, c.by); err != nil {
		return err
	}
	clear(c.dim)
	for n := range c.on {
		c.on[n] = n < c.cfg.NumEnvs
	}
	return c.shoot(episodes)
}

// step adds a frame. It ends the film when all filmed episodes have ended.
func (c *Filming) step(now *env.Step, episodes *env.Episodes) error {
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
	film := c.film
	c.film = nil
	return film.Close()
}

// shoot adds a frame with the pictures of all filmed environments. It darkens the picture of an ended episode once.
func (c *Filming) shoot(episodes *env.Episodes) error {
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
		c.sheet.Caption(n, append([]string{fmt.Sprint("step ", steps), fmt.Sprintf("return %.4g", ret)},
			c.captions[n]...))
	}
	return c.film.Add(c.sheet)
}

// Film returns an error if cfg asks for a film and its environments cannot be rendered. For an external simulator Film
// returns the simulator's name instead of an error, and there will be no film.
func Film(envs *env.Registry, cfg env.Config) (simulator string, err error) {
	if !cfg.VideoCfg.SaveVideo {
		return "", nil
	}
	vec, err := envs.New(cfg, 1)
	if err != nil {
		return "", err
	}
	_, err = newFilming(vec, cfg.VideoCfg)
	switch name := vec.Spec().Name; {
	case !errors.Is(err, errors.ErrUnsupported):
	case mayBeUnrenderable(cfg):
		simulator, err = name, nil
	default:
		err = fmt.Errorf("%s has no pictures", name)
	}
	return simulator, errors.Join(err, vec.Close())
}

// mayBeUnrenderable reports whether the job may go on without a film if the environments of cfg cannot be rendered.
func mayBeUnrenderable(cfg env.Config) bool { return cfg.ID() == env.ExternalID }
