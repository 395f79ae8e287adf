package env

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/rlinf/rlinf/tensor"
)

// Episodes tracks the running episodes of environments [first, first+n), and stores each episode
// when it finishes. Only Take is safe for concurrent use.
type Episodes struct {
	first      int
	success    int   // column of Success in Info; -1 if there is none
	wrong      int   // column of WrongObject in Info; -1 if there is none
	told       int   // column of ToldObject in Info; -1 if there is none
	task       int   // column of TaskNumber in Info; -1 if there is none
	taskReward int   // column of TaskReward in Info; -1 if Reward is the task's own
	figures    []int // columns of Info that this package does not interpret
	autoReset  bool

	ret        tensor.Tensor // F64 [n]: sum of the rewards so far
	length     tensor.Tensor // I64 [n]: steps so far
	hadSuccess tensor.Tensor // U8 [n]: a step of the episode had the figure Success
	hadWrong   tensor.Tensor // U8 [n]: a step of the episode had the figure WrongObject
	hadTold    tensor.Tensor // U8 [n]: a step of the episode had the figure ToldObject
	sums       tensor.Tensor // F64 [n, len(figures)]: sums of the figures so far
	summed     tensor.Tensor // I64 [n]: number of steps added to sums, counting repeated actions
	intervened tensor.Tensor // I64 [n, 2]: steps in which a person acted, and those whose action was clipped
	intervene  bool          // Spec.Intervene
	over       tensor.Tensor // U8 [n]: the episode is done, and its environment idles
	number     []int         // [n]: Episode.Task of the running episode
	failed     []bool        // [n]: the last episode was aborted, and no step has had status Normal since

	// OnEnd is called for each episode that finished or was aborted, within Observe. Its Info is valid only during the
	// call. nil calls nothing.
	OnEnd func(Episode)

	mu       sync.Mutex
	finished batch
	taken    batch // result of the last Take
}

// A batch holds episodes, and the memory of their Info.
type batch struct {
	episodes []Episode
	info     []float64
}

// An Episode holds the figures of an episode that finished or was aborted.
type Episode struct {
	Env          int       // global index of its environment
	Aborted      bool      // the simulator failed, and the figures below have no meaning
	Len          int       // steps
	Return       float64   // sum of the task's own rewards
	SuccessOnce  bool      // a step was a success
	SuccessAtEnd bool      // the last step was a success
	WrongObject  bool      // a step had the figure WrongObject
	ToldObject   bool      // a step had the figure ToldObject
	Intervened   int       // steps in which a person acted
	Clipped      int       // steps in which a person acted beyond the bounds of the space
	Task         int       // number of its task in Spec.Tasks, counted from 1; 0 if Spec.Tasks is nil
	Info         []float64 // for each name in Spec.Figures, the mean over the steps
}

// Figures returns the names in Info that this package does not interpret. Episodes report the means
// of these figures.
func (s Spec) Figures() []string {
	var names []string
	for _, i := range s.figures() {
		names = append(names, s.Info[i])
	}
	return names
}

// figures returns the columns of Info whose names Figures returns.
func (s Spec) figures() (columns []int) {
	for i, name := range s.Info {
		known := []string{Success, WrongObject, ToldObject, TaskReward}
		if !slices.Contains(known, name) && (name != TaskNumber || s.Tasks == nil) {
			columns = append(columns, i)
		}
	}
	return columns
}

// NewEpisodes returns an Episodes for n environments of the Spec, each at the start of an episode.
// Environment i has the global index first+i. If autoReset is true, the next episode follows at
// once. Otherwise an environment idles after its episode.
func NewEpisodes(spec Spec, first, n int, autoReset bool) *Episodes {
	figures := spec.figures()
	room := func() batch { return batch{make([]Episode, 0, 4*n), make([]float64, 0, 4*n*len(figures))} }
	task := -1
	if spec.Tasks != nil {
		task = spec.InfoIndex(TaskNumber)
	}
	return &Episodes{
		first: first, success: spec.InfoIndex(Success), wrong: spec.InfoIndex(WrongObject),
		told: spec.InfoIndex(ToldObject), task: task, taskReward: spec.InfoIndex(TaskReward), figures: figures,
		autoReset: autoReset, intervene: spec.Intervene, intervened: tensor.New(tensor.I64, n, 2),
		ret: tensor.New(tensor.F64, n), length: tensor.New(tensor.I64, n),
		hadSuccess: tensor.New(tensor.U8, n), hadWrong: tensor.New(tensor.U8, n), hadTold: tensor.New(tensor.U8, n),
		sums: tensor.New(tensor.F64, n, len(figures)), summed: tensor.New(tensor.I64, n),
		over: tensor.New(tensor.U8, n), number: make([]int, n), failed: make([]bool, n),
		finished: room(), taken: room(),
	}
}

// Started records that a Reset with mask began new episodes. It drops the episodes that were running in these
// environments.
func (e *Episodes) Started(mask []bool) {
	for n := range e.over.U8() {
		if mask == nil || mask[n] {
			e.begin(n)
			e.over.U8()[n], e.failed[n] = 0, false
		}
	}
}

// Observe adds one step of all environments.
func (e *Episodes) Observe(step *Step) {
	f, reward, status := step.flags(), step.Reward.F32(), step.Status.U8()
	ret, length := e.ret.F64(), e.length.I64()
	informs, columns := !step.Info.IsZero(), 0
	if informs {
		columns = step.Info.Dim(2)
	}
	for n, over := range e.over.U8() {
		if over != 0 {
			continue
		}
		steps, ended := f.took(n)
		if status != nil && status[n] != Normal {
			if status[n] == Aborted || !e.failed[n] { // an episode was running
				e.finish(n, false, true)
			}
			e.failed[n] = true
			continue
		}
		e.failed[n] = false
		length[n] += int64(steps)
		if e.taskReward < 0 || !informs {
			for _, r := range reward[n*f.chunk:][:steps] {
				ret[n] += float64(r)
			}
		}
		e.countInterventions(n, steps, step)
		success := false
		if informs {
			for info := step.infoOf(n, steps); len(info) > 0; info = info[columns:] {
				success = e.add(n, info)
			}
		}
		if ended {
			e.finish(n, success, false)
		}
	}
}

// countInterventions counts the steps of environment n in which a person acted.
func (e *Episodes) countInterventions(n, steps int, step *Step) {
	if step.Intervened.IsZero() {
		return
	}
	counts := e.intervened.I64()[2*n : 2*n+2]
	for _, x := range step.Intervened.U8()[n*step.Intervened.Dim(1):][:steps] {
		if x != 0 {
			counts[0]++
		}
		if x == Clipped {
			counts[1]++
		}
	}
}

// add adds the figures of one step of environment n, and reports whether the step was a success.
func (e *Episodes) add(n int, info []float32) (success bool) {
	has := func(column int) bool { return column >= 0 && info[column] != 0 }
	if e.taskReward >= 0 {
		e.ret.F64()[n] += float64(info[e.taskReward])
	}
	if success = has(e.success); success {
		e.hadSuccess.U8()[n] = 1
	}
	if has(e.wrong) {
		e.hadWrong.U8()[n] = 1
	}
	if has(e.told) {
		e.hadTold.U8()[n] = 1
	}
	if e.task >= 0 {
		e.number[n] = int(info[e.task]) + 1
	}
	if len(e.figures) > 0 {
		sums := e.sumsOf(n)
		for i, column := range e.figures {
			sums[i] += float64(info[column])
		}
		e.summed.I64()[n]++
	}
	return success
}

func (e *Episodes) finish(n int, success, aborted bool) {
	e.mu.Lock()
	f := &e.finished
	first := len(f.info)
	for _, sum := range e.sumsOf(n) {
		f.info = append(f.info, sum/float64(max(e.summed.I64()[n], 1)))
	}
	ended := Episode{
		Env: e.first + n, Aborted: aborted, Len: int(e.length.I64()[n]), Return: e.ret.F64()[n],
		SuccessOnce: e.hadSuccess.U8()[n] != 0, SuccessAtEnd: success, WrongObject: e.hadWrong.U8()[n] != 0,
		ToldObject: e.hadTold.U8()[n] != 0, Task: e.number[n],
		Intervened: int(e.intervened.I64()[2*n]), Clipped: int(e.intervened.I64()[2*n+1]),
		Info: slices.Clip(f.info[first:]),
	}
	f.episodes = append(f.episodes, ended)
	e.mu.Unlock()
	if e.OnEnd != nil {
		e.OnEnd(ended)
	}
	e.begin(n)
	if !e.autoReset {
		e.over.U8()[n] = 1
	}
}

func (e *Episodes) begin(n int) {
	e.ret.F64()[n], e.length.I64()[n], e.summed.I64()[n] = 0, 0, 0
	e.hadSuccess.U8()[n], e.hadWrong.U8()[n], e.hadTold.U8()[n] = 0, 0, 0
	clear(e.intervened.I64()[2*n : 2*n+2])
	clear(e.sumsOf(n))
}

// sumsOf returns the sums of figures of environment n.
func (e *Episodes) sumsOf(n int) []float64 {
	return e.sums.F64()[n*len(e.figures) : (n+1)*len(e.figures)]
}

// Take returns the episodes that finished or were aborted since the last Take, ordered by step, then by environment.
// They are valid until the next Take.
func (e *Episodes) Take() []Episode {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.finished, e.taken = batch{e.taken.episodes[:0], e.taken.info[:0]}, e.finished
	return e.taken.episodes
}

// Progress returns the steps and the return of environment n's episode so far. If the environment idles after its
// episode, Progress returns the final values until Take returns the episode.
func (e *Episodes) Progress(n int) (steps int, ret float64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.over.U8()[n] != 0 {
		for _, f := range slices.Backward(e.finished.episodes) {
			if f.Env == e.first+n {
				return f.Len, f.Return
			}
		}
	}
	return int(e.length.I64()[n]), e.ret.F64()[n]
}

// Save returns copies of the running sums, in tensors with leading dimension n. It leaves out
// finished episodes that Take has not returned.
func (e *Episodes) Save() (tensor.Dict, error) {
	var d tensor.Dict
	e.memory().save(&d)
	return d, nil
}

// Load restores what Save returned.
func (e *Episodes) Load(state tensor.Dict) error { return e.memory().load(state) }

func (e *Episodes) memory() memory {
	m := memory{{"episodes.return", e.ret}, {"episodes.length", e.length}, {"episodes.success_once", e.hadSuccess},
		{"episodes.over", e.over}}
	if e.wrong >= 0 {
		m = append(m, namedTensor{"episodes.wrong_object", e.hadWrong})
	}
	if e.told >= 0 {
		m = append(m, namedTensor{"episodes.told_object", e.hadTold})
	}
	if e.intervene {
		m = append(m, namedTensor{"episodes.intervened", e.intervened})
	}
	if len(e.figures) > 0 {
		m = append(m, namedTensor{"episodes.info", e.sums}, namedTensor{"episodes.told", e.summed})
	}
	return m
}

// episodeWidth is the number of figures that AppendRows writes for an episode besides Info.
const episodeWidth = 11

// AppendRows appends to rows one row of numbers for each episode. Such rows can be sent to other ranks.
func AppendRows(rows []float64, episodes []Episode) []float64 {
	for _, e := range episodes {
		rows = append(rows, float64(e.Env), float64(e.Len), e.Return, count(e.SuccessOnce), count(e.SuccessAtEnd),
			count(e.WrongObject), count(e.Aborted), count(e.ToldObject), float64(e.Task),
			float64(e.Intervened), float64(e.Clipped))
		rows = append(rows, e.Info...)
	}
	return rows
}

// FromRows is the inverse of AppendRows. infoLen is the length of each episode's Info. The episodes
// share the memory of rows.
func FromRows(rows []float64, infoLen int) ([]Episode, error) {
	width := episodeWidth + infoLen
	if len(rows)%width != 0 {
		return nil, fmt.Errorf("episodes of %d figures, expected a multiple of %d", len(rows), width)
	}
	var episodes []Episode
	for r := range slices.Chunk(rows, width) {
		episodes = append(episodes, Episode{
			Env: int(r[0]), Len: int(r[1]), Return: r[2], SuccessOnce: r[3] != 0, SuccessAtEnd: r[4] != 0,
			WrongObject: r[5] != 0, Aborted: r[6] != 0, ToldObject: r[7] != 0, Task: int(r[8]),
			Intervened: int(r[9]), Clipped: int(r[10]),
			Info: r[episodeWidth:],
		})
	}
	return episodes, nil
}

// A Summary holds statistics of episodes, which the metrics env/* and eval/* report under RLinf's
// names.
type Summary struct {
	NumTrajectories int     // episodes that finished; if 0, the means are 0
	NumLost         int     // aborted episodes; no mean includes them
	Return          float64 // mean Return
	ReturnStd       float64 // sample standard deviation of Return; 0 for one episode
	ReturnMin       float64 // lowest Return
	EpisodeLen      float64 // mean Len
	Reward          float64 // mean Return/Len
	SuccessOnce     float64 // share of episodes
	SuccessAtEnd    float64 // share of episodes
	WrongObject     float64 // share of episodes
	ToldObject      float64 // share of episodes
	IntervenedOnce  float64 // share of episodes in which a person acted
	IntervenedSteps float64 // mean number of steps in which a person acted
	ClippedSteps    float64 // mean number of steps in which a person acted beyond the bounds of the space
	// SuccessNoIntervened is the share of episodes that were a success without a person.
	SuccessNoIntervened float64
	ByTask              []OfTask  // for each of Spec.Tasks, up to the last task that occurred
	Info                []float64 // for each name in Spec.Figures, the mean; nil if no episode has figures
}

// An OfTask summarizes the episodes of one task.
type OfTask struct {
	NumTrajectories int     // episodes that finished; if 0, SuccessOnce is 0
	SuccessOnce     float64 // share of episodes
}

// Summarize returns the Summary of episodes. It first sorts the slice stably by environment, so that the rounding of
// the sums does not depend on the placement of the environments.
func Summarize(episodes []Episode) Summary {
	slices.SortStableFunc(episodes, func(a, b Episode) int { return cmp.Compare(a.Env, b.Env) })
	var s Summary
	for _, e := range episodes {
		if e.Aborted {
			s.NumLost++
			continue
		}
		s.NumTrajectories++
		s.Return += e.Return
		s.EpisodeLen += float64(e.Len)
		s.Reward += e.Return / float64(e.Len)
		s.SuccessOnce += count(e.SuccessOnce)
		s.SuccessAtEnd += count(e.SuccessAtEnd)
		s.WrongObject += count(e.WrongObject)
		s.ToldObject += count(e.ToldObject)
		s.IntervenedOnce += count(e.Intervened > 0)
		s.IntervenedSteps += float64(e.Intervened)
		s.ClippedSteps += float64(e.Clipped)
		s.SuccessNoIntervened += count(e.SuccessOnce && e.Intervened == 0)
		for len(s.ByTask) < e.Task {
			s.ByTask = append(s.ByTask, OfTask{})
		}
		if e.Task > 0 {
			s.ByTask[e.Task-1].NumTrajectories++
			s.ByTask[e.Task-1].SuccessOnce += count(e.SuccessOnce)
		}
		if s.Info == nil && len(e.Info) > 0 {
			s.Info = make([]float64, len(e.Info))
		}
		for i, x := range e.Info {
			s.Info[i] += x
		}
	}
	n := float64(max(s.NumTrajectories, 1))
	for _, mean := range []*float64{&s.Return, &s.EpisodeLen, &s.Reward, &s.SuccessOnce, &s.SuccessAtEnd,
		&s.WrongObject, &s.ToldObject, &s.IntervenedOnce, &s.IntervenedSteps, &s.ClippedSteps, &s.SuccessNoIntervened} {
		*mean /= n
	}
	for i := range s.Info {
		s.Info[i] /= n
	}
	for i := range s.ByTask {
		s.ByTask[i].SuccessOnce /= float64(max(s.ByTask[i].NumTrajectories, 1))
	}
	s.spread(episodes)
	return s
}

// spread computes ReturnStd and ReturnMin.
func (s *Summary) spread(episodes []Episode) {
	if s.NumTrajectories == 0 {
		return
	}
	s.ReturnMin = math.Inf(1)
	for _, e := range episodes {
		if !e.Aborted {
			s.ReturnMin = min(s.ReturnMin, e.Return)
			s.ReturnStd += (e.Return - s.Return) * (e.Return - s.Return)
		}
	}
	s.ReturnStd = math.Sqrt(s.ReturnStd / float64(max(s.NumTrajectories-1, 1)))
}

func count(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
