package digests

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/cpu"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env/all"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/reward"
	"github.com/rlinf/rlinf/roles"
	"github.com/rlinf/rlinf/tensor"
)

var update = flag.Bool("update", false, "record the digests of this program in "+recorded)

const (
	recorded   = "testdata/digests.txt"
	iterations = 4
)

// A digest stands for the numbers of a run: two hashes, in hexadecimal.
type digest struct{ metrics, checkpoint string }

// demonstrations are the options of rlinf demos for the configurations that learn from a file.
var demonstrations = map[string][]string{
	"cloning": {"--episodes", "8", "--all"},
	"iql":     {"--episodes", "8", "--all", "--noise", "4"},
}

// texts are the configurations of language models, which learn from texts that rlinf data writes.
var texts = []string{"sft", "sft_experts", "reasoning"}

// clocked lists, for some configurations, prefixes of further metrics that depend on the clock. An asynchronous run
// counts an episode in the iteration in which the report of the episode arrives.
var clocked = map[string]string{"async": "env/"}

// TestDigests: the metrics and the checkpoint of each configuration are equal to the recorded ones.
func TestDigests(t *testing.T) {
	if lack := unlike(); lack != "" {
		t.Skipf("the digests are of amd64 with AVX2 and FMA, without fused sums: %s", lack)
	}
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("configurations: %v, %v", files, err)
	}
	want, now := readDigests(t), map[string]digest{}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		now[name] = want[name] // a run replaces this
		t.Run(name, func(t *testing.T) {
			run := train(t, name, file)
			checkExplained(t, run)
			got := digest{digestMetrics(t, run, clocked[name]), digestCheckpoint(t, run)}
			if now[name] = got; *update {
				return
			}
			if _, ok := want[name]; !ok {
				t.Fatalf("%s has no line for %s; -update adds it", recorded, name)
			}
			if got.metrics != want[name].metrics {
				t.Errorf("%s: other metrics: %s, recorded %s", name, got.metrics, want[name].metrics)
			}
			if got.checkpoint != want[name].checkpoint {
				t.Errorf("%s: other tensors in the last checkpoint: %s, recorded %s", name, got.checkpoint,
					want[name].checkpoint)
			}
			if t.Failed() {
				all := lines(t, run)
				t.Logf("%s: the last metrics:\n%s", name, all[len(all)-1])
			}
		})
	}
	if *update && !t.Failed() {
		writeDigests(t, now)
		return
	}
	for name := range want {
		if _, ok := now[name]; !ok {
			t.Errorf("%s has a line for %s, but there is no testdata/%s.yaml", recorded, name, name)
		}
	}
}

// unlike says why this machine or this build gives other bits than the recorded ones; "" if it does not.
func unlike() string {
	switch {
	case runtime.GOARCH != "amd64":
		return "this is " + runtime.GOARCH
	case !cpu.X86.HasAVX2 || !cpu.X86.HasFMA:
		return "this processor lacks one of them"
	case multiplyAdd(1+1.0/(1<<30), 1-1.0/(1<<30), -1) != 0:
		return "this compiler fuses (GOAMD64)"
	}
	return ""
}

// multiplyAdd is x·y + z. The compiler cannot compute it beforehand.
//
//go:noinline
func multiplyAdd(x, y, z float64) float64 { return x*y + z }

// train runs a configuration and returns the folder of the run.
func train(t *testing.T, name, file string) string {
	t.Helper()
	dir := t.TempDir()
	envs := all.Registry()
	envs.Add("Image-v0", newWheels(false))
	envs.Add("Masked-v0", newWheels(true))
	rlinf := func(args ...string) {
		t.Helper()
		reg := roles.Registries{Envs: envs, Policies: policy.Builtin(), Algorithms: algo.Builtin(),
			Rewards: reward.Builtin()}
		if code := roles.Main(append([]string{"rlinf"}, args...), reg); code != roles.ExitOK {
			t.Fatalf("rlinf %s: exit code %d", strings.Join(args, " "), code)
		}
	}
	args := []string{
		fmt.Sprint("runner.max_steps=", iterations), "runner.val_check_interval=2",
		fmt.Sprint("runner.save_interval=", iterations),
		"runner.logger.log_path=" + dir, "runner.logger.experiment_name=run", "runner.logger.logger_backends=[]",
	}
	if how := demonstrations[name]; how != nil {
		demos := filepath.Join(dir, "demos.safetensors")
		rlinf(slices.Concat([]string{"demos", "-c", file, "--out", demos}, how, args)...)
		args = append(args, "algorithm.demo_buffer.load_path="+demos)
	}
	if slices.Contains(texts, name) {
		data := filepath.Join(dir, "data")
		rlinf("data", "addition", "--out", data, "--train", "40", "--test", "8")
		training := filepath.Join(data, "train.jsonl")
		args = append(args, "data.train_data_paths="+training, "data.val_data_paths="+filepath.Join(data, "test.jsonl"),
			"actor.tokenizer.tokenizer_model="+filepath.Join(data, "tokenizer"))
		if name == "reasoning" { // a model that is mostly right
			test.OK(t, os.WriteFile(training, []byte(strings.Repeat(`{"prompt":"1+1=","answer":"2"}`+"\n", 80)),
				0o666))
			rlinf(slices.Concat([]string{"-c", "testdata/sft.yaml"}, args,
				[]string{"runner.max_steps=8", "runner.save_interval=8",
					"runner.logger.experiment_name=start"})...)
			args = append(args, "runner.ckpt_path="+filepath.Join(dir, "start/checkpoints/latest/model.safetensors"))
		}
	}
	rlinf(append([]string{"-c", file, "--strict"}, args...)...)
	return filepath.Join(dir, "run")
}

// digestMetrics returns the digest of all metrics as the file writes them, except for metrics of the clock and those
// that begin with without ("": no further exception).
func digestMetrics(t *testing.T, run, without string) string {
	t.Helper()
	all := lines(t, run)
	if len(all) != iterations {
		t.Fatalf("metrics of %d iterations, want %d", len(all), iterations)
	}
	sum := sha256.New()
	for _, line := range unclocked(t, all, without) {
		fmt.Fprintln(sum, line)
	}
	return short(sum.Sum(nil))
}

// unclocked returns the metrics in each line, without metrics of the clock and those that begin with without.
func unclocked(t *testing.T, lines [][]byte, without string) (kept []string) {
	t.Helper()
	for _, line := range lines {
		var values map[string]json.RawMessage
		if err := json.Unmarshal(line, &values); err != nil {
			t.Fatalf("metrics: %v in %s", err, line)
		}
		var text strings.Builder
		for _, key := range slices.Sorted(maps.Keys(values)) {
			clock := key == "time" || strings.HasPrefix(key, "time/") || without != "" &&
				strings.HasPrefix(key, without)
			if !clock {
				fmt.Fprintf(&text, "%s %s\n", key, values[key])
			}
		}
		kept = append(kept, text.String())
	}
	return kept
}

// lines returns the lines of the run's metrics.jsonl.
func lines(t *testing.T, run string) [][]byte {
	t.Helper()
	return bytes.Split(bytes.TrimSpace(readFile(t, filepath.Join(run, "metrics.jsonl"))), []byte("\n"))
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	must(t, err)
	return text
}

// digestCheckpoint returns the digest of the tensors in the last checkpoint: file, name, type, shape
// and content of each.
func digestCheckpoint(t *testing.T, run string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(run, "checkpoints", fmt.Sprint("global_step_", iterations),
		"*.safetensors"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no tensors in the checkpoint: %v", err)
	}
	sum := sha256.New()
	for _, file := range files {
		tensors, _, err := tensor.ReadSafetensors(readFile(t, file))
		test.OK(t, err, "%s", file)
		for i := range tensors.Len() {
			name, x := tensors.Entry(i)
			fmt.Fprintf(sum, "%s %s %v %v\n", filepath.Base(file), name, x.DType(), x.Shape())
			sum.Write(x.Bytes())
		}
	}
	return short(sum.Sum(nil))
}

func short(sum []byte) string { return hex.EncodeToString(sum[:16]) }

// readDigests returns the recorded digests by configuration.
func readDigests(t *testing.T) map[string]digest {
	t.Helper()
	text, err := os.ReadFile(recorded)
	if err != nil && !(*update && os.IsNotExist(err)) {
		t.Fatal(err)
	}
	all := map[string]digest{}
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) != 3 {
			t.Fatalf("%s: %q: want a name and two digests", recorded, line)
		}
		all[words[0]] = digest{words[1], words[2]}
	}
	return all
}

func writeDigests(t *testing.T, all map[string]digest) {
	t.Helper()
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if d := all[name]; d != (digest{}) {
			fmt.Fprintf(&text, "%-18s %s %s\n", name, d.metrics, d.checkpoint)
		}
	}
	test.OK(t, os.WriteFile(recorded, []byte(text.String()), 0o666))
}
