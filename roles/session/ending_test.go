package session

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/runfolder"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/internal/rolestest"
)

// A lastLines is an end of a run, with the last lines that are expected. saved runs have the checkpoint of step 4. All
// but mute runs have a metric of training.
type lastLines struct {
	name   string
	status runfolder.Status
	saved  bool
	best   bool // the checkpoint of step 2 is the best
	mute   bool
	barren bool // all episodes were lost
	end    ending
	set    func(e *ending)
	want   string
}

// sayLast compares the last lines of each run with those expected.
func sayLast(t *testing.T, cases []lastLines) {
	t.Helper()
	cartpoleFile := test.Must(filepath.Abs(rolestest.Cartpole))(t)
	t.Chdir(t.TempDir())
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			e := c.end
			e.cfg, _ = rolestest.MustLoad(t, cartpoleFile, "runner.max_epochs=4", "runner.logger.log_path=my runs",
				"runner.logger.experiment_name=a", "runner.val_check_interval=2")
			if c.set != nil {
				c.set(&e)
			}
			test.OK(t, os.RemoveAll("my runs"))
			test.OK(t, os.MkdirAll("my runs/a/checkpoints", 0o777))
			metric := `{"step":4,"env/return":1}` + "\n"
			if e.cfg.FineTunes() {
				metric = `{"step":4,"train/sft/loss":1}` + "\n"
			}
			if c.barren {
				metric = `{"step":4,"env/num_lost":16}` + "\n"
			}
			if !c.mute {
				test.OK(t, os.WriteFile("my runs/a/metrics.jsonl", []byte(metric), 0o666))
			}
			if c.saved {
				test.OK(t, os.Symlink("global_step_4", "my runs/a/checkpoints/latest"))
			}
			if c.best {
				test.OK(t, os.Symlink("global_step_2", "my runs/a/checkpoints/best"))
			}
			var out strings.Builder
			e.write(&out, c.status, 4, "after step 4")
			if got := "\n" + out.String(); got != c.want {
				t.Errorf("got%s\nwant%s", got, c.want)
			}
		})
	}
}

// The last lines of a run that is done have its folder, its checkpoint, and the commands that go on with it.
func TestLastLinesWhenDone(t *testing.T) {
	sayLast(t, []lastLines{
		{name: "done", status: runfolder.Done, saved: true, end: ending{program: "./rlinf", most: 4}, want: `
run         my runs/a: done after step 4
checkpoint  my runs/a/checkpoints/global_step_4
resume      ./rlinf -c 'my runs/a/config.yaml' --resume auto runner.max_epochs=8
evaluate    ./rlinf eval -c 'my runs/a/config.yaml'
export      ./rlinf export 'my runs/a' --format c --out FOLDER
inspect     ./rlinf report 'my runs/a'
            ./rlinf watch 'my runs/a'
            ./rlinf compare 'my runs/a'
            tensorboard --logdir 'my runs/a/tensorboard'
`},
		{name: "annealed", status: runfolder.Done, saved: true, end: ending{program: "./rlinf", most: 4},
			set: func(e *ending) { e.cfg.Actor.Optim.LRScheduler = algo.ScheduleLinear }, want: `
run         my runs/a: done after step 4
checkpoint  my runs/a/checkpoints/global_step_4
longer      ./rlinf -c 'my runs/a/config.yaml' runner.logger.experiment_name=a-8 runner.max_epochs=8
            a new run: a resume would raise the learning rate, which this one has annealed
evaluate    ./rlinf eval -c 'my runs/a/config.yaml'
export      ./rlinf export 'my runs/a' --format c --out FOLDER
inspect     ./rlinf report 'my runs/a'
            ./rlinf watch 'my runs/a'
            ./rlinf compare 'my runs/a'
            tensorboard --logdir 'my runs/a/tensorboard'
`},
		{name: "fine-tuning that validation ended", status: runfolder.Done, saved: true,
			end: ending{program: "rlinf", most: 6},
			set: func(e *ending) {
				e.cfg.Runner.TaskType, e.cfg.Runner.Logger.LoggerBackends, e.cfg.Runner.EarlyStop.Enabled =
					config.TaskSFT, nil, true
				e.cfg.Data.ValDataPaths = []string{"val.jsonl"}
			}, want: `
run         my runs/a: done after step 4
checkpoint  my runs/a/checkpoints/global_step_4
resume      rlinf -c 'my runs/a/config.yaml' --resume auto runner.early_stop.enabled=false
evaluate    rlinf eval -c 'my runs/a/config.yaml'
export      rlinf export 'my runs/a' --out FOLDER
inspect     rlinf report 'my runs/a'
            rlinf watch 'my runs/a'
            rlinf compare 'my runs/a'
`},
		{name: "fine-tuning whose best is older", status: runfolder.Done, saved: true, best: true,
			end: ending{program: "rlinf", most: 6},
			set: func(e *ending) {
				e.cfg.Runner.TaskType, e.cfg.Runner.Logger.LoggerBackends, e.cfg.Runner.EarlyStop.Enabled =
					config.TaskSFT, nil, true
				e.cfg.Data.ValDataPaths = []string{"val.jsonl"}
			}, want: `
run         my runs/a: done after step 4
checkpoint  my runs/a/checkpoints/global_step_4
best        my runs/a/checkpoints/global_step_2, by the evaluation after its step
resume      rlinf -c 'my runs/a/config.yaml' --resume auto runner.early_stop.enabled=false
evaluate    rlinf eval -c 'my runs/a/config.yaml' --checkpoint 'my runs/a/checkpoints/best'
export      rlinf export 'my runs/a/checkpoints/best' --out FOLDER
inspect     rlinf report 'my runs/a'
            rlinf watch 'my runs/a'
            rlinf compare 'my runs/a'
`},
		{name: "fine-tuning that max_steps ended", status: runfolder.Done, saved: true,
			end: ending{program: "rlinf", most: 4},
			set: func(e *ending) {
				e.cfg.Runner.TaskType, e.cfg.Runner.MaxSteps = config.TaskSFT, 4
				e.cfg.Runner.Logger.LoggerBackends = nil
				e.cfg.Actor.Optim.LRScheduler, e.cfg.Actor.Optim.TotalTrainingSteps = algo.ScheduleLinear, 4
			}, want: `
run         my runs/a: done after step 4
checkpoint  my runs/a/checkpoints/global_step_4
resume      rlinf -c 'my runs/a/config.yaml' --resume auto runner.max_epochs=8 runner.max_steps=8
export      rlinf export 'my runs/a' --out FOLDER
inspect     rlinf report 'my runs/a'
            rlinf watch 'my runs/a'
            rlinf compare 'my runs/a'
`},
		{name: "of a sweep", status: runfolder.Done, saved: true, want: "\n"},
	})
}

// The last lines of a run that was stopped or has failed have the command that resumes it, or reruns it if nothing was
// saved.
func TestLastLinesWhenStopped(t *testing.T) {
	sayLast(t, []lastLines{
		{name: "stopped under a launcher", status: runfolder.Checkpointed, saved: true,
			end: ending{program: "rlinf", launch: "mpirun -np 3 "},
			set: func(e *ending) { e.cfg.Runner.ValCheckInterval, e.cfg.Runner.Logger.LoggerBackends = -1, nil },
			want: `
run         my runs/a: checkpointed after step 4
checkpoint  my runs/a/checkpoints/global_step_4
resume      mpirun -np 3 rlinf -c 'my runs/a/config.yaml' --resume auto
evaluate    rlinf eval -c 'my runs/a/config.yaml'
inspect     rlinf report 'my runs/a'
            rlinf watch 'my runs/a'
            rlinf compare 'my runs/a'
`},
		{name: "killed before it could save", status: runfolder.Dead, end: ending{program: "rlinf", ranks: " -np 4"},
			set: func(e *ending) { e.cfg.Runner.Logger.LoggerBackends = nil }, want: `
run         my runs/a: dead after step 4
checkpoint  none
rerun       rlinf -c 'my runs/a/config.yaml' -np 4
inspect     rlinf report 'my runs/a'
            rlinf watch 'my runs/a'
            rlinf compare 'my runs/a'
`},
		{name: "without an episode", status: runfolder.Failed, saved: true, barren: true, end: ending{program: "rlinf"},
			set: func(e *ending) { e.cfg.Runner.Logger.LoggerBackends = nil }, want: `
run         my runs/a: failed after step 4
checkpoint  my runs/a/checkpoints/global_step_4
rerun       rlinf -c 'my runs/a/config.yaml'
            after a repair of the simulator: it has completed no episode
inspect     rlinf report 'my runs/a'
            rlinf watch 'my runs/a'
`},
		{name: "before the first episode ended", status: runfolder.Failed, mute: true, end: ending{program: "rlinf"},
			set: func(e *ending) { e.cfg.Runner.Logger.LoggerBackends = nil }, want: `
run         my runs/a: failed after step 4
checkpoint  none
rerun       rlinf -c 'my runs/a/config.yaml'
`},
	})
}

// Runs with foreign programs, in another folder, or that still run have last lines of their own.
func TestLastLinesElsewhere(t *testing.T) {
	sayLast(t, []lastLines{
		{name: "with other programs", status: runfolder.Interrupted, saved: true, end: ending{program: "rlinf"},
			set: func(e *ending) {
				e.cfg.Runner.Logger.LoggerBackends = nil
				e.cfg.Env.Train.External.Listen, e.cfg.Env.Eval.External.Listen = env.ListenMPI, env.ListenMPI
			}, want: `
run         my runs/a: interrupted after step 4
checkpoint  my runs/a/checkpoints/global_step_4
resume      the command of this job, with --resume auto
evaluate    the command of this job, with eval before -c
inspect     rlinf report 'my runs/a'
            rlinf watch 'my runs/a'
            rlinf compare 'my runs/a'
`},
		{name: "running", status: runfolder.Running, saved: true, end: ending{program: "rlinf"},
			set: func(e *ending) { e.cfg.Runner.Logger.LoggerBackends = nil }, want: `
run         my runs/a: running after step 4
checkpoint  my runs/a/checkpoints/global_step_4
evaluate    rlinf eval -c 'my runs/a/config.yaml'
inspect     rlinf report 'my runs/a'
            rlinf watch 'my runs/a'
            rlinf compare 'my runs/a'
`},
		{name: "in another folder", status: runfolder.Failed, saved: true,
			end: ending{program: "rlinf", place: " runner.logger.log_path='my runs'"},
			set: func(e *ending) { e.cfg.Runner.Logger.LoggerBackends = nil }, want: `
run         my runs/a: failed after step 4
checkpoint  my runs/a/checkpoints/global_step_4
resume      rlinf -c 'my runs/a/config.yaml' --resume auto runner.logger.log_path='my runs'
evaluate    rlinf eval -c 'my runs/a/config.yaml' runner.logger.log_path='my runs'
inspect     rlinf report 'my runs/a'
            rlinf watch 'my runs/a'
            rlinf compare 'my runs/a'
`},
	})
}

// The name of a run that is longer has one number, also if the run before was a longer one, too.
func TestLongerThanALongerRun(t *testing.T) {
	e := ending{most: 8}
	e.cfg, _ = rolestest.MustLoad(t, rolestest.Cartpole, "runner.max_epochs=8", "runner.logger.experiment_name=a-8")
	if got, want := e.newRun(), " runner.logger.experiment_name=a-16 runner.max_epochs=16"; got != want {
		t.Errorf("got %q, expected %q", got, want)
	}
}

// TestLauncherHere: where mpirun or mpiexec belongs to another MPI, commands name the launcher by its longer name.
func TestLauncherHere(t *testing.T) {
	for _, c := range []struct {
		files map[string]string // from a name to the file that it links to
		want  [2]string         // for mpirun and for mpiexec
	}{
		{nil, [2]string{"mpirun", "mpiexec"}},
		{map[string]string{"mpirun": "orterun", "mpiexec": "orterun", "mpiexec.hydra": "mpiexec.hydra"},
			[2]string{"mpirun", "mpiexec.hydra"}},
		{map[string]string{"mpirun": "orterun", "mpiexec": "prterun", "mpiexec.mpich": "x", "mpiexec.hydra": "x"},
			[2]string{"mpirun", "mpiexec.mpich"}},
		{map[string]string{"mpirun": "mpiexec.hydra", "mpiexec": "mpiexec.hydra", "mpirun.openmpi": "orterun"},
			[2]string{"mpirun.openmpi", "mpiexec"}},
		{map[string]string{"mpirun": "orterun", "mpiexec": "orterun"}, [2]string{"mpirun", "mpiexec"}},
	} {
		dir := t.TempDir()
		for name, file := range c.files {
			real := filepath.Join(dir, "real-"+file)
			test.OK(t, os.WriteFile(real, nil, 0o755))
			test.OK(t, os.Symlink(real, filepath.Join(dir, name)))
		}
		t.Setenv("PATH", dir)
		test.Equal(t, [2]string{launcherHere("mpirun"), launcherHere("mpiexec")}, c.want, "%v", c.files)
	}
}

// TestLaunchBySrun: the command has the protocol by which the ranks found each other.
func TestLaunchBySrun(t *testing.T) {
	for key, want := range map[string]string{"": "srun -n 4 ", "PMIX_NAMESPACE": "srun --mpi=pmix -n 4 ",
		"PMI_FD": "srun --mpi=pmi2 -n 4 ", "SLURM_MPI_TYPE": "srun --mpi=x -n 4 "} {
		if got := Launch("srun", 4, func(name string) string {
			if name == key {
				return "x"
			}
			return ""
		}); got != want {
			t.Errorf("%s: %q, want %q", key, got, want)
		}
	}
}

// TestLaunchOfAFile: the launcher's name may come from a file, so it is quoted.
func TestLaunchOfAFile(t *testing.T) {
	none := func(string) string { return "" }
	if got, want := Launch("run\x1b; true", 2, none), `$'run\x1b; true' -np 2 `; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
