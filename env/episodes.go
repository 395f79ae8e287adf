package env

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	"github.com/rlinf/rlinf/tensor"
)

// Episodes follows the running episode of environments [first, first+n) and keeps those that finish. Take alone may be called while another
// goroutine is at work with it.
type Episodes struct {
	first      int
	success    int // column of the Info "success", -1: none
	wrong      int // column of the Info "wrong_object", -1: none
	taskReward int // column of the Info TaskReward, -1: Reward is the task's own
	autoReset  bool

	ret      tensor.Tensor // F64 [n]: sum of the rewards so far
	length   tensor.Tensor // I64 [n]: steps so far
	once     tensor.Tensor // U8 [n]: success so far
	mistaken tensor.Tensor // U8 [n]: wrong_object so far
	over     tensor.Tensor // U8 [n]: the episode is done, and its environment idles

	mu       sync.Mutex
	finished []Episode
	taken    []Episode // by the last Take
}

// An Episode is one that finished.
type Episode struct {
	Env          int     // global index of its environment
	Len          int     // steps
	Return       float64 // sum of the task's own rewards
	SuccessOnce  bool    // a step said success; a chunk says what its last step says
	SuccessAtEnd bool    // the last step did
	WrongObject  bool    // a step said wrong_object: the task was done with another object than the one meant
}

// NewEpisodes returns an Episodes for n environments of the Spec that start an episode now; first is the global index of environment 0.
// autoReset says how they are stepped: with seeds, so that an episode follows the other, or without, so that they idle when done.
func NewEpisodes(spec Spec, first, n int, autoReset bool) *Episodes {
	return &Episodes{
		first: first, success: spec.InfoIndex("success"), wrong: spec.InfoIndex("wrong_object"), taskReward: spec.InfoIndex(TaskReward), autoReset: autoReset,
		ret: tensor.New(tensor.F64, n), length: tensor.New(tensor.I64, n),
		once: tensor.New(tensor.U8, n), mistaken: tensor.New(tensor.U8, n), over: tensor.New(tensor.U8, n),
		finished: make([]Episode, 0, 4*n), taken: make([]Episode, 0, 4*n),
	}
}

// Started says that a Reset with mask began new episodes; those that were running are dropped.
func (e *Episodes) Started(mask []bool) {
	for n := range e.over.U8() {
		if mask == nil || mask[n] {
			e.begin(n)
			e.over.U8()[n] = 0
		}
	}
}

// Observe adds one step of all environments.
func (e *Episodes) Observe(step *Step) {
	chunk := step.Reward.Dim(1)
	info, columns := step.Info.F32(), 0
	if len(info) > 0 {
		columns = step.Info.Dim(1)
	}
	for n, over := range e.over.U8() {
		if over != 0 {
			continue
		}
		steps, ended := step.Took(n)
		e.length.I64()[n] += int64(steps)
		if e.taskReward >= 0 && columns > 0 {
			e.ret.F64()[n] += float64(info[n*columns+e.taskReward])
		} else {
			for _, r := range step.Reward.F32()[n*chunk : n*chunk+steps] {
				e.ret.F64()[n] += float64(r)
			}
		}
		success := e.success >= 0 && columns > 0 && info[n*columns+e.success] != 0
		if success {
			e.once.U8()[n] = 1
		}
		if e.wrong >= 0 && columns > 0 && info[n*columns+e.wrong] != 0 {
			e.mistaken.U8()[n] = 1
		}
		if ended {
			e.finish(n, success)
		}
	}
}

func (e *Episodes) finish(n int, success bool) {
	e.mu.Lock()
	e.finished = append(e.finished, Episode{
		Env: e.first + n, Len: int(e.length.I64()[n]), Return: e.ret.F64()[n],
		SuccessOnce: e.once.U8()[n] != 0, SuccessAtEnd: success, WrongObject: e.mistaken.U8()[n] != 0,
	})
	e.mu.Unlock()
	e.begin(n)
	if !e.autoReset {
		e.over.U8()[n] = 1
	}
}

func (e *Episodes) begin(n int) {
	e.ret.F64()[n], e.length.I64()[n], e.once.U8()[n], e.mistaken.U8()[n] = 0, 0, 0, 0
}

// Take returns the episodes that finished since the last Take, in the order of (step, environment). They are valid until the next Take.
func (e *Episodes) Take() []Episode {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.finished, e.taken = e.taken[:0], e.finished
	return e.taken
}

// Save returns a copy of the running sums, leading dimension n. Episodes that nobody took are not in it.
func (e *Episodes) Save() (tensor.Dict, error) {
	var d tensor.Dict
	for _, f := range e.fields() {
		d.Set(f.name, f.Clone())
	}
	return d, nil
}

// Load puts back what Save returned.
func (e *Episodes) Load(state tensor.Dict) error {
	for _, f := range e.fields() {
		t, err := saved(state, f.name, f.Tensor)
		if err != nil {
			return err
		}
		f.CopyFrom(t)
	}
	return nil
}

type namedTensor struct {
	name string
	tensor.Tensor
}

func (e *Episodes) fields() []namedTensor {
	return []namedTensor{
		{"episodes.return", e.ret}, {"episodes.length", e.length}, {"episodes.success_once", e.once}, {"episodes.wrong_object", e.mistaken},
		{"episodes.over", e.over},
	}
}

// EpisodeWidth is the number of figures of an Episode in the rows that travel between ranks.
const EpisodeWidth = 6

// AppendRows appends the figures of episodes to rows, EpisodeWidth for each.
func AppendRows(rows []float64, episodes []Episode) []float64 {
	for _, e := range episodes {
		rows = append(rows, float64(e.Env), float64(e.Len), e.Return, float64(bit(e.SuccessOnce)), float64(bit(e.SuccessAtEnd)),
			float64(bit(e.WrongObject)))
	}
	return rows
}

// FromRows returns the episodes of AppendRows.
func FromRows(rows []float64) ([]Episode, error) {
	if len(rows)%EpisodeWidth != 0 {
		return nil, fmt.Errorf("episodes of %d figures, want a multiple of %d", len(rows), EpisodeWidth)
	}
	var episodes []Episode
	for r := range slices.Chunk(rows, EpisodeWidth) {
		episodes = append(episodes, Episode{
			Env: int(r[0]), Len: int(r[1]), Return: r[2], SuccessOnce: r[3] != 0, SuccessAtEnd: r[4] != 0, WrongObject: r[5] != 0,
		})
	}
	return episodes, nil
}

// A Summary holds the means over episodes that env/* and eval/* metrics report, under RLinf's names.
type Summary struct {
	NumTrajectories int     // episodes; 0: the means are 0
	Return          float64 // mean Return
	EpisodeLen      float64 // mean Len
	Reward          float64 // mean Return/Len
	SuccessOnce     float64 // share of episodes
	SuccessAtEnd    float64 // share of episodes
	WrongObject     float64 // share of episodes
}

// Summarize sorts episodes by environment, keeping the order of each one's, and sums in that order: the same figures wherever the
// environments were placed.
func Summarize(episodes []Episode) Summary {
	slices.SortStableFunc(episodes, func(a, b Episode) int { return cmp.Compare(a.Env, b.Env) })
	s := Summary{NumTrajectories: len(episodes)}
	for _, e := range episodes {
		s.Return += e.Return
		s.EpisodeLen += float64(e.Len)
		s.Reward += e.Return / float64(e.Len)
		s.SuccessOnce += float64(bit(e.SuccessOnce))
		s.SuccessAtEnd += float64(bit(e.SuccessAtEnd))
		s.WrongObject += float64(bit(e.WrongObject))
	}
	n := float64(max(len(episodes), 1))
	s.Return, s.EpisodeLen, s.Reward, s.SuccessOnce = s.Return/n, s.EpisodeLen/n, s.Reward/n, s.SuccessOnce/n
	s.SuccessAtEnd, s.WrongObject = s.SuccessAtEnd/n, s.WrongObject/n
	return s
}

func bit(b bool) byte {
	if b {
		return 1
	}
	return 0
}
