// Package clients_test is a parent of programs that use the clients. It follows the rules of RLB1, and breaks them.
package clients_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/env/external"
	"github.com/rlinf/rlinf/internal/test"
)

// compile builds a program of testdata with its client, once. The sanitisers end the program at an invalid access.
func compile(t *testing.T, source string) string {
	t.Helper()
	program := filepath.Join(programs, source)
	flags := []string{"-Wall", "-Wextra", "-Werror", "-g", "-O1", "-fsanitize=address,undefined",
		"-fno-sanitize-recover=all", "-J", programs}
	steps := [][]string{{"gcc", "-std=c99", "-o", program, "testdata/" + source, "c/rlb.c"}}
	if strings.HasSuffix(source, ".f90") {
		object := program + ".o"
		steps = [][]string{
			{"gcc", "-std=c99", "-c", "-o", object, "c/rlb.c"},
			{"gfortran", "-std=f2018", "-o", program, "fortran/rlb.f90", "testdata/" + source, object},
		}
	}
	if _, err := os.Stat(program); err == nil {
		return program
	}
	for _, step := range steps {
		compiler, err := exec.LookPath(step[0])
		if err != nil {
			t.Skipf("no %s: scripts/setup test installs it", step[0])
		}
		for _, file := range append(step[1:], "c/rlb.h") { // so that go test reruns after a change of the file
			os.Stat(file)
		}
		args := append(step[1:], flags...)
		if step[0] == "gcc" {
			args = args[:len(args)-2]
		}
		if out, err := exec.Command(compiler, args...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", step[0], err, out)
		}
	}
	return program
}

// programs is the folder of the compiled programs.
var programs string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		var err error
		if programs, err = os.MkdirTemp("", "clients"); err != nil {
			panic(err)
		}
		defer os.RemoveAll(programs)
		return m.Run()
	}())
}

// TestCIsCPlusPlusToo compiles the client as C++, and a program in C++ against its header.
func TestCIsCPlusPlusToo(t *testing.T) {
	gxx, err := exec.LookPath("g++")
	if err != nil {
		t.Skip("no g++: scripts/setup test installs it")
	}
	program := filepath.Join(t.TempDir(), "solver.cc")
	text := "#include \"rlb.h\"\nint main() { rlb_spec spec{}; spec.name = \"none\"; return rlb_open(&spec) != " +
		"nullptr; }\n"
	test.OK(t, os.WriteFile(program, []byte(text), 0o600))
	for _, args := range [][]string{{"-x", "c++", "c/rlb.c"}, {"-Ic", program}} {
		args = append([]string{"-std=c++11", "-Wall", "-Wextra", "-Werror", "-c", "-o", os.DevNull}, args...)
		if out, err := exec.Command(gxx, args...).CombinedOutput(); err != nil {
			t.Errorf("g++ %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

// cFrame completes an example of the manuals to a program in C.
const cFrame = `#include "rlb.h"
#include <stdio.h>
static double level[8], inflow[2];
static void begin(uint64_t seed, double *x) { x[0] = (double)seed; }
static void advance(const double *a, double *x) { x[0] += a[0]; }
static double reward(const double *x) { return -x[0]; }
int main(void)
{
%s
	return 0;
}
`

// fortranFrame completes an example of the manuals to a program in Fortran.
const fortranFrame = `program tank
use rlb
implicit none
real(8) :: level(8), inflow(2)
integer :: going
%s
contains
subroutine begin(seed, x)
integer(8), intent(in) :: seed
real(8), intent(out) :: x(:)
x = real(seed, 8)
end subroutine
subroutine advance(a, x)
real(8), intent(in) :: a(:)
real(8), intent(inout) :: x(:)
x = x + a(1)
end subroutine
real(8) function reward(x)
real(8), intent(in) :: x(:)
reward = -x(1)
end function
end program
`

// TestExamplesSayWhatFailed compiles the solvers of the manuals. Without RLB_ADDR they print an error and exit with a
// code other than 0.
func TestExamplesSayWhatFailed(t *testing.T) {
	cc := func(source, program string) [][]string {
		return [][]string{{"gcc", "-std=c99", "-Ic", "-o", program, source, "c/rlb.c"}}
	}
	for _, tt := range []struct {
		manual, from, to, margin, frame, source string
		compile                                 func(source, program string) [][]string
	}{
		{"c/README.md", "rlb_spec spec", "```", "", cFrame, "readme.c", cc},
		{"c/rlb.h", " *\trlb_spec spec", " *\n", " *", cFrame, "head.c", cc},
		{"fortran/rlb.f90", "!   type(rlb_spec)", "!\n", "!   ", fortranFrame, "head.f90",
			func(source, program string) [][]string {
				return [][]string{
					{"gcc", "-std=c99", "-c", "-o", program + ".o", "c/rlb.c"},
					{"gfortran", "-std=f2018", "-J", programs, "-o", program, "fortran/rlb.f90", source,
						program + ".o"},
				}
			}},
	} {
		t.Run(tt.manual, func(t *testing.T) {
			text, err := os.ReadFile(tt.manual)
			test.OK(t, err)
			_, rest, _ := strings.Cut(string(text), "\n"+tt.from)
			body, _, found := strings.Cut(tt.from+rest, "\n"+tt.to)
			if !found {
				t.Fatalf("no example from %q to %q", tt.from, tt.to)
			}
			source, program := filepath.Join(programs, tt.source), filepath.Join(programs, "example")
			body = strings.ReplaceAll("\n"+body, "\n"+tt.margin, "\n")
			test.OK(t, os.WriteFile(source, fmt.Appendf(nil, tt.frame, body), 0o600))
			for _, step := range tt.compile(source, program) {
				if _, err := exec.LookPath(step[0]); err != nil {
					t.Skipf("no %s: scripts/setup test installs it", step[0])
				}
				if out, err := exec.Command(step[0], step[1:]...).CombinedOutput(); err != nil {
					t.Fatalf("%s: %v\n%s", step[0], err, out)
				}
			}
			cmd := exec.Command(program)
			cmd.Env = slices.DeleteFunc(os.Environ(), func(e string) bool { return strings.HasPrefix(e, "RLB_") })
			if out, err := cmd.CombinedOutput(); err == nil ||
				!strings.Contains(string(out), "tank: RLB_ADDR is not set") {
				t.Errorf("exit status %v and %q, want another than 0, and why", err, out)
			}
		})
	}
}

func TestCGreeting(t *testing.T) {
	p := greet(t, compile(t, "served.c"))
	h := p.hello
	if h.V != 1 || h.Name != `served "counters"` || h.Token != `a "secret"` || h.OwnsLoop || !h.Render ||
		h.MaxSteps != 5 || h.StateSize != 4+24 || h.NumEnvs != 0 {
		t.Errorf("greeting %+v", h)
	}
	if len(h.Obs) != 2 || h.Obs[0].Name != "state" || h.Obs[0].numbers() != 3 || h.Obs[0].Low != nil ||
		h.Obs[1].Dtype != "u8" || h.Obs[1].numbers() != 12 {
		t.Errorf("observations %+v", h.Obs)
	}
	if h.Action.Low != -1.0 || h.Action.High != 1.7 || h.Action.Dtype != "f32" || h.Action.numbers() != 2 {
		t.Errorf("action %+v", h.Action)
	}

	if h.Goal != nil {
		t.Errorf("goal %v of a program without one", h.Goal)
	}
	goal := greet(t, compile(t, "served.c"), "goal").hello.Goal
	if got, want := fmt.Sprint(goal), "map[reward:sparse terminates:true threshold:0.05]"; got != want {
		t.Errorf("goal %v, want %v", got, want)
	}

	h = greet(t, compile(t, "loop.c")).hello
	if !h.OwnsLoop || h.NumEnvs != 1 || h.Action.Kind != "multi_discrete" || h.Action.Nvec[1] != 10 ||
		h.Obs[1].Kind != "multi_discrete" || h.Obs[1].Nvec[0] != 2 {
		t.Errorf("greeting of a solver that owns its loop: %+v", h)
	}
}

// TestCServed plays three environments with floats and doubles, one by one and together, with and without shared
// memory. The numbers are always the same.
func TestCServed(t *testing.T) {
	program := compile(t, "served.c")
	for _, args := range [][]string{{"f32"}, {"f64"}, {"f32", "all"}, {"f64", "all"}} {
		for _, share := range []bool{false, true} {
			t.Run(strings.Join(args, " ")+map[bool]string{false: " inline", true: " shared"}[share],
				func(t *testing.T) {
					p := greet(t, append([]string{program}, args...)...)
					p.configure(3, 4, 0, share)
					playServed(t, p)
					p.end()
				})
		}
	}
}

// TestFortranServed is TestCServed for procedures in Fortran.
func TestFortranServed(t *testing.T) {
	program := compile(t, "served.f90")
	for _, args := range [][]string{nil, {"all"}} {
		p := greet(t, append([]string{program}, args...)...)
		p.configure(3, 4, 0, true)
		playServed(t, p)
		p.end()
	}
}

// act sets the action of environment e.
func (p *parent) act(e int, a, b float32) {
	p.request.put("action", 2*e, a)
	p.request.put("action", 2*e+1, b)
}

// wantRow compares the observation of environment e, which is the count and the last action, and its reward.
func (p *parent) wantRow(t *testing.T, when string, e int, count, a, b, reward float32) {
	t.Helper()
	for i, x := range []float32{count, a, b} {
		if got := p.reply.f32("obs.state", 3*e+i); got != x {
			t.Errorf("%s: number %d of environment %d is %g: want %g", when, i, e, got, x)
		}
	}
	if got := p.reply.f32("reward", e); got != reward {
		t.Errorf("%s: reward of environment %d is %g: want %g", when, e, got, reward)
	}
}

// playServed plays three environments of testdata/served.c. Each part continues where the part before ended.
func playServed(t *testing.T, p *parent) {
	playBounds(t, p)
	playStep(t, p)
	playSaved(t, p)
	playPictures(t, p)

	// Without AUTORESET, an ended environment waits, and its observation stays the final one.
	r, _ := p.ask(header{Type: step}, nil)
	if r.Flags != 0 || p.reply.u8("terminated", 1) != 1 {
		t.Errorf("flags %d, terminated %d", r.Flags, p.reply.u8("terminated", 1))
	}
	p.wantRow(t, "the last step", 1, 1000, 1.25, -1, 2.25)
}

// playBounds begins episodes and sends an action at its bound. The nearest float32 to 1.7 is above 1.7, but the program
// gets actions within its bounds.
func playBounds(t *testing.T, p *parent) {
	for e := range 3 {
		p.request.put("seed", e, uint64([]int{10, 998, 20}[e]))
	}
	p.ask(header{Type: reset}, nil)
	p.wantRow(t, "reset", 1, 998, 0, 0, 0)

	for e := range 3 {
		p.act(e, 1.7, math.Nextafter32(-1, -2))
	}
	p.act(1, 9, -9)
	p.ask(header{Type: step, Flags: autoreset}, nil)
	p.wantRow(t, "bounds", 0, 11, 1.7, -1, 2.7)
	p.wantRow(t, "bounds", 1, 999, 1.7, -1, 2.7)
	p.ask(header{Type: reset}, nil)
}

// playStep takes a step of all environments but the last.
func playStep(t *testing.T, p *parent) {
	p.request.put("mask", 2, uint8(0))
	for e := range 3 {
		p.act(e, float32(e)+0.25, -1)
		p.request.put("seed", e, uint64(30+e))
	}
	if r, _ := p.ask(header{Type: step, Flags: autoreset}, nil); r.Flags != 0 {
		t.Errorf("flags %d where no episode ended", r.Flags)
	}
	p.wantRow(t, "step 1", 0, 11, 0.25, -1, 1.25)
	p.wantRow(t, "step 1", 1, 999, 1.25, -1, 2.25)
	p.wantRow(t, "step 1", 2, 20, 0, 0, 0)
	if got := p.reply.u8("obs.image", 12+5); got != 999&255+5 {
		t.Errorf("byte 5 of the second image is %d", got)
	}
	if got := p.reply.f32("info", 1); got != 499.5 {
		t.Errorf("figure of environment 1: %g", got)
	}
}

// playSaved plays twice from a saved state, which includes the length of the episode. Environment 1 reaches its end and
// begins a new episode, and later environment 0 is truncated.
func playSaved(t *testing.T, p *parent) {
	_, states := p.ask(header{Type: save}, nil)
	if len(states) != 3*p.hello.StateSize {
		t.Fatalf("%d bytes of states", len(states))
	}

	// Environment 1 reaches its end and begins a new episode with its seed; the others continue.
	for range 2 { // the second time from the loaded state
		r, _ := p.ask(header{Type: step, Flags: autoreset}, nil)
		if r.Flags != final || p.reply.u8("terminated", 1) != 1 || p.reply.u8("truncated", 1) != 0 ||
			p.reply.u8("terminated", 0) != 0 {
			t.Errorf("flags %d, terminated %d, truncated %d", r.Flags, p.reply.u8("terminated", 1),
				p.reply.u8("truncated", 1))
		}
		if got := p.reply.f32("final.state", 3); got != 1000 {
			t.Errorf("the last count is %g", got)
		}
		p.wantRow(t, "step 2", 1, 31, 0, 0, 2.25)
		p.ask(header{Type: step, Flags: autoreset}, nil)
		if p.reply.u8("terminated", 1) != 0 {
			t.Error("the end of an episode is still said a step later")
		}
		p.wantRow(t, "step 3", 1, 32, 1.25, -1, 2.25)

		// max_steps is 4, and environment 0 has taken its fourth.
		p.ask(header{Type: step, Flags: autoreset}, nil)
		if p.reply.u8("truncated", 0) != 1 || p.reply.u8("terminated", 0) != 0 || p.reply.f32("final.state", 0) != 14 {
			t.Errorf("truncated %d, final count %g", p.reply.u8("truncated", 0), p.reply.f32("final.state", 0))
		}
		p.wantRow(t, "step 4", 0, 30, 0, 0, 1.25)

		p.ask(header{Type: load}, states)
		p.wantRow(t, "load", 0, 11, 0.25, -1, 0)
		p.wantRow(t, "load", 1, 999, 1.25, -1, 0)
	}
}

// playPictures asks for two pictures of four by two.
func playPictures(t *testing.T, p *parent) {
	body := binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, 4), 2)
	_, pictures := p.ask(header{Type: render}, append(body, 1, 0, 1))
	if len(pictures) != 2*4*2*3 || pictures[0] != 11 || pictures[24] != 20 {
		t.Errorf("pictures %d", pictures)
	}
}

func TestCIgnoresTerminations(t *testing.T) {
	p := greet(t, compile(t, "served.c"))
	p.configure(1, 0, 1, false)
	p.request.put("seed", 0, uint64(999))
	p.ask(header{Type: reset}, nil)
	for i := range 3 {
		p.ask(header{Type: step, Flags: autoreset}, nil)
		if p.reply.u8("terminated", 0) != 0 || p.reply.f32("obs.state", 0) != float32(1000+i) {
			t.Errorf("step %d: terminated %d at a count of %g", i, p.reply.u8("terminated", 0),
				p.reply.f32("obs.state", 0))
		}
	}
	p.end()
}

func TestCSolverOwnsItsLoop(t *testing.T) { playLoop(t, compile(t, "loop.c")) }

func TestFortranSolverOwnsItsLoop(t *testing.T) { playLoop(t, compile(t, "loop.f90")) }

// put sets the action of a solver's environment, which contains the end and the reward of the step, and the next seed.
func (p *parent) put(how, reward int32, seed uint64) {
	p.request.put("action", 0, how)
	p.request.put("action", 1, reward)
	p.request.put("seed", 0, seed)
}

// wantLoop compares the observation of a solver's environment, and the flags of the answer.
func (p *parent) wantLoop(t *testing.T, when string, r header, flags uint16, terminated, truncated byte,
	count float32, parity int32) {
	t.Helper()
	if r.Flags != flags || p.reply.u8("terminated", 0) != terminated || p.reply.u8("truncated", 0) != truncated {
		t.Errorf("%s: flags %d, terminated %d, truncated %d", when, r.Flags, p.reply.u8("terminated", 0),
			p.reply.u8("truncated", 0))
	}
	if p.reply.f32("obs.state", 0) != count || p.reply.i32("obs.parity", 0) != parity {
		t.Errorf("%s: count %g, parity %d: want %g, %d", when, p.reply.f32("obs.state", 0),
			p.reply.i32("obs.parity", 0), count, parity)
	}
}

// playLoop ends the episodes of a solver in every possible way, with and without shared memory.
func playLoop(t *testing.T, program string) {
	for _, share := range []bool{false, true} {
		p := greet(t, program)
		p.configure(1, 3, 0, share)
		loopTerminates(t, p)
		loopIsCutOff(t, p)
		loopIsReset(t, p)
		loopWithoutAutoreset(t, p)
		p.end()
	}
}

// loopTerminates begins an episode and takes two steps; the second step ends the episode.
func loopTerminates(t *testing.T, p *parent) {
	p.put(0, 0, 7)
	r, _ := p.ask(header{Type: reset}, nil)
	p.wantLoop(t, "reset", r, 0, 0, 0, 7, 1)
	p.put(0, 3, 50)
	r, _ = p.ask(header{Type: step, Flags: autoreset}, nil)
	p.wantLoop(t, "step", r, 0, 0, 0, 8, 0)
	if p.reply.f32("reward", 0) != 1.5 || p.reply.f32("info", 0) != 0.8 || p.reply.f32("obs.state", 1) != 3 {
		t.Errorf("reward %g, figure %g, action seen %g", p.reply.f32("reward", 0), p.reply.f32("info", 0),
			p.reply.f32("obs.state", 1))
	}
	p.put(1, 2, 50)
	r, _ = p.ask(header{Type: step, Flags: autoreset}, nil)
	p.wantLoop(t, "terminated", r, final, 1, 0, 50, 0)
	if p.reply.f32("final.state", 0) != 9 || p.reply.i32("final.parity", 0) != 1 || p.reply.f32("reward", 0) != 1 {
		t.Errorf("final count %g, parity %d, reward %g", p.reply.f32("final.state", 0),
			p.reply.i32("final.parity", 0), p.reply.f32("reward", 0))
	}
}

// loopIsCutOff takes three steps, after which the episode is truncated although the solver continues.
func loopIsCutOff(t *testing.T, p *parent) {
	p.put(0, 0, 61)
	var r header
	for i := range 3 {
		r, _ = p.ask(header{Type: step, Flags: autoreset}, nil)
		if i < 2 {
			p.wantLoop(t, "going on", r, 0, 0, 0, float32(51+i), int32(51+i)%2)
		}
	}
	p.wantLoop(t, "cut off", r, final, 0, 1, 61, 1)
	if p.reply.f32("final.state", 0) != 53 {
		t.Errorf("final count %g", p.reply.f32("final.state", 0))
	}
}

// loopIsReset sends a RESET within an episode, a RESET with an empty mask, and a STEP with an empty mask.
func loopIsReset(t *testing.T, p *parent) {
	p.put(0, 0, 70)
	r, _ := p.ask(header{Type: reset}, nil)
	p.wantLoop(t, "reset within an episode", r, 0, 0, 0, 70, 0)
	p.put(0, 0, 80)
	p.request.put("mask", 0, uint8(0))
	r, _ = p.ask(header{Type: reset}, nil)
	p.wantLoop(t, "reset of nobody", r, 0, 0, 0, 70, 0)
	r, _ = p.ask(header{Type: step}, nil)
	p.wantLoop(t, "step of nobody", r, 0, 0, 0, 70, 0)
	p.request.put("mask", 0, uint8(1))
}

// loopWithoutAutoreset: without AUTORESET, the answer to the last step comes at once, and a RESET begins the next
// episode.
func loopWithoutAutoreset(t *testing.T, p *parent) {
	p.put(3, 4, 90)
	r, _ := p.ask(header{Type: step}, nil)
	p.wantLoop(t, "ended", r, 0, 1, 1, 71, 1)
	r, _ = p.ask(header{Type: reset}, nil)
	p.wantLoop(t, "reset after an end", r, 0, 0, 0, 90, 0)
}

// TestCGreetingAlone ends the conversation after the greeting, as rlinf does when it asks for the spaces.
func TestCGreetingAlone(t *testing.T) {
	for _, source := range []string{"served.c", "loop.c", "loop.f90"} {
		greet(t, compile(t, source)).end()
	}
}

// TestCHangUp closes the pipes without CLOSE: before the first episode, within an episode, and between two episodes.
func TestCHangUp(t *testing.T) {
	for _, name := range []string{"served.c", "loop.c"} {
		program := compile(t, name)
		for requests := range 3 {
			p := greet(t, program)
			p.configure(1, 0, 0, false)
			if requests > 0 {
				p.ask(header{Type: reset}, nil)
			}
			if requests > 1 {
				p.request.put("action", 0, int32(0))
				p.ask(header{Type: step}, nil)
			}
			p.out.Close()
			p.in.Close()
			if err := p.cmd.Wait(); err != nil || p.errors.Len() > 0 {
				t.Errorf("%s after %d requests: %v\n%s", name, requests, err, p.errors)
			}
		}
	}
}

// A hostile parent sends a forbidden frame.
type hostile struct {
	name, want string
	do         func(p *parent)
}

// sendHostile checks that the child answers with ERROR, or ends with a message. The child must not crash, hang or read
// beyond its input.
func sendHostile(t *testing.T, tests []hostile) {
	t.Helper()
	program := compile(t, "served.c")
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p := greet(t, program)
			test.do(p)
			h, text := p.receive()
			if h.Type != failure || !strings.Contains(string(text), test.want) {
				t.Errorf("type %d: %q: want an ERROR with %q", h.Type, text, test.want)
			}
			p.cmd.Wait()
			if code := p.cmd.ProcessState.ExitCode(); code != 1 || !strings.Contains(p.errors.String(), test.want) {
				t.Errorf("exit code %d, and on standard error:\n%s", code, p.errors)
			}
		})
	}
}

// wrongStep is a changed STEP after a valid CONFIG and RESET.
func wrongStep(change func(p *parent, h *header)) func(*parent) {
	return func(p *parent) {
		p.configure(3, 0, 0, false)
		p.ask(header{Type: reset}, nil)
		h := header{Type: step, Count: 3, Seq: 2}
		change(p, &h)
		p.send(h, p.request.data)
	}
}

// TestCHostileConfig: a CONFIG with a wrong length, version or number is answered with an ERROR.
func TestCHostileConfig(t *testing.T) {
	config32 := func(words ...uint32) []byte {
		b := make([]byte, 32)
		for i, w := range words {
			binary.LittleEndian.PutUint32(b[4*i:], w)
		}
		return b
	}
	sendHostile(t, []hostile{
		{"a wrong magic", "no CONFIG", func(p *parent) {
			p.send(header{Magic: [4]byte{'R', 'L', 'B', '2'}, Type: config}, config32(1, 1))
		}},
		{"a request first", "no CONFIG", func(p *parent) { p.send(header{Type: reset, Count: 1}, nil) }},
		{"a short CONFIG", "31 bytes", func(p *parent) { p.send(header{Type: config}, config32(1, 1)[:31]) }},
		{"a long CONFIG", "expected 32 to 4128", func(p *parent) {
			p.send(header{Type: config, Length: 1 << 62}, config32(1, 1))
		}},
		{"version 2", "version 2", func(p *parent) { p.send(header{Type: config}, config32(2, 1)) }},
		{"no environment", "0 environments", func(p *parent) { p.send(header{Type: config}, config32(1, 0)) }},
		{"too many environments", "1048577 environments", func(p *parent) {
			p.send(header{Type: config}, config32(1, 1<<20+1))
		}},
		{"more than an int of environments", "4294967295 environments", func(p *parent) {
			p.send(header{Type: config}, config32(1, 1<<32-1))
		}},
		{"unknown flags", "flags 2", func(p *parent) { p.send(header{Type: config}, config32(1, 1, 0, 0, 2)) }},
		{"little shared memory", "64 bytes of shared memory", func(p *parent) {
			p.send(header{Type: config}, config32(1, 1, 0, 0, 0, 0, 64))
		}},
		{"a simulator that refuses", "can't start", func(p *parent) { p.send(header{Type: config}, config32(1, 13)) }},
	})
}

// TestCHostileStep: a STEP with an invalid header or action is answered with an ERROR.
func TestCHostileStep(t *testing.T) {
	sendHostile(t, []hostile{
		{"the wrong magic of a request", "expected RLB1", wrongStep(func(_ *parent, h *header) { h.Magic[0] = 1 })},
		{"an unknown type", "type 99", wrongStep(func(_ *parent, h *header) { h.Type = 99 })},
		{"a wrong length", "expected ", wrongStep(func(_ *parent, h *header) { h.Length = 1 << 40 })},
		{"a short length", "63 bytes", wrongStep(func(_ *parent, h *header) { h.Length = 63 })},
		{"a wrong count", "count 4", wrongStep(func(_ *parent, h *header) { h.Count = 4 })},
		{"a reserved word", "reserved 1", wrongStep(func(_ *parent, h *header) { h.Reserved = 1 })},
		{"an unknown flag", "flags 8", wrongStep(func(_ *parent, h *header) { h.Flags = 8 })},
		{"a wrong number", "request 7 after 1", wrongStep(func(_ *parent, h *header) { h.Seq = 7 })},
		{"an action that is none", "action 1 of environment 2", wrongStep(func(p *parent, _ *header) {
			p.request.put("action", 5, uint32(0x7fc00000))
		})},
		{"a mask of 2", "mask of environment 1 is 2", wrongStep(func(p *parent, _ *header) {
			p.request.put("mask", 1, uint8(2))
		})},
	})
}

// TestCHostileRequest: a request at the wrong time, or an impossible request, is answered with an ERROR.
func TestCHostileRequest(t *testing.T) {
	sendHostile(t, []hostile{
		{"a step before a reset", "never begun", func(p *parent) {
			p.configure(1, 0, 0, false)
			p.send(header{Type: step, Count: 1, Seq: 1}, p.request.data)
		}},
		{"states that were not saved", "progress of environment 0 is -77", func(p *parent) {
			p.configure(1, 0, 0, false)
			p.send(header{Type: load, Seq: 1}, append([]byte{0xb3, 0xff, 0xff, 0xff}, make([]byte, 24)...))
		}},
		{"a huge picture", "65535 by 65535", func(p *parent) {
			p.configure(1, 0, 0, false)
			p.send(header{Type: render, Seq: 1}, []byte{0xff, 0xff, 0, 0, 0xff, 0xff, 0, 0, 1})
		}},
	})
}

// TestCWaitsThroughSignals interrupts a simulator by signals while it waits for requests.
func TestCWaitsThroughSignals(t *testing.T) {
	hub := external.NewHub(t.Output(), 0)
	t.Cleanup(func() { hub.Close() })
	step := idle(t, hub, env.Command{compile(t, "idle.c"), "signals"})
	for range 20_000 {
		step()
	}
}

// TestCMemoryThatCannotBeMapped: the child continues without shared memory if the file is missing, too short, or no
// regular file.
func TestCMemoryThatCannotBeMapped(t *testing.T) {
	program := compile(t, "served.c")
	short := filepath.Join(t.TempDir(), "short")
	test.OK(t, os.WriteFile(short, make([]byte, 8191), 0o600))
	for _, path := range []string{"/nowhere", short, "/dev/zero", "/tmp", ""} {
		p := greet(t, program)
		p.layOut(1)
		body := make([]byte, 32)
		body[0], body[4] = 1, 1
		binary.LittleEndian.PutUint64(body[24:], 8192)
		p.send(header{Type: config}, append(body, path...))
		if h, text := p.receive(); h.Type != ready || h.Flags != 0 {
			t.Errorf("%q: type %d, flags %d: %s", path, h.Type, h.Flags, text)
			continue
		}
		p.ask(header{Type: reset}, nil)
		p.end()
	}
}

// TestFortranArrays checks that arrays of every kind keep their order in memory, and that their sizes are in C's order.
func TestFortranArrays(t *testing.T) {
	p := greet(t, compile(t, "arrays.f90"))
	shapes := map[string][]int{"small": {2, 3}, "big": {2, 2, 2}, "image": {4, 5, 3}}
	for _, s := range p.hello.Obs {
		if !slices.Equal(s.Shape, shapes[s.Name]) || (s.Dtype == "u8") != (s.Name == "image") ||
			(s.Low == -10.0) != (s.Name == "small") {
			t.Errorf("observation %+v: want a shape of %v", s, shapes[s.Name])
		}
	}
	if p.hello.Action.Low != -2.0 || p.hello.Action.High != 3.0 || p.hello.MaxSteps != 7 || !p.hello.OwnsLoop {
		t.Errorf("greeting %+v", p.hello)
	}
	p.configure(1, 0, 0, true)
	p.ask(header{Type: reset}, nil)
	p.request.put("action", 0, float32(1.5))
	p.request.put("action", 1, float32(-0.25))
	p.ask(header{Type: step}, nil)
	if p.reply.f32("reward", 0) != 1.25 || p.reply.f32("obs.small", 4) != 5 || p.reply.f32("obs.big", 7) != 8 ||
		p.reply.u8("obs.image", 59) != 60 {
		t.Errorf("reward %g, arrays %g, %g, %d", p.reply.f32("reward", 0), p.reply.f32("obs.small", 4),
			p.reply.f32("obs.big", 7), p.reply.u8("obs.image", 59))
	}
	p.end()
}

// TestCFuzz plays thousands of conversations with a fault somewhere, for a second, or for ten minutes with
// RLINF_TEST_FULL=1.
func TestCFuzz(t *testing.T) {
	seconds := "1"
	if os.Getenv("RLINF_TEST_FULL") != "" {
		seconds = "600"
	}
	out, err := exec.Command(compile(t, "fuzz.c"), seconds).CombinedOutput()
	var conversations, errors, answers int
	fmt.Sscanf(string(out), "%d conversations, %d errors, %d answers", &conversations, &errors, &answers)
	if err != nil || conversations < 100 || errors < conversations/10 || errors > conversations/10*9 ||
		answers < conversations {
		t.Errorf("%v: want many conversations, some of them with errors, and most with answers\n%s", err, out)
	}
}
