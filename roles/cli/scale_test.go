package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rlinf/rlinf/internal/moves"
	"github.com/rlinf/rlinf/internal/runfolder"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/internal/rolestest"
	"github.com/rlinf/rlinf/roles/loop"
)

// placedRunFolder writes the folder of a run of CartPole: actors on ranks 0-1, env on 2, rollout on 3 of four ranks.
func placedRunFolder(t *testing.T, status runfolder.Status) string {
	t.Helper()
	log := t.TempDir()
	cfg, _ := rolestest.MustLoad(t, rolestest.Cartpole, "~cluster.component_placement",
		"+cluster.component_placement={actor: 0-1, env: 2, rollout: 3}", "runner.logger.log_path="+log,
		"runner.logger.experiment_name=run")
	return folderOf(t, cfg, 4, status)
}

// folderOf writes the folder of a run of cfg on a number of ranks of one host.
func folderOf(t *testing.T, cfg *config.Config, ranks int, status runfolder.Status) string {
	t.Helper()
	dir := cfg.Folder()
	writeFile(t, filepath.Join(dir, "config.yaml"), string(cfg.Record()))
	writeFile(t, filepath.Join(dir, "STATUS"), string(status)+"\n")
	begun(t, dir, runfolder.Provenance{Hosts: slices.Repeat([]string{"a"}, ranks)})
	return dir
}

// begun gives the run in dir a newest start.
func begun(t *testing.T, dir string, p runfolder.Provenance) {
	t.Helper()
	p.Started, p.Iterations = time.Date(2026, 3, 4, 5, 6, 30, 0, time.UTC), 100
	text := test.Must(json.Marshal([]runfolder.Provenance{p}))(t)
	writeFile(t, filepath.Join(dir, "provenance.json"), string(text))
}

// writeFile writes a file, and makes its folder.
func writeFile(t testing.TB, path, text string) {
	t.Helper()
	test.OK(t, os.MkdirAll(filepath.Dir(path), 0o777))
	test.OK(t, os.WriteFile(path, []byte(text), 0o666))
}

func readFile(t testing.TB, path string) string {
	t.Helper()
	text := test.Must(os.ReadFile(path))(t)
	return string(text)
}

// runningJob makes this process the job that runs in dir, until the test ends.
func runningJob(t *testing.T, dir string) *runfolder.Folder {
	t.Helper()
	f := test.Must(runfolder.Open(dir, ""))(t)
	t.Cleanup(func() { f.Close() })
	test.OK(t, f.SetStatus(runfolder.Running))
	return f
}

// answering calls answer with the next request in dir, as rank 0 would.
func answering(t *testing.T, dir string, answer func(*moves.Request)) {
	t.Helper()
	done := make(chan struct{})
	t.Cleanup(func() { <-done })
	go func() {
		defer close(done)
		for range 1000 {
			r, err := moves.Pending(dir)
			if err != nil {
				t.Error(err)
				return
			}
			if r != nil {
				answer(r)
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
		t.Error("nobody asked")
	}()
}

// TestScale: the job gets the whole placement, and the command prints its answer.
func TestScale(t *testing.T) {
	dir := placedRunFolder(t, "")
	runningJob(t, dir)
	for _, c := range []struct {
		text, asked string
		answer      moves.Answer
		code        int
		says        string
	}{
		{"{env: 0}", "{actor: 0-1, env: 0, rollout: 3}", moves.Answer{Move: &moves.Move{Step: 7, Seconds: 0.25,
			Bytes: 2048, Members: 1, Before: "{env: 2}", After: "{env: 0}"}}, loop.ExitOK,
			"moved after step 7: env 2 → 0\n250 ms, 1 member, 2 KiB sent\n"},
		{"{'env,rollout': 1}", `{actor: 0-1, 'env,rollout': 1}`, moves.Answer{Refused: "no room on rank 1"},
			loop.ExitFailed, "scale: the job refused: no room on rank 1\n"},
	} {
		answering(t, dir, func(r *moves.Request) {
			if got := strings.ReplaceAll(r.Placement, `"`, "'"); got != c.asked {
				t.Errorf("%s: asked for %s, want %s", c.text, got, c.asked)
			}
			if err := moves.Reply(dir, r, c.answer); err != nil {
				t.Error(err)
			}
		})
		code, out, errs := run(t, "scale", dir, c.text)
		if code != c.code || out+errs != c.says && !strings.HasSuffix(errs+out, c.says) {
			t.Errorf("%s: code %d\n%s%s\nwant code %d\n%s", c.text, code, out, errs, c.code, c.says)
		}
	}
}

// TestScaleOfAPool: the workers of a pool, which the configuration does not name, move like those of any other job.
func TestScaleOfAPool(t *testing.T) {
	cfg, _ := rolestest.MustLoad(t, "../../configs/addition_grpo.yaml",
		"cluster.component_placement={actor: 0-1, rollout: 2-5}", "cluster.auto_scheduler=true",
		"runner.logger.log_path="+t.TempDir(), "cluster.allow_idle_ranks=true")
	dir := folderOf(t, cfg, 10, "")
	runningJob(t, dir)
	expect := func(text string, want int, says string) {
		t.Helper()
		code, out, errs := run(t, "scale", "--no-wait", dir, text)
		if code != want || !strings.Contains(out+errs, says) {
			t.Errorf("%s: code %d\n%s%s\nwant code %d\n%s", text, code, out, errs, want, says)
		}
	}
	expect("{rollout: 0-5}", loop.ExitOK, "already")
	expect("{rollout: 4-9}", loop.ExitOK, "asked for {actor: 0-1, rollout: 4-9};")
	expect("{rollout: 2-5}", loop.ExitOK, "asked for {actor: 0-1, rollout: '2:0-1,3,4:3-4,5'};")
	expect("{actor: 6-7}", loop.ExitOK, "asked for {actor: 6-7, rollout: 0-5};")
	expect("{actor: '6:0-1'}", loop.ExitOK, "asked for {actor: '6:0-1', rollout: 0-5};")
	expect("{rollout: 0-7}", loop.ExitConfig, "rollout: 8 rollout workers: expected 6 rollout workers, as now")
	test.OK(t, moves.Append(dir, moves.Move{Step: 3, After: "{actor: '3:0-1', rollout: '4:0-5'}"}))
	expect("{rollout: 4}", loop.ExitOK, "already")
	expect("{rollout: 0-5}", loop.ExitOK, "asked for {actor: '3:0-1', rollout: 0-5};")
}

// TestScaleResumesAPool: a run that must be resumed makes its pool anew, of the ranks that the configuration names.
func TestScaleResumesAPool(t *testing.T) {
	cfg, _ := rolestest.MustLoad(t, "../../configs/addition_grpo.yaml", "cluster.use_pre_process_policy=false",
		"cluster.component_placement={actor: '0-1:0-3', rollout: 2-3}", "cluster.auto_scheduler=true",
		"runner.logger.log_path="+t.TempDir(), "actor.global_batch_size=64")
	for status, ranks := range map[runfolder.Status]string{runfolder.Running: "2-4", runfolder.Interrupted: "2-3"} {
		dir := folderOf(t, cfg, 4, status)
		if status == runfolder.Running {
			runningJob(t, dir)
		}
		code, out, errs := run(t, "scale", dir, "{rollout: "+ranks+"}")
		want := "+cluster.component_placement={actor: '0-1:0-3', rollout: " + ranks + "}"
		if code != loop.ExitConfig || !strings.Contains(strings.ReplaceAll(errs, `'\''`, "'"), want) {
			t.Errorf("%s: code %d\n%s%s\nwant %s", status, code, out, errs, want)
		}
	}
}

// TestScaleFromTheNewestPlacement: components that are not named stay where the last move has put them.
func TestScaleFromTheNewestPlacement(t *testing.T) {
	dir := placedRunFolder(t, "")
	runningJob(t, dir)
	test.OK(t, moves.Append(dir, moves.Move{Step: 3, After: "{actor: 2-3, env: 0, rollout: 1}"}))
	code, out, errs := run(t, "scale", "--no-wait", dir, "{env: 1}")
	r, err := moves.Pending(dir)
	if code != 0 || err != nil || r == nil || r.Placement != "{actor: 2-3, env: 1, rollout: 1}" ||
		!strings.HasPrefix(out, "asked for {actor: 2-3, env: 1, rollout: 1}; rlinf status ") {
		t.Errorf("code %d, %+v, %v\n%s%s", code, r, err, out, errs)
	}
	test.OK(t, moves.Withdraw(dir, r.ID))
	if code, out, _ := run(t, "scale", dir, "{rollout: 1}"); code != 0 || !strings.Contains(out, "already") {
		t.Errorf("to where it is: code %d, %s", code, out)
	}
	if r, err := moves.Pending(dir); r != nil || err != nil {
		t.Errorf("to where it is: asked for %+v, %v", r, err)
	}
}

// TestScaleMistakes: the command reports all mistakes with exit code 2, before it asks the job.
func TestScaleMistakes(t *testing.T) {
	dir := placedRunFolder(t, "")
	runningJob(t, dir)
	for _, c := range []struct{ text, want string }{
		{"{actor: 0-3}", "cluster.component_placement.actor: 4 actors: expected 2 actors, as now: their number " +
			"decides the metrics\n"},
		{"{env: 3-2, rollout: x}", "command line: cluster.component_placement.env: 3-2: expected a range that ascends"},
		{"{env: 3-2, rollout: x}", "command line: cluster.component_placement.rollout: x: expected "},
		{"{env: 0-3}", "cluster.component_placement.env: 4 env workers: expected 1 env worker, as now: members " +
			"move, and their number stays\n"},
		{"{reward: 0}", "command line: cluster.component_placement.reward: reward: expected one of the components " +
			"that the run has: actor, env, rollout\n"},
		{"{env: 0, env: 1}", `as {actor: 0-3, env: 4-7}: line 1: mapping key "env" already defined at line 1`},
		{"{env: \x1b[31m}", `placement: "{env: \x1b[31m}": expected the places`},
		{strings.Repeat("x", 1000), "placement: " + strings.Repeat("x", 80) + " …: expected the places"},
		{"{env: 0-2}", "env.train.total_num_envs: 64: expected a multiple of "},
		{"{evn: 0}", "cluster.component_placement.evn: evn: expected one of"},
		{"env 0", "cluster.component_placement: env 0: expected the places of components, as {actor: 0-3, env: 4-7}\n"},
		{"{env: auto}", "auto: expected ranks: auto is for the start of a job\n"},
	} {
		code, out, errs := run(t, "scale", dir, c.text)
		if code != loop.ExitConfig || out != "" || !strings.Contains(errs, c.want) {
			t.Errorf("%s: code %d\n%s%s\nwant\n%s", c.text, code, out, errs, c.want)
		}
	}
	for _, args := range [][]string{{}, {dir}, {dir, "{env: 0}", "x"}, {filepath.Dir(dir), "{env: 0}"},
		{filepath.Join(dir, "no"), "{env: 0}"}} {
		code, _, errs := run(t, append([]string{"scale"}, args...)...)
		if says := strings.Contains(errs, "expected") || strings.Contains(errs, "no such"); code != loop.ExitConfig ||
			!says || !strings.HasPrefix(errs, "scale: ") {
			t.Errorf("%q: code %d, %s", args, code, errs)
		}
	}
	if r, err := moves.Pending(dir); r != nil || err != nil {
		t.Errorf("the job was asked: %+v, %v", r, err)
	}
	test.OK(t, os.Remove(filepath.Join(dir, "provenance.json")))
	if code, _, errs := run(t, "scale", dir, "{env: 0}"); code != loop.ExitConfig ||
		!strings.Contains(errs, "expected a run that has begun") {
		t.Errorf("without provenance: code %d, %s", code, errs)
	}
}

// TestScaleElsewhere: relative paths are no mistakes of a move, although the command runs in another folder.
func TestScaleElsewhere(t *testing.T) {
	dir := placedRunFolder(t, "")
	runningJob(t, dir)
	text := readFile(t, filepath.Join(dir, "config.yaml"))
	const table = "table: \"\""
	writeFile(t, filepath.Join(dir, "config.yaml"), strings.Replace(text, table, "table: not-here.json", 1))
	if !strings.Contains(text, table) {
		t.Fatalf("no %s in\n%s", table, text)
	}
	if code, out, errs := run(t, "scale", "--no-wait", dir, "{env: 0}"); code != loop.ExitOK {
		t.Errorf("code %d\n%s%s", code, out, errs)
	}
	if code, _, errs := run(t, "scale", dir, "{env: 2-1}"); code != loop.ExitConfig || strings.Contains(errs, "table") {
		t.Errorf("code %d\n%s", code, errs)
	}
}

// TestScaleByResume: for more ranks, or for a run that does not run, the command prints how to resume the run.
func TestScaleByResume(t *testing.T) {
	dir := placedRunFolder(t, "")
	config := filepath.Join(dir, "config.yaml")
	const moved = "--resume auto '~cluster.component_placement' "
	f := runningJob(t, dir)
	for _, c := range []struct {
		start      runfolder.Provenance
		text, want string
	}{
		{runfolder.Provenance{Hosts: []string{"a", "a", "a", "a"}}, "{env: 4-7}",
			"scale: the job has 4 ranks, and {env: 4-7} needs 8: expected ranks 0..3, or a resume on more:\n" +
				"PROGRAM -c " + config + " -np 8 " + moved +
				"'+cluster.component_placement={actor: 0-1, env: 4-7, rollout: 3}' " +
				"cluster.allow_idle_ranks=true\n"},
		{runfolder.Provenance{Hosts: []string{"a", "a", "b", "b"}, Job: "17", Launcher: "mpirun"},
			"{env: 2-5, rollout: 6}", "\nsbatch --nodes=4 --ntasks=7 SCRIPT " + moved +
				"'+cluster.component_placement={actor: 0-1, env: 2-5, rollout: 6}' cluster.num_nodes=4\n"},
	} {
		begun(t, dir, c.start)
		want := strings.ReplaceAll(c.want, "PROGRAM", os.Args[0])
		code, out, errs := run(t, "scale", dir, c.text)
		if code != loop.ExitConfig || !strings.HasSuffix(errs, want) {
			t.Errorf("%s: code %d\n%s%s\nwant\n%s", c.text, code, out, errs, want)
		}
	}
	test.OK(t, f.SetStatus(runfolder.Done))
	if code, _, errs := run(t, "scale", dir, "{env: 3}"); code != loop.ExitConfig ||
		errs != "scale: "+dir+": expected a run that runs, this one is done\n" {
		t.Errorf("of a run that is done: code %d, %s", code, errs)
	}
	test.OK(t, f.SetStatus(runfolder.Checkpointed))
	begun(t, dir, runfolder.Provenance{Hosts: []string{"a", "a", "a", "a"}})
	want := "scale: " + dir + ": expected a run that runs, this one is checkpointed; to resume it there:\n" +
		os.Args[0] + " -c " + config + " -np 4 " + moved +
		"'+cluster.component_placement={actor: 0-1, env: 2-3, rollout: 3}'\n"
	if code, out, errs := run(t, "scale", dir, "{env: 2-3}"); code != loop.ExitConfig || out != "" || errs != want {
		t.Errorf("code %d\n%s%s\nwant\n%s", code, out, errs, want)
	}
	if r, err := moves.Pending(dir); r != nil || err != nil {
		t.Errorf("the job was asked: %+v, %v", r, err)
	}
}

// TestScaleOfARunThatEnds: if the run ends without an answer, the command says so, and takes the request back.
func TestScaleOfARunThatEnds(t *testing.T) {
	dir := placedRunFolder(t, "")
	f := runningJob(t, dir)
	answering(t, dir, func(*moves.Request) {
		if err := f.SetStatus(runfolder.Done); err != nil {
			t.Error(err)
		}
	})
	code, out, errs := run(t, "scale", dir, "{env: 0}")
	if code != loop.ExitFailed || !strings.HasSuffix(errs, "scale: the run is done now, and has not answered\n") {
		t.Errorf("code %d\n%s%s", code, out, errs)
	}
	if r, err := moves.Pending(dir); r != nil || err != nil {
		t.Errorf("the request stays: %+v, %v", r, err)
	}
}

// TestScaleInterrupted: Ctrl-C ends the wait, and the request stays; a newer request ends it, too.
func TestScaleInterrupted(t *testing.T) {
	dir := placedRunFolder(t, "")
	runningJob(t, dir)
	answering(t, dir, func(*moves.Request) {
		if err := syscall.Kill(os.Getpid(), syscall.SIGINT); err != nil {
			t.Error(err)
		}
	})
	code, out, errs := run(t, "scale", dir, "{env: 0}")
	r, err := moves.Pending(dir)
	if code != loop.ExitInterrupted || !strings.Contains(errs, "the request stays; ") || r == nil || err != nil {
		t.Errorf("code %d, %+v, %v\n%s%s", code, r, err, out, errs)
	}
	test.OK(t, moves.Withdraw(dir, r.ID))
	answering(t, dir, func(*moves.Request) {
		if _, err := moves.Ask(dir, "{env: 1}"); err != nil {
			t.Error(err)
		}
	})
	if code, _, errs := run(t, "scale", dir, "{env: 0}"); code != loop.ExitFailed ||
		!strings.HasSuffix(errs, "scale: a newer request has replaced this one\n") {
		t.Errorf("code %d, %s", code, errs)
	}
}
