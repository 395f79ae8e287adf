package algo

import (
	"fmt"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/internal/durable"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/tensor"
)

// DemoConfig is the section algorithm.demo_buffer. Demonstrations are transitions of another policy or of a person.
// Algorithms that learn only from demonstrations need this section. Algorithms with a replay buffer draw half of each
// batch from the demonstrations (RLPD, Ball et al. 2023, arXiv:2302.02948).
type DemoConfig struct {
	// LoadPath is the safetensors file of demonstrations (docs/demonstrations.md), or a folder of LeRobot
	// (docs/datasets.md). Empty, the default, means no demonstrations.
	LoadPath string `yaml:"load_path"`
	// Names maps a field of demonstrations (observation.NAME, action, reward, terminated) to a column of a folder of
	// LeRobot. By default a field is in the column of its name, an image in observation.images.NAME, a reward in
	// next.reward, and terminated in next.done. (+)
	Names map[string]string `yaml:"names"`
	// SampleWindowSize is the room for transitions in which a person acts, in iterations: as many transitions as these
	// iterations bring. Such transitions become demonstrations, and stay in the replay buffer, too. New ones replace
	// the oldest, but never those of LoadPath. 0, the default, means that they do not become demonstrations.
	SampleWindowSize int `yaml:"sample_window_size"`
	// MinBufferSize is the number of iterations for whose transitions learning waits, if there is no LoadPath: it
	// begins when people have acted in as many transitions on every actor, and in at least one. Default 1.
	MinBufferSize int `yaml:"min_buffer_size"`
	// FPS is the number of frames per second that a LeRobot folder must have. 0, the default, means any number. (+)
	FPS float64 `yaml:"fps"`
	// ValidationShare is the share of the transitions, in [0, 1), that embodied_bc sets aside for validation. These are
	// the last episodes: embodied_bc measures its loss on them, but does not learn from them. Default 0. (+)
	ValidationShare float32 `yaml:"validation_share"`
}

// Check validates each field.
func (c *DemoConfig) Check(want Want) {
	want(c.ValidationShare >= 0 && c.ValidationShare < 1, "demo_buffer.validation_share", c.ValidationShare,
		"a number in [0, 1)")
	want(c.SampleWindowSize >= 0, "demo_buffer.sample_window_size", c.SampleWindowSize, "a number of iterations >= 0")
	want(c.MinBufferSize >= 0 && (c.SampleWindowSize <= 0 || c.MinBufferSize <= c.SampleWindowSize),
		"demo_buffer.min_buffer_size", c.MinBufferSize,
		fmt.Sprintf("a number of iterations in [0, %d], up to sample_window_size", max(c.SampleWindowSize, 0)))
	want(c.FPS >= 0, "demo_buffer.fps", c.FPS, "a number of frames per second, or 0 for any")
}

// ReadDemos reads a safetensors file of M > 0 transitions, in order of time, one episode after the other. A transition
// has C actions of A numbers:
//
//	observation.<name>       [M,...]     before the step, for every observation of the environment
//	next_observation.<name>  [M,...]     after the step, before any reset
//	action                   [M,C,A]     as the environment received it
//	reward                   F32 [M]
//	terminated, truncated    U8 [M]      the episode ended by itself; it was cut off from outside
//
// The shapes and types in the file must agree with the given fields of rollouts, [T,N,...]. ReadDemos ignores other
// tensors of the file. If rollouts have chunks of actions and the file has single actions, each transition begins a
// chunk; see inChunks.
func ReadDemos(path string, fields []tensor.Field) (tensor.Dict, error) {
	var demos tensor.Dict
	b, err := durable.ReadFile(path, durable.NoSize)
	if err != nil {
		return demos, err
	}
	all, _, err := tensor.ReadSafetensors(b)
	if err != nil {
		return demos, fmt.Errorf("%s: %w", path, err)
	}
	b = nil
	debug.FreeOSMemory() // free the file's bytes: a file may be half as large as memory
	if demos, err = TakeDemos(all, fields); err != nil {
		return demos, fmt.Errorf("%s: %w", path, err)
	}
	return demos, nil
}

// TakeDemos is ReadDemos for tensors that are in memory, from a file or from another source.
func TakeDemos(all tensor.Dict, fields []tensor.Field) (demos tensor.Dict, err error) {
	reward, ok := all.Get(FieldReward)
	if !ok || reward.Rank() != 1 || reward.Dim(0) == 0 {
		return demos, fmt.Errorf("reward is %v: expected F32[M] of M > 0 transitions", reward)
	}
	m := reward.Dim(0)
	all, left, err := inChunks(all, fields)
	if err != nil {
		return demos, err
	}
	for _, f := range fields {
		if f.Name == FieldStatus { // demonstrations have no aborted episodes
			continue
		}
		shape := append([]int{m}, f.Shape[2:]...)
		t, ok := all.Get(f.Name)
		if !ok && f.Name == FieldIntervened { // nobody intervened
			t, ok = tensor.New(f.DType, shape...), true
		}
		if !ok {
			return demos, fmt.Errorf("no tensor %s: expected %v%v", f.Name, f.DType, shape)
		}
		if t.DType() != f.DType || !slices.Equal(t.Shape(), shape) {
			return demos, fmt.Errorf("%s is %v: expected %v%v, as this environment has it in %d transitions", f.Name,
				t, f.DType, shape, m)
		}
		if f.DType == tensor.F32 {
			for i, x := range t.F32() {
				if bad(x) {
					return demos, fmt.Errorf("%s is %v in transition %d: expected finite numbers", f.Name, x,
						i/(t.Len()/m))
				}
			}
		}
		isFlag := f.Name == FieldTerminated || f.Name == FieldTruncated || f.Name == FieldIntervened ||
			strings.HasSuffix(f.Name, "."+policy.ActionMask)
		if i := slices.IndexFunc(t.Bytes(), func(b byte) bool { return isFlag && b > 1 }); i >= 0 {
			return demos, fmt.Errorf("%s is %d in transition %d: expected 0 or 1", f.Name, t.Bytes()[i], i/(t.Len()/m))
		}
		demos.Set(f.Name, t)
	}
	if !left.IsZero() {
		demos.Set(leftName, left)
	}
	return demos, nil
}

// leftName is the name of a tensor, I32 [M], that only chunks cut from single actions have. It holds the number of
// transitions that follow in the episode.
const leftName = "left"

// inChunks turns M transitions with single actions into M transitions with chunks of C actions. It does so only if
// fields have chunks and demos have single actions. A chunk holds the action of its transition and the C-1 actions that
// follow in the episode. After the end of the episode the chunk repeats the last action. The reward of the chunk is the
// sum of their rewards. The chunk takes the next observations, terminated and truncated from the last of these
// transitions. Such chunks overlap: the next chunk that shares no action with a chunk begins C transitions later. left
// is the tensor called leftName. If demos are returned unchanged, left is the zero Tensor.
func inChunks(demos tensor.Dict, fields []tensor.Field) (chunks tensor.Dict, left tensor.Tensor, err error) {
	i := slices.IndexFunc(fields, func(f tensor.Field) bool { return f.Name == FieldAction })
	action, ok := demos.Get(FieldAction)
	if i < 0 || !ok || action.Rank() != 3 || action.Dim(1) != 1 || fields[i].Shape[2] == 1 {
		return demos, left, nil
	}
	m, c := action.Dim(0), fields[i].Shape[2]
	terminated, ok1 := demos.Get(FieldTerminated)
	truncated, ok2 := demos.Get(FieldTruncated)
	reward := demos.Must(FieldReward)
	if !ok1 || !ok2 || terminated.Len() != m || truncated.Len() != m || reward.Len() != m ||
		reward.DType() != tensor.F32 || terminated.DType() != tensor.U8 || truncated.DType() != tensor.U8 {
		return demos, left, fmt.Errorf("%d actions: expected reward F32, terminated and truncated U8 of as many", m)
	}
	last := lastOfEpisodes(demos) // the loop below changes it to the last transition of each chunk
	left = tensor.New(tensor.I32, m)
	for t, end := range last {
		left.I32()[t], last[t] = int32(end-t), min(t+c-1, end)
	}
	for i := range demos.Len() {
		name, t := demos.Entry(i)
		if t.Rank() == 0 || t.Dim(0) != m {
			continue
		}
		size := len(t.Bytes()) / m
		switch {
		case name == FieldAction:
			actions := tensor.New(t.DType(), m, c, t.Dim(2))
			for i := range m * c {
				copy(actions.Bytes()[i*size:][:size], t.Bytes()[min(i/c+i%c, last[i/c])*size:])
			}
			t = actions
		case name == FieldReward:
			sums := tensor.New(tensor.F32, m)
			for i := range m {
				for k := i; k <= last[i]; k++ {
					sums.F32()[i] += t.F32()[k]
				}
			}
			t = sums
		case name == FieldIntervened && size == 1:
			any := tensor.New(tensor.U8, m)
			for i := range m {
				any.U8()[i] = slices.Max(t.Bytes()[i : last[i]+1])
			}
			t = any
		case name == FieldTerminated || name == FieldTruncated || strings.HasPrefix(name, NextObservations+"."):
			ends := tensor.New(t.DType(), t.Shape()...)
			for i := range m {
				copy(ends.Bytes()[i*size:][:size], t.Bytes()[last[i]*size:])
			}
			t = ends
		}
		chunks.Set(name, t)
	}
	return chunks, left, nil
}

// lastOfEpisodes returns, for each transition, the index of the last transition of its episode. If chunks were cut from
// single actions, it returns the first transition of the episode whose chunk holds the last action.
func lastOfEpisodes(demos tensor.Dict) []int {
	terminated, truncated := demos.Must(FieldTerminated).U8(), demos.Must(FieldTruncated).U8()
	last := make([]int, len(terminated))
	end := len(last) - 1
	for t := end; t >= 0; t-- {
		if terminated[t]|truncated[t] != 0 {
			end = t
		}
		last[t] = end
	}
	return last
}

// FitDemos checks demonstrations for a policy or an environment. Each choice in observations and actions must be an
// option of its space. The action mask of a transition must allow its actions. The error names the first transition
// that does not fit. After the last step of an episode, no action follows: if the mask of this next observation forbids
// all options of a choice, FitDemos changes the mask to allow all options, as environments do.
func FitDemos(demos tensor.Dict, to policy.Spaced) error {
	obs, space := to.Spaces()
	for _, prefix := range []string{Observations, NextObservations} {
		for _, f := range obs {
			name := prefix + "." + f.Name
			if t, ok := demos.Get(name); !ok {
				continue
			} else if f.Name == policy.ActionMask {
				if k := fitMasks(demos, t, to, prefix == NextObservations); k >= 0 {
					return fmt.Errorf("%s of transition %d allows no option of a choice: expected at least one", name,
						k)
				}
			} else if f.DType == tensor.I32 {
				if i := f.Outside(t.I32()); i >= 0 {
					low, high := f.Range(i % f.Dim())
					return fmt.Errorf("%s is %d in transition %d: expected %.0f to %.0f", name, t.I32()[i], i/f.Dim(),
						low, high)
				}
			}
		}
	}
	action, ok := demos.Get(FieldAction)
	if !ok || len(space.Nvec) == 0 {
		return nil
	}
	mask, _ := demos.Get(Observations + "." + policy.ActionMask)
	i, err := policy.CheckChoices(space, action, mask.U8())
	if err == nil {
		return nil
	}
	k, after := i/(action.Len()/action.Dim(0)), i/len(space.Nvec)%action.Dim(1)
	if _, cut := demos.Get(leftName); cut && after > 0 { // the file has single actions
		return fmt.Errorf("action is %d in transition %d, in the chunk that begins in transition %d: %w",
			action.I32()[i], k+after, k, err)
	}
	return fmt.Errorf("action is %d in transition %d: %w", action.I32()[i], k, err)
}

// fitMasks returns the first transition whose mask forbids all options of a choice, or -1 if there is none. If next is
// set, masks are those of next observations. At the end of an episode, fitMasks then changes such a mask to allow all
// options.
func fitMasks(demos tensor.Dict, masks tensor.Tensor, to policy.Spaced, next bool) int {
	_, space := to.Spaces()
	terminated, truncated := demos.Must(FieldTerminated).U8(), demos.Must(FieldTruncated).U8()
	for k := range masks.Dim(0) {
		row := masks.At(k).U8()
		if space.Blocked(row) < 0 {
			continue
		}
		if !next || terminated[k]|truncated[k] == 0 {
			return k
		}
		for i := range row {
			row[i] = 1
		}
	}
	return -1
}

// LooksAhead reports whether the algorithm reads the next observations of demonstrations.
func (c *Config) LooksAhead() bool { return c.AdvType != "embodied_bc" }

// DemoFields returns the fields of rollouts that demonstrations need. It leaves out observations
// that the algorithm does not read, because images take much memory.
func (c *Config) DemoFields(fields []tensor.Field) []tensor.Field {
	if c.LooksAhead() {
		return fields
	}
	return withoutNext(fields)
}

// withoutNext returns the fields without next observations.
func withoutNext(fields []tensor.Field) []tensor.Field {
	return slices.DeleteFunc(slices.Clone(fields), func(f tensor.Field) bool {
		return strings.HasPrefix(f.Name, NextObservations+".")
	})
}

// goalName is the name of the tensor that demonstrations have for a policy.Foreseer.
const goalName = Observations + "." + policy.Goal

// goals returns the targets of a policy.Foreseer for M transitions, F32 [M,2·n]. n is the number of elements of the
// observations in names. The first n targets are the values of these observations GoalSteps transitions later, or at
// the end of the episode if that comes first. The last n targets are the values at the end of the episode. The end is
// the transition that lastOfEpisodes returns.
func goals(demos tensor.Dict, names []string) tensor.Tensor {
	last := lastOfEpisodes(demos)
	m, width := len(last), 0
	for _, name := range names {
		width += demos.Must(Observations+"."+name).Len() / m
	}
	goal := tensor.New(tensor.F32, m, 2*width)
	for t, end := range last {
		to := goal.At(t).F32()
		for _, at := range []int{min(t+policy.GoalSteps, end), end} {
			for _, name := range names {
				to = to[copy(to, demos.Must(Observations+"."+name).At(at).F32()):]
			}
		}
	}
	return goal
}

// newDemos returns a Replay that holds demos as the steps of one environment. fields are those of rollouts, and
// pictures are those of Setup.Pictures.
func newDemos(fields []tensor.Field, demos tensor.Dict, pictures map[string]*Pictures,
	alloc tensor.Allocator) (*Replay, error) {
	m := demos.Must(FieldReward).Dim(0)
	fields = Stored(fields, pictures)
	r, err := NewReplay(fields, nil, 1, m, alloc)
	if err != nil {
		return nil, fmt.Errorf("demonstrations: %w", err)
	}
	var rollout tensor.Dict
	for _, f := range fields {
		if f.Name == FieldStatus {
			rollout.Set(f.Name, tensor.New(f.DType, m, 1))
			continue
		}
		t := demos.Must(f.Name)
		rollout.Set(f.Name, t.Reshape(append([]int{m, 1}, t.Shape()[1:]...)...))
	}
	if err := r.Add(rollout); err != nil {
		return nil, fmt.Errorf("demonstrations: %w", err)
	}
	for i := range r.columns {
		r.columns[i].pictures = pictures[r.columns[i].Name]
	}
	if _, cut := demos.Get(leftName); cut {
		r.stride = demos.Must(FieldAction).Dim(1)
	}
	return r, nil
}

// SplitDemos splits demos at the beginning of an episode, so that the second part has about the given share of the
// transitions. If one part would be empty, the first part is demos, and the second is the zero Dict.
func SplitDemos(demos tensor.Dict, share float32) (first, rest tensor.Dict) {
	last := lastOfEpisodes(demos)
	if left, cut := demos.Get(leftName); cut {
		for t, n := range left.I32() {
			last[t] = t + int(n)
		}
	}
	m := len(last)
	at := m - int(share*float32(m))
	for at < m && at > 0 && last[at-1] != at-1 {
		at--
	}
	if at == 0 || at == m {
		return demos, rest
	}
	return demos.Slice(0, at), demos.Slice(at, m)
}
