package answer

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/reward/verify"
)

// python makes the program that runs a script with package rlb, or skips the test.
func python(t *testing.T, script string) Setup {
	t.Helper()
	path, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3: apt-get install python3")
	}
	at := test.Must(filepath.Abs("../../clients/python"))(t)
	t.Setenv("PYTHONPATH", at)
	t.Setenv("PYTHONDONTWRITEBYTECODE", "1")
	s := Setup{Type: Program, Config: DefaultConfig()}
	s.Config.Program.Command = []string{path, script}
	return s
}

// TestProgram: the verifier of examples grades, and the scale and format reward of the configuration apply.
func TestProgram(t *testing.T) {
	s := python(t, "../../examples/verifier/verifier.py")
	s.Config.RewardScale, s.Config.FormatReward = 5, 0.5
	g := test.Must(Builtin().New(s))(t)
	q := &Question{Text: "1+1=", Solutions: []string{"2", "two"}}
	grades := make([]Grade, 3)
	for range 2 { // the program goes on
		err := g.Grade(grades, []Response{{Question: q, Text: "it is 2"}, {Question: q, Text: "é 3"},
			{Question: q, Text: "two"}})
		test.OK(t, err)
		want := []Grade{{5.5, verify.Right}, {0.5, verify.Wrong}, {0, verify.Unparsable}}
		test.EqualSlices(t, grades, want)
	}
	test.Check(t, g.Close())
}

// TestJudge: graders with one JudgeProgram ask one program, also at the same time, until the last one closes.
func TestJudge(t *testing.T) {
	script := filepath.Join(t.TempDir(), "judge.py")
	program := "import os, rlb\nrlb.grade(lambda p, a, s: os.getpid())"
	test.OK(t, os.WriteFile(script, []byte(program), 0o666))
	s := python(t, script)
	s.Judge = new(JudgeProgram)
	graders := make([]*Grader, 3)
	for i := range graders {
		if i == 2 {
			s.Judge = nil // one of its own
		}
		var err error
		if graders[i], err = Builtin().New(s); err != nil {
			t.Fatal(err)
		}
	}
	var pids [3][20]float32
	var all sync.WaitGroup
	for i, g := range graders {
		all.Go(func() {
			for k := range pids[i] {
				grades := make([]Grade, 1)
				test.Check(t, g.Grade(grades, []Response{{Question: &Question{}}}))
				pids[i][k] = grades[0].Reward
			}
			test.Check(t, g.Close())
		})
	}
	all.Wait()
	if slices.Max(pids[0][:]) != slices.Min(pids[1][:]) || slices.Min(pids[0][:]) != pids[1][0] ||
		pids[2][0] == pids[0][0] {
		t.Errorf("programs %v, want one for the first two", pids)
	}
}

// TestProgramFails: each way to fail is one error that says what went wrong.
func TestProgramFails(t *testing.T) {
	for name, c := range map[string]struct{ script, want string }{
		"an exception": {"import rlb\nrlb.grade(lambda prompt, answer, solutions: 1 / 0)",
			"error: ZeroDivisionError: division by zero (exit status 1)"},
		"no number": {"import rlb\nrlb.grade(lambda **_: float('nan'))", "error: TypeError"},
		"not finite": {"import rlb\nrlb.grade(lambda p, a, s: float('nan'))",
			"error: ValueError: the judge says nan of the answer '2'; expected a finite number or None"},
		"no grader": {"print('hello')",
			"it exited before the handshake: does it speak RLB1? (exit status 0); its last output:\n    hello"},
		"a syntax error": {"import rlb\nrlb.grade(", "SyntaxError"},
		"too slow": {"import rlb, time\nrlb.grade(lambda p, a, s: time.sleep(60))",
			"no answer in 1s (reward.program.timeout)"},
		"an end": {"import rlb, os\nrlb.grade(lambda p, a, s: os._exit(3))",
			"the other side is gone (exit status 3)"},
		"a simulator's greeting": {"import rlb, os\nfrom rlb import frames, grading, channel\n" +
			"c = channel.connect(os.environ['RLB_ADDR'])\n" +
			"grading._send(c, frames.HELLO, 0, b'{\"v\": 1, \"name\": \"walk\"}')\nc.header()",
			`"walk" is no grader: expected rlb.grade`},
		"too few rewards": {"import rlb, os\nfrom rlb import frames, grading, channel\n" +
			"c = channel.connect(os.environ['RLB_ADDR'])\n" +
			"grading._send(c, frames.HELLO, 0, b'{\"v\": 1, \"name\": \"x\", \"grader\": true}')\n" +
			"c.header()\ngrading._send(c, frames.RESULT, 1, b'[]')\nc.header()", "RESULT: 0 rewards for 1 answers"},
	} {
		t.Run(name, func(t *testing.T) {
			script := filepath.Join(t.TempDir(), "judge.py")
			test.OK(t, os.WriteFile(script, []byte(c.script), 0o666))
			s := python(t, script)
			if s.Config.Program.Timeout = time.Minute; name == "too slow" {
				s.Config.Program.Timeout = time.Second
			}
			g, err := Builtin().New(s)
			if err == nil {
				err = g.Grade(make([]Grade, 1), []Response{{Question: &Question{}, Text: "2"}})
				g.Close()
			}
			if err == nil || !strings.Contains(err.Error(), c.want) ||
				!strings.HasPrefix(err.Error(), "program "+s.Config.Program.Command[0]) {
				t.Errorf("%v\nwant %s", err, c.want)
			}
		})
	}
	s := Setup{Type: Program, Config: DefaultConfig()}
	test.Fails(t, CheckProgram(s), "program.command: none", "without a command")
	s.Config.Program.Command = []string{"no-such-judge"}
	test.Fails(t, CheckProgram(s), "no-such-judge", "a program that is nowhere")
}
