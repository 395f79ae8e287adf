package cli

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env/all"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/reward"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/session"
)

// slurmScript runs rlinf slurm in the module's folder and returns what it prints.
func slurmScript(t *testing.T, args ...string) (string, error) {
	t.Helper()
	t.Chdir("../..")
	app := newApp(config.Registries{Envs: all.Registry(), Policies: policy.Builtin(), Algorithms: algo.Builtin(),
		Rewards: reward.Builtin()}, tasks(), session.UserProgram{}, nil, new(int))
	var out bytes.Buffer
	app.Writer, app.ErrWriter = &out, t.Output()
	err := app.RunContext(context.Background(), inOrder(app, append([]string{"rlinf", "slurm"}, args...)))
	return out.String(), err
}

// The scripts in scripts/slurm are those that rlinf slurm writes for the configurations that they name.
func TestSlurmScriptsAreThoseOfTheFolder(t *testing.T) {
	for template, file := range map[string]string{
		"train": "train", "requeue": "train-requeue", "sweep": "sweep", "bench": "bench", "hetjob": "hetjob",
	} {
		t.Run(template, func(t *testing.T) {
			args := []string{"--template", template, "-c", "configs/cartpole_ppo.yaml"}
			if template == "hetjob" {
				args = []string{"--template", template, "-c", "configs/cartpole_disaggregated.yaml",
					"cluster.num_nodes=2"}
			}
			got := test.Must(slurmScript(t, args...))(t)
			want := readFile(t, filepath.Join("scripts", "slurm", file+".sbatch"))
			if got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// slurmOptions returns the options of a script that ask for resources, and its modules, in their order. The time is
// left out where it is the default.
func slurmOptions(script string) (got []string) {
	for line := range strings.Lines(script) {
		if text, ok := strings.CutPrefix(line, "module load "); ok {
			got = append(got, "module "+strings.TrimSuffix(text, " || exit\n"))
		}
		if text, ok := strings.CutPrefix(line, "#SBATCH --"); ok {
			switch name, _, _ := strings.Cut(text, "="); name {
			case "time":
				if text == "time=04:00:00\n" {
					continue
				}
				fallthrough
			case "nodes", "ntasks-per-node", "cpus-per-task", "gpus-per-node", "partition", "account", "mem",
				"qos", "constraint", "exclusive\n", "mail-type":
				got = append(got, strings.TrimSpace(text))
			}
		}
	}
	return got
}

// Resources follow from the placement and from the flags.
func TestSlurmResources(t *testing.T) {
	const (
		ppo   = "configs/cartpole_ppo.yaml"           // hybrid, 8 ranks
		apart = "configs/cartpole_disaggregated.yaml" // actors on 0 and 1, env on 2, rollout on 3
	)
	for _, c := range []struct {
		name, args string
		want       string // the options, in order
	}{
		{"several nodes", ppo + " cluster.num_nodes=4", "nodes=4 ntasks-per-node=2 cpus-per-task=1"},
		{"nodes where the configuration leaves them open", ppo + " --nodes 2 cluster.num_nodes=0",
			"nodes=2 ntasks-per-node=4 cpus-per-task=1"},
		{"virtual nodes are not Slurm's", ppo + " spmd.nodes=4 cluster.num_nodes=4",
			"nodes=1 ntasks-per-node=8 cpus-per-task=1"},
		{"workers that share a rank", apart + " cluster.component_placement.rollout=2",
			"nodes=1 ntasks-per-node=3 cpus-per-task=2"},
		{"more workers than ranks", apart + " cluster.component_placement.env=2:0-3",
			"nodes=1 ntasks-per-node=4 cpus-per-task=4"},
		{"what is asked for", ppo + " --cpus 6 --gpus 2 --time 1-12",
			"nodes=1 ntasks-per-node=8 cpus-per-task=6 gpus-per-node=2 time=1-12"},
		{"whose queue", ppo + " --partition cpu,long --account team-1 --mem 32G",
			"nodes=1 ntasks-per-node=8 cpus-per-task=1 partition=cpu,long account=team-1 mem=32G"},
		{"more options", ppo + " --qos high --constraint [a|b]&c*2 --sbatch --exclusive --sbatch " +
			"--mail-type=END,FAIL --module gcc/12 --module openmpi",
			"nodes=1 ntasks-per-node=8 cpus-per-task=1 qos=high constraint=[a|b]&c*2 exclusive mail-type=END,FAIL " +
				"module gcc/12 module openmpi"},
		{"whose queue, of both parts", apart + " --template hetjob --mem 8G cluster.num_nodes=3",
			"nodes=1 ntasks-per-node=2 cpus-per-task=1 mem=8G nodes=2 ntasks-per-node=1 cpus-per-task=1 mem=8G"},
		{"all ranks", ppo + " -np 16 cluster.component_placement.env=all env.eval.total_num_envs=16",
			"nodes=1 ntasks-per-node=16 cpus-per-task=2"},
		{"idle ranks", apart + " -np 6 cluster.allow_idle_ranks=true", "nodes=1 ntasks-per-node=6 cpus-per-task=1"},
		{"ranks that are not chosen yet", ppo + " -np 8 cluster.component_placement=auto cluster.num_nodes=2",
			"nodes=2 ntasks-per-node=4 cpus-per-task=2"},
		{"two kinds of nodes", apart + " --template hetjob --gpus 1 cluster.num_nodes=3",
			"nodes=1 ntasks-per-node=2 cpus-per-task=1 gpus-per-node=1 nodes=2 ntasks-per-node=1 cpus-per-task=1"},
		{"two kinds of nodes, as asked", apart + " --template hetjob --nodes 2,1 cluster.num_nodes=3",
			"nodes=2 ntasks-per-node=1 cpus-per-task=1 nodes=1 ntasks-per-node=2 cpus-per-task=1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			script := test.Must(slurmScript(t, strings.Fields("-c "+c.args)...))(t)
			test.Equal(t, strings.Join(slurmOptions(script), " "), c.want, "%s", c.args)
		})
	}
}

// Options of the user replace those of the script, because the last of equal options counts.
func TestSlurmOptionsComeLast(t *testing.T) {
	const args = "-c configs/cartpole_ppo.yaml --template requeue --sbatch --no-requeue"
	script := test.Must(slurmScript(t, strings.Fields(args)...))(t)
	if strings.Index(script, "#SBATCH --no-requeue\n") < strings.Index(script, "#SBATCH --requeue\n") ||
		strings.Count(script, "--no-requeue") != 1 {
		t.Error(script)
	}
}

// An impossible request is refused with one sentence that says what is possible.
func TestSlurmRefuses(t *testing.T) {
	const ppo, apart = "-c configs/cartpole_ppo.yaml", "-c configs/cartpole_disaggregated.yaml"
	for _, c := range []struct{ args, want string }{
		{ppo + " --template array", "--template array: expected one of train, requeue, hetjob, sweep, bench"},
		{ppo + " --cpus 0", "--cpus 0: expected a number from 1 to 65536"},
		{ppo + " --gpus -1", "--gpus -1: expected a number from 1 to 1024"},
		{ppo + " --mem much", `--mem "much": expected a size as 32G`},
		{ppo + " --time soon", `--time "soon": expected a time as 90 (minutes), 04:00:00 or 1-12:00`},
		{ppo + " --time 1:00\n#SBATCH\x00--wrap=rm", `--time "1:00\n#SBATCH --wrap=rm": expected a time`},
		{ppo + " --qos $(id)", `--qos "$(id)": expected a name`},
		{ppo + " --constraint a;b", `--constraint "a;b": expected names of features with &, |, * and brackets`},
		{ppo + " --sbatch --comment=a\nrm\x00-r\x00x",
			`--sbatch "--comment=a\nrm -r x": expected one option of sbatch, as --exclusive`},
		{ppo + " --sbatch rm\x00x", `--sbatch "rm x": expected one option of sbatch`},
		{ppo + " --module a --module b;c", `--module "b;c": expected the name of a module, as openmpi/4.1`},
		{ppo + " runner.logger.project_name=a\nb",
			`"runner.logger.project_name=a\nb": expected text of one line, without control characters`},
		{ppo + " runner.logger.experiment_name=\"a\\nb\"", "runner.logger.experiment_name"},
		{"-c configs\n.yaml", `"configs\n.yaml": expected text of one line`},
		{ppo + " --account a;b", `--account "a;b": expected a name`},
		{ppo + " --nodes two", "--nodes two: expected a number > 0"},
		{ppo + " --nodes 1,1", "--nodes 1,1: expected a number > 0"},
		{ppo + " --nodes 2", "--nodes 2: expected 1 in all, as cluster.num_nodes says"},
		{ppo + " cluster.num_nodes=3",
			"ranks 0..7 on 3 nodes: expected a number of nodes that divides 8 (cluster.num_nodes, --nodes)"},
		{ppo + " cluster.component_placement.env=all",
			"cluster.component_placement: takes as many ranks as there are: expected -np N, the ranks of the job"},
		{ppo + " -np 0", "-np 0: expected a number from 1 to 65536"},
		{ppo + " --template hetjob cluster.num_nodes=2", "cluster.component_placement: expected, for a hetjob, " +
			"actors on the first ranks, and ranks without actors after them"},
		{apart + " --template hetjob -np 4 cluster.component_placement=auto cluster.num_nodes=2",
			"cluster.component_placement: auto: expected ranks, for a hetjob"},
		{apart + " --template hetjob --nodes 3 cluster.num_nodes=3",
			"--nodes 3: expected two numbers > 0, as 1,4: nodes with actors, and others"},
		{apart + " --template hetjob --nodes 1,3 cluster.num_nodes=4",
			"ranks 2..3 on 3 nodes: expected a number of nodes that divides 2 (cluster.num_nodes, --nodes)"},
		{apart + " actor.global_batch_size=500", "actor.global_batch_size: 500: expected a multiple of"},
		{"runner.max_steps=1", "no configuration: expected -c FILE.yaml"},
	} {
		t.Run(c.args, func(t *testing.T) {
			words := strings.Split(c.args, " ")
			for i, w := range words {
				words[i] = strings.ReplaceAll(w, "\x00", " ")
			}
			script, err := slurmScript(t, words...)
			var usage config.UsageError
			if !errors.As(err, &usage) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want a UsageError with %q", err, c.want)
			}
			if script != "" {
				t.Errorf("printed despite the error:\n%s", script)
			}
		})
	}
}
