package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy/resnet/resnettest"
	"github.com/rlinf/rlinf/reward"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/job"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/tensor"
)

// A recipe is a file of RLinf's kind with its verdict of rlinf check.
type recipe struct {
	path, verdict string
	command       []string // words of the command that is printed; nil: none
}

// check asks for the verdict on the file at path.
func check(t *testing.T, path string) recipe {
	t.Helper()
	code, stdout, stderr := run(t, "check", "-c", path)
	_, text, found := strings.Cut("\n"+stdout+stderr, "\nverdict: ")
	if !found {
		t.Fatalf("%s: exit code %d, no verdict\n%s%s", path, code, stdout, stderr)
	}
	lines := strings.Split(text, "\n")
	r := recipe{path: path, verdict: lines[0]}
	if line, ok := strings.CutPrefix(lines[1], "  rlinf "); ok {
		r.command = shellWords(line)
	}
	if want := map[bool]int{true: loop.ExitOK, false: loop.ExitConfig}[r.verdict == "runs"]; code != want {
		t.Errorf("%s: %s: exit code %d, want %d", path, r.verdict, code, want)
	}
	return r
}

var shellWord = regexp.MustCompile(`'[^']*'|[^' ]+`)

func shellWords(line string) (words []string) {
	for _, w := range shellWord.FindAllString(line, -1) {
		words = append(words, strings.Trim(w, "'"))
	}
	return words
}

// overrides returns the overrides of the printed command, as one text.
func (r recipe) overrides() string {
	if len(r.command) < 2 {
		return ""
	}
	return strings.Join(slices.DeleteFunc(slices.Clone(r.command[2:]), func(o string) bool {
		return strings.HasPrefix(o, "env.train.external.command=")
	}), " ")
}

// modelSize matches the billions of parameters in the name of a recipe of language models.
var modelSize = regexp.MustCompile(`-([0-9.]+)b-`)

// work returns the work of an iteration of a recipe of language models that runs, and the days that it takes with 1
// TFLOP/s, as some 30 cores have: 2 operations for each parameter and token, once to generate the token, and four times
// to learn it. Answers have their largest length.
func (r recipe) work() string {
	size := modelSize.FindStringSubmatch(filepath.Base(r.path))
	cfg, _, _ := config.Load(standIn{}.registries(), r.path, nil, false)
	if !strings.HasPrefix(r.verdict, "runs") || size == nil || cfg == nil {
		return ""
	}
	billions, _ := strconv.ParseFloat(size[1], 64)
	answers := cfg.Data.RolloutBatchSize * cfg.Algorithm.GroupSize
	tokens := cfg.Runner.SeqLength - cfg.Data.MaxPromptLength
	days := 2 * 5 * billions * 1e9 * float64(answers) * float64(tokens) / 1e12 / 86400
	digits, _ := strconv.ParseFloat(fmt.Sprintf("%.2g", days), 64)
	return fmt.Sprintf("\t%d answers × %d tokens × %s billion parameters: %v days an iteration", answers, tokens,
		size[1], digits)
}

// train runs the printed command, or the file as it is, for an iteration, or for two that learn from images. A stand-in
// has the place of the simulator.
func (r recipe) train(t *testing.T, more ...string) {
	t.Helper()
	cfg, _, _ := config.Load(standIn{}.registries(), r.path, nil, false)
	sim := standIn{obs: cfg.Actor.Model.ObsDim, act: cfg.Actor.Model.ActionDim}
	if sim.obs == 0 {
		sim.obs = 2 * sim.act // the file leaves it to the simulator
	}
	m := &cfg.Actor.Model
	if _, sim.images = cfg.Reward.Images(); m.ModelType == "cnn_policy" {
		sim.images, sim.obs, sim.side, sim.views = true, m.StateDim, m.ImageSize[1], max(m.ImageNum-1, 0)
	}
	args := r.command
	if args == nil {
		args = []string{"-c", r.path}
	}
	args = slices.Clone(args)
	for i, a := range args {
		switch key, _, _ := strings.Cut(a, "="); {
		case key == "env.train.external.command":
			args[i] = key + "=" + sim.connect()
		case strings.HasSuffix(a, "=CLASSIFIER"):
			args[i] = key + "=" + writeClassifier(t, &sim, &cfg.Reward)
		case strings.HasSuffix(a, "=RESNET10"):
			args[i] = key + "=" + resnettest.Folder(t, "resnet10_pretrained.safetensors")
		case strings.HasSuffix(a, "=FOLDER"):
			args[i] = key + "=" + languageFolder(t)
		case strings.HasSuffix(a, "=FILE"):
			args[i] = key + "=" + filepath.Join(t.TempDir(), "texts.jsonl")
			test.OK(t, os.WriteFile(strings.TrimPrefix(args[i], key+"="),
				[]byte(strings.Repeat(`{"prompt": "the hen", "solutions": ["42"]}`+"\n", 4)), 0o666))
		case a == "algorithm.demo_buffer.load_path=demos.safetensors":
			args[i] = key + "=" + sim.demos(t)
		}
	}
	dir := t.TempDir()
	iterations := 1
	if m.ModelType == "cnn_policy" {
		iterations = 2
	}
	// A stand-in needs no room for all that a robot will do.
	if sim.images && cfg.Algorithm.OffPolicy.ReplayBuffer.SampleWindowSize > 100 {
		args = append(args, "algorithm.replay_buffer.sample_window_size=100")
	}
	if n := cfg.Cluster.NumNodes; n > 1 {
		args = append([]string{"-np", fmt.Sprint(n)}, append(args, fmt.Sprint("+spmd.nodes=", n))...)
	}
	args = append(args, fmt.Sprint("runner.max_steps=", iterations), "runner.logger.log_path="+dir,
		"runner.logger.experiment_name=run", "env.eval.video_cfg.video_base_dir="+dir)
	code, stdout, stderr := runWith(t, sim.registries(), append(args, more...)...)
	if code != loop.ExitOK {
		t.Errorf("rlinf %s: exit code %d\n%s%s", strings.Join(args, " "), code, stdout, stderr)
	}
	undrawn := cfg.Env.Eval.VideoCfg.SaveVideo && cfg.Evaluates() &&
		strings.Contains(strings.Join(args, " "), standInSpaces)
	if strings.Contains(stderr, "there is no film, because StandIn-v0 draws no pictures") != undrawn {
		t.Errorf("rlinf %s: says that there is no film: want %v\n%s", strings.Join(args, " "), undrawn, stderr)
	}
	metrics, err := os.ReadFile(filepath.Join(dir, "run", "metrics.jsonl"))
	if n := strings.Count(string(metrics), "\n"); err != nil || n < iterations {
		t.Errorf("rlinf %s: %d lines of metrics, want %d: %v", strings.Join(args, " "), n, iterations, err)
	}
}

// writeClassifier writes the initial parameters of a classifier of sim's images.
func writeClassifier(t *testing.T, sim *standIn, c *reward.Config) string {
	t.Helper()
	camera := test.Must(reward.ClassifierInputOf(sim.Spec()))(t)
	net := test.Must(c.NewClassifier(camera, tensor.Heap))(t)
	net.Init(1)
	path := filepath.Join(t.TempDir(), "classifier.safetensors")
	f := test.Must(os.Create(path))(t)
	test.OK(t, tensor.WriteSafetensors(f, job.ModelDict(net.Params()), nil))
	test.OK(t, f.Close())
	return path
}

// demos writes demonstrations of the expert of s.
func (s standIn) demos(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "demos.safetensors")
	code, _, stderr := runWith(t, s.registries(), "demos", "-c", "../../configs/pendulum_sac.yaml", "--episodes", "3",
		"--out", file, "env.train.env_type=StandIn-v0", "env.train.max_episode_steps=50")
	if code != loop.ExitOK {
		t.Fatalf("demos: %s", stderr)
	}
	return file
}

// TestRLinfSpellings: twelve files in RLinf's spelling. The files that can run here do run.
func TestRLinfSpellings(t *testing.T) {
	const maniskill = "needs the simulator ManiSkill: connect it with env_type=external"
	want := map[string][2]string{ // the verdict, and overrides beside the simulator
		"async.yaml":         {"runs with these overrides", "runner.async=true"},
		"crossq.yaml":        {maniskill},
		"dagger.yaml":        {"needs the simulator ManiSkill with an expert: connect one with env_type=external"},
		"interpolation.yaml": {maniskill},
		"offline.yaml": {maniskill, "algorithm.demo_buffer.load_path=demos.safetensors " +
			"actor.model.add_q_head=true actor.model.add_value_head=false"},
		"old_names.yaml":       {"runs"},
		"presets.yaml":         {maniskill},
		"python_literals.yaml": {maniskill},
		"reasoning.yaml": {"runs with these overrides",
			"actor.model.model_path=FOLDER actor.tokenizer.tokenizer_model=FOLDER data.train_data_paths=FILE " +
				"actor.model.context_parallel_size=1 actor.model.expert_tensor_parallel_size=1 " +
				"runner.logger.logger_backends=tensorboard rollout.return_logprobs=true " +
				"actor.model.tensor_model_parallel_size=1"},
		"reward_model.yaml": {maniskill,
			"~cluster.component_placement.reward_server reward.use_reward_model=false reward.reward_mode=per_step"},
		"schedules.yaml":  {maniskill},
		"self_first.yaml": {maniskill},
		"vla.yaml":        {"needs a VLA policy (openvla_oft) and the simulator LIBERO"},
	}
	files, _ := filepath.Glob("testdata/rlinf/*.yaml")
	test.Equal(t, len(files), len(want), "files")
	if testing.Short() {
		files = files[:2]
	}
	for _, file := range files {
		r := check(t, file)
		test.Equal(t, [2]string{r.verdict, r.overrides()}, want[filepath.Base(file)], "%s", file)
		if !strings.Contains(r.verdict, "policy") {
			r.train(t)
		}
	}
}

// TestMissingAlgorithms: a verdict names the missing algorithm first, and a value model as such. A language model gets
// no advice about simulators.
func TestMissingAlgorithms(t *testing.T) {
	for _, tc := range []struct{ args, want string }{
		{"vla.yaml algorithm.adv_type=opd algorithm.loss_type=opd",
			"needs the algorithm OPD (opd) and a VLA policy (openvla_oft) and the simulator LIBERO"},
		{"presets.yaml algorithm.loss_type=embodied_nft",
			"needs the algorithm NFT (embodied_nft) and the simulator ManiSkill"},
		{"presets.yaml algorithm.adv_type=rlt_td3 algorithm.loss_type=rlt_td3",
			"needs the algorithm RLT (rlt_td3) and the simulator ManiSkill"},
		{"reasoning.yaml algorithm.loss_type=opd", "needs the algorithm OPD (opd)"}, // without its files
		{"reasoning.yaml actor.model.model_type=recap_value_model",
			"needs a value model of images (recap_value_model)"},
		{"reasoning.yaml +env.train.env_type=maniskill", "runs with these overrides"},
	} {
		args := strings.Fields(tc.args)
		_, stdout, stderr := run(t, append([]string{"check", "-c", "testdata/rlinf/" + args[0]}, args[1:]...)...)
		_, text, _ := strings.Cut(stdout+stderr, "verdict: ")
		if line, rest, _ := strings.Cut(text, "\n"); line != tc.want || strings.Contains(rest, "env.train.external") {
			t.Errorf("%s: %s\n%s", tc.args, line, rest)
		}
	}
}

// verdictTable has the verdict of rlinf check on each of RLinf's files, at the commit in its first line; verdictPage
// has their counts.
const verdictTable, verdictPage = "testdata/rlinf_verdicts.tsv", "../../docs/migrating-from-rlinf.md"

// TestRLinfRecipes reads RLinf's own files, and compares the verdicts with the table. Every recipe whose policy is an
// MLP, or a soft actor on images, runs with the overrides that check prints. With RLINF_UPDATE=1 it writes the table
// and the counts of the page anew.
func TestRLinfRecipes(t *testing.T) {
	repo := os.Getenv("RLINF_REPO")
	if repo == "" {
		t.Skip("RLINF_REPO is not set: it names the repository RLinf/RLinf at commit a3816b596")
	}
	repo = test.Must(filepath.Abs(repo))(t)
	t.Setenv("EMBODIED_PATH", filepath.Join(repo, "examples/embodiment"))
	table, play := verdicts(t, repo)
	if os.Getenv("RLINF_UPDATE") != "" {
		writeVerdicts(t, table)
	}
	want := readFile(t, verdictTable)
	sameVerdicts(t, table, want)
	test.Equal(t, len(play), 32, "recipes with an MLP or a soft actor on images run")
	for _, r := range play {
		t.Run(filepath.Base(r.path), func(t *testing.T) { r.train(t) })
	}
}

// verdicts checks every recipe of RLinf's repository. It returns the table of the verdicts, and the recipes that can
// run here: see isPlayed.
func verdicts(t *testing.T, repo string) (table string, play []recipe) {
	t.Helper()
	table = "# Verdicts of rlinf check on RLinf/RLinf at a3816b596, files with a runner: " +
		"file, verdict, overrides beside the simulator, work.\n"
	for _, folder := range []string{"evaluations", "examples"} {
		err := filepath.WalkDir(filepath.Join(repo, folder), func(file string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(file) != ".yaml" {
				return err
			}
			text, err := os.ReadFile(file)
			if err != nil || !strings.Contains("\n"+string(text), "\nrunner:") {
				return err
			}
			r := check(t, file)
			name, _ := filepath.Rel(repo, file)
			table += fmt.Sprintf("%s\t%s\t%s%s\n", name, r.verdict, r.overrides(), r.work())
			if strings.HasPrefix(name, "examples/embodiment/") && isPlayed(file) && r.command != nil {
				play = append(play, r)
			}
			return nil
		})
		test.OK(t, err)
	}
	return table, play
}

// writeVerdicts writes the table, and the counts on the page about it.
func writeVerdicts(t *testing.T, table string) {
	t.Helper()
	page, err := os.ReadFile(verdictPage)
	if err == nil {
		before, _, after := aroundCounts(t, string(page))
		err = os.WriteFile(verdictPage, []byte(before+counts(table)+after), 0o666)
	}
	test.OK(t, errors.Join(err, os.WriteFile(verdictTable, []byte(table), 0o666)))
}

// sameVerdicts compares two tables line by line. A replay buffer that does not fit into the memory differs from machine
// to machine, so its size does not count.
func sameVerdicts(t *testing.T, table, wanted string) {
	t.Helper()
	window := regexp.MustCompile(` ?algorithm\.replay_buffer\.sample_window_size=\d+`)
	rows := func(text string) []string { return strings.Split(window.ReplaceAllString(text, ""), "\n") }
	got, want := rows(table), rows(wanted)
	for _, line := range got {
		if !slices.Contains(want, line) {
			t.Errorf("not in %s: %s", verdictTable, line)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d lines, %s has %d", len(got), verdictTable, len(want))
	}
}

// TestVerdictCounts: the counts of the page are those of the table.
func TestVerdictCounts(t *testing.T) {
	table := readFile(t, verdictTable)
	page := readFile(t, verdictPage)
	if _, got, _ := aroundCounts(t, page); got != counts(table) {
		t.Errorf("%s has\n%s\nwant\n%s", verdictPage, got, counts(table))
	}
}

// aroundCounts cuts the page at its table of counts.
func aroundCounts(t *testing.T, page string) (before, counts, after string) {
	t.Helper()
	const begin, end = "<!-- counts -->\n", "<!-- end of counts -->\n"
	i, j := strings.Index(page, begin), strings.Index(page, end)
	if i < 0 || j < i {
		t.Fatalf("%s: no table between %q and %q", verdictPage, begin, end)
	}
	return page[:i+len(begin)], page[i+len(begin) : j], page[j:]
}

// kinds are the rows of the table of counts, by how verdicts begin or end.
var kinds = []struct{ prefix, suffix, row string }{
	{"runs", "", "run, or run with the printed overrides: own model, own data"},
	{"needs", "connect it with env_type=external",
		"run with the override that connects a simulator, and with further ones that are printed"},
	{"needs", "connect one with env_type=external", "need a simulator with an expert"},
	{"needs a VLA policy", "", "need a VLA policy"},
	{"needs the algorithm", "", "need an algorithm that is not built here (OPD, NFT, RLT), and its policy"},
	{"needs a value model", "", "need a value model"},
	{"needs a flow policy", "", "need a flow policy"},
	{"needs a language model", "", "need another language model: one that sees, or with latent attention"},
	{"needs", "", "need what is named: an agent's loop, another task or reward"},
	{"does not train", "", "collect data and do not train"},
	{"does not run", "", "do not run: a mistake is left"},
}

// counts returns the table that counts verdicts by the kind of file.
func counts(table string) string {
	groups := []struct{ name, prefix string }{{"embodiment", "examples/embodiment/"}, {"evaluations", "evaluations/"},
		{"reasoning", "examples/reasoning/"}, {"sft", "examples/sft/"}, {"agent", "examples/agent/"}, {"others", ""}}
	cells := make([][]int, len(kinds))
	totals := make([]int, len(groups))
	for i := range cells {
		cells[i] = make([]int, len(groups))
	}
	for line := range strings.Lines(table) {
		cut := strings.Split(strings.TrimSpace(line), "\t")
		if len(cut) < 2 {
			continue
		}
		kind := slices.IndexFunc(kinds, func(k struct{ prefix, suffix, row string }) bool {
			return strings.HasPrefix(cut[1], k.prefix) && strings.HasSuffix(cut[1], k.suffix)
		})
		group := slices.IndexFunc(groups, func(g struct{ name, prefix string }) bool {
			return strings.HasPrefix(cut[0], g.prefix)
		})
		cells[kind][group]++
		totals[group]++
	}
	var out strings.Builder
	out.WriteString("| verdict of `rlinf check` |")
	for i, g := range groups {
		fmt.Fprintf(&out, " %s (%d) |", g.name, totals[i])
	}
	out.WriteString("\n|---|" + strings.Repeat("--:|", len(groups)) + "\n")
	for i, k := range kinds {
		fmt.Fprintf(&out, "| %s |", k.row)
		for _, n := range cells[i] {
			fmt.Fprintf(&out, " %d |", n)
		}
		out.WriteString("\n")
	}
	return out.String()
}

// isPlayed reports whether the policy of a recipe is an MLP, or a soft actor on images.
func isPlayed(file string) bool {
	cfg, _, _ := config.Load(standIn{}.registries(), file, nil, false)
	m := &cfg.Actor.Model
	return (m.ModelType == "mlp_policy" || m.ModelType == "cnn_policy" && m.AddQHead) && cfg.Places("actor")
}
