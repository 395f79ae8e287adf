//go:build mujoco

package mujoco

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/tensor"
)

func suiteConfig(split, perturb string, observations ...string) env.Config {
	cfg := env.DefaultConfig()
	cfg.Split, cfg.Perturb, cfg.Observations = split, perturb, observations
	return cfg
}

// said returns the text that a table shows.
func (t table) said() string {
	return strings.TrimRight(string(t.out.Obs.Must("text").U8()), "\x00")
}

// TestSuiteHeldOut: each instruction that names the colour of an object holds out one colour. No colour is held out
// more than twice.
func TestSuiteHeldOut(t *testing.T) {
	held := map[int]int{}
	for _, o := range instructions() {
		names := slices.Contains(o.phrases[0], "OBJECT")
		if names != (o.heldOut != none) {
			t.Errorf("%s: colour %d is held out, it names an object: %v", o.name, o.heldOut, names)
		}
		if held[o.heldOut]++; names && held[o.heldOut] > 2 {
			t.Errorf("%s: %s is held out for the third time", o.name, colors[o.heldOut].name)
		}
		if a, b := slices.Sorted(slices.Values(o.phrases[0])),
			slices.Sorted(slices.Values(o.phrases[1])); slices.Equal(o.phrases[0], o.phrases[1]) || len(a)+1 < len(b) {
			t.Errorf("%s: phrases %v", o.name, o.phrases)
		}
	}
}

// sentenceOf returns the phrase with the colours of the named things.
func sentenceOf(phrase string, memo []float64, ball bool) string {
	color := func(i int) string { return colors[int(memo[memoColor+i])].name }
	shape := map[bool]string{true: " ball", false: " cube"}[ball]
	return strings.NewReplacer("OBJECT", color(int(memo[memoObject]))+shape,
		"OTHER", color(int(memo[suiteOther]))+" cube",
		"ZONE", color(tableObjects+int(memo[memoZone]))+" zone").Replace(phrase)
}

// TestSuiteDraw: scenes and their sentences follow the rules of their split.
func TestSuiteDraw(t *testing.T) {
	known := map[string]bool{"to": true} // words of training
	for _, split := range []string{"seen", "new_combination", "new_role", "new_phrasing", "execution_ring",
		"execution_third_cube"} {
		v := test.Must(TabletopSuite(suiteConfig(split, "", "text"), 1))(t)
		defer v.Close()
		tb := table{t, v, v.Spec().NewStep(1, 1)}
		drawn := map[int]bool{}
		for seed := range uint64(80) {
			start(t, v, []uint64{seed}, tb.out)
			memo, q, zones := tb.read("memo"), tb.read("qpos"), tb.read("mocap_pos")[3:]
			o := instructions()[int(memo[suiteOrder])]
			drawn[int(memo[suiteOrder])] = true
			object, zone := int(memo[memoObject]), int(memo[memoZone])
			meant := int(memo[memoColor+object])
			if o.noun != aZone && (meant == o.heldOut) != (split == "new_combination") {
				t.Errorf("%s, seed %d: %s with colour %d", split, seed, o.name, meant)
			}
			for i := range tableObjects {
				if c := int(memo[memoColor+i]); (c >= objectColors) != (split == "new_role" && i == object) {
					t.Errorf("%s, seed %d: object %d has colour %d", split, seed, i, c)
				}
			}
			phrase := strings.Join(o.phrases[map[bool]int{true: 1}[split == "new_phrasing"]], " ")
			if want := sentenceOf(phrase, memo, o.noun == aBall); tb.said() != want {
				t.Errorf("%s, seed %d: %q, want %q", split, seed, tb.said(), want)
			}
			for word := range strings.FieldsSeq(tb.said()) {
				if split == "seen" {
					known[word] = true
				} else if split == "new_phrasing" && !known[word] {
					t.Errorf("%q: training never says %s", tb.said(), word)
				}
			}
			x := func(i int) float64 { return q[robotJoints+7*i] }
			if o.side == leftCube && x(object) < x(1-object)+0.06 || o.side == rightCube &&
				x(object) > x(1-object)-0.06 {
				t.Errorf("%s, seed %d: %s at %v, the other at %v", split, seed, o.name, x(object), x(1-object))
			}
			at := q[robotJoints+7*object:][:2]
			if o.noun == aZone {
				at = zones[3*zone:][:2]
			}
			if outside := math.Abs(at[0]) > areaX || math.Abs(at[1]) > areaY; outside != (split == "execution_ring") {
				t.Errorf("%s, seed %d: %s at %v", split, seed, o.name, at)
			}
			if there := q[robotJoints+7*thirdCube+2] > 0; there != (split == "execution_third_cube") ||
				there != (memo[suiteThird] >= 0) {
				t.Errorf("%s, seed %d: third cube at %v", split, seed, q[robotJoints+7*thirdCube:][:3])
			}
		}
		if want := map[bool]int{true: 9, false: 12}[strings.HasPrefix(split, "new_") &&
			split != "new_phrasing"]; len(drawn) != want {
			t.Errorf("%s: %d instructions, want %d", split, len(drawn), want)
		}
	}
}

// TestSuiteInstructions: weights select the instructions, and each instruction has its own success rate.
func TestSuiteInstructions(t *testing.T) {
	cfg := suiteConfig("", "", "state")
	cfg.Instructions = env.Mix{"pick_color": 3, "stack": 1, "push_left": 0}
	v := test.Must(TabletopSuite(cfg, 1))(t)
	defer v.Close()
	tb, counts := table{t, v, v.Spec().NewStep(1, 1)}, map[string]int{}
	const seeds = 300
	for seed := range uint64(seeds) {
		start(t, v, []uint64{seed}, tb.out)
		state := tb.out.Obs.Must("state").F32()[43:55]
		order := slices.Index(state, 1)
		tb.step(0, 0, 0, -1)
		if told := int(tb.out.Info.F32()[2]); told != order {
			t.Errorf("seed %d: task_number %d, the state says %d", seed, told, order)
		}
		counts[v.Spec().Tasks[order]]++
	}
	if len(counts) != 2 || math.Abs(float64(counts["pick_color"])-0.75*seeds) > 4*math.Sqrt(0.75*0.25*seeds) {
		t.Errorf("instructions: %v", counts)
	}
}

// TestSuitePerturb: a perturbation changes its observation, and not the scene.
func TestSuitePerturb(t *testing.T) {
	for seed := range uint64(5) {
		var scene []float64
		texts, pictures := map[string]string{}, map[string][]byte{}
		for _, perturb := range append(perturbations(), "") {
			cfg := suiteConfig("seen", perturb, "text", "image", "wrist_image")
			cfg.Instructions = env.Mix{"put_zone": 1, "pick_left": 1, "put_beside": 1}
			tb := newTable(t, TabletopSuite, cfg, seed)
			now := slices.Concat(tb.read("qpos"), tb.read("mocap_pos"), tb.read("memo")[:suiteSaid])
			if scene == nil {
				scene = now
			}
			if !slices.Equal(now, scene) {
				t.Errorf("seed %d, perturb %q: another scene", seed, perturb)
			}
			texts[perturb], pictures[perturb] = tb.said(), slices.Clone(tb.out.Obs.Must("image").U8())
			if black := slices.Max(tb.out.Obs.Must("wrist_image").U8()) == 0; black != (perturb == perturbBlackImage) {
				t.Errorf("seed %d, perturb %q: black pictures: %v", seed, perturb, black)
			}
		}
		if black := pictures[perturbBlackImage]; slices.Max(black) != 0 {
			t.Errorf("seed %d: picture is not black", seed)
		}
		for _, perturb := range []string{perturbOtherCube, perturbOtherSentence, perturbShuffled} {
			if same := slices.Equal(pictures[perturb], pictures[""]); same == (perturb == perturbShuffled) {
				t.Errorf("seed %d, perturb %s: the same picture: %v", seed, perturb, same)
			}
		}
		if texts[perturbBlackImage] != texts[""] || texts[perturbOtherCube] == texts[""] ||
			texts[perturbOtherSentence] != texts[perturbShuffled] {
			t.Errorf("seed %d: texts %v", seed, texts)
		}
		swapped := strings.NewReplacer("left", "right").Replace(texts[""])
		if words := strings.Fields(texts[""]); strings.HasPrefix(texts[""], "put") && words[4] == "beside" {
			words[2], words[6] = words[6], words[2]
			swapped = strings.Join(words, " ")
		}
		if !strings.Contains(texts[""], "zone") && texts[perturbOtherCube] != swapped {
			t.Errorf("seed %d: %q for %q", seed, texts[perturbOtherCube], texts[""])
		}
	}
}

// TestSuiteTold: with the sentence for the other cube, the expert of the cube meant still succeeds, without
// told_object. Doing the instruction with the other cube is told_object and a failure.
func TestSuiteTold(t *testing.T) {
	cfg := suiteConfig("", perturbOtherCube)
	cfg.Instructions = env.Mix{"put_zone": 1}
	sum := env.Summarize(expertEpisodes(t, cfg, 6))
	if sum.SuccessOnce < 0.8 || sum.ToldObject > 0.2 {
		t.Errorf("expert of the original: %+v", sum)
	}
	tb := newTable(t, TabletopSuite, cfg, 1)
	other, zone := int(tb.read("memo")[suiteOther]), 1+int(tb.read("memo")[memoZone])
	tb.write("qpos", robotJoints+7*other, append(slices.Clone(tb.read("mocap_pos")[3*zone:][:2]), cubeHalf)...)
	tb.step(0, 0, 0, -1)
	_, success, wrong, end := tb.step(0, 0, 0, -1)
	if told := tb.out.Info.F32()[3]; success != 0 || wrong != 1 || told != 1 || !end {
		t.Errorf("other cube on the zone: success %v, wrong %v, told %v, end %v", success, wrong, told, end)
	}
}

// TestSuiteChanges: the changes of a split happen and are visible.
func TestSuiteChanges(t *testing.T) {
	look := func(split string) (front []byte) {
		return slices.Clone(newTable(t, TabletopSuite, suiteConfig(split, "", "image"), 3).out.Obs.Must("image").U8())
	}
	plain := look("seen")
	for split, least := range map[string]int{"vision_brightness": 4000, "vision_table": 2000, "vision_noise": 4000,
		"vision_camera": 500} {
		changed, other := 0, look(split)
		for i := 0; i < len(plain); i += 3 {
			if !slices.Equal(plain[i:i+3], other[i:i+3]) {
				changed++
			}
		}
		if changed < least {
			t.Errorf("%s: %d of 4096 pixels differ, want %d", split, changed, least)
		}
	}
	cfg := suiteConfig("execution_moved", "")
	cfg.Instructions = env.Mix{"put_zone": 1, "reach_zone": 1}
	movedObjects, movedZones := 0, 0
	for seed := range uint64(12) {
		tb := newTable(t, TabletopSuite, cfg, seed)
		q, zones, memo := tb.read("qpos"), tb.read("mocap_pos"), tb.read("memo")
		object, zone := robotJoints+7*int(memo[memoObject]), 3+3*int(memo[memoZone])
		for range 10 {
			tb.step(0, 0, 0, -1)
		}
		if d := apart(tb.read("qpos")[object:], q[object:]); math.Abs(d-0.05) < 0.002 {
			movedObjects++
		}
		if d := apart(tb.read("mocap_pos")[zone:], zones[zone:]); math.Abs(d-0.05) < 1e-9 {
			movedZones++
		}
	}
	if movedObjects+movedZones < 11 || movedObjects == 0 || movedZones == 0 {
		t.Errorf("of 12 episodes, %d objects and %d zones were moved by 5 cm", movedObjects, movedZones)
	}
}

// TestSuiteCheats: an object that was thrown, leans or hangs is no success.
func TestSuiteCheats(t *testing.T) {
	only := func(name string) env.Config {
		cfg := suiteConfig("", "")
		cfg.Instructions = env.Mix{name: 1}
		return cfg
	}
	succeeds := func(tb table) bool {
		tb.step(0, 0, 0, -1)
		_, success, _, _ := tb.step(0, 0, 0, -1)
		return success != 0
	}
	for name, cheat := range map[string]func(tb table, object, other int, zone []float64){
		"pick_color: thrown up": func(tb table, object, _ int, _ []float64) {
			tb.write("qpos", robotJoints+7*object+2, 0.3)
		},
		"push_zone: slides over it": func(tb table, object, _ int, zone []float64) {
			tb.write("qpos", robotJoints+7*object, zone[0]-0.02, zone[1])
			tb.write("qvel", robotJoints+6*object, 1)
		},
		"put_zone: falls on it": func(tb table, object, _ int, zone []float64) {
			tb.write("qpos", robotJoints+7*object, zone[0], zone[1], 0.2)
		},
		"push_left: the hand is far": func(tb table, object, _ int, zone []float64) {},
		"put_beside: the other one was brought": func(tb table, object, other int, _ []float64) {
			at := tb.read("qpos")[robotJoints+7*object:]
			tb.write("qpos", robotJoints+7*other, at[0]+0.06, at[1])
		},
		"stack: beside the middle": func(tb table, object, other int, _ []float64) {
			at := tb.read("qpos")[robotJoints+7*other:]
			tb.write("qpos", robotJoints+7*object, at[0]+0.018, at[1], at[2]+0.04)
		},
	} {
		order, _, _ := strings.Cut(name, ":")
		tb := newTable(t, TabletopSuite, only(order), 2)
		memo := tb.read("memo")
		cheat(tb, int(memo[memoObject]), int(memo[suiteOther]), tb.read("mocap_pos")[3+3*int(memo[memoZone]):])
		if succeeds(tb) {
			t.Errorf("%s: a success", name)
		}
	}
}

// TestSuiteWaiting: a hand that does not move never ends an episode.
func TestSuiteWaiting(t *testing.T) {
	const n = 24
	v := test.Must(TabletopSuite(suiteConfig("", ""), n))(t)
	defer v.Close()
	seeds, out := make([]uint64, n), v.Spec().NewStep(n, 1)
	for i := range seeds {
		seeds[i] = uint64(i)
	}
	start(t, v, seeds, out)
	var act tensor.Dict
	act.Set("action", tensor.New(tensor.F32, n, 1, 4))
	for range v.Spec().MaxSteps {
		test.OK(t, v.Step(act, nil, out))
	}
	if slices.Max(out.Terminated.U8()) != 0 {
		t.Errorf("an instruction ends by waiting: %v", out.Info)
	}
}

func TestSuiteErrors(t *testing.T) {
	for _, c := range []struct {
		cfg  env.Config
		want string
	}{
		{env.Config{Observations: []string{"instruction"}},
			`observations.0: "instruction", expected state, proprio, image, wrist_image or text`},
		{env.Config{Instructions: env.Mix{"jump": 1}}, `instructions: "jump", expected some of reach_cube, reach_ball`},
		{env.Config{Instructions: env.Mix{"stack": -1}}, "stack: weight -1, expected a number ≥ 0"},
		{env.Config{Split: "unseen"}, `split: "unseen", expected one of seen, new_combination`},
		{env.Config{Perturb: "noise"}, `perturb: "noise", expected one of other_sentence`},
		{env.Config{Split: "new_role", Instructions: env.Mix{"reach_zone": 1}}, "no instruction is left"},
	} {
		test.Fails(t, test.Err(TabletopSuite(c.cfg, 1)), c.want)
	}
	if _, err := TabletopPush(env.Config{Split: "seen"}, 1); err == nil ||
		!strings.Contains(err.Error(), "does not take split") {
		t.Errorf("push: %v", err)
	}
}
