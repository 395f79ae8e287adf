package algo

import (
	"fmt"
	"math"

	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/policy/resnet"
	"github.com/rlinf/rlinf/tensor"
)

// Classify trains a classifier of images by the binary cross-entropy of its logits z and the labels y. One update is
// one optimiser step on B images of all replicas:
//
//	loss = Σ (log(1 + e^z) - y z) / B
//
// In training, normalisation layers use the statistics of each micro-batch. These are summed over the replicas to
// update the running statistics. Metrics, over all replicas: sft/loss, sft/accuracy (share of images whose probability
// is on the right side of ½), sft/images = B, actor/lr, actor/grad_norm.
type Classify struct {
	net      *resnet.Classifier
	work     *resnet.ClassifierWork
	train    *trainState
	replicas Replicas
	batch    batchSizes
	seed     uint64
	stats    []float64
	sums     [2]float64
	counters tensor.Tensor // I64 [1]: updates made
	progress Progress
}

// ClassifySetup has all inputs for making a Classify.
type ClassifySetup struct {
	Network                 *resnet.Classifier // its Params are trained
	Optim                   OptimConfig
	GlobalBatch, MicroBatch int // images of an optimiser step over all replicas, and images computed at once
	Iterations              int // length of the run, for schedules that end with it
	Seed                    uint64
	Replicas                Replicas         // nil means Single
	Alloc                   tensor.Allocator // memory of the optimiser; nil means tensor.Heap
	Progress                Progress         // of Update; may be nil
}

// NewClassify makes a Classify of a network that has its initial parameters.
func NewClassify(s ClassifySetup) (*Classify, error) {
	common := Setup{Iterations: s.Iterations, Replicas: s.Replicas, Alloc: s.Alloc, GlobalBatch: s.GlobalBatch,
		MicroBatch: s.MicroBatch}
	common.setDefaults()
	count, _ := common.Replicas.Count()
	batch, err := common.batches(count)
	if err != nil {
		return nil, fmt.Errorf("classify: %w", err)
	}
	train, err := common.newTrainState(s.Network.Params(), s.Optim)
	if err != nil {
		return nil, fmt.Errorf("classify: %w", err)
	}
	return &Classify{net: s.Network, work: s.Network.NewWork(batch.micro), train: train, replicas: common.Replicas,
		batch: batch, seed: s.Seed, stats: make([]float64, s.Network.StatsLen()), counters: tensor.New(tensor.I64, 1),
		progress: s.Progress}, nil
}

// Local returns the number of images of an update on this replica.
func (c *Classify) Local() int { return c.batch.local }

// Update makes one optimiser step on this replica's images, [B/replicas,H,W,3], and labels, 0 or 1.
func (c *Classify) Update(images, labels []byte) (m Metrics, err error) {
	each, micro := c.net.Image.Len(), c.batch.micro
	iteration := int(c.counters.I64()[0])
	_, replica := c.replicas.Count()
	first := uint64(iteration)*uint64(c.batch.global) + uint64(replica*c.batch.local)
	c.train.open()
	c.sums = [2]float64{}
	for lo := 0; lo < c.batch.local; lo += micro {
		c.progress.Report(workUpdate, lo, c.batch.local)
		drop := nn.Drop{On: true, Seed: c.seed, First: first + uint64(lo)}
		z := c.net.Train(c.work, images[lo*each:(lo+micro)*each], micro, drop)
		d := c.net.Grad(c.work)
		for i, y := range labels[lo : lo+micro] {
			loss, p := crossEntropy(z[i], y)
			c.sums[0] += loss
			if (z[i] > 0) == (y != 0) {
				c.sums[1]++
			}
			d[i] = float32((p - float64(y)) / float64(c.batch.global))
		}
		c.net.Backward(c.work, c.train.readyAt(lo+micro == c.batch.local))
	}
	c.progress.Report(workUpdate, c.batch.local, c.batch.local)
	if err := c.train.step(iteration); err != nil {
		return m, err
	}
	c.counters.I64()[0]++
	clear(c.stats)
	c.net.AddStats(c.stats, c.work)
	if err := c.replicas.Sum(c.stats); err != nil {
		return m, fmt.Errorf("statistics of batches: %w", err)
	}
	c.net.MergeStats(c.stats)
	if err := c.replicas.Sum(c.sums[:]); err != nil {
		return m, err
	}
	lr, _ := c.train.adam.LR(iteration)
	m.add("sft/loss", c.sums[0]/float64(c.batch.global))
	m.add("sft/accuracy", c.sums[1]/float64(c.batch.global))
	m.add("sft/images", float64(c.batch.global))
	m.add("actor/lr", lr)
	m.add("actor/grad_norm", c.train.meanNorm())
	return m, nil
}

// crossEntropy returns log(1 + e^z) - y z, and the probability σ(z).
func crossEntropy(z float32, y byte) (loss, p float64) {
	x := float64(z)
	loss = max(x, 0) + math.Log1p(math.Exp(-math.Abs(x)))
	if y != 0 {
		loss -= x
	}
	return loss, 1 / (1 + math.Exp(-x))
}

// Evaluate measures the classifier on this replica's images and labels, and returns the sums over all replicas.
// Normalisation layers use their running statistics.
func (c *Classify) Evaluate(images, labels []byte) (s ClassifySums, err error) {
	s.Measure(c.net, c.work, c.batch.micro, images, labels)
	return s, c.replicas.Sum(s[:])
}

// Thresholds are probabilities. For each of them, ClassifySums counts the images whose probability is higher.
var Thresholds = [...]float64{0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99}

// ClassifySums holds sums over images: the loss, and the numbers of right answers at ½, of images of success and of
// images of failure. For each of Thresholds, it holds the numbers of images of success and of failure above the
// threshold.
type ClassifySums [4 + 2*len(Thresholds)]float64

// Measure adds the results of images to s. It computes micro images at a time.
func (s *ClassifySums) Measure(net *resnet.Classifier, w *resnet.ClassifierWork, micro int, images, labels []byte) {
	each := net.Image.Len()
	for lo := 0; lo < len(labels); lo += micro {
		hi := min(lo+micro, len(labels))
		for i, z := range net.Logits(w, images[lo*each:hi*each], hi-lo) {
			y := labels[lo+i]
			loss, p := crossEntropy(z, y)
			s[0] += loss
			if (z > 0) == (y != 0) {
				s[1]++
			}
			s[3-int(y)]++
			for k, t := range Thresholds {
				if p > t {
					s[4+2*k+1-int(y)]++
				}
			}
		}
	}
}

// Metrics returns the mean loss and the share of right answers. At threshold ½, it also returns found, the share of
// successes that are recognised, and false_alarms, the share of failures taken for successes. A share of no images is
// 0.
func (s *ClassifySums) Metrics() (m Metrics) {
	n := max(s[2]+s[3], 1)
	found, alarms := s.shares(5)
	m.add("loss", s[0]/n)
	m.add("accuracy", s[1]/n)
	m.add("found", found)
	m.add("false_alarms", alarms)
	return m
}

// shares returns the share of success images above threshold k, and the share of failure images above it.
func (s *ClassifySums) shares(k int) (found, alarms float64) {
	return s[4+2*k] / max(s[2], 1), s[4+2*k+1] / max(s[3], 1)
}

// Table returns a heading, then a line for each threshold with the shares of found successes and of false alarms.
func (s *ClassifySums) Table() []string {
	lines := []string{fmt.Sprintf("threshold  found of %-6.0f  false alarms of %.0f", s[2], s[3])}
	for k, t := range Thresholds {
		found, alarms := s.shares(k)
		lines = append(lines, fmt.Sprintf("%9g  %15.4f  %18.4f", t, found, alarms))
	}
	return lines
}

// Save returns views of the optimiser's state and the counter of updates; see SFT.Save.
func (c *Classify) Save() tensor.Dict {
	var d tensor.Dict
	d.Set("counters", c.counters)
	c.train.save(&d, "actor", false)
	return d
}
