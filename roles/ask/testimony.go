package ask

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/rlinf/rlinf/internal/durable"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/tensor"
)

// A Sight names a tensor that a member was shown in a step: see algo.Witness.
type Sight struct {
	Member string `json:"member"` // such as actor[0]
	Phase  string `json:"phase"`
	Number int    `json:"number"` // counts the times that the member was shown the phase, from 1
	Name   string `json:"name"`   // of the tensor
}

// A Testimony has the digests of all that passed between the phases of a step, in the order of each member. If Of is
// set, it has the bytes of this tensor instead.
type Testimony struct {
	Step    int64
	Of      *Sight
	Sights  map[string][]Sight // by member
	Digests map[string][]string
	DType   tensor.DType
	Shape   []int
	Bytes   []byte

	mu    sync.Mutex
	shown map[string]int // by member and phase
}

// A Testifier repeats a run up to a step, and returns the testimony of this step. Without the argument of (nil), the
// testimony has all digests. Otherwise it has the bytes of the tensor in of.
type Testifier interface {
	Testify(ctx context.Context, r *Run, step int64, of *Sight) (*Testimony, error)
}

// Testify implements Testifier in this process. It uses a temporary folder.
func (a *Again) Testify(ctx context.Context, r *Run, step int64, of *Sight) (*Testimony, error) {
	dir, err := os.MkdirTemp("", "rlinf-diff-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	t := &Testimony{Step: step, Of: of, Sights: map[string][]Sight{}, Digests: map[string][]string{},
		shown: map[string]int{}}
	seeing := *a
	seeing.Witness = t.witness
	_, err = seeing.Repeat(ctx, r, r.To(step), dir)
	return t, err
}

var _ loop.MemberWitness = (*Testimony)(nil).witness

func (t *Testimony) witness(step int64, component string, member int, phase string, tensors tensor.Dict) {
	if step != t.Step {
		return
	}
	who := fmt.Sprintf("%s[%d]", component, member)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.shown[who+phase]++
	for i := range tensors.Len() {
		name, x := tensors.Entry(i)
		s := Sight{who, phase, t.shown[who+phase], name}
		switch {
		case t.Of == nil:
			sum := sha256.Sum256(x.Bytes())
			t.Sights[who] = append(t.Sights[who], s)
			t.Digests[who] = append(t.Digests[who], hex.EncodeToString(sum[:]))
		case s == *t.Of:
			t.DType, t.Shape, t.Bytes = x.DType(), slices.Clone(x.Shape()), slices.Clone(x.Bytes())
		}
	}
}

// part returns the first tensor in which t and other differ, by the order in which the members were shown tensors. It
// returns nil if there is none.
func (t *Testimony) part(other *Testimony) (first *Sight) {
	place := 0
	members := maps.Clone(t.Sights)
	maps.Copy(members, other.Sights)
	for _, who := range slices.Sorted(maps.Keys(members)) {
		one, two := t.Sights[who], other.Sights[who]
		i, n := 0, min(len(one), len(two))
		for i < n && one[i] == two[i] && t.Digests[who][i] == other.Digests[who][i] {
			i++
		}
		longer := one
		if i == len(one) {
			longer = two
		}
		if i == len(longer) || first != nil && (i >= place || longer[i].Phase == loop.PhaseEpisodes) {
			continue // episodes follow from rollouts
		}
		first, place = &longer[i], i
	}
	return first
}

// Write writes t to a file.
func (t *Testimony) Write(path string) error {
	text, err := json.Marshal(t)
	if err != nil {
		return err
	}
	return durable.WriteFile(path, text)
}

// An OtherBuild is another build of rlinf, which repeats runs in a process of its own.
type OtherBuild struct{ Path string }

// Testify implements Testifier. It calls PROGRAM diff --testify.
func (p OtherBuild) Testify(ctx context.Context, r *Run, step int64, of *Sight) (*Testimony, error) {
	dir, err := os.MkdirTemp("", "rlinf-diff-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	out := filepath.Join(dir, "testimony.json")
	words := []string{"diff", "--testify", out, "--step", fmt.Sprint(step), r.Dir}
	if of != nil {
		text, err := json.Marshal(of)
		if err != nil {
			return nil, err
		}
		words = append(words, "--of", string(text))
	}
	said, err := exec.CommandContext(ctx, p.Path, words...).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%s diff: %w: %s", p.Path, err, strings.TrimSpace(string(said)))
	}
	text, err := durable.ReadFile(out, durable.Text)
	if err != nil {
		return nil, err
	}
	t := &Testimony{}
	return t, json.Unmarshal(text, t)
}
