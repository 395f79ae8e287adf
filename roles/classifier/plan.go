package classifier

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/internal/figures"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/policy/resnet"
	"github.com/rlinf/rlinf/reward/frames"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/job"
	"github.com/rlinf/rlinf/roles/planner"
	"github.com/rlinf/rlinf/roles/planner/probe"
	"github.com/rlinf/rlinf/tensor"
)

// A plan follows from the configuration and the frames. It is the same on every rank, and does not change.
type plan struct {
	*job.Job
	train, valid *frames.Set // valid is nil without evaluations
	actors       int
	batch        int       // images of a step, over all actors
	classes      [][]int32 // indices of the images: of success and of failure, or of all
	stepsPer     int64     // steps of an epoch
	blank        *resnet.Classifier
	memory       *job.Reserve // of blank, which is never written
}

// A draft is a plan that is not complete.
type draft struct {
	*plan
	found *config.Findings
}

func newDraft(cfg *config.Config, reg config.Registries, nodes []int) *draft {
	common, found := job.New(cfg, reg, nodes)
	d := &draft{&plan{Job: common, batch: cfg.Actor.GlobalBatchSize}, found}
	d.actors = d.Workers("actor")
	if d.actors > 0 && cfg.Actor.MicroBatchSize > 0 {
		d.found.Want(d.batch%(d.actors*cfg.Actor.MicroBatchSize) == 0, "actor.global_batch_size", d.batch,
			fmt.Sprintf("a multiple of %d (micro_batch_size %d × %d actors)", d.actors*cfg.Actor.MicroBatchSize,
				cfg.Actor.MicroBatchSize, d.actors))
	}
	return d
}

// Mistakes returns all mistakes as one error, or nil if there are none.
func (d *draft) Mistakes() error { return d.found.Err() }

// complete reads the frames, and sets the rest of the plan.
func (d *draft) complete() error {
	if err := d.found.Err(); err != nil {
		return err
	}
	c := d.Config
	d.SyncInterval = 1
	read := func(key string, paths []string) *frames.Set {
		s, err := frames.Read(paths)
		if err != nil {
			d.found.Problem(key, strings.Join(paths, ", "), "files of frames: "+err.Error()+job.MadeBy(err))
			return nil
		}
		return s
	}
	if d.train = read("data.train_data_paths", c.Data.TrainDataPaths); c.Evaluates() {
		d.valid = read("data.val_data_paths", c.Data.ValDataPaths)
	}
	if err := d.found.Err(); err != nil {
		return err
	}
	if v := d.valid; v != nil && !v.Images.At(0).SameShape(d.train.Images.At(0)) {
		d.found.Problem("data.val_data_paths", nil, fmt.Sprintf("images of %v, as in data.train_data_paths, not of %v",
			d.train.Images.Shape()[1:], v.Images.Shape()[1:]))
	}
	if n := d.train.Successes(); c.Data.Balanced && (n == 0 || n == d.train.Len()) {
		d.found.Problem("data.train_data_paths", nil, fmt.Sprintf("images of success and of failure (data.balanced), "+
			"not %d of %d", n, d.train.Len()))
	}
	d.classes = make([][]int32, 1)
	if c.Data.Balanced {
		d.classes = make([][]int32, 2)
	}
	for i, y := range d.train.Labels {
		class := &d.classes[(1-int(y))*(len(d.classes)-1)]
		*class = append(*class, int32(i))
	}
	d.stepsPer = max(1, int64(d.train.Len()/d.batch))
	d.MaxSteps = c.Runner.Steps(d.stepsPer)
	d.memory = &job.Reserve{Have: job.Available{Free: math.MaxInt64}}
	var err error
	if d.blank, err = d.newNetwork(d.memory.Alloc); err != nil {
		d.found.Problem("actor.model", nil, "a network that can be made: "+err.Error())
	}
	return d.found.Err()
}

// newNetwork makes the classifier with parameters of 0.
func (p *plan) newNetwork(alloc tensor.Allocator) (*resnet.Classifier, error) {
	s := p.train.Images
	return resnet.NewClassifier(p.Config.Classifier().Config, p.Config.Actor.Model.HiddenDim,
		nn.Image{H: s.Dim(1), W: s.Dim(2), C: 3}, alloc)
}

// load returns the classifier with its initial parameters.
func (p *plan) load(alloc tensor.Allocator) (*resnet.Classifier, error) {
	net, err := p.newNetwork(alloc)
	if err != nil {
		return nil, err
	}
	net.Init(p.Config.Actor.Seed)
	m := p.Config.Classifier()
	if m.ModelPath == "" {
		return net, nil
	}
	const key = "actor.model.model_path"
	d, err := job.ReadWeights(key, m.ModelPath)
	if err != nil {
		return nil, err
	}
	if err := net.Load(d, !m.Pretrained); err != nil {
		return nil, fmt.Errorf("%s: %s: %w", key, m.ModelPath, err)
	}
	return net, nil
}

// framesHash is the name of the tensor in the trainer's state that holds the hash of the training frames.
const framesHash = "frames"

// fits returns an error if a state belongs to another network or to other frames.
func (p *plan) fits(model []tensor.Field, trainer tensor.Dict) error {
	if hash, ok := trainer.Get(framesHash); ok && hash.I64()[0] != int64(p.train.Hash) {
		return errors.New("data.train_data_paths: the frames are not those of the checkpoint")
	}
	return job.FitModel(p.blank.Params(), model)
}

// inputs returns hashes of the files that must be the same on all ranks, with their keys.
func (p *plan) inputs() (keys []string, hashes [][]byte) {
	add := func(key string, s *frames.Set) {
		keys, hashes = append(keys, key), append(hashes, binary.LittleEndian.AppendUint64(nil, s.Hash))
	}
	if add("data.train_data_paths", p.train); p.valid != nil {
		add("data.val_data_paths", p.valid)
	}
	return keys, hashes
}

// An order draws the images of batches. It has the present order of each class.
type order struct {
	plan   *plan
	perms  [2][]int32
	epochs [2]int64
}

func newOrder(p *plan) *order { return &order{plan: p, epochs: [2]int64{-1, -1}} }

// fill sets images and labels to one actor's images of a step, which counts from 0. Classes take turns in a batch. An
// epoch of a class is a pass over all its images.
func (o *order) fill(images, labels []byte, step int64, actor int) {
	p := o.plan
	each, local := len(images)/len(labels), len(labels)
	for i := range labels {
		j := actor*local + i
		k := j % len(p.classes)
		class := p.classes[k]
		at := step*int64(p.batch/len(p.classes)) + int64(j/len(p.classes))
		if epoch := at / int64(len(class)); epoch != o.epochs[k] {
			data := &p.Config.Data
			o.perms[k], o.epochs[k] = algo.Permutation(o.perms[k], len(class), data.Shuffle, data.Seed, epoch), epoch
		}
		n := int(class[o.perms[k][at%int64(len(class))]])
		copy(images[i*each:(i+1)*each], p.train.Images.U8()[n*each:])
		labels[i] = p.train.Labels[n]
	}
}

// validation returns the images that one actor measures.
func (p *plan) validation(actor int) (images, labels []byte) {
	n, each := p.valid.Len(), p.blank.Image.Len()
	lo, hi := actor*n/p.actors, (actor+1)*n/p.actors
	return p.valid.Images.U8()[lo*each : hi*each], p.valid.Labels[lo:hi]
}

// describe returns a few lines that describe a step.
func (p *plan) describe() []string {
	m, c := p.Config.Classifier(), &p.Config.Actor
	lines := []string{
		fmt.Sprintf("model: %s on images %v, seen as %d×%d; %d parameters", m.Arch, p.train.Images.Shape()[1:],
			m.ImageSize[1], m.ImageSize[2], p.blank.Params().Len()),
		fmt.Sprintf("step: %d images (%d on each actor), in micro-batches of %d", p.batch, p.batch/p.actors,
			c.MicroBatchSize),
		fmt.Sprintf("epoch: %d images, %d of success = %d steps", p.train.Len(), p.train.Successes(), p.stepsPer)}
	if p.valid != nil {
		lines = append(lines, fmt.Sprintf("evaluation: %d images, %d of success", p.valid.Len(), p.valid.Successes()))
	}
	return lines
}

func (p *plan) notes() (notes []string) {
	if r := &p.Config.Runner; r.EarlyStop.Enabled && r.SaveInterval <= 0 {
		notes = append(notes, fmt.Sprintf("runner.early_stop: the best model is lost: set runner.save_interval=%d",
			r.ValCheckInterval))
	}
	return notes
}

// memoryOf estimates the memory of rank r.
func (p *plan) memoryOf(r int) (f job.Footprint) {
	params := 4 * int64(p.blank.Params().Len())
	for range p.MembersOn("actor", r) {
		f.Parameters += 2 * params
		f.Optimiser += 2 * params
		f.Activations += p.blank.WorkBytes(p.Config.Actor.MicroBatchSize)
	}
	f.Texts = int64(p.train.Images.Len())
	if p.valid != nil {
		f.Texts += int64(p.valid.Images.Len())
	}
	return f
}

func memoryColumns() []job.FootprintColumn {
	return []job.FootprintColumn{
		{Name: "parameters", Bytes: func(f job.Footprint) int64 { return f.Parameters }},
		{Name: "optimiser", Bytes: func(f job.Footprint) int64 { return f.Optimiser }},
		{Name: "activations", Bytes: func(f job.Footprint) int64 { return f.Activations }},
		{Name: "frames", Bytes: func(f job.Footprint) int64 { return f.Texts }},
		{Name: "in all", Bytes: func(f job.Footprint) int64 { return f.Sum() + job.ProgramBytes }},
	}
}

// checkMemory returns an error if the ranks of a node need more memory than is available.
func (p *plan) checkMemory(nodes []int, node int, have job.Available) error {
	if need := job.NodeNeeds(nodes, node, p.memoryOf); need > have.Free {
		return fmt.Errorf("node %d needs %s for parameters, optimiser, activations and frames, and %v: expected a "+
			"smaller micro_batch_size or image_size", node, figures.MiB(need), have)
	}
	return nil
}

// work returns the work of an optimiser step.
func (p *plan) work() planner.Workload {
	bytes := 4 * int64(p.blank.Params().Len())
	return planner.Workload{Actors: p.actors, Samples: p.batch, OptimiserSteps: 1, SmallSums: 2, GradientBytes: bytes,
		BucketBytes: p.Config.Comm.BucketBytes, ModelBytes: bytes, WeightsEvery: 1, Staleness: -1,
		StepsPerEpoch: p.stepsPer}
}

// profile measures the optimiser steps of an actor, and sums over all actors.
func (p *plan) profile(ctx context.Context, a planner.ProbeOptions) (*planner.Profile, error) {
	f := &planner.Profile{Work: p.work()}
	net, err := p.load(tensor.Heap)
	if err != nil {
		return nil, err
	}
	c := &p.Config.Actor
	learner, err := algo.NewClassify(algo.ClassifySetup{Network: net, Optim: c.Optim, GlobalBatch: p.batch,
		MicroBatch: c.MicroBatchSize, Iterations: 1, Seed: c.Seed, Replicas: &probe.Counter{Actors: p.actors}})
	if err != nil {
		return nil, err
	}
	images, labels := make([]byte, learner.Local()*net.Image.Len()), make([]byte, learner.Local())
	newOrder(p).fill(images, labels, 0, 0)
	var update probe.CallSamples
	err = probe.Repeat(ctx, 3, 50, a.Budget/3, func(n int) error {
		start := time.Now()
		_, err := learner.Update(images, labels)
		if n > 0 { // the first step runs with cold caches
			update.Add(time.Since(start))
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	f.Costs = append(f.Costs, update.Cost(planner.OpUpdate, learner.Local()))
	return f, probe.AddSums(ctx, f, p.actors, a.World)
}
