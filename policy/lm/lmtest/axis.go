// Package lmtest answers: how do tests run the parts of a language model on goroutines?
package lmtest

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/rlinf/rlinf/policy/lm"
	"github.com/rlinf/rlinf/tensor"
)

var _ lm.Axis = (*Axis)(nil)

// A meeting exchanges data among goroutines, which stand for ranks. Each goroutine contributes a slice and gets the
// slices of all goroutines.
type meeting struct {
	size    int
	mu      sync.Mutex
	arrived sync.Cond
	brought [][]byte
	count   int
	round   int
}

// An Axis is an lm.Axis of goroutines.
type Axis struct {
	*meeting
	index int
	Calls int // number of calls so far
}

// NewAxes returns an Axis for each of n goroutines.
func NewAxes(n int) []*Axis {
	m := &meeting{size: n, brought: make([][]byte, n)}
	m.arrived.L = &m.mu
	all := make([]*Axis, n)
	for i := range all {
		all[i] = &Axis{meeting: m, index: i}
	}
	return all
}

// Size returns the number of goroutines.
func (a *Axis) Size() int { return a.size }

// Index returns the index of this goroutine.
func (a *Axis) Index() int { return a.index }

// exchange contributes b, and returns copies of the slices of all ranks.
func (a *Axis) exchange(b []byte) [][]byte {
	a.Calls++
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.count == 0 {
		a.brought = make([][]byte, a.size)
	}
	a.brought[a.index] = slices.Clone(b)
	all, round := a.brought, a.round
	if a.count++; a.count == a.size {
		a.count, a.round = 0, round+1
		a.arrived.Broadcast()
	}
	for a.round == round {
		a.arrived.Wait()
	}
	return all
}

// tree sets x to the sum of parts, the slices of all ranks, added as a binary tree.
func tree[T float32 | float64](x []T, parts [][]T) {
	for half := 1; half < len(parts); half *= 2 {
		for i := 0; i+half < len(parts); i += 2 * half {
			for j := range parts[i] {
				parts[i][j] += parts[i+half][j]
			}
		}
	}
	copy(x, parts[0])
}

// Sum replaces x with the sum of x over the goroutines, added as a binary tree.
func (a *Axis) Sum(x []float32) error {
	var all [][]float32
	for _, b := range a.exchange(tensor.FromF32(x, len(x)).Bytes()) {
		if len(b) != 4*len(x) {
			return fmt.Errorf("a sum of %d bytes, others have %d", 4*len(x), len(b))
		}
		all = append(all, slices.Clone(tensor.Of(b, tensor.F32, len(x)).F32()))
	}
	tree(x, all)
	return nil
}

// Sum64 is Sum for float64.
func (a *Axis) Sum64(x []float64) error {
	var all [][]float64
	for _, b := range a.exchange(tensor.FromF64(x, len(x)).Bytes()) {
		all = append(all, slices.Clone(tensor.Of(b, tensor.F64, len(x)).F64()))
	}
	tree(x, all)
	return nil
}

// Gather fills x with the blocks of all goroutines.
func (a *Axis) Gather(x []float32, counts []int) error {
	at := 0
	for i, n := range counts {
		if i == a.index {
			for j, b := range a.exchange(tensor.FromF32(x[at:at+n], n).Bytes()) {
				first := 0
				for _, k := range counts[:j] {
					first += k
				}
				if len(b) != 4*counts[j] {
					return errors.New("another rank has another count")
				}
				copy(x[first:], tensor.Of(b, tensor.F32, counts[j]).F32())
			}
		}
		at += n
	}
	return nil
}

// A Pipe is an lm.Pipe of goroutines.
type Pipe struct {
	*Axis
	queues [][]chan []float32 // [from][to]
}

var _ lm.Pipe = (*Pipe)(nil)

// Send sends a copy of x.
func (p *Pipe) Send(to int, x []float32) error {
	p.Calls++
	p.queues[p.index][to] <- slices.Clone(x)
	return nil
}

// Recv fills x with the next message.
func (p *Pipe) Recv(from int, x []float32) error {
	got := <-p.queues[from][p.index]
	if copy(x, got); len(got) != len(x) {
		return fmt.Errorf("a message of %d numbers, expected %d", len(got), len(x))
	}
	return nil
}

// Flush does nothing.
func (p *Pipe) Flush() error { return nil }

// NewPipes returns a Pipe for each of n goroutines. Each pair of goroutines has at most one message in flight per
// direction.
func NewPipes(n int) []*Pipe {
	pipes, queues := make([]*Pipe, n), make([][]chan []float32, n)
	for i := range queues {
		queues[i] = make([]chan []float32, n)
		for j := range queues[i] {
			queues[i][j] = make(chan []float32, 1)
		}
	}
	for i, a := range NewAxes(n) {
		pipes[i] = &Pipe{a, queues}
	}
	return pipes
}

// NewMeshes returns a Mesh for each of size × stages goroutines. Every stage has size goroutines. They split the layers
// of the stage, and have consecutive indices in the result.
func NewMeshes(size, stages int) []lm.Mesh {
	meshes := make([]lm.Mesh, size*stages)
	for s := range stages {
		for i, a := range NewAxes(size) {
			meshes[s*size+i].Layer = a
		}
	}
	for i := range size {
		for s, p := range NewPipes(stages) {
			meshes[s*size+i].Stages = p
		}
	}
	return meshes
}

// Run calls rank(0) to rank(n-1) on n goroutines at the same time. It returns the first error, with the number of its
// goroutine. After an error it does not wait for the other goroutines, because they may wait for the goroutine that has
// failed.
func Run(n int, rank func(i int) error) error {
	ended := make(chan error, n)
	for i := range n {
		go func() {
			err := errors.New("the test has ended here")
			defer func() {
				if err != nil {
					err = fmt.Errorf("rank %d: %w", i, err)
				}
				ended <- err
			}()
			err = rank(i)
		}()
	}
	for range n {
		if err := <-ended; err != nil {
			return err
		}
	}
	return nil
}
