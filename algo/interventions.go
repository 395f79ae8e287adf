package algo

import (
	"fmt"
	"strings"

	"github.com/rlinf/rlinf/internal/philox"
	"github.com/rlinf/rlinf/tensor"
)

// interventions are transitions in which a person acted: the part of a replica's demonstration buffer that grows. Each
// environment has a ring of them. Where the policy takes over again, the person's last transition is truncated, so that
// returns of several steps end there.
type interventions struct {
	rings  pool          // one for each environment
	all    tensor.Dict   // their memory, [envs, capacity, ...]
	cursor tensor.Tensor // I64 [envs, cursorLen]: the cursor of each ring, see Replay
	enough int           // number of added transitions at which learning begins
}

// newInterventions returns the interventions of a replica, or nil if the configuration or the environments have none.
func newInterventions(s *Setup) (*interventions, error) {
	window := s.Config.OffPolicy.Demos.SampleWindowSize
	if window == 0 || !s.brings(FieldIntervened) {
		return nil, nil
	}
	p, stacks := &interventions{cursor: tensor.New(tensor.I64, s.Envs, cursorLen)}, StacksOf(s.Policy)
	p.enough = max(s.Config.OffPolicy.Demos.MinBufferSize*s.Steps*s.Envs, 1)
	var err error
	if p.all, err = newRings(s.Rollout, stacks, s.Envs, window*s.Steps, s.Alloc); err != nil {
		return nil, err
	}
	for n := range s.Envs {
		r, err := replayIn(p.all.Slice(n, n+1), p.cursor.At(n), s.Rollout, stacks)
		if err != nil {
			return nil, err
		}
		p.rings = append(p.rings, r)
	}
	return p, nil
}

// add adds the transitions of a rollout, [T,N,...], in which a person acted.
func (p *interventions) add(rollout tensor.Dict) {
	intervened, status := rollout.Must(FieldIntervened), []byte(nil)
	if t, ok := rollout.Get(FieldStatus); ok {
		status = t.U8()
	}
	for n, r := range p.rings {
		for t := range intervened.Dim(0) {
			if at := t*len(p.rings) + n; intervened.U8()[at] != 0 && (status == nil || status[at] == normal) {
				r.push(rollout, t, n)
			} else {
				r.interrupt()
			}
		}
		r.findSize()
	}
}

// added returns the number of transitions that were ever added.
func (p *interventions) added() (n int) {
	for _, r := range p.rings {
		n += int(r.Total())
	}
	return n
}

// used returns how many places of a ring are in use for steps and for frames: the maximum over the environments.
func (p *interventions) used() (steps, frames int) {
	for _, r := range p.rings {
		c := r.cursor.I64()
		steps = max(steps, int(c[ringSize]))
		for _, f := range r.frames {
			frames = max(frames, f.used(int(c[ringNext])))
		}
	}
	return steps, frames
}

// interventionPrefix begins the names of the rings of interventions in saved states.
const interventionPrefix = "env.interventions."

// save adds views of the rings to d. For each ring it sets used, by name, to the number of places in use; see Replayer.
// steps and frames are at least what interventions.used returns.
func (p *interventions) save(d *tensor.Dict, used map[string]int, steps, frames int) {
	d.Set(interventionPrefix+"cursor", p.cursor)
	for i := range p.all.Len() {
		name, t := p.all.Entry(i)
		if name == FieldStatus { // it is normal in all of these steps
			continue
		}
		d.Set(interventionPrefix+name, t)
		used[interventionPrefix+name] = min(max(steps, 1), t.Dim(1)) // no tensor is empty
		if strings.HasPrefix(name, framesPrefix) {
			used[interventionPrefix+name] = min(max(frames, 1), t.Dim(1))
		}
	}
}

// load restores the state that save added to d.
func (p *interventions) load(d tensor.Dict) error {
	cursor, ok := d.Get(interventionPrefix + "cursor")
	if !ok || !cursor.SameShape(p.cursor) || cursor.DType() != tensor.I64 {
		return fmt.Errorf("%scursor is %v, expected %v", interventionPrefix, cursor, p.cursor)
	}
	for n, r := range p.rings {
		var own tensor.Dict
		own.Set("replay.cursor", cursor.At(n))
		for i := range d.Len() {
			name, t := d.Entry(i)
			if ring, ok := strings.CutPrefix(name, interventionPrefix); ok && t.Dim(0) == len(p.rings) {
				own.Set(replayPrefix+ring, t.Slice(n, n+1))
			}
		}
		if err := r.load(own); err != nil {
			return fmt.Errorf("interventions in environment %d of this replica: %w", n, err)
		}
	}
	return nil
}

// A pool is several Replays from which batches are drawn as if they were one. The transitions of all of them are
// numbered in one sequence. If there are several Replays, none of them has aborted episodes.
type pool []*Replay

// size returns the number of transitions that can be drawn.
func (p pool) size() (n int) {
	for _, r := range p {
		n += r.envs * r.Size()
	}
	return n
}

// draw fills rows with the numbers of random transitions; see Replay.Draw.
func (p pool) draw(rows []int32, s *philox.Stream) {
	if len(p) == 1 {
		p[0].Draw(rows, s)
		return
	}
	n := p.size()
	for i := range rows {
		rows[i] = int32(s.IntN(n))
	}
}

// gather copies transitions into b; see Replay.Gather.
func (p pool) gather(b *Transitions, rows []int32, nStep int, gamma float32, bootstrapAlways bool) error {
	if len(p) == 1 {
		return p[0].Gather(b, rows, nStep, gamma, bootstrapAlways)
	}
	for i, k := range rows {
		own, r := [1]int32{k}, 0
		for n := int32(p[r].envs * p[r].Size()); own[0] >= n; n = int32(p[r].envs * p[r].Size()) {
			own[0], r = own[0]-n, r+1
		}
		if err := p[r].gather(b, i, own[:], nStep, gamma, bootstrapAlways); err != nil {
			return err
		}
	}
	return nil
}
