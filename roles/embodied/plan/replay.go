package plan

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sort"
	"strings"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/internal/figures"
	"github.com/rlinf/rlinf/internal/lerobot"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/embodied/dataset"
	"github.com/rlinf/rlinf/roles/job"
	"github.com/rlinf/rlinf/tensor"
)

// readDemos reads the demonstrations if the configuration names any and has no mistakes.
func (d *Draft) readDemos() {
	path := d.Config.Algorithm.OffPolicy.Demos.LoadPath
	if path == "" || !d.OffPolicy && !d.Offline || d.found.Err() != nil {
		return
	}
	var err error
	seen, _ := d.Config.PolicySpec(d.Spec)
	isFolder := lerobot.IsFolder(path)
	if isFolder {
		have := job.AvailableOn(d.nodes, 0)
		fits := func(tensors, images int64) error {
			if tensors <= have.Free && images <= have.Free-tensors {
				return nil
			}
			return fmt.Errorf("its tensors take %s and its encoded images at least %s, and %v: expected a smaller "+
				"folder", figures.MiB(tensors), figures.MiB(images), have)
		}
		d.demos, d.pictures, err = dataset.Read(d.Config.Algorithm.OffPolicy.Demos, d.demoFields(), seen.Obs, fits)
	} else {
		c := &d.Config.Algorithm.OffPolicy.Demos
		const want = "none: load_path is a file, and only folders of LeRobot have it"
		d.found.Want(len(c.Names) == 0, "algorithm.demo_buffer.names", c.Names, want)
		d.found.Want(c.FPS == 0, "algorithm.demo_buffer.fps", c.FPS, want)
		d.demos, err = algo.ReadDemos(path, d.demoFields())
	}
	if err == nil {
		err = algo.FitDemos(d.demos, d)
	}
	if err != nil {
		d.found.Problem("algorithm.demo_buffer.load_path", path, fmt.Sprintf("demonstrations in %s: %v%s",
			d.Spec.Name, err, demosBy(path, err)))
		return
	}
	d.checkShare(path)
	if isFolder {
		return // a folder has all frames of its episodes
	}
	if err := d.noteGaps(path); err != nil {
		d.found.Problem("algorithm.demo_buffer.load_path", path, "demonstrations: "+err.Error())
	}
}

// demoFields returns the tensors of demonstrations. They are the tensors of one environment's rollouts, as the policy
// sees them.
func (p *Plan) demoFields() []tensor.Field {
	seen, _ := p.Config.PolicySpec(p.Spec)
	return p.Config.Algorithm.DemoFields(p.fieldsOf(seen, 1))
}

// replayBytes returns the size in bytes of one actor's replay buffer for this number of iterations. It is 0 without a
// replay buffer, and the largest int if the size overflows.
func (p *Plan) replayBytes(iterations int) int {
	if !p.OffPolicy {
		return 0
	}
	return algo.ReplayBytes(p.trajectoryFields(1), algo.StacksOf(p), p.Train.Envs/p.Actors,
		config.Product(p.Epochs, p.Steps, iterations))
}

// interventionBytes returns the size in bytes of an actor's buffer for the actions of people in this number of
// iterations. It is 0 if nobody acts in place of the policy.
func (p *Plan) interventionBytes(iterations int) int {
	if !p.Spec.Intervene || iterations == 0 {
		return 0
	}
	return p.replayBytes(iterations)
}

// demoBytes returns the size in bytes of the demonstrations that every rank has, without encoded images.
func (p *Plan) demoBytes() int { return p.bytesOf(algo.Stored(p.demoFields(), p.pictures)) }

// drawnBytes returns the size in bytes of an actor's copy of the demonstrations, from which it samples.
func (p *Plan) drawnBytes() int {
	if p.kept == nil {
		return p.demoBytes()
	}
	return p.bytesOf(p.Config.Algorithm.DemoFields(p.trajectoryFields(1)))
}

// bytesOf returns the size in bytes of the demonstrations with these tensors.
func (p *Plan) bytesOf(fields []tensor.Field) int {
	if p.demos.Len() == 0 {
		return 0
	}
	return algo.ReplayBytes(fields, nil, 1, p.demos.Must(algo.FieldReward).Dim(0))
}

// pictureBytes returns the size in bytes of the encoded images of the demonstrations, which every rank has once.
func (p *Plan) pictureBytes() (n int) {
	for name, images := range p.pictures {
		if !strings.HasPrefix(name, algo.NextObservations+".") { // those are the same images
			n += images.Bytes()
		}
	}
	return n
}

// describePictures returns a line on the encoded images of the demonstrations, if there are any.
func (p *Plan) describePictures() []string {
	if len(p.pictures) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("demonstrations: %d transitions of %s; encoded images take %s on each rank",
		p.demos.Must(algo.FieldReward).Dim(0), p.Config.Algorithm.OffPolicy.Demos.LoadPath,
		figures.MiB(int64(p.pictureBytes())))}
}

// checkReplay returns an error if the replay buffers and demonstrations of this number of actors need more memory than
// their node has.
func (p *Plan) checkReplay(actors int, have job.Available) error {
	off := &p.Config.Algorithm.OffPolicy
	window, people := off.ReplayBuffer.SampleWindowSize, config.Product(actors, p.interventionBytes(
		off.Demos.SampleWindowSize))
	buffers, demos := config.Product(actors, p.replayBytes(window)), config.Product(actors, p.drawnBytes())
	switch left := have.Free - int64(demos); {
	case left < 0:
		return fmt.Errorf("algorithm.demo_buffer.load_path: %s: expected a smaller file: the copies that the actors "+
			"of a node draw from take %s, and %v",
			p.Config.Algorithm.OffPolicy.Demos.LoadPath, figures.MiB(int64(demos)), have)
	case int64(people) > left:
		return fmt.Errorf("algorithm.demo_buffer.sample_window_size: %d: expected fewer: what people do takes %s on a "+
			"node, and %v", off.Demos.SampleWindowSize, figures.MiB(int64(people)), have)
	case int64(buffers) > left-int64(people):
		beside := ""
		if left -= int64(people); demos+people > 0 {
			beside = fmt.Sprintf(" beside demonstrations of %s", figures.MiB(int64(demos+people)))
		}
		fits := sort.Search(window, func(n int) bool {
			return int64(config.Product(actors, p.replayBytes(n+1))) > left
		})
		return fmt.Errorf("algorithm.replay_buffer.sample_window_size: %d: expected at most %d: the replay buffers "+
			"of a node take %s%s, and %v", window, fits, figures.MiB(int64(buffers)), beside, have)
	}
	return nil
}

// demosBy returns the last part of the message of err. For missing demonstrations this part names the command that
// writes them. For other errors it is "".
func demosBy(path string, err error) string {
	if _, found := os.Stat(path); !errors.Is(err, fs.ErrNotExist) || found == nil { // a folder that lacks a file
		return ""
	}
	return fmt.Sprintf(": make it by rlinf demos -c FILE.yaml --out %s, where the task has an expert", path)
}
