package external

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rlinf/rlinf/internal/programs"
	"github.com/rlinf/rlinf/tensor"
)

// A BridgeCheck tests whether a simulator follows docs/bridge.md. For each rule it starts children with
// the command. The rules cover the whole protocol and invalid input.
type BridgeCheck struct {
	Command []string
	Envs    int              // environments of each child if its greeting has num_envs 0; must be > 0
	Steps   int              // steps of each environment in a rule that compares episodes; must be > 0
	Timeout time.Duration    // maximum time for an answer, and for the exit of a child; must be > 0
	Jobs    int              // number of rules to check at once, each with its own children; 0, or a robot, means 1
	Only    string           // selects the rules whose name contains this text; the greeting is always checked
	By      programs.Entered // starts the children under supervisors
}

// A RuleResult is the result of one rule.
type RuleResult struct {
	Rule    string
	Err     error  // the value found and the valid values; nil if the simulator obeys the rule
	Skipped string // reason why the rule does not apply to this simulator; "" if it applies
}

// A rule is one rule of the protocol. Its check starts its own children.
type rule struct {
	name  string
	check func(*checker) error
}

// rules returns the rules of docs/bridge.md in the order of that page, and then the rules for invalid frames.
func rules() []rule {
	inMemory := setup{shareMemory: true, maxSteps: short}
	return append([]rule{
		{"HELLO: a greeting that says what the simulator is", (*checker).meet},
		{"CONFIG: the child maps the memory that it is offered", (*checker).maps},
		{"CONFIG: it does without memory that can't be mapped", (*checker).doesWithout},
		{"CONFIG: it plays its num_envs, and no other number", (*checker).playsItsNumber},
		{"CONFIG: without flag 2 it ends with an error, if a person may act", (*checker).needsItsFlag},
		{"RESET, STEP: every number is finite, every choice one of those there are, every mask allows some",
			(*checker).playsOn},
		{"RESET: equal seeds give equal episodes, in every child", sameEpisodes(inMemory, inMemory, true)},
		{"RESET: equal seeds give equal episodes, in every environment", (*checker).repeatsInEveryRow},
		{"RESET: an episode does not depend on those before it", (*checker).repeatsAfterOthers},
		{"RESET: a seed is any number of 64 bits", (*checker).takesEverySeed},
		{"RESET: environments outside the mask keep their rows, and go on", (*checker).resetsByMask},
		{"STEP: environments outside the mask keep their rows, and wait", (*checker).stepsByMask},
		{"STEP, AUTORESET: as a STEP, and a RESET of what has ended", sameEpisodes(inMemory, inMemory, false)},
		{"STEP: payloads say the same as shared memory", sameEpisodes(inMemory, setup{maxSteps: short}, true)},
		{"STEP: a frame that comes by a bell and by the stream is taken once", (*checker).sameByBell},
		{"STEP: an episode has max_steps steps at most, and is truncated then", (*checker).countsSteps},
		{"STEP: where terminations are ignored there are none", (*checker).ignoresTerminations},
		{"STEP: rewards and terminations are those of the goal's rule", (*checker).keepsGoals},
		{"SAVE, LOAD: environments go on as those that were saved", (*checker).goesOn},
		{"RENDER: pictures of the size wanted, which change nothing", (*checker).draws},
		{"EXPERT: actions of the space, the same for the same state, which change nothing", (*checker).advises},
		{"CLOSE: ends the child", (*checker).closes},
		{"CLOSE: ends it in place of CONFIG, too", func(k *checker) error {
			return k.greeted((*trial).sayClose)
		}},
		{"end of the stream: ends the child", (*checker).endsWithStream},
	}, attacks()...)
}

// Rules returns the name of each rule that Only selects.
func (c BridgeCheck) Rules() []string {
	var names []string
	for _, r := range rules() {
		if strings.Contains(r.name, c.Only) {
			names = append(names, r.name)
		}
	}
	return names
}

// Run checks the rules, calls report with each RuleResult in the order of the rules, and returns the number of failed
// rules. If the child sends no valid greeting, Run stops after the first rule.
func (c BridgeCheck) Run(report func(RuleResult)) (failed int) {
	k := &checker{BridgeCheck: c, programs: c.By.NewStarter()}
	defer k.programs.Close()
	count := func(v RuleResult) {
		if v.Err != nil {
			failed++
		}
		report(v)
	}
	all := rules()
	count(k.verdict(all[0]))
	if k.greeting == nil {
		return failed
	}
	all = slices.DeleteFunc(all[1:], func(r rule) bool { return !strings.Contains(r.name, c.Only) })
	verdicts := make([]chan RuleResult, len(all))
	for i := range verdicts {
		verdicts[i] = make(chan RuleResult, 1)
	}
	var next atomic.Int64
	jobs := max(1, c.Jobs)
	if k.greeting.Period > 0 {
		jobs = 1 // there is one robot
	}
	for range jobs {
		go func() {
			for i := next.Add(1) - 1; int(i) < len(all); i = next.Add(1) - 1 {
				verdicts[i] <- k.verdict(all[i])
			}
		}()
	}
	for _, v := range verdicts {
		count(<-v)
	}
	return failed
}

// verdict checks one rule.
func (k *checker) verdict(r rule) RuleResult {
	v := RuleResult{Rule: r.name}
	var skipped notSpoken
	if err := r.check(k); errors.As(err, &skipped) {
		v.Skipped = string(skipped)
	} else {
		v.Err = err
	}
	return v
}

// notSpoken is the result of a rule that does not apply to the simulator. Its text is the reason.
type notSpoken string

func (n notSpoken) Error() string { return string(n) }

// A checker is a running BridgeCheck.
type checker struct {
	BridgeCheck
	programs *programs.Starter
	greeting *greeting // nil until meet has received it
	n        int       // environments of a child
}

func (k *checker) by() time.Time { return time.Now().Add(k.Timeout) }

// greeted starts a child, receives its greeting, calls test with the child's trial, and ends the child.
func (k *checker) greeted(test func(*trial) error) error {
	proc, link, err := start(k.programs, k.Command, "child", io.Discard)
	if errors.Is(err, exec.ErrNotFound) {
		return fmt.Errorf("%w: expected a program that can be found and run", err)
	}
	if err != nil {
		return err
	}
	t := &trial{conversation: &conversation{link: link, proc: proc}, check: k, stream: link}
	defer func() { t.close(true) }()
	c, err := greet(link, proc, "child", "", io.Discard, k.by())
	if err != nil {
		return t.explain(err)
	}
	t.conversation = c
	return t.explain(test(t))
}

// with starts a child, configures it with the setup s, calls test with the child's trial, and ends the child.
func (k *checker) with(s setup, test func(*trial) error) error {
	return k.greeted(func(t *trial) error {
		if err := t.configure(s); err != nil {
			return err
		}
		return test(t)
	})
}

// meet starts a child, and stores its greeting in k.
func (k *checker) meet() error {
	return k.greeted(func(t *trial) error {
		k.greeting = t.greeting
		k.n = cmp.Or(k.greeting.NumEnvs, k.Envs)
		return nil
	})
}

func (k *checker) maps() error {
	return k.with(setup{shareMemory: true}, func(t *trial) error {
		if !t.shared {
			return notSpoken("READY without SHARED: arrays travel in payloads")
		}
		return t.resetAll()
	})
}

func (k *checker) doesWithout() error {
	for _, path := range []string{"/nowhere/at/all", "/proc/self/fd/5", "/tmp"} { // descriptor 5 exists, but is empty
		private := privateMemory(newBlocks(k.greeting.spec, k.n).size())
		private.path = path
		err := k.with(setup{memory: private}, func(t *trial) error {
			if t.shared {
				return fmt.Errorf("READY with SHARED for %s, which has not the %d bytes that CONFIG says: expected no "+
					"SHARED", path, len(private.bytes))
			}
			return t.resetAll()
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (k *checker) playsItsNumber() error {
	own := k.greeting.NumEnvs
	if own == 0 {
		return k.with(setup{n: 1}, (*trial).resetAll)
	}
	accepted := false
	err := k.greeted(func(t *trial) error {
		t.greeting.NumEnvs = 0 // otherwise configure returns an error
		accepted = t.configure(setup{n: own + 1}) == nil
		return nil
	})
	if accepted {
		return fmt.Errorf("READY for %d environments, expected an error: the greeting has num_envs %d", own+1, own)
	}
	return err
}

func (k *checker) needsItsFlag() error {
	if !k.greeting.Intervene {
		return notSpoken("the greeting has no intervene")
	}
	return k.greeted(func(t *trial) error {
		return t.bear(attack{after: hello, bytes: func(t *trial) []byte {
			return frame(header{kind: config}, configPayload(setup{n: t.check.n}, false, "", 0), nil)
		}})
	})
}

func (k *checker) playsOn() error {
	_, err := k.played(setup{shareMemory: true, maxSteps: k.greeting.MaxSteps}, k.Steps, false)
	return err
}

func (k *checker) goesOn() error {
	if k.greeting.State == 0 {
		return notSpoken("state_size is 0")
	}
	s := setup{shareMemory: true, maxSteps: short}
	var states []byte
	var seen []tensor.Tensor
	var episode, steps []uint64
	var want [][]outcome
	again := func(t *trial) error {
		time.Sleep(time.Millisecond) // the child stops polling its bell, and LOAD comes through the stream
		if err := t.resetAll(); err != nil {
			return err
		}
		copy(t.episode, episode)
		copy(t.steps, steps)
		if err := t.load(states, k.by()); err != nil {
			return fmt.Errorf("LOAD: %w", err)
		}
		for i, f := range k.greeting.spec.Obs {
			if err := sameNumbers("what LOAD says is seen of "+f.Name, t.obs[i], seen[i]); err != nil {
				return err
			}
		}
		got, err := t.play(k.Steps, true)
		return errors.Join(err, t.compare(got, want))
	}
	err := k.with(s, func(t *trial) error {
		if _, err := t.playAnew(3, true); err != nil {
			return err
		}
		answer, err := t.save(k.by())
		if err != nil {
			return fmt.Errorf("SAVE: %w", err)
		}
		states = append(states, answer...)
		for _, o := range t.obs {
			seen = append(seen, o.Clone())
		}
		episode, steps = append(episode, t.episode...), append(steps, t.steps...)
		if want, err = t.play(k.Steps, true); err != nil {
			return err
		}
		return again(t)
	})
	if err != nil {
		return err
	}
	if err := k.with(s, again); err != nil {
		return fmt.Errorf("in another child: %w", err)
	}
	return nil
}

func (k *checker) draws() error {
	if !k.greeting.Render {
		return notSpoken("render is false")
	}
	s := setup{shareMemory: true, maxSteps: short}
	want, err := k.played(s, 3, true)
	if err != nil {
		return err
	}
	return k.with(s, func(t *trial) error {
		if err := t.resetAll(); err != nil {
			return err
		}
		got := make([][]outcome, t.n)
		mask := make([]bool, t.n)
		for n := range 3 {
			if err := t.turn(t.all(), true, got); err != nil {
				return err
			}
			mask[n%t.n] = n < 2 // with one environment, the last mask is empty
			if _, err := t.render(33, 17, mask, k.by()); err != nil {
				return fmt.Errorf("RENDER: %w", err)
			}
		}
		return t.compare(got, want)
	})
}

func (k *checker) advises() error {
	if !k.greeting.Expert {
		return notSpoken("the greeting has no expert")
	}
	s := setup{shareMemory: true, maxSteps: short}
	want, err := k.played(s, k.Steps, true)
	if err != nil {
		return err
	}
	return k.with(s, func(t *trial) error {
		if err := t.resetAll(); err != nil {
			return err
		}
		got := make([][]outcome, t.n)
		for range k.Steps {
			first, err := t.advice()
			if err != nil {
				return err
			}
			if second, err := t.advice(); err != nil || string(first) != string(second) {
				return errors.Join(err, fmt.Errorf("EXPERT: two answers for one state differ: %v and %v", first,
					second))
			}
			if err := t.turn(t.all(), true, got); err != nil {
				return err
			}
		}
		return t.compare(got, want)
	})
}

// advice asks for the expert's actions, and checks them.
func (t *trial) advice() ([]byte, error) {
	payload, err := t.call(expert, nil, len(t.action), t.check.by())
	if err != nil {
		return nil, fmt.Errorf("EXPERT: %w", err)
	}
	space := t.greeting.spec.Action
	actions := tensor.New(space.DType, t.n, space.Dim())
	copy(actions.Bytes(), payload)
	for n := range t.n {
		if err := t.checkAction(actions.Slice(n, n+1), n); err != nil {
			return nil, fmt.Errorf("EXPERT: %w", err)
		}
	}
	return actions.Bytes(), nil
}

func (k *checker) closes() error {
	return k.with(setup{shareMemory: true}, func(t *trial) error {
		if err := t.resetAll(); err != nil {
			return err
		}
		return t.sayClose()
	})
}

func (k *checker) endsWithStream() error {
	return k.with(setup{shareMemory: true}, func(t *trial) error {
		if err := t.resetAll(); err != nil {
			return err
		}
		if err := t.stream.finish(); err != nil {
			return err
		}
		return t.leaves()
	})
}

// sayClose sends CLOSE, and waits for the child to exit.
func (t *trial) sayClose() error {
	if err := t.send(header{kind: closing}, nil, t.check.by()); err != nil {
		return err
	}
	return t.leaves()
}

// leaves waits for the child to exit, and returns an error unless the exit status is 0.
func (t *trial) leaves() error {
	if err := t.ends(t.check.by()); err != nil {
		return err
	}
	if t.proc.program.Err() != nil {
		return fmt.Errorf("%v, expected exit status 0", t.proc.program.Err())
	}
	return nil
}

// ends waits for the child to exit, and returns an error if a signal ended it.
func (t *trial) ends(by time.Time) error {
	select {
	case <-t.proc.done:
	case <-time.After(time.Until(by)):
		return fmt.Errorf("it still runs after %v, expected its end", t.check.Timeout)
	}
	if exit := (*programs.ExitError)(nil); errors.As(t.proc.program.Err(), &exit) && exit.Status.Signaled() {
		return fmt.Errorf("it crashed: %v", exit)
	}
	return nil
}
