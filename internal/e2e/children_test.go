package e2e

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rlinf/rlinf/internal/checkpoint"
	"github.com/rlinf/rlinf/internal/runfolder"
	"github.com/rlinf/rlinf/internal/test"
)

// served is the configuration of children that play CartPole, by rlinf bridge serve.
const served = `
cluster: {component_placement: {"actor,env,rollout": 0}}
runner: {max_steps: 1}
env: {train: {env_type: CartPole-v1, total_num_envs: 1, max_steps_per_rollout_epoch: 32}}
actor: {micro_batch_size: 32, global_batch_size: 32, optim: {lr: 1.0e-3}}
`

// killed is a job on two ranks with environments, each of which four children share.
const killed = `
cluster: {component_placement: {actor: 0, env: 0-1, rollout: 0}}
runner: {max_steps: %d, val_check_interval: -1, save_interval: -1, logger: {experiment_name: run}}
env:
  train:
    env_type: external
    total_num_envs: 32
    max_steps_per_rollout_epoch: 32
    external: {command: "%s bridge serve -c served.yaml", n: 4, max_restarts: 1000}
algorithm: {gamma: 0.99, gae_lambda: 0.95, update_epoch: 8, normalize_advantages: minibatch}
actor: {micro_batch_size: 128, global_batch_size: 128, optim: {lr: 1.0e-3, weight_decay: 0}}
`

// TestChildrenKilled: training reaches its score although a child is killed from time to time. After each replacement
// the processes have as many children, descriptors and shared segments as in the beginning, whether both ranks are in
// one process or not.
func TestChildrenKilled(t *testing.T) {
	t.Parallel()
	kills, pause, score := 6, time.Duration(0), 60.0
	if full {
		kills, pause, score = 20, 2*time.Second, 450
	}
	for _, p := range platforms {
		t.Run(p.name, func(t *testing.T) {
			np, processes := 2, 2
			if p == local {
				np, processes = 0, 1
			}
			dir := t.TempDir()
			writeFile(t, dir, "served.yaml", served)
			writeFile(t, dir, "job.yaml", fmt.Sprintf(killed, 100000, local.program(t, ".")))
			j := p.start(t, dir, np, "-c", "job.yaml")
			run := filepath.Join(dir, "logs", "run")
			// By then all children have started, and MPI has connected to all peers.
			poll(t, j, func() bool { return len(readMetrics(t, run)) >= 10 })
			first := holds(j.children())
			now := first
			defer func() {
				t.Logf("[children descriptors mappings] of each process at first %v, at last %v", first, now)
			}()
			test.Equal(t, len(first), processes, "processes have children")
			for i := range kills {
				children := j.children()
				victim := children[i%len(children)]
				syscall.Kill(victim, syscall.SIGKILL)
				time.Sleep(pause)
				poll(t, j, func() bool {
					children := j.children()
					now = holds(children)
					return !slices.Contains(children, victim) && maps.EqualFunc(first, now, held.near)
				})
			}
			poll(t, j, func() bool {
				r := readMetrics(t, run).values(t, "env/return")
				return r[len(r)-1] >= score
			})
			j.signal(syscall.SIGUSR1)
			r := j.result()
			restarts := restartsOf(run)
			if !p.stopped(r.code, 75) || restarts != kills {
				t.Fatalf("exit code %d, %d kills, %d replaced\n%s%s", r.code, kills, restarts, r.stdout, r.stderr)
			}
			lost := lostEpisodes(t, run)
			// A replacement that is killed before its first episode loses no further episodes.
			if lost < 4 || lost > 4*float64(kills) {
				t.Errorf("%v episodes were lost in %d restarts of children with 4 environments each", lost, kills)
			}
		})
	}
}

// restartsOf returns the number of replaced simulators, from the logs of all ranks: the terminal shows only one of
// several equal messages.
func restartsOf(run string) (restarts int) {
	logs, _ := filepath.Glob(filepath.Join(run, "logs", "rank-*.log"))
	for _, file := range logs {
		text, _ := os.ReadFile(file)
		restarts += bytes.Count(text, []byte("another simulator takes over"))
	}
	return restarts
}

func lostEpisodes(t *testing.T, run string) (lost float64) {
	for _, n := range readMetrics(t, run).values(t, "env/num_lost") {
		if n == 0 {
			t.Error("env/num_lost is 0, and there")
		}
		lost += n
	}
	return lost
}

// A held counts the children of a process, and its own descriptors and mappings of shared memory.
type held [3]int

// near reports whether a process holds as much as before. The first warning opens the log, so one more descriptor is
// allowed.
func (h held) near(now held) bool {
	return now[0] == h[0] && now[1] >= h[1] && now[1] <= h[1]+1 && now[2] == h[2]
}

// children returns the processes of the job that play environments, in the order of their numbers.
func (j *job) children() (pids []int) {
	for _, p := range j.processes() {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.pid))
		if bytes.Contains(line, []byte("bridge\x00serve")) {
			pids = append(pids, p.pid)
		}
	}
	slices.Sort(pids)
	return pids
}

// parentOf returns the parent of a process.
func parentOf(pid int) (parent int) {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	var state string
	fmt.Sscan(string(stat[bytes.LastIndexByte(stat, ')')+1:]), &state, &parent)
	return parent
}

// holds counts what the parents of these children hold. The parents are the supervisors of ranks.
func holds(children []int) map[int]held {
	all := map[int]held{}
	for _, c := range children {
		parent := parentOf(parentOf(c))
		h, known := all[parent]
		if !known {
			proc := fmt.Sprintf("/proc/%d/", parent)
			descriptors, _ := os.ReadDir(proc + "fd")
			maps, _ := os.ReadFile(proc + "maps")
			h = held{0, len(descriptors), bytes.Count(maps, []byte("/memfd:")) + bytes.Count(maps, []byte("/dev/shm/"))}
		}
		h[0]++
		all[parent] = h
	}
	return all
}

// TestChildrenGivenUp: a job whose children fail too often stops with a checkpoint, and says why the children failed.
// The job can be resumed.
func TestChildrenGivenUp(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	program := local.program(t, ".")
	writeFile(t, dir, "served.yaml", served)
	// Once this file exists, a child exits before the handshake.
	script := writeFile(t, dir, "child", "#!/bin/sh\n[ -e broken ] && { echo no licence; exit 3; }\nexec "+program+
		" bridge serve -c served.yaml\n")
	test.OK(t, os.Chmod(script, 0o777))
	writeFile(t, dir, "job.yaml", strings.ReplaceAll(fmt.Sprintf(killed, 10000, program),
		program+" bridge serve -c served.yaml", script))
	j := local.start(t, dir, 0, "-c", "job.yaml", "env.train.external.max_restarts=1")
	run := filepath.Join(dir, "logs", "run")
	poll(t, j, func() bool {
		text, _ := os.ReadFile(filepath.Join(run, "metrics.jsonl"))
		return len(j.children()) == 8 && bytes.Count(text, []byte("\n")) > 0
	})
	writeFile(t, dir, "broken", "")
	syscall.Kill(j.children()[0], syscall.SIGKILL)
	r := j.result()
	says := "it exited before the handshake: does it speak RLB1? (exit status 3); its last output:\n    no " +
		"licence\nthat was 2 times in a row"
	if r.code != 1 || !strings.Contains(r.stderr, says) || readStatus(t, run) != runfolder.Failed {
		t.Fatalf("exit code %d, STATUS %v, want %q\n%s%s", r.code, readStatus(t, run), says, r.stdout, r.stderr)
	}
	last, err := checkpoint.Load(filepath.Join(run, "checkpoints", "latest"))
	if err != nil || last.Step < 1 {
		t.Fatalf("latest checkpoint: %+v, %v\n%s%s", last, err, r.stdout, r.stderr)
	}
	test.OK(t, os.Remove(filepath.Join(dir, "broken")))
	// another value of max_restarts is allowed
	local.ok(t, dir, 0, "-c", "job.yaml", "--resume", "auto", fmt.Sprintf("runner.max_steps=%d", last.Step+2))
	if m := readMetrics(t, run); len(m) != int(last.Step)+2 {
		t.Errorf("%d iterations in all, want %d", len(m), last.Step+2)
	}
}
