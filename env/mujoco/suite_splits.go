package mujoco

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/env"
)

// A split is a subset of a suite's episodes. The zero value is the split of training.
type split struct {
	name    string
	heldOut bool // the target has a colour that it never has in training with this instruction
	role    bool // the target has a colour that only zones have in training
	phrased bool // the sentence has another word order
	changes []change
}

// A change is one difference from the scenes of training. If a split has changes, each of its episodes has one of them.
type change uint8

const (
	noChange     change = iota
	brightness          // pictures are mixed with 30 % black or white
	tableColor          // the table has another colour
	pictureNoise        // noise of up to ±noiseLevels is added to pictures
	movedCamera         // the camera in front is moved by 2 cm and turned by 3°
	ring                // the object lies outside the area of training
	handStart           // the hand begins at another place
	moved               // the target is moved by 5 cm in the middle of the episode
	third               // there is a third cube
)

// splits returns all splits. The first is the split of training.
func splits() []split {
	vision := []change{brightness, tableColor, pictureNoise, movedCamera}
	execution := []change{ring, handStart, moved, third}
	return []split{
		{name: "seen"},
		{name: "new_combination", heldOut: true},
		{name: "new_role", role: true},
		{name: "new_phrasing", phrased: true},
		{name: "vision", changes: vision},
		{name: "vision_brightness", changes: vision[:1]},
		{name: "vision_table", changes: vision[1:2]},
		{name: "vision_noise", changes: vision[2:3]},
		{name: "vision_camera", changes: vision[3:]},
		{name: "execution", changes: execution},
		{name: "execution_ring", changes: execution[:1]},
		{name: "execution_start", changes: execution[1:2]},
		{name: "execution_moved", changes: execution[2:3]},
		{name: "execution_third_cube", changes: execution[3:]},
	}
}

// Values of Config.Perturb.
const (
	perturbOtherSentence = "other_sentence" // the sentence comes from another scene
	perturbOtherCube     = "other_cube"     // the sentence names the other cube of the scene
	perturbBlackImage    = "black_image"    // pictures are black
	perturbShuffled      = "shuffled"       // pictures show a second scene, the sentence comes from a third
)

func perturbations() []string {
	return []string{perturbOtherSentence, perturbOtherCube, perturbBlackImage, perturbShuffled}
}

// choose applies Instructions, Split and Perturb of cfg to t.
func (t *suite) choose(cfg env.Config) (err error) {
	t.orders = instructions()
	if t.weights, err = cfg.Instructions.Weights(t.orderNames()); err != nil {
		return fmt.Errorf("instructions: %w", err)
	}
	var names []string
	for _, s := range splits() {
		names = append(names, s.name)
	}
	at := slices.Index(names, cmp.Or(cfg.Split, names[0]))
	if at < 0 {
		return fmt.Errorf("split: %q, expected one of %s", cfg.Split, strings.Join(names, ", "))
	}
	t.split = splits()[at]
	if cfg.Perturb != "" && !slices.Contains(perturbations(), cfg.Perturb) {
		return fmt.Errorf("perturb: %q, expected one of %s", cfg.Perturb, strings.Join(perturbations(), ", "))
	}
	return t.restrict()
}

// restrict gives weight 0 to the instructions that the split or the perturbation excludes. It returns an error if no
// instruction is left.
func (t *suite) restrict() error {
	sum := 0.0
	for i, o := range t.orders {
		names := o.heldOut >= 0 || !t.split.heldOut && !t.split.role
		if !names || t.perturb == perturbOtherCube && o.noun != aCube {
			t.weights[i] = 0
		}
		sum += t.weights[i]
	}
	if sum == 0 {
		return fmt.Errorf("split %s, perturb %q: no instruction is left: expected some that name the colour of an "+
			"object, and with %s some about cubes", t.split.name, t.perturb, perturbOtherCube)
	}
	return nil
}
