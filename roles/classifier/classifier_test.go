package classifier

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/reward/frames"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/internal/rolestest"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/roles/session"
	"github.com/rlinf/rlinf/roles/task"
	"github.com/rlinf/rlinf/spmd/local"
	"github.com/rlinf/rlinf/tensor"
)

// writeFrames writes n images of 8×8 pixels, of which every third is red and shows success. The others are blue.
func writeFrames(t *testing.T, path string, n, height int) {
	t.Helper()
	s := frames.Set{Images: tensor.New(tensor.U8, n, height, 8, 3), Labels: make([]byte, n)}
	for i := range n {
		colour := 2
		if i%3 == 0 {
			s.Labels[i], colour = 1, 0
		}
		pixels := s.Images.At(i).U8()
		for k := range pixels {
			if pixels[k] = byte(k * (i + 7) % 90); k%3 == colour {
				pixels[k] += 120
			}
		}
	}
	test.OK(t, s.Write(path, nil))
}

const text = `
cluster:
  component_placement:
    actor: 0
runner:
  task_type: sft
  max_steps: 4
  val_check_interval: 2
  save_interval: 4
  early_stop: {enabled: true, patience: 9}
data:
  train_data_paths: train.safetensors
  val_data_paths: val.safetensors
actor:
  micro_batch_size: 2
  global_batch_size: 4
  model: {model_type: resnet, pretrained: false, hidden_dim: 4, image_size: [3, 32, 32], dropout: 0.3}
  optim: {lr: 1.0e-3}
`

// trial is a folder with frames and a configuration.
func trial(t *testing.T) (dir, file string) {
	t.Helper()
	dir = t.TempDir()
	file = filepath.Join(dir, "job.yaml")
	words := strings.NewReplacer("train.s", filepath.Join(dir, "train.s"), "val.s", filepath.Join(dir, "val.s"))
	test.OK(t, os.WriteFile(file, []byte(words.Replace(text)), 0o600))
	writeFrames(t, filepath.Join(dir, "train.safetensors"), 10, 8)
	writeFrames(t, filepath.Join(dir, "val.safetensors"), 7, 8)
	return dir, file
}

// train trains on ranks, and returns the output and the last model.
func train(t *testing.T, file, name, resume string, ranks int, overrides ...string) (output string, model []byte) {
	t.Helper()
	dir := filepath.Dir(file)
	cfg, _ := rolestest.MustLoad(t, file, append(overrides, "runner.logger.log_path="+dir,
		"runner.logger.experiment_name="+name)...)
	var out bytes.Buffer
	asked := loop.Watch()
	defer asked.Close()
	s := session.New(session.Options{Registries: rolestest.Registries(), Tasks: task.Tasks{Task{}}, Asked: asked,
		Out: &out, Log: &out, Resume: resume, Command: "rlinf"})
	if code := test.Must(s.Start(t.Context(), local.New(ranks), cfg, nil, nil))(t); code != 0 {
		t.Fatalf("exit code %d\n%s", code, &out)
	}
	last := test.Must(filepath.EvalSymlinks(filepath.Join(dir, name, "checkpoints", "latest")))(t)
	return out.String(), test.Must(os.ReadFile(filepath.Join(last, "model.safetensors")))(t)
}

// Two replicas learn the same bits on one rank and on two, and after a resume. The run ends with the table.
func TestPlacements(t *testing.T) {
	_, file := trial(t)
	const two = "cluster.component_placement={actor: '0:0-1'}"
	out, want := train(t, file, "a", "", 1, two)
	for _, says := range []string{"threshold  found of 3       false alarms of 4\n", "     0.99 "} {
		if !strings.Contains(out, says) {
			t.Errorf("no %q in\n%s", says, out)
		}
	}
	if _, got := train(t, file, "b", "", 2, "cluster.component_placement={actor: 0-1}"); !bytes.Equal(got, want) {
		t.Error("other parameters on two ranks")
	}
	if testing.Short() {
		return
	}
	train(t, file, "c", "", 1, two, "runner.max_steps=2")
	if _, got := train(t, file, "c", config.ResumeAuto, 1, two); !bytes.Equal(got, want) {
		t.Error("other parameters after a resume")
	}
}

// Classes take turns in a batch, and every image comes once in an epoch of its class.
func TestOrder(t *testing.T) {
	_, file := trial(t)
	cfg, _ := rolestest.MustLoad(t, file)
	d := newDraft(cfg, rolestest.Registries(), []int{0})
	test.OK(t, d.complete())
	defer d.memory.Free()
	o, seen := newOrder(d.plan), map[string]int{}
	images, labels := make([]byte, 4*8*8*3), make([]byte, 4)
	for step := range int64(6) { // 12 of 4 successes, and 12 of 6 failures
		o.fill(images, labels, step, 0)
		test.EqualSlices(t, labels, []byte{1, 0, 1, 0})
		for i := range labels {
			seen[string(images[i*192:(i+1)*192])]++
		}
	}
	for i, y := range d.train.Labels {
		if got, want := seen[string(d.train.Images.At(i).U8())], 2+int(y); got != want {
			t.Errorf("image %d of class %d came %d times, want %d", i, y, got, want)
		}
	}
}

func TestMistakes(t *testing.T) {
	dir, file := trial(t)
	writeFrames(t, filepath.Join(dir, "tall.safetensors"), 4, 9)
	writeFrames(t, filepath.Join(dir, "one.safetensors"), 1, 8)
	for override, want := range map[string]string{
		"actor.model.pretrained=true": "actor.model.pretrained: true: expected false, or torchvision's weights in " +
			"model_path. This line of Python writes them: import torchvision",
		"actor.model.arch=resnet50": "actor.model.arch: resnet50: expected resnet18 or resnet34",
		"actor.global_batch_size=7": "actor.global_batch_size: 7: expected an even number (data.balanced)",
		"actor.micro_batch_size=3":  "actor.global_batch_size: 4: expected a multiple of 3",
		"data.train_data_paths=" + filepath.Join(dir, "one.safetensors"): "images of success and of failure " +
			"(data.balanced), not 1 of 1",
		"data.val_data_paths=" + filepath.Join(dir, "tall.safetensors"): "images of [8 8 3], as in " +
			"data.train_data_paths, not of [9 8 3]",
		"data.train_data_paths=" + file: "expected a safetensors file of images and labels (rlinf data frames)",
		"runner.early_stop.monitor=val_exact_match": "runner.early_stop.monitor: val_exact_match: expected " +
			"val_loss or val_accuracy",
	} {
		cfg, _, err := config.Load(rolestest.Registries(), file, []string{override}, false)
		if err == nil {
			d := newDraft(cfg, rolestest.Registries(), []int{0})
			if err = d.Mistakes(); err == nil {
				err = d.complete()
			}
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v\nwant %s", override, err, want)
		}
	}
}
