package external

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/tensor"
)

// A trial is the conversation with a child under test. Seeds and actions depend only on an
// environment's episode and step numbers, so that trials can be compared.
type trial struct {
	*conversation
	check   *checker
	stream  *stream
	episode []uint64 // episode number of each environment
	steps   []uint64 // number of steps of each environment, over all episodes
	alike   bool     // if true, all environments get the seeds and actions of environment 0
}

// An outcome is the result of one step of one environment.
type outcome struct {
	reward                float32
	terminated, truncated byte
	info                  []float32
	taken                 []tensor.Tensor // what a person did in place of the policy; nil if nobody acted
	// last are the observations after the step. If the step ended the episode, next are the first
	// observations of the next episode; otherwise next equals last
	last, next []tensor.Tensor
}

func (o outcome) over() bool { return o.terminated|o.truncated != 0 }

// configure calls conversation.configure with the checker's timeout. If s.n is 0, it uses the checker's number of
// environments.
func (t *trial) configure(s setup) error {
	s.n, s.before = cmp.Or(s.n, t.check.n), t.check.by()
	t.episode, t.steps = make([]uint64, s.n), make([]uint64, s.n)
	return t.conversation.configure(s)
}

// resetAll begins an episode in every environment.
func (t *trial) resetAll() error { return t.exchange(reset, 0, t.all()) }

// playAnew resets all environments and then calls play.
func (t *trial) playAnew(steps int, autoReset bool) ([][]outcome, error) {
	if err := t.resetAll(); err != nil {
		return nil, err
	}
	return t.play(steps, autoReset)
}

// play takes the given number of steps in every environment, and returns the outcomes of each environment.
func (t *trial) play(steps int, autoReset bool) ([][]outcome, error) {
	played := make([][]outcome, t.n)
	for range steps {
		if err := t.turn(t.all(), autoReset, played); err != nil {
			return nil, err
		}
	}
	return played, nil
}

// turn takes one step in the environments of mask, and appends their outcomes to played. An environment whose episode
// ends begins a new episode.
func (t *trial) turn(mask []byte, autoReset bool, played [][]outcome) error {
	flags := uint16(0)
	if autoReset {
		flags = flagAutoReset
	}
	for n := range t.episode {
		if mask[n] != 0 {
			t.act(n)
			t.steps[n]++
			t.episode[n]++ // for the seed that AUTORESET uses
		}
	}
	if err := t.keeping(step, flags, mask); err != nil {
		return err
	}
	ended, some := make([]byte, t.n), false
	for n := range t.episode {
		if mask[n] == 0 {
			continue
		}
		o := outcome{reward: t.reward[n], terminated: t.terminated[n], truncated: t.truncated[n],
			next: rowsOf(t.obs, n)}
		if !t.info.IsZero() {
			o.info = t.info.Slice(n, n+1).Clone().F32()
		}
		if t.intervened != nil && t.intervened[n] != 0 {
			o.taken = []tensor.Tensor{t.taken.Slice(n, n+1).Clone()}
		}
		o.last = o.next
		if !o.over() {
			t.episode[n]--
		} else if autoReset {
			o.last = rowsOf(t.final, n)
		} else {
			ended[n], some = 1, true
		}
		played[n] = append(played[n], o)
	}
	if !some {
		return nil
	}
	if err := t.keeping(reset, 0, ended); err != nil {
		return err
	}
	for n, e := range ended {
		if e != 0 {
			played[n][len(played[n])-1].next = rowsOf(t.obs, n)
		}
	}
	return nil
}

// keeping calls exchange, and returns an error if a row of an environment outside the mask changes.
func (t *trial) keeping(k kind, flags uint16, mask []byte) error {
	kept := make([][]tensor.Tensor, t.n)
	for n := range kept {
		if mask[n] == 0 {
			kept[n] = t.rows(n)
		}
	}
	if err := t.exchange(k, flags, mask); err != nil {
		return err
	}
	for n, before := range kept {
		for i, now := range t.rows(n) {
			if before != nil && string(before[i].Bytes()) != string(now.Bytes()) {
				return fmt.Errorf("%v changed %s of environment %d, whose mask is 0: from %s to %s", k,
					t.blocks.reply.Fields()[i].Name, n, text(before[i]), text(now))
			}
		}
	}
	return nil
}

// rows returns copies of the rows of environment n in the reply block, without final observations.
func (t *trial) rows(n int) []tensor.Tensor {
	var rows []tensor.Tensor
	reply := t.blocks.reply.Bind(t.memory.bytes[t.blocks.replyAt:])
	for i := range reply.Len() - len(t.final) {
		_, x := reply.Entry(i)
		rows = append(rows, x.Slice(n, n+1).Clone())
	}
	return rows
}

func rowsOf(all []tensor.Tensor, n int) []tensor.Tensor {
	var rows []tensor.Tensor
	for _, x := range all {
		rows = append(rows, x.Slice(n, n+1).Clone())
	}
	return rows
}

// exchange sends a RESET or a STEP for the environments in mask, with the seeds of their episodes, and receives the
// answer.
func (t *trial) exchange(k kind, flags uint16, mask []byte) error {
	copy(t.mask, mask)
	for n := range t.episode {
		t.seed[n] = int64(t.draw(n, t.episode[n], 1).Uint64())
	}
	if err := t.ask(k, flags, t.check.by()); err != nil {
		return fmt.Errorf("%v: %w", k, err)
	}
	if err := t.hear(t.check.by()); err != nil {
		return fmt.Errorf("%v: %w", k, err)
	}
	for n, m := range mask {
		if k == reset && m != 0 && t.reward[n] != 0 {
			return fmt.Errorf("RESET: reward of environment %d is %v, expected 0", n, t.reward[n])
		}
	}
	return nil
}

// draw returns a random generator for environment n. With purpose 1 it is for seed number i, and with purpose 2 for
// action number i.
func (t *trial) draw(n int, i, purpose uint64) *rand.Rand {
	if t.alike {
		n = 0
	}
	return rand.New(rand.NewPCG(uint64(n)<<8|purpose, i))
}

// act draws the next action of environment n, within the bounds and the action mask.
func (t *trial) act(n int) {
	r, space := t.draw(n, t.steps[n], 2), t.greeting.spec.Action
	dim := space.Dim()
	if space.Kind == env.Box {
		action := tensor.Of(t.action, tensor.F32, t.n, dim).F32()[n*dim:][:dim]
		for i := range action {
			low, high := space.Low[i], space.High[i]
			if math.IsInf(float64(low), 0) || math.IsInf(float64(high), 0) {
				low, high = max(low, min(high, 1)-2), min(high, max(low, -1)+2)
			}
			action[i] = min(max(low+r.Float32()*(high-low), low), high)
		}
		return
	}
	var allowed []byte
	for i, f := range t.greeting.spec.Obs {
		if f.Name == env.ActionMask {
			allowed = t.obs[i].Slice(n, n+1).U8()
		}
	}
	for i, choices := range space.Nvec {
		k := r.IntN(choices)
		if allowed != nil {
			for tries := 0; allowed[k] == 0 && tries < choices; tries++ {
				k = (k + 1) % choices
			}
			allowed = allowed[choices:]
		}
		tensor.Of(t.action, tensor.I32, t.n, dim).I32()[n*dim+i] = int32(k)
	}
}

// all returns the mask that selects all environments.
func (t *trial) all() []byte {
	mask := make([]byte, t.n)
	for n := range mask {
		mask[n] = 1
	}
	return mask
}

// compare returns an error that describes the first step whose outcome differs. A robot whose time passes by itself
// repeats no episode, so for a robot the rule does not apply.
func (t *trial) compare(got, want [][]outcome) error {
	f32 := func(x float32) tensor.Tensor { return tensor.FromF32([]float32{x}, 1) }
	u8 := func(x byte) tensor.Tensor { return tensor.FromU8([]byte{x}, 1) }
	for n := range got {
		for i := range got[n] {
			g, w := got[n][i], want[n][i]
			err := errors.Join(sameNumbers("reward", f32(g.reward), f32(w.reward)),
				sameNumbers("terminated", u8(g.terminated), u8(w.terminated)),
				sameNumbers("truncated", u8(g.truncated), u8(w.truncated)))
			if len(g.taken) != len(w.taken) {
				err = errors.Join(err, sameNumbers("intervened", u8(byte(len(g.taken))), u8(byte(len(w.taken)))))
			} else if len(g.taken) > 0 {
				err = errors.Join(err, sameNumbers("taken", g.taken[0], w.taken[0]))
			}
			for j, name := range t.greeting.Info {
				err = errors.Join(err, sameNumbers("info "+name, f32(g.info[j]), f32(w.info[j])))
			}
			for j, f := range t.greeting.spec.Obs {
				err = errors.Join(err, sameNumbers(f.Name, g.last[j], w.last[j]),
					sameNumbers(f.Name+" of the next episode", g.next[j], w.next[j]))
			}
			if err != nil && t.greeting.Period > 0 {
				return notSpoken(fmt.Sprintf("a robot in real time repeats no episode: environment %d differs "+
					"in step %d", n, i))
			}
			if err != nil {
				return fmt.Errorf("environment %d, step %d: %w", n, i, err)
			}
		}
	}
	return nil
}

func sameNumbers(what string, got, want tensor.Tensor) error {
	if string(got.Bytes()) == string(want.Bytes()) {
		return nil
	}
	return fmt.Errorf("%s is %s, expected %s", what, text(got), text(want))
}

// text returns the first numbers of t as text.
func text(t tensor.Tensor) string {
	const most = 8
	dots := ""
	if t.Len() > most {
		dots = " …"
	}
	n := min(t.Len(), most)
	var numbers any
	switch t.DType() {
	case tensor.F32:
		numbers = t.F32()[:n]
	case tensor.I32:
		numbers = t.I32()[:n]
	default:
		numbers = t.U8()[:n]
	}
	return fmt.Sprint(numbers) + dots
}

// explain adds the exit status and the last output of the child to err, unless err is nil.
func (t *trial) explain(err error) error {
	var skipped notSpoken
	if err == nil || errors.As(err, &skipped) {
		return err
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = fmt.Errorf("%w (after %v, --timeout)", err, t.check.Timeout)
	}
	return fmt.Errorf("%w%s%s", err, t.proc.fate(err), t.proc.outputTail()) // the child's output is in no log
}
