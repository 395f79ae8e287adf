package env

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/tensor"
)

// A Vec is a batch of N environments that step together and write into buffers of the caller. It is not safe for
// concurrent use.
type Vec interface {
	// Spec describes one environment. It never changes.
	Spec() Spec
	// Len returns N.
	Len() int
	// Reset starts new episodes in the environments where mask is true, or in all if mask is nil.
	// It writes their rows of Obs and nothing else. There is one seed per environment, and equal
	// seeds give equal states.
	Reset(mask []bool, seeds []uint64, out *Step) error
	// Step takes the actions in the tensor "action", [N,K,A] with A numbers per action, and writes the results. If K >
	// 1, the K actions are a chunk: an environment takes them one after the other and stops when its episode ends. For
	// actions after the end, rewards, flags and Info are 0.
	//
	// If seeds is not nil, an environment whose episode ended resets itself with its seed: FinalObs gets the last
	// observation of the old episode, and Obs the first observation of the new episode. If seeds is nil, the
	// environment stays done until its Reset. Further steps keep its Obs and Status, give Reward 0, and repeat its
	// flags and last Info in column 0.
	//
	// If an action or a buffer is invalid, or if there was no Reset yet, Step returns an error and changes nothing.
	Step(action tensor.Dict, seeds []uint64, out *Step) error
	Close() error
}

// A Step is the result of one call of Step or Reset for N environments. The caller owns it and may
// reuse it.
type Step struct {
	Obs tensor.Dict // a tensor [N, shape...] for each observation of the Spec, by name ("state", "image")
	// the last observations of the old episodes, laid out like Obs; a row is valid only if this
	// step ended the environment's episode and the environment reset itself
	FinalObs   tensor.Dict
	Reward     tensor.Tensor // F32 [N,K]
	Terminated tensor.Tensor // U8 [N,K]: the task ended the episode, and no reward can follow
	// U8 [N,K]: a time limit or a failure of the simulator ended the episode; Terminated may be
	// true too
	Truncated tensor.Tensor
	// U8 [N]: Normal, Aborted or NoEpisode. The zero Tensor is allowed for a Vec whose simulators
	// cannot fail
	Status tensor.Tensor
	// F32 [N, K·Repeats, len(Spec.Info)]: the figures of each step, with Repeats rows for each
	// action. Rows after the end of an episode are 0. If Info is the zero Tensor, no figures are
	// written
	Info tensor.Tensor
	// I32 [N]: number of steps that each environment took, counting repeated actions. If
	// Spec.Repeats is 1, the zero Tensor is allowed, and Took returns this number
	Steps tensor.Tensor
	// U8 [N,K], only if Spec.Intervene: Acted or Clipped where a person acted in place of the policy, else 0
	Intervened tensor.Tensor
	// [N,K,A], only if Spec.Intervene: the actions of the person, where Intervened is not 0. They are finite and within
	// the bounds of the space. Elsewhere the numbers have no meaning
	Taken tensor.Tensor
}

// The values of Step.Intervened, besides 0.
const (
	Acted   = 1 + iota // a person acted
	Clipped            // a person acted, and the action was clipped to the bounds of the space
)

// The values of Step.Status. Each describes one environment after one Step. If Status is Aborted or
// NoEpisode, Truncated is true and the final observations are zeros.
const (
	// Normal: the simulator answered.
	Normal = iota
	// Aborted: the simulator failed and the episode ended with this step. Do not train on any step of this episode.
	// Metrics count the episode as lost and ignore all its figures.
	Aborted
	// NoEpisode: the simulator has failed for good. If the previous status was Normal, the running episode is lost;
	// otherwise no episode was running. This status occurs only in steps with seeds.
	NoEpisode
)

// A Spec describes one environment of a Vec.
type Spec struct {
	Name     string   // name in the registry, such as CartPole-v1
	Obs      []Field  // named observations; an ActionMask limits the actions and is no input of the policy
	Action   Space    // the actions of Step
	MaxSteps int      // steps after which an episode is truncated; 0 if there is no limit
	OwnLimit int      // a lower limit at which a simulator may end episodes by itself; 0 if there is none
	Info     []string // names of per-step figures
	// Returns are the smallest and the largest return of an episode of MaxSteps steps; nil if unknown.
	Returns *[2]float64
	// Goal describes the rewards of an environment with goals; nil if there are none.
	Goal *Goal
	// Repeat is the number of times that ActionRepeat takes each action; 0 means once. Info has one row for each
	// repetition.
	Repeat int
	// Intervene is true if a person may act in place of the policy. Step.Intervened says in which steps the person did.
	Intervene bool
	// Tasks are the names of the tasks. Each episode has one task. Tasks is nil if there is only
	// one task. The figure TaskNumber is the index of the episode's task in Tasks.
	Tasks []string
	// TaskWeights are the relative frequencies of Tasks. A task with weight 0 is never drawn.
	TaskWeights []float64
}

// Names of the figures in Info that this package interprets, besides TaskReward.
const (
	Success     = "success"      // the task is done
	WrongObject = "wrong_object" // the task is done, but with the wrong object
	// ToldObject: the task is done with the object that the instruction names. An environment with
	// this figure names a wrong object in the instruction on purpose.
	ToldObject = "told_object"
	TaskNumber = "task_number" // index of the episode's task in Spec.Tasks
)

// A Field is one named observation.
type Field struct {
	Name string // "state", "image"; messages call it observation.<Name>
	Space
	// Words is the vocabulary of an observation that is a text: each number is an index into Words,
	// and 0 means no word. Words is nil for all other observations.
	Words []string
	// If Text is true, the observation is a UTF-8 text in U8, with zeros after its end.
	Text bool
	// Frames is the number of successive observations that FrameStack puts into one. It is then the first
	// dimension of Shape. Without FrameStack it is 0.
	Frames int
}

// A Kind is the kind of numbers in a Space.
type Kind uint8

const (
	Box           Kind = 1 + iota // real numbers within Low and High
	Discrete                      // one choice out of Nvec[0]
	MultiDiscrete                 // len(Nvec) independent choices
)

// A Space is the set of values of an observation or an action.
type Space struct {
	Kind  Kind
	DType tensor.DType
	Shape []int     // Box: shape of one value; Discrete: [1]; MultiDiscrete: [len(Nvec)]
	Low   []float32 // Box: bounds per element; ±Inf means no bound
	High  []float32
	Nvec  []int // Discrete: [n]; MultiDiscrete: number of options of each choice
}

// Dim returns the number of elements of one value.
func (s Space) Dim() int {
	n := 1
	for _, d := range s.Shape {
		n *= d
	}
	return n
}

// Range returns the smallest and the largest number that element k of a value may have.
func (s Space) Range(k int) (low, high float64) {
	if s.Kind == Box {
		return float64(s.Low[k]), float64(s.High[k])
	}
	return 0, float64(s.Nvec[k%len(s.Nvec)] - 1)
}

// Outside returns the index of the first number of x that is outside its Range, or -1 if there is none. x has values of
// s, side by side.
func (s Space) Outside(x []int32) int {
	if s.Kind != Box {
		return badChoice(x, s.Nvec)
	}
	for i, v := range x {
		if low, high := s.Range(i % len(s.Low)); float64(v) < low || float64(v) > high {
			return i
		}
	}
	return -1
}

// String returns the space as Gymnasium writes it: "Box(-2, 2, (1,))", "Discrete(2)".
func (s Space) String() string {
	switch s.Kind {
	case Discrete:
		return fmt.Sprintf("Discrete(%d)", s.Nvec[0])
	case MultiDiscrete:
		return fmt.Sprintf("MultiDiscrete(%v)", s.Nvec)
	}
	shape := strings.Trim(strings.Join(strings.Fields(fmt.Sprint(s.Shape)), ", "), "[]")
	if len(s.Shape) == 1 {
		shape += ","
	}
	return fmt.Sprintf("Box(%s, %s, (%s))", boundText(s.Low), boundText(s.High), shape)
}

// boundText formats the lower or the upper bounds of a box. It writes one number if all elements have the same bound.
func boundText(each []float32) string {
	if len(each) == 0 {
		return "none"
	}
	if slices.ContainsFunc(each, func(x float32) bool { return x != each[0] }) {
		return fmt.Sprint(each)
	}
	return fmt.Sprint(each[0])
}

// A Saver is a Vec or a Simulator whose state can be saved and loaded, so that a resumed run
// continues where it stopped.
type Saver interface {
	// Save returns the state of every environment, in tensors with leading dimension N. The caller
	// owns the Dict. If a wrapper's inner Vec is no Saver, Save returns errors.ErrUnsupported.
	Save() (tensor.Dict, error)
	// Load restores N rows that Save returned, in the order of this Vec's environments. The rows may
	// come from Vecs of other sizes.
	Load(tensor.Dict) error
}

// An Expert is a Vec that can solve its task, for demonstrations and labels.
type Expert interface {
	// Act fills action, [N,1,A], with the expert's action in each environment's current state. The
	// action depends only on this state, which Act does not change. Environments whose episode is
	// over get an action too. If a wrapper's inner Vec is no Expert, Act returns
	// errors.ErrUnsupported.
	Act(action tensor.Tensor) error
}

// A Renderer is a Vec that can draw its environments.
type Renderer interface {
	// Render draws the environments where mask is true, or all if mask is nil, into their rows of
	// rgb, U8 [N,Height,Width,3]. The first row of a picture is its top. If mask is false
	// everywhere, Render draws nothing, but still checks view. If a wrapper's inner Vec is no
	// Renderer, Render returns errors.ErrUnsupported.
	Render(view View, mask []bool, rgb tensor.Tensor) error
}

// A View describes how to draw a picture of an environment.
type View struct {
	Width, Height int    // pixels
	Camera        string // name of a camera in the model; "" for the environment's default
	Renderer      string // name of a renderer of the environment, such as caster or osmesa; "" for its default
	Shadows       bool
}

// NewPictures returns a tensor for pictures of n environments, U8 [n,Height,Width,3].
func (v View) NewPictures(n int) tensor.Tensor { return tensor.New(tensor.U8, n, v.Height, v.Width, 3) }
