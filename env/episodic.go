package env

import (
	"fmt"

	"github.com/rlinf/rlinf/tensor"
)

// Episodic is a Vec made of a Simulator. It adds episodes to the dynamics of the Simulator.
type Episodic struct {
	sim    Simulator
	spec   Spec
	n      int
	ignore bool // if true, terminations do not end episodes
	sparse int  // column of Info that replaces the reward; -1 for none

	elapsed tensor.Tensor // I32 [N]: steps of the running episode
	over    tensor.Tensor // U8 [N]: flags terminated, truncated, needsReset; 0 while the episode runs
	info    tensor.Tensor // F32 [N,I]: figures of each environment's last step

	// Scratch memory of one step.
	wasOver    []bool
	ended      []bool
	turn       []Turn
	reward     []float32
	terminated []byte
	column     tensor.Tensor // [N,A]: one action of each chunk
}

var (
	_ Vec      = (*Episodic)(nil)
	_ Saver    = (*Episodic)(nil)
	_ Expert   = (*Episodic)(nil)
	_ Renderer = (*Episodic)(nil)
)

// Flags of an environment in Episodic.over.
const (
	terminated = 1 << iota
	truncated
	needsReset // there was no Reset yet
)

// NewEpisodic returns a Vec made of sim. It applies MaxEpisodeSteps, IgnoreTerminations and
// RewardMode of cfg. The Vec takes ownership of sim.
func NewEpisodic(sim Simulator, cfg Config) *Episodic {
	n, spec := sim.Len(), sim.Spec()
	if cfg.MaxEpisodeSteps > 0 {
		spec.MaxSteps = cfg.MaxEpisodeSteps
	}
	spec.Goal = spec.Goal.Under(cfg)
	e := &Episodic{
		sim: sim, spec: spec, n: n, ignore: cfg.IgnoreTerminations, sparse: -1,
		elapsed: tensor.New(tensor.I32, n),
		over:    tensor.New(tensor.U8, n),
		info:    tensor.New(tensor.F32, n, len(spec.Info)),
		wasOver: make([]bool, n), ended: make([]bool, n), turn: make([]Turn, n),
		reward: make([]float32, n), terminated: make([]byte, n),
		column: tensor.New(spec.Action.DType, n, spec.Action.Dim()),
	}
	if cfg.RewardMode == RewardOnlySuccess {
		e.sparse = spec.InfoIndex(Success)
	}
	for i := range e.over.U8() {
		e.over.U8()[i] = needsReset
	}
	return e
}

// Spec describes one environment.
func (e *Episodic) Spec() Spec { return e.spec }

// Len returns the number of environments.
func (e *Episodic) Len() int { return e.n }

// Reset starts new episodes; see Vec.
func (e *Episodic) Reset(mask []bool, seeds []uint64, out *Step) error {
	if err := e.spec.CheckReset(e.n, mask, seeds, out); err != nil {
		return err
	}
	for n := range e.n {
		if mask == nil || mask[n] {
			if err := e.begin(n, seeds[n]); err != nil {
				return err
			}
		}
	}
	e.sim.Observe(mask, out.Obs)
	return nil
}

func (e *Episodic) begin(n int, seed uint64) error {
	if err := e.sim.Reset(n, seed); err != nil {
		return fmt.Errorf("%s: reset environment %d with seed %d: %w", e.spec.Name, n, seed, err)
	}
	e.elapsed.I32()[n], e.over.U8()[n] = 0, 0
	return nil
}

// Step takes the actions of one chunk; see Vec.
func (e *Episodic) Step(action tensor.Dict, seeds []uint64, out *Step) error {
	a, err := e.spec.CheckStep(e.n, action, seeds, out)
	if err != nil {
		return err
	}
	chunk := a.Dim(1)
	out.Reward.Zero()
	out.Terminated.Zero()
	out.Truncated.Zero()
	out.Status.Zero()
	if chunk > 1 { // with one action every row is written
		out.Info.Zero()
	}
	over := e.over.U8()
	for n, f := range over {
		if f&needsReset != 0 {
			return fmt.Errorf("%s: step of environment %d before its first reset", e.spec.Name, n)
		}
		e.wasOver[n] = f != 0
		if f != 0 { // the episode was already over
			out.Terminated.U8()[n*chunk] = f & terminated
			out.Truncated.U8()[n*chunk] = f & truncated / truncated
			e.inform(out, n, n*chunk)
		}
	}
	for k := 0; k < chunk && e.takeTurns(); k++ {
		if err := e.sim.Step(e.actions(a, k), e.turn, e.reward, e.terminated, e.info.F32()); err != nil {
			return fmt.Errorf("%s: step: %w", e.spec.Name, err)
		}
		e.judge(out, k, chunk)
	}
	e.sim.Observe(nil, out.Obs)
	if seeds == nil {
		return nil
	}
	return e.renew(seeds, out)
}

// takeTurns sets the Turn of every environment, and counts the coming step of each running episode. It reports whether
// any episode is running.
func (e *Episodic) takeTurns() bool {
	over, elapsed, limit := e.over.U8(), e.elapsed.I32()[:e.n], int32(e.spec.MaxSteps)
	alive := false
	for n := range e.turn {
		if over[n] != 0 {
			e.turn[n] = Idle
			continue
		}
		elapsed[n]++
		e.turn[n] = Live
		if elapsed[n] == limit {
			e.turn[n] = Last
		}
		alive = true
	}
	return alive
}

// actions returns the actions number k of all chunks, as contiguous rows.
func (e *Episodic) actions(a tensor.Tensor, k int) tensor.Tensor {
	chunk := a.Dim(1)
	if chunk == 1 {
		return a
	}
	dst, src := e.column.Bytes(), a.Bytes()
	row := len(dst) / e.n
	for n := range e.n {
		from := (n*chunk + k) * row
		copy(dst[n*row:(n+1)*row], src[from:from+row])
	}
	return e.column
}

// judge writes the results of action k of the chunk, and marks the episodes that have ended.
func (e *Episodic) judge(out *Step, k, chunk int) {
	reward, term, trunc, over := out.Reward.F32(), out.Terminated.U8(), out.Truncated.U8(), e.over.U8()
	if chunk == 1 && !out.Info.IsZero() { // one copy of all rows is faster
		copy(out.Info.F32(), e.info.F32())
	}
	for n, turn := range e.turn {
		if turn == Idle {
			continue
		}
		i := n*chunk + k
		if chunk > 1 {
			e.inform(out, n, i)
		}
		reward[i] = e.reward[n]
		if e.sparse >= 0 {
			reward[i] = e.info.F32()[n*len(e.spec.Info)+e.sparse]
		}
		if e.terminated[n] != 0 && !e.ignore {
			term[i] = 1
			over[n] |= terminated
		}
		if turn == Last {
			trunc[i] = 1
			over[n] |= truncated
		}
	}
}

// inform copies the figures of environment n's last step to row i of the caller's Info. Without an Info it does
// nothing.
func (e *Episodic) inform(out *Step, n, i int) {
	if columns := len(e.spec.Info); !out.Info.IsZero() {
		copy(out.Info.F32()[i*columns:], e.info.F32()[n*columns:(n+1)*columns])
	}
}

// renew starts a new episode in each environment whose episode ended in this step.
func (e *Episodic) renew(seeds []uint64, out *Step) error {
	over, some := e.over.U8(), false
	for n := range e.ended {
		e.ended[n] = over[n] != 0 && !e.wasOver[n]
		some = some || e.ended[n]
	}
	if !some {
		return nil
	}
	copyRows(out.FinalObs, out.Obs, e.ended)
	for n, ended := range e.ended {
		if ended {
			if err := e.begin(n, seeds[n]); err != nil {
				return err
			}
		}
	}
	e.sim.Observe(e.ended, out.Obs)
	return nil
}

// Act fills action with the actions of the Simulator's expert.
func (e *Episodic) Act(action tensor.Tensor) error {
	if space := e.spec.Action; action.DType() != space.DType || action.Len() != e.n*space.Dim() {
		return fmt.Errorf("%s: expert's action: %v, expected %v[%d 1 %d]", e.spec.Name, action, space.DType, e.n,
			space.Dim())
	}
	return Act(e.sim, action)
}

// Close closes the Simulator.
func (e *Episodic) Close() error { return e.sim.Close() }

// Save returns the Simulator's state, and each episode's elapsed steps and flags.
func (e *Episodic) Save() (tensor.Dict, error) {
	state, err := Save(e.sim)
	if err != nil {
		return state, err
	}
	e.memory().save(&state)
	return state, nil
}

// Load puts back what Save returned.
func (e *Episodic) Load(state tensor.Dict) error {
	if err := e.memory().load(state); err != nil {
		return err
	}
	return Load(e.sim, state)
}

func (e *Episodic) memory() memory {
	m := memory{{"episode.elapsed", e.elapsed}, {"episode.over", e.over}}
	if len(e.spec.Info) > 0 {
		m = append(m, namedTensor{"episode.info", e.info})
	}
	return m
}

// Render draws the pictures of the Simulator.
func (e *Episodic) Render(view View, mask []bool, rgb tensor.Tensor) error {
	if err := Render(e.sim, view, mask, rgb); err != nil {
		return fmt.Errorf("%s: %w", e.spec.Name, err)
	}
	return nil
}

// copyRows copies the rows of src where mask is true into the tensors of the same names in dst.
func copyRows(dst, src tensor.Dict, mask []bool) {
	for i := range src.Len() {
		name, t := src.Entry(i)
		to, from := dst.Must(name).Bytes(), t.Bytes()
		row := len(from) / len(mask)
		for n, take := range mask {
			if take {
				copy(to[n*row:(n+1)*row], from[n*row:(n+1)*row])
			}
		}
	}
}
