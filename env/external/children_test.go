package external_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/env/external"
	"github.com/rlinf/rlinf/tensor"
)

// beChild is the test program as a child: it plays CartPole, with the fault that its argument names.
func beChild(address, token string) error {
	fault, at := "", 0
	if len(os.Args) > 1 {
		name, number, _ := strings.Cut(os.Args[1], "@")
		fault = name
		at, _ = strconv.Atoi(number)
	}
	once := ""
	if len(os.Args) > 2 {
		once = os.Args[2]
	}
	if done, err := withoutServe(fault, at); done {
		return err
	}
	if fault == "undead" {
		defer time.Sleep(time.Hour)
	}
	answers, memory := -1, -1
	switch fault {
	case "garbage", "chatter", "orphan", "cut":
		answers, _ = syscall.Dup(4)
	case "shrink":
		memory, _ = syscall.Dup(5)
	}
	if fault == "guided" || fault == "misguided" {
		bad := map[string]float32{"misguided": float32(math.Inf(1))}[fault]
		return external.Serve(address, token, newGuided(bad))
	}
	made := 0
	return external.Serve(address, token, func(maxSteps int, ignoreTerminations bool) (env.Vec, error) {
		if made++; fault == "unready" && made > 1 { // the first was made for the greeting
			time.Sleep(time.Hour)
		}
		v, err := newCartPole(maxSteps, ignoreTerminations)
		if err != nil || fault == "" {
			return v, err
		}
		switch fault {
		case "goals", "misjudging", "unending":
			v, err = newBitFlip(maxSteps, ignoreTerminations)
		case "endless":
			v, err = newCartPole(0, ignoreTerminations)
		case "terminating":
			v, err = newCartPole(maxSteps, false)
		case "changeling": // its replacement has another greeting
			if _, err := os.Stat(once); err == nil {
				v = renamed{v}
			}
		case "family":
			c := exec.Command("sleep", "1000")
			err = c.Start()
			fmt.Printf("grandchild %d\n", c.Process.Pid)
			fault = ""
		}
		return &faulty{Vec: v, fault: fault, at: at, once: once, answers: answers, memory: memory}, err
	})
}

// withoutServe plays the faults of children that do not call external.Serve. It reports whether fault is one of them.
func withoutServe(fault string, at int) (done bool, err error) {
	const state = `{"name":"state","kind":"box","dtype":"f32","shape":[1]}`
	switch fault {
	case "silent":
		time.Sleep(time.Hour)
	case "deaf": // does not check frames
		return true, repeat(3, 4, state, 0)
	case "sharing": // says that it shares memory, whatever it was offered
		return true, repeat(3, 4, state, 1)
	case "blocking": // its mask allows no option
		return true, repeat(3, 4, `{"name":"action_mask","kind":"box","dtype":"u8","shape":[2]}`, 0)
	case "wordy": // sends LOG frames of that many MiB, and no greeting
		answers, frame := os.NewFile(4, "answers"), append([]byte("RLB1\x09\x00"), make([]byte, 26)...)
		frame[26] = 0x10
		frame = append(frame, bytes.Repeat([]byte("verbose "), 1<<17)...)
		for range at {
			answers.Write(frame)
		}
		fmt.Println("no licence")
		os.Exit(3)
	case "parent":
		return true, beParent()
	}
	return false, nil
}

// A faulty Vec of one environment has its fault from step number at on.
type faulty struct {
	env.Vec
	fault    string
	at, step int
	once     string // a file that the first faulty child makes, so that no other is faulty; "": all children are faulty
	answers  int    // descriptor that answers are written to
	memory   int    // descriptor of the shared memory
	resets   int
}

func (f *faulty) Reset(mask []bool, seeds []uint64, out *env.Step) error {
	switch f.fault {
	case "seedless":
		seeds = []uint64{uint64(time.Now().UnixNano())}
	case "ageing": // every episode begins otherwise, in every child alike
		f.resets++
		seeds = []uint64{seeds[0] + uint64(f.resets)}
	case "reset":
		if f.resets++; f.resets == f.at && f.first() {
			os.Exit(7)
		}
	}
	return f.Vec.Reset(mask, seeds, out)
}

// first reports whether no other child had the fault before.
func (f *faulty) first() bool {
	if f.once == "" {
		return true
	}
	made, err := os.OpenFile(f.once, os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		made.Close()
	}
	return err == nil
}

func (f *faulty) Step(action tensor.Dict, seeds []uint64, out *env.Step) error {
	if err := f.Vec.Step(action, seeds, out); err != nil {
		return err
	}
	if f.step++; f.step < f.at {
		return nil
	}
	if f.fault == "" || !f.first() {
		return nil
	}
	switch f.fault {
	case "misjudging":
		out.Reward.F32()[0]++
	case "unending":
		out.Terminated.Zero()
	case "nan":
		out.Reward.F32()[0] = float32(math.NaN())
	case "observed":
		out.Obs.Must("state").F32()[1] = float32(math.Inf(1))
	case "flags":
		out.Truncated.U8()[0] = 2
	case "final":
		out.FinalObs.Must("state").F32()[0]++
	case "rant":
		fmt.Print(strings.Repeat("and another thing: the pole\n", 1<<20))
		fallthrough
	case "error":
		return fmt.Errorf("the pole broke in step %d", f.step)
	}
	return f.leave()
}

// leave ends the child or delays its answer, if the fault says so.
func (f *faulty) leave() error {
	switch f.fault {
	case "exit", "changeling":
		fmt.Println("about to leave")
		fmt.Fprintln(os.Stderr, "out of fuel")
		os.Exit(7)
	case "orphan": // leaves a process that keeps the pipe of the answers open
		if err := exec.Command("sleep", "1000").Start(); err != nil {
			return err
		}
		os.Exit(7)
	case "kill":
		fmt.Fprintln(os.Stderr, "farewell")
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
	case "hang":
		time.Sleep(time.Hour)
	case "garbage":
		syscall.Write(f.answers, []byte(strings.Repeat("Segmentation fault? ", 4)))
		time.Sleep(time.Hour) // the parent may have the answer by the bell before this child is stopped
	case "cut": // sends 5 bytes of an ERROR
		frame := append([]byte("RLB1\x08\x00"), make([]byte, 26)...)
		frame[24] = 100
		syscall.Write(f.answers, append(frame, "stuck"...))
		time.Sleep(time.Hour)
	case "chatter": // sends LOG frames for ever
		const text = "still thinking"
		frame := append([]byte("RLB1\x09\x00"), make([]byte, 26)...)
		frame[24] = byte(len(text))
		for {
			if _, err := syscall.Write(f.answers, append(frame, text...)); err == syscall.EAGAIN {
				time.Sleep(time.Millisecond)
			} else if err != nil {
				os.Exit(7)
			}
		}
	case "shrink": // makes the shared memory smaller
		fmt.Println("shrink:", syscall.Ftruncate(f.memory, 0))
		os.Exit(7)
	}
	return nil
}

// Save returns the state of the Vec; some faults leave parts out.
func (f *faulty) Save() (tensor.Dict, error) { return env.Save(f.Vec) }

func (f *faulty) Load(state tensor.Dict) error {
	if f.fault == "forgetful" {
		return nil
	}
	return env.Load(f.Vec, state)
}

// A renamed Vec has another name.
type renamed struct{ env.Vec }

func (r renamed) Spec() env.Spec {
	s := r.Vec.Spec()
	s.Name = "Another"
	return s
}

// repeat is a child that accepts any frame and answers with zeros. obs are the observations in its greeting, and flags
// those of its READY.
func repeat(in, out int, obs string, ready byte) error {
	r, w := os.NewFile(uintptr(in), "requests"), os.NewFile(uintptr(out), "answers")
	hello := `{"v":1,"name":"deaf","obs":[` + obs + `],"action":{"kind":"discrete","n":2}}`
	head := make([]byte, 32)
	copy(head, "RLB1\x01")
	binary.LittleEndian.PutUint64(head[24:], uint64(len(hello)))
	w.Write(append(head, hello...))
	for first := true; ; first = false {
		if _, err := io.ReadFull(r, head); err != nil {
			return nil
		}
		payload := make([]byte, min(binary.LittleEndian.Uint64(head[24:]), 1<<16))
		io.ReadFull(r, payload)
		if copy(head, "RLB1\x06\x00\x00\x00"); first {
			head[4], head[6] = 3, ready
		}
		reply := make([]byte, 64*4) // one environment's reward, flags and observation
		if first {
			reply = nil
		}
		binary.LittleEndian.PutUint64(head[24:], uint64(len(reply)))
		w.Write(append(head, reply...))
	}
}

// beParent makes environments, prints the process numbers of their children, and waits to be killed.
func beParent() error {
	os.Unsetenv("RLB_ADDR")
	cfg := env.DefaultConfig()
	cfg.EnvType = env.ExternalID
	cfg.External.Command = env.Command{os.Args[0], "undead"} // the end of the stream does not end this child
	cfg.External.N = 2
	hub := newHub(os.Stderr)
	vec, err := hub.New(cfg, 4)
	if err == nil {
		err = vec.Reset(nil, make([]uint64, 4), vec.Spec().NewStep(4, 1))
	}
	if err != nil {
		return err
	}
	fmt.Println(strings.Join(offspring(), " "))
	time.Sleep(time.Hour)
	return nil
}

// offspring returns the numbers of the processes that this process or its supervisors have started.
func offspring() (pids []string) {
	for _, pid := range childrenOf(strconv.Itoa(os.Getpid())) {
		if command, _ := os.ReadFile("/proc/" + pid + "/cmdline"); strings.HasPrefix(string(command),
			"rlinf-supervisor") {
			pids = append(pids, childrenOf(pid)...)
		} else {
			pids = append(pids, pid)
		}
	}
	return pids
}

// childrenOf returns the numbers of the children of a process.
func childrenOf(parent string) (pids []string) {
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range files {
		stat, _ := os.ReadFile(file) // number (name) state parent ...
		if f := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:])); len(f) > 1 && f[1] == parent {
			pids = append(pids, filepath.Base(filepath.Dir(file)))
		}
	}
	return pids
}
